//! Activation functions.

use crate::ir::Value;

impl<'g> Value<'g> {
    /// Gaussian error linear unit, exact: `x/2 · (1 + erf(x/√2))`. Hendrycks and Gimpel, arXiv 1606.08415.
    #[track_caller]
    pub fn gelu(self) -> Value<'g> {
        self * 0.5 * ((self * std::f32::consts::FRAC_1_SQRT_2).erf() + 1.0)
    }

    /// The tanh form of [`Value::gelu`]: `x/2 · (1 + tanh(√(2/π)(x + 0.044715x³)))`. Same source.
    #[track_caller]
    pub fn gelu_tanh(self) -> Value<'g> {
        let inner = (self + self * self * self * 0.044_715) * self.like((2.0 / std::f64::consts::PI).sqrt());
        self * 0.5 * (inner.tanh() + 1.0)
    }

    /// Sigmoid linear unit, `x · σ(x)`.
    #[track_caller]
    pub fn silu(self) -> Value<'g> {
        self * self.sigmoid()
    }
}
