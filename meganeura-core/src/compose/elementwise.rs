//! Functions of each element that no table has, because ops make them up exactly.

use crate::ir::Value;

impl<'g> Value<'g> {
    /// `low` where `x` is less, `high` where it is greater, else `x` (so `NaN` stays); derivative 1 from `low` to `high`,
    /// both included. Integers too.
    #[track_caller]
    pub fn clamp(self, low: f64, high: f64) -> Value<'g> {
        let (low, high) = (self.like(low), self.like(high));
        self.lt(low).select(low, self.gt(high).select(high, self))
    }

    /// Rounded towards 0.
    #[track_caller]
    pub fn trunc(self) -> Value<'g> {
        let x = self.floating("trunc");
        x.lt(x.like(0.0)).select(x.ceil(), x.floor())
    }

    /// `x − trunc(x)`: what follows the point, with the sign of `x` (PyTorch's `frac`). Derivative 1.
    #[track_caller]
    pub fn fract(self) -> Value<'g> {
        let x = self.floating("fract");
        x - x.trunc()
    }

    /// `x` to a power that is the same for all elements. Small whole powers and roots are products and roots, whose
    /// derivatives are finite where [`Value::pow`]'s would be `0 · ∞`.
    #[track_caller]
    pub fn powf(self, exponent: f64) -> Value<'g> {
        let x = self.floating("powf");
        let square = |x: Value<'g>| x * x;
        match exponent {
            1.0 => x,
            2.0 => square(x),
            3.0 => square(x) * x,
            4.0 => square(square(x)),
            0.5 => x.sqrt(),
            -0.5 => x.rsqrt(),
            -1.0 => x.recip(),
            -2.0 => square(x.recip()),
            _ => x.pow(x.like(exponent)),
        }
    }

    /// `value` where `mask` (`Bool`) is true, else this tensor; broadcasting.
    #[track_caller]
    pub fn masked_fill(self, mask: Value<'g>, value: f64) -> Value<'g> {
        mask.select(self.like(value), self)
    }

    /// `a · 2ᵇ` for integers, bits beyond 32 lost; broadcasting.
    #[track_caller]
    pub fn shift_left(self, bits: Value<'g>) -> Value<'g> {
        self.binary(crate::scalar::Binary::Shl, bits)
    }
}
