//! Helper functions in WGSL for what the language lacks or leaves inexact. A module holds only those it calls.
//!
//! Accuracies are relative to the exact result, in units in the last place (ulp) of `f32`, for arguments and results
//! that are not subnormal (devices may flush those to zero), and were measured against f64 on a software device.
//! Helpers do not rely on the order of float operations where a fast-math compiler might change it.

use super::functions::*;
use super::random::THREEFRY;

/// A helper function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Function {
    /// +∞; WGSL has no literal for it, and rejects constant expressions that give it.
    Infinity,
    /// A quiet `NaN`.
    NotANumber,
    /// Whether the bits are those of a `NaN`.
    IsNan,
    /// Maximum that carries `NaN`.
    Max,
    /// Minimum that carries `NaN`.
    Min,
    /// See [`meganeura_core::scalar::Unary::Sign`].
    Sign,
    /// Division that gives 0 for a divisor of 0.
    DivU32,
    /// Remainder that gives 0 for a divisor of 0.
    RemU32,
    /// Division that gives 0 for a divisor of 0 and wraps at the least integer.
    DivI32,
    /// Remainder that gives 0 for a divisor of 0.
    RemI32,
    /// Truncates and saturates; `NaN` gives 0.
    ToU32,
    /// Truncates and saturates; `NaN` gives 0.
    ToI32,
    /// `fmod`, exact.
    Remainder,
    /// `ln(1 + x)` for `x` in `[√½ − 1, √2 − 1]`.
    LogNearOne,
    /// Natural logarithm.
    Log,
    /// `ln(1 + x)`.
    Log1p,
    /// Exponential.
    Exp,
    /// `eˣ − 1`.
    Expm1,
    /// Hyperbolic tangent.
    Tanh,
    /// Logistic function.
    Sigmoid,
    /// Error function.
    Erf,
    /// IEEE 754's `pow`.
    Pow,
    /// The high 32 bits of a product.
    MulHigh,
    /// Reduction of an angle to `[−π/4, π/4]` and the number of quarter turns.
    QuarterTurns,
    /// Sine of a reduced angle.
    SinOf,
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
    /// 64 random bits.
    Threefry,
}

impl Function {
    /// Its name in WGSL.
    pub const fn name(self) -> &'static str {
        use Function::*;
        match self {
            Infinity => "infinity",
            NotANumber => "not_a_number",
            IsNan => "is_nan",
            Max => "max_f32",
            Min => "min_f32",
            Sign => "sign_f32",
            DivU32 => "div_u32",
            RemU32 => "rem_u32",
            DivI32 => "div_i32",
            RemI32 => "rem_i32",
            ToU32 => "to_u32",
            ToI32 => "to_i32",
            Remainder => "remainder",
            LogNearOne => "log_near_one",
            Log => "log_f32",
            Log1p => "log1p",
            Exp => "exp_f32",
            Expm1 => "expm1",
            Tanh => "tanh_f32",
            Sigmoid => "sigmoid",
            Erf => "erf",
            Pow => "pow_f32",
            MulHigh => "mul_high",
            QuarterTurns => "quarter_turns",
            SinOf => "sin_of",
            Sin => "sin_f32",
            Cos => "cos_f32",
            Threefry => "threefry",
        }
    }

    /// The helpers that it calls.
    pub const fn calls(self) -> &'static [Function] {
        use Function::*;
        match self {
            Max | Min | Sign | ToU32 | ToI32 | Exp => &[IsNan],
            Expm1 | Tanh | Sigmoid | Erf => &[Exp],
            Remainder => &[NotANumber],
            QuarterTurns => &[NotANumber, MulHigh],
            Log => &[Infinity, NotANumber, IsNan, LogNearOne],
            Log1p => &[LogNearOne, Log],
            Pow => &[NotANumber, IsNan, Log, Exp],
            Sin | Cos => &[QuarterTurns, SinOf],
            _ => &[],
        }
    }

    /// Its WGSL.
    pub const fn source(self) -> &'static str {
        use Function::*;
        match self {
            Infinity => INFINITY,
            NotANumber => NOT_A_NUMBER,
            IsNan => IS_NAN,
            Max => MAX,
            Min => MIN,
            Sign => SIGN,
            DivU32 => DIV_U32,
            RemU32 => REM_U32,
            DivI32 => DIV_I32,
            RemI32 => REM_I32,
            ToU32 => TO_U32,
            ToI32 => TO_I32,
            Remainder => REMAINDER,
            LogNearOne => LOG_NEAR_ONE,
            Log => LOG,
            Log1p => LOG1P,
            Exp => EXP,
            Expm1 => EXPM1,
            Tanh => TANH,
            Sigmoid => SIGMOID,
            Erf => ERF,
            Pow => POW,
            MulHigh => MUL_HIGH,
            QuarterTurns => QUARTER_TURNS,
            SinOf => SIN_OF,
            Sin => SIN,
            Cos => COS,
            Threefry => THREEFRY,
        }
    }
}
