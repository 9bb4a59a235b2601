//! One line of WGSL for each scalar function: operators and builtins where they mean the same, else helpers of
//! [`super::math`].

use super::PrintError;
use super::bindings::value_type;
use super::math::Function;
use super::writer::Writer;
use meganeura_core::dtype::DType;
use meganeura_core::scalar::{Binary, Compare, Monoid, Scalar, Unary};

/// A literal, or a call that makes what has none (infinities and `NaN`).
pub fn constant(w: &mut Writer, scalar: Scalar) -> String {
    let value = scalar.value();
    match scalar.dtype() {
        DType::Bool => (value != 0.0).to_string(),
        DType::U32 => format!("{}u", value as u32),
        // The least i32 has no literal: its magnitude is out of range before the sign is applied.
        DType::I32 if value as i32 == i32::MIN => format!("bitcast<i32>({}u)", i32::MIN as u32),
        DType::I32 if value < 0.0 => format!("({}i)", value as i32),
        DType::I32 => format!("{}i", value as i32),
        DType::F32 | DType::F16 if value.is_finite() => {
            let suffix = if scalar.dtype() == DType::F32 { 'f' } else { 'h' };
            let text = format!("{:?}{suffix}", value as f32);
            if text.starts_with('-') { format!("({text})") } else { text }
        }
        dtype => {
            let call = if value.is_nan() { Function::NotANumber } else { Function::Infinity };
            let sign = if value == f64::NEG_INFINITY { "-" } else { "" };
            let text = format!("{sign}{}()", w.call(call));
            narrow(dtype, text)
        }
    }
}

/// The text of an `f32` as a value of a float type.
fn narrow(dtype: DType, text: String) -> String {
    if dtype == DType::F16 { format!("f16({text})") } else { text }
}

/// The text of a float as an `f32`.
fn wide(dtype: DType, text: &str) -> String {
    if dtype == DType::F16 { format!("f32({text})") } else { text.to_string() }
}

/// A helper on `f32`s applied to floats of either type.
fn float_call(w: &mut Writer, function: Function, dtype: DType, operands: &[&str]) -> String {
    let operands: Vec<String> = operands.iter().map(|text| wide(dtype, text)).collect();
    narrow(dtype, format!("{}({})", w.call(function), operands.join(", ")))
}

/// A function of one value of type `dtype`.
pub fn unary(w: &mut Writer, function: Unary, dtype: DType, a: &str) -> String {
    if !function.takes(dtype) {
        w.fail(PrintError::TypeNotTaken { function: function.name(), dtype });
        return String::new();
    }
    let helper = match function {
        Unary::Neg if dtype == DType::U32 => return format!("(~{a} + 1u)"),
        Unary::Neg => return format!("-{a}"),
        Unary::Abs => return format!("abs({a})"),
        Unary::Sign if dtype == DType::I32 => return format!("sign({a})"),
        Unary::Floor => return format!("floor({a})"),
        Unary::Ceil => return format!("ceil({a})"),
        // WGSL rounds ties to even.
        Unary::Round => return format!("round({a})"),
        Unary::Sqrt => return format!("sqrt({a})"),
        Unary::Rsqrt => return format!("inverseSqrt({a})"),
        Unary::Recip => return format!("{} / {a}", constant(w, Scalar::one(dtype))),
        Unary::Not if dtype == DType::Bool => return format!("!{a}"),
        Unary::Not => return format!("~{a}"),
        Unary::IsNan => {
            return format!("{}({})", dtype.name(), float_call(w, Function::IsNan, DType::F32, &[&wide(dtype, a)]));
        }
        // A select, not `max`, which may turn NaN into 0.
        Unary::Relu => {
            let zero = constant(w, Scalar::zero(dtype));
            return format!("select({a}, {zero}, {a} <= {zero})");
        }
        Unary::Sign => Function::Sign,
        Unary::Exp => Function::Exp,
        Unary::Expm1 => Function::Expm1,
        Unary::Log => Function::Log,
        Unary::Log1p => Function::Log1p,
        Unary::Sin => Function::Sin,
        Unary::Cos => Function::Cos,
        Unary::Tanh => Function::Tanh,
        Unary::Erf => Function::Erf,
        Unary::Sigmoid => Function::Sigmoid,
    };
    float_call(w, helper, dtype, &[a])
}

/// An operand's text, and its value if it is a constant.
pub type Operand<'a> = (&'a str, Option<Scalar>);

/// A function of two values of type `dtype`.
pub fn binary(w: &mut Writer, function: Binary, dtype: DType, [(a, _), (b, known)]: [Operand<'_>; 2]) -> String {
    if !function.takes(dtype) {
        w.fail(PrintError::TypeNotTaken { function: function.name(), dtype });
        return String::new();
    }
    // A constant that is neither 0 nor −1 divides without a test.
    let plain_divisor = known.is_some_and(|known| known.value() != 0.0 && known.value() != -1.0);
    let pair = [a, b];
    match (function, dtype) {
        (Binary::Add, _) => format!("{a} + {b}"),
        (Binary::Sub, _) => format!("{a} - {b}"),
        (Binary::Mul, _) => format!("{a} * {b}"),
        (Binary::Div, DType::F32 | DType::F16) => format!("{a} / {b}"),
        (Binary::Rem, DType::F32 | DType::F16) => float_call(w, Function::Remainder, dtype, &pair),
        (Binary::Div, _) if plain_divisor => format!("{a} / {b}"),
        (Binary::Rem, _) if plain_divisor => format!("{a} % {b}"),
        (Binary::Div, DType::U32) => format!("{}({a}, {b})", w.call(Function::DivU32)),
        (Binary::Rem, DType::U32) => format!("{}({a}, {b})", w.call(Function::RemU32)),
        (Binary::Div, _) => format!("{}({a}, {b})", w.call(Function::DivI32)),
        (Binary::Rem, _) => format!("{}({a}, {b})", w.call(Function::RemI32)),
        (Binary::Pow, _) => float_call(w, Function::Pow, dtype, &pair),
        (Binary::Max, DType::F32 | DType::F16) => float_call(w, Function::Max, dtype, &pair),
        (Binary::Min, DType::F32 | DType::F16) => float_call(w, Function::Min, dtype, &pair),
        (Binary::Max, _) => format!("max({a}, {b})"),
        (Binary::Min, _) => format!("min({a}, {b})"),
        // On truth values these evaluate both sides, which has no effects.
        (Binary::And, _) => format!("{a} & {b}"),
        (Binary::Or, _) => format!("{a} | {b}"),
        (Binary::Xor, DType::Bool) => format!("{a} != {b}"),
        (Binary::Xor, _) => format!("{a} ^ {b}"),
        (Binary::Shl, DType::I32) => format!("{a} << (u32({b}) & 31u)"),
        (Binary::Shr, DType::I32) => format!("{a} >> (u32({b}) & 31u)"),
        (Binary::Shl, _) => format!("{a} << ({b} & 31u)"),
        (Binary::Shr, _) => format!("{a} >> ({b} & 31u)"),
    }
}

/// Combines two partial folds.
pub fn combine(w: &mut Writer, monoid: Monoid, dtype: DType, a: &str, b: &str) -> String {
    binary(w, monoid.combine(), dtype, [(a, None), (b, None)])
}

/// A relation of two values of type `dtype`, as a `bool`.
pub fn compare(w: &mut Writer, relation: Compare, dtype: DType, operands: [Operand<'_>; 2]) -> String {
    let [(a, _), (b, _)] = operands;
    if dtype == DType::Bool {
        return compare(w, relation, DType::U32, [(&format!("u32({a})"), None), (&format!("u32({b})"), None)]);
    }
    let operator = match relation {
        Compare::Eq => "==",
        Compare::Ne => "!=",
        Compare::Lt => "<",
        Compare::Le => "<=",
        Compare::Gt => ">",
        Compare::Ge => ">=",
    };
    let mut tests = Vec::new();
    if dtype.is_float() {
        // Compilers may assume that NaN does not occur, so what a comparison with one gives is not defined.
        for (text, known) in operands {
            if known.is_none_or(|known| known.value().is_nan()) {
                tests.push(float_call(w, Function::IsNan, DType::F32, &[&wide(dtype, text)]));
            }
        }
    }
    let mut text = format!("{a} {operator} {b}");
    if !tests.is_empty() {
        let unordered = tests.join(" || ");
        text = match relation {
            Compare::Ne => format!("{unordered} || {text}"),
            _ => format!("!({unordered}) && {text}"),
        };
    }
    text
}

/// The value `a` of type `from` converted to type `to`.
pub fn cast(w: &mut Writer, from: DType, to: DType, a: &str) -> String {
    let exact = |name: &str| format!("{name}({a})");
    match (from, to) {
        _ if from == to => a.to_string(),
        (DType::F32 | DType::F16, DType::Bool) => {
            let test = float_call(w, Function::IsNan, DType::F32, &[&wide(from, a)]);
            format!("{test} || {a} != {}", constant(w, Scalar::zero(from)))
        }
        (DType::F32 | DType::F16, DType::U32) => format!("{}({})", w.call(Function::ToU32), wide(from, a)),
        (DType::F32 | DType::F16, DType::I32) => format!("{}({})", w.call(Function::ToI32), wide(from, a)),
        (_, DType::Bool) => format!("{a} != {}", constant(w, Scalar::zero(from))),
        // Integers out of range saturate.
        (DType::I32, DType::U32) => format!("u32(max({a}, 0i))"),
        (DType::U32, DType::I32) => format!("i32(min({a}, {}u))", i32::MAX),
        // By way of f32: what is not exact there overflows f16 anyway.
        (DType::U32 | DType::I32, DType::F16) => format!("f16(f32({a}))"),
        _ => exact(value_type(to)),
    }
}
