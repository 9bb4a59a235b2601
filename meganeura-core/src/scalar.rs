//! Scalar constants and the tables of scalar functions.
//!
//! The tables are shared by the tensor level (one op per table), by kernels' expressions and by every executor, so that
//! a function has one name and one meaning everywhere. [`Unary::eval`] and its siblings are that meaning, in f64.

use crate::dtype::DType;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A constant of one element, compared and hashed by its bits (so a `NaN` equals itself).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(from = "(DType, f64)", into = "(DType, f64)")]
pub struct Scalar {
    dtype: DType,
    value: f64,
}

impl Scalar {
    /// The constant `value`, rounded to `dtype`.
    pub fn new(dtype: DType, value: f64) -> Scalar {
        let value = dtype.round(value);
        // One NaN only: its sign and payload mean nothing, and text forms do not carry them.
        Scalar { dtype, value: if value.is_nan() { f64::NAN } else { value } }
    }

    /// Zero of a type.
    pub fn zero(dtype: DType) -> Scalar {
        Scalar::new(dtype, 0.0)
    }

    /// One (or `true`) of a type.
    pub fn one(dtype: DType) -> Scalar {
        Scalar::new(dtype, 1.0)
    }

    /// An `f32` constant.
    pub fn f32(value: f32) -> Scalar {
        Scalar::new(DType::F32, f64::from(value))
    }

    /// A `u32` constant.
    pub fn u32(value: u32) -> Scalar {
        Scalar { dtype: DType::U32, value: f64::from(value) }
    }

    /// The element type.
    pub fn dtype(self) -> DType {
        self.dtype
    }

    /// The value, exact in f64 for every element type.
    pub fn value(self) -> f64 {
        self.value
    }
}

impl From<(DType, f64)> for Scalar {
    fn from((dtype, value): (DType, f64)) -> Scalar {
        Scalar::new(dtype, value)
    }
}

impl From<Scalar> for (DType, f64) {
    fn from(scalar: Scalar) -> (DType, f64) {
        (scalar.dtype, scalar.value)
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Scalar) -> bool {
        self.dtype == other.dtype && self.value.to_bits() == other.value.to_bits()
    }
}

impl Eq for Scalar {}

impl std::hash::Hash for Scalar {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.dtype.hash(state);
        self.value.to_bits().hash(state);
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.value, self.dtype)
    }
}

/// Declares a table of scalar functions: its variants, their names in text forms, and a list of all.
macro_rules! table {
    ($(#[$doc:meta])* $table:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $table { $($(#[$variant_doc])* $variant,)* }

        impl $table {
            /// Every function of the table.
            pub const ALL: &'static [$table] = &[$($table::$variant,)*];

            /// The name in text forms.
            pub const fn name(self) -> &'static str {
                match self { $($table::$variant => $name,)* }
            }

            /// The function of that name, if there is one.
            pub fn from_name(name: &str) -> Option<$table> {
                $table::ALL.iter().copied().find(|function| function.name() == name)
            }
        }

        impl fmt::Display for $table {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

table! {
    /// Functions of one scalar; the result has the operand's type.
    Unary {
        /// `−x`; wraps for `i32`, two's complement for `u32`.
        Neg = "neg",
        /// `|x|`.
        Abs = "abs",
        /// 1, 0 or −1 by the sign; `NaN` stays.
        Sign = "sign",
        /// Largest integer not above `x`.
        Floor = "floor",
        /// Smallest integer not below `x`.
        Ceil = "ceil",
        /// Nearest integer, ties to even (as in NumPy and PyTorch).
        Round = "round",
        /// `eˣ`.
        Exp = "exp",
        /// `eˣ − 1`, accurate near 0.
        Expm1 = "expm1",
        /// Natural logarithm.
        Log = "log",
        /// `ln(1 + x)`, accurate near 0.
        Log1p = "log1p",
        /// Square root.
        Sqrt = "sqrt",
        /// `1 / √x`.
        Rsqrt = "rsqrt",
        /// `1 / x`.
        Recip = "recip",
        /// Sine, `x` in radians.
        Sin = "sin",
        /// Cosine, `x` in radians.
        Cos = "cos",
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// Error function, `2/√π ∫₀ˣ e^(−t²) dt`.
        Erf = "erf",
        /// Logistic function, `1 / (1 + e^(−x))`.
        Sigmoid = "sigmoid",
        /// `max(x, 0)`; `NaN` stays.
        Relu = "relu",
        /// Complement: of a truth value, or of each bit of an integer.
        Not = "not",
        /// 1 where `x` is `NaN`, else 0, in the operand's type; tests bits, as shaders may assume that `NaN` does not occur.
        IsNan = "is_nan",
    }
}

table! {
    /// Functions of two scalars of one type; the result has that type.
    Binary {
        /// `a + b`; wraps for integers.
        Add = "add",
        /// `a − b`; wraps for integers.
        Sub = "sub",
        /// `a · b`; wraps for integers.
        Mul = "mul",
        /// `a / b`; truncates for integers, where `x / 0` is 0.
        Div = "div",
        /// Remainder with the sign of `a` (as C's `fmod`); for integers `x % 0` is 0.
        Rem = "rem",
        /// `aᵇ`, by IEEE 754's `pow`.
        Pow = "pow",
        /// The larger; `NaN` if either is `NaN`.
        Max = "max",
        /// The smaller; `NaN` if either is `NaN`.
        Min = "min",
        /// Conjunction, bit by bit for integers.
        And = "and",
        /// Disjunction, bit by bit for integers.
        Or = "or",
        /// Exclusive or, bit by bit for integers.
        Xor = "xor",
        /// `a · 2^(b mod 32)` for integers, bits beyond 32 lost.
        Shl = "shl",
        /// `a / 2^(b mod 32)` rounded down for integers (arithmetic for `i32`).
        Shr = "shr",
    }
}

table! {
    /// Relations of two scalars of one type; the result is a truth value. All but `ne` are false when either is `NaN`.
    Compare {
        /// `a = b`.
        Eq = "eq",
        /// `a ≠ b`.
        Ne = "ne",
        /// `a < b`.
        Lt = "lt",
        /// `a ≤ b`.
        Le = "le",
        /// `a > b`.
        Gt = "gt",
        /// `a ≥ b`.
        Ge = "ge",
    }
}

table! {
    /// Associative and commutative combinations that a reduction may use.
    Monoid {
        /// Sum; of nothing 0.
        Sum = "sum",
        /// Product; of nothing 1.
        Prod = "prod",
        /// Maximum; of nothing −∞ (or the least integer). `NaN` if any is.
        Max = "max",
        /// Minimum; of nothing ∞ (or the largest integer). `NaN` if any is.
        Min = "min",
    }
}

impl Unary {
    /// Whether the function takes this type.
    pub const fn takes(self, dtype: DType) -> bool {
        match self {
            Unary::Neg => dtype.is_float() || dtype.is_integer(),
            Unary::Abs | Unary::Sign => dtype.is_float() || matches!(dtype, DType::I32),
            Unary::Not => !dtype.is_float(),
            _ => dtype.is_float(),
        }
    }

    /// Whether hardware spends several instructions on it: then a fused kernel rather stores its result than
    /// computes it twice.
    pub const fn is_costly(self) -> bool {
        use Unary::*;
        matches!(self, Exp | Expm1 | Log | Log1p | Sqrt | Rsqrt | Recip | Sin | Cos | Tanh | Erf | Sigmoid)
    }

    /// The value at `x` for an operand of `dtype`, in f64 (integers exact).
    pub fn eval(self, dtype: DType, x: f64) -> f64 {
        match self {
            Unary::Neg if dtype == DType::U32 => f64::from((x as u32).wrapping_neg()),
            Unary::Neg if dtype == DType::I32 => f64::from((x as i32).wrapping_neg()),
            Unary::Neg => -x,
            Unary::Abs if dtype == DType::I32 => f64::from((x as i32).wrapping_abs()),
            Unary::Abs => x.abs(),
            Unary::Sign if x.is_nan() || x == 0.0 => x,
            Unary::Sign => x.signum(),
            Unary::Floor => x.floor(),
            Unary::Ceil => x.ceil(),
            Unary::Round => x.round_ties_even(),
            Unary::Exp => x.exp(),
            Unary::Expm1 => x.exp_m1(),
            Unary::Log => x.ln(),
            Unary::Log1p => x.ln_1p(),
            Unary::Sqrt => x.sqrt(),
            Unary::Rsqrt => 1.0 / x.sqrt(),
            Unary::Recip => 1.0 / x,
            Unary::Sin => x.sin(),
            Unary::Cos => x.cos(),
            Unary::Tanh => x.tanh(),
            Unary::Erf => erf(x),
            Unary::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            // Not `max`, which would turn NaN into 0.
            Unary::Relu => {
                if x <= 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Unary::Not => match dtype {
                DType::U32 => f64::from(!(x as u32)),
                DType::I32 => f64::from(!(x as i32)),
                _ => f64::from(u8::from(x == 0.0)),
            },
            Unary::IsNan => f64::from(u8::from(x.is_nan())),
        }
    }
}

impl Binary {
    /// Whether the function takes this type.
    pub const fn takes(self, dtype: DType) -> bool {
        use Binary::*;
        match self {
            And | Or | Xor => !dtype.is_float(),
            Shl | Shr => dtype.is_integer(),
            _ => !matches!(dtype, DType::Bool) && (!matches!(self, Pow) || dtype.is_float()),
        }
    }

    /// Whether hardware spends several instructions on it; see [`Unary::is_costly`].
    pub const fn is_costly(self) -> bool {
        matches!(self, Binary::Div | Binary::Rem | Binary::Pow)
    }

    /// The value at `a`, `b` for operands of `dtype`, in f64 (integers exact).
    pub fn eval(self, dtype: DType, a: f64, b: f64) -> f64 {
        match dtype {
            DType::F32 | DType::F16 => self.eval_float(a, b),
            DType::U32 => f64::from(self.eval_u32(a as u32, b as u32)),
            DType::I32 => f64::from(self.eval_i32(a as i32, b as i32)),
            DType::Bool => f64::from(self.eval_u32(a as u32, b as u32) & 1),
        }
    }

    fn eval_float(self, a: f64, b: f64) -> f64 {
        match self {
            Binary::Add => a + b,
            Binary::Sub => a - b,
            Binary::Mul => a * b,
            Binary::Div => a / b,
            Binary::Rem => a % b,
            Binary::Pow => a.powf(b),
            Binary::Max | Binary::Min if a.is_nan() || b.is_nan() => f64::NAN,
            Binary::Max => a.max(b),
            Binary::Min => a.min(b),
            Binary::And | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr => f64::NAN,
        }
    }

    /// The value for `u32` operands; functions that take no integers give 0.
    pub fn eval_u32(self, a: u32, b: u32) -> u32 {
        match self {
            Binary::Add => a.wrapping_add(b),
            Binary::Sub => a.wrapping_sub(b),
            Binary::Mul => a.wrapping_mul(b),
            Binary::Div => a.checked_div(b).unwrap_or(0),
            Binary::Rem => a.checked_rem(b).unwrap_or(0),
            Binary::Max => a.max(b),
            Binary::Min => a.min(b),
            Binary::And => a & b,
            Binary::Or => a | b,
            Binary::Xor => a ^ b,
            Binary::Shl => a.wrapping_shl(b),
            Binary::Shr => a.wrapping_shr(b),
            Binary::Pow => 0,
        }
    }

    /// The value for `i32` operands; functions that take no integers give 0.
    pub fn eval_i32(self, a: i32, b: i32) -> i32 {
        match self {
            Binary::Div if b == 0 => 0,
            Binary::Rem if b == 0 => 0,
            Binary::Div => a.wrapping_div(b),
            Binary::Rem => a.wrapping_rem(b),
            Binary::Max => a.max(b),
            Binary::Min => a.min(b),
            Binary::Shr => a.wrapping_shr(b as u32),
            other => other.eval_u32(a as u32, b as u32) as i32,
        }
    }
}

impl Compare {
    /// Whether the relation takes this type: truth values have no order.
    pub const fn takes(self, dtype: DType) -> bool {
        !matches!(dtype, DType::Bool) || matches!(self, Compare::Eq | Compare::Ne)
    }

    /// Whether the relation holds.
    pub fn eval(self, a: f64, b: f64) -> bool {
        match self {
            Compare::Eq => a == b,
            Compare::Ne => a != b,
            Compare::Lt => a < b,
            Compare::Le => a <= b,
            Compare::Gt => a > b,
            Compare::Ge => a >= b,
        }
    }
}

impl Monoid {
    /// The function that combines two values.
    pub const fn combine(self) -> Binary {
        match self {
            Monoid::Sum => Binary::Add,
            Monoid::Prod => Binary::Mul,
            Monoid::Max => Binary::Max,
            Monoid::Min => Binary::Min,
        }
    }

    /// The result of combining nothing.
    pub fn identity(self, dtype: DType) -> Scalar {
        let (least, greatest) = match dtype {
            DType::F32 | DType::F16 => (f64::NEG_INFINITY, f64::INFINITY),
            DType::U32 => (0.0, f64::from(u32::MAX)),
            DType::I32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
            DType::Bool => (0.0, 1.0),
        };
        let value = match self {
            Monoid::Sum => 0.0,
            Monoid::Prod => 1.0,
            Monoid::Max => least,
            Monoid::Min => greatest,
        };
        Scalar::new(dtype, value)
    }

    /// Whether the monoid takes this type.
    pub const fn takes(self, dtype: DType) -> bool {
        !matches!(dtype, DType::Bool)
    }
}

/// The error function in f64, to about 1e-15: the Maclaurin series below 3, a continued fraction above.
///
/// Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.6 and 7.1.14.
pub fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let magnitude = x.abs();
    if magnitude > 6.0 {
        return 1.0_f64.copysign(x);
    }
    let two_over_sqrt_pi = std::f64::consts::FRAC_2_SQRT_PI;
    let square = magnitude * magnitude;
    if magnitude < 3.0 {
        // 7.1.6: erf z = 2/√π e^(−z²) Σ 2ⁿ z^(2n+1) / (1·3·…·(2n+1)), all terms positive.
        let (mut term, mut sum) = (magnitude, magnitude);
        for n in 1..200 {
            term *= 2.0 * square / f64::from(2 * n + 1);
            sum += term;
            if term < sum * 1e-17 {
                break;
            }
        }
        return (two_over_sqrt_pi * (-square).exp() * sum).copysign(x);
    }
    // 7.1.14: √π e^(z²) erfc z = 1/(z + (1/2)/(z + 1/(z + (3/2)/(z + …)))).
    let mut fraction = magnitude;
    for n in (1..60).rev() {
        fraction = magnitude + f64::from(n) / 2.0 / fraction;
    }
    (1.0 - (-square).exp() * two_over_sqrt_pi / 2.0 / fraction).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_matches_tabulated_values() {
        // Abramowitz and Stegun, table 7.1 (10 digits) and erfc(3.5) = 7.43098e-7.
        for (x, expected) in [
            (0.0, 0.0),
            (0.5, 0.520_499_877_8),
            (1.0, 0.842_700_792_9),
            (2.0, 0.995_322_265_0),
            (3.5, 1.0 - 7.430_983_7e-7),
        ] {
            assert!((erf(x) - expected).abs() < 1e-10, "erf({x}) = {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
        assert!((erf(2.999_999_9) - erf(3.000_000_1)).abs() < 1e-10);
    }

    #[test]
    fn names_round_trip() {
        assert!(Unary::ALL.iter().all(|f| Unary::from_name(f.name()) == Some(*f)));
        assert!(Binary::ALL.iter().all(|f| Binary::from_name(f.name()) == Some(*f)));
        assert_eq!(Compare::from_name("nonsense"), None);
    }

    #[test]
    fn nan_is_carried_by_extrema() {
        assert!(Binary::Max.eval(DType::F32, f64::NAN, 1.0).is_nan());
        assert!(Binary::Min.eval(DType::F32, 1.0, f64::NAN).is_nan());
    }
}
