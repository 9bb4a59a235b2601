//! The scalar functions over lanes of 32 bits: short loops that the compiler turns into vector code.

use super::functions;
use crate::dtype::DType;
use crate::scalar::{Binary, Compare, Monoid, Unary};
use bytemuck::{cast_slice, cast_slice_mut};
use half::f16;

/// Partial results of a fold inside a block; a multiple of every vector width.
const PARTIALS: usize = 16;

#[inline(always)]
fn map1<T: bytemuck::Pod>(to: &mut [u32], a: &[u32], f: impl Fn(T) -> T) {
    for (to, &a) in cast_slice_mut::<u32, T>(to).iter_mut().zip(cast_slice::<u32, T>(a)) {
        *to = f(a);
    }
}

#[inline(always)]
fn map2<T: bytemuck::Pod, R: bytemuck::Pod>(to: &mut [u32], a: &[u32], b: &[u32], f: impl Fn(T, T) -> R) {
    let (a, b) = (cast_slice::<u32, T>(a), cast_slice::<u32, T>(b));
    for ((to, &a), &b) in cast_slice_mut::<u32, R>(to).iter_mut().zip(a).zip(b) {
        *to = f(a, b);
    }
}

/// Rounds lanes to `f16` and back if that is their type.
fn round(dtype: DType, lanes: &mut [u32]) {
    if dtype == DType::F16 {
        cast_slice_mut::<u32, f32>(lanes).iter_mut().for_each(|x| *x = f16::from_f32(*x).to_f32());
    }
}

/// `to = f(a)`.
pub(super) fn unary(function: Unary, dtype: DType, a: &[u32], to: &mut [u32]) {
    if dtype.is_float() {
        unary_float(function, a, to);
        round(dtype, to);
        return;
    }
    match (function, dtype) {
        (Unary::Neg, _) => map1::<u32>(to, a, u32::wrapping_neg),
        (Unary::Not, DType::Bool) => map1::<u32>(to, a, |x| u32::from(x == 0)),
        (Unary::Not, _) => map1::<u32>(to, a, |x| !x),
        (Unary::Abs, DType::I32) => map1::<i32>(to, a, i32::wrapping_abs),
        (Unary::Sign, DType::I32) => map1::<i32>(to, a, i32::signum),
        // The verifier refuses the others.
        _ => to.copy_from_slice(a),
    }
}

fn unary_float(function: Unary, a: &[u32], to: &mut [u32]) {
    match function {
        Unary::Neg => map1::<f32>(to, a, |x| -x),
        Unary::Abs => map1::<f32>(to, a, f32::abs),
        Unary::Sign => map1::<f32>(to, a, |x| if x.is_nan() || x == 0.0 { x } else { 1.0_f32.copysign(x) }),
        Unary::Floor => map1::<f32>(to, a, f32::floor),
        Unary::Ceil => map1::<f32>(to, a, f32::ceil),
        Unary::Round => map1::<f32>(to, a, f32::round_ties_even),
        Unary::Exp => map1::<f32>(to, a, functions::exp),
        Unary::Expm1 => map1::<f32>(to, a, f32::exp_m1),
        Unary::Log => map1::<f32>(to, a, f32::ln),
        Unary::Log1p => map1::<f32>(to, a, f32::ln_1p),
        Unary::Sqrt => map1::<f32>(to, a, f32::sqrt),
        Unary::Rsqrt => map1::<f32>(to, a, |x| 1.0 / x.sqrt()),
        Unary::Recip => map1::<f32>(to, a, |x| 1.0 / x),
        Unary::Sin => map1::<f32>(to, a, f32::sin),
        Unary::Cos => map1::<f32>(to, a, f32::cos),
        Unary::Tanh => map1::<f32>(to, a, functions::tanh),
        Unary::Erf => map1::<f32>(to, a, functions::erf),
        Unary::Sigmoid => map1::<f32>(to, a, functions::sigmoid),
        Unary::IsNan => map1::<f32>(to, a, |x| f32::from(u8::from(x.is_nan()))),
        Unary::Not => to.copy_from_slice(a),
    }
}

/// `to = f(a, b)`.
pub(super) fn binary(function: Binary, dtype: DType, a: &[u32], b: &[u32], to: &mut [u32]) {
    match dtype {
        DType::F32 | DType::F16 => {
            binary_float(function, a, b, to);
            round(dtype, to);
        }
        DType::I32 => match function {
            Binary::Add | Binary::Sub | Binary::Mul | Binary::And | Binary::Or | Binary::Xor => {
                binary_u32(function, a, b, to);
            }
            _ => map2::<i32, i32>(to, a, b, |a, b| function.eval_i32(a, b)),
        },
        DType::U32 | DType::Bool => binary_u32(function, a, b, to),
    }
}

fn binary_float(function: Binary, a: &[u32], b: &[u32], to: &mut [u32]) {
    match function {
        Binary::Add => map2::<f32, f32>(to, a, b, |a, b| a + b),
        Binary::Sub => map2::<f32, f32>(to, a, b, |a, b| a - b),
        Binary::Mul => map2::<f32, f32>(to, a, b, |a, b| a * b),
        Binary::Div => map2::<f32, f32>(to, a, b, |a, b| a / b),
        Binary::Rem => map2::<f32, f32>(to, a, b, |a, b| a % b),
        Binary::Pow => map2::<f32, f32>(to, a, b, f32::powf),
        Binary::Max => map2::<f32, f32>(to, a, b, larger),
        Binary::Min => map2::<f32, f32>(to, a, b, smaller),
        // The verifier refuses the others.
        _ => to.copy_from_slice(a),
    }
}

fn binary_u32(function: Binary, a: &[u32], b: &[u32], to: &mut [u32]) {
    match function {
        Binary::Add => map2::<u32, u32>(to, a, b, u32::wrapping_add),
        Binary::Sub => map2::<u32, u32>(to, a, b, u32::wrapping_sub),
        Binary::Mul => map2::<u32, u32>(to, a, b, u32::wrapping_mul),
        Binary::And => map2::<u32, u32>(to, a, b, |a, b| a & b),
        Binary::Or => map2::<u32, u32>(to, a, b, |a, b| a | b),
        Binary::Xor => map2::<u32, u32>(to, a, b, |a, b| a ^ b),
        _ => map2::<u32, u32>(to, a, b, |a, b| function.eval_u32(a, b)),
    }
}

/// The larger, or `NaN` if either is: `a > b` is false for a `NaN`, so `b` is carried by the first choice.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    let chosen = if a > b { a } else { b };
    if a.is_nan() { a } else { chosen }
}

/// The smaller, or `NaN` if either is.
#[inline(always)]
fn smaller(a: f32, b: f32) -> f32 {
    let chosen = if a < b { a } else { b };
    if a.is_nan() { a } else { chosen }
}

/// `to = 1` where the relation holds, else 0.
pub(super) fn compare(relation: Compare, dtype: DType, a: &[u32], b: &[u32], to: &mut [u32]) {
    match dtype {
        DType::F32 | DType::F16 => relate::<f32>(relation, a, b, to),
        DType::I32 => relate::<i32>(relation, a, b, to),
        DType::U32 | DType::Bool => relate::<u32>(relation, a, b, to),
    }
}

fn relate<T: bytemuck::Pod + PartialOrd>(relation: Compare, a: &[u32], b: &[u32], to: &mut [u32]) {
    match relation {
        Compare::Eq => map2::<T, u32>(to, a, b, |a, b| u32::from(a == b)),
        Compare::Ne => map2::<T, u32>(to, a, b, |a, b| u32::from(a != b)),
        Compare::Lt => map2::<T, u32>(to, a, b, |a, b| u32::from(a < b)),
        Compare::Le => map2::<T, u32>(to, a, b, |a, b| u32::from(a <= b)),
        Compare::Gt => map2::<T, u32>(to, a, b, |a, b| u32::from(a > b)),
        Compare::Ge => map2::<T, u32>(to, a, b, |a, b| u32::from(a >= b)),
    }
}

/// `to = condition ? a : b`.
pub(super) fn select(condition: &[u32], a: &[u32], b: &[u32], to: &mut [u32]) {
    for (((to, &condition), &a), &b) in to.iter_mut().zip(condition).zip(a).zip(b) {
        *to = if condition != 0 { a } else { b };
    }
}

/// Conversion by value, as [`DType::round`] of the value.
pub(super) fn cast(from: DType, into: DType, a: &[u32], to: &mut [u32]) {
    let pairs = to.iter_mut().zip(a);
    match (from, into) {
        (DType::F32 | DType::F16, DType::F32 | DType::F16) => to.copy_from_slice(a),
        (DType::F32 | DType::F16, DType::U32) => pairs.for_each(|(to, &a)| *to = f32::from_bits(a) as u32),
        (DType::F32 | DType::F16, DType::I32) => pairs.for_each(|(to, &a)| *to = f32::from_bits(a) as i32 as u32),
        (DType::F32 | DType::F16, DType::Bool) => pairs.for_each(|(to, &a)| *to = u32::from(f32::from_bits(a) != 0.0)),
        (_, DType::Bool) => pairs.for_each(|(to, &a)| *to = u32::from(a != 0)),
        (DType::I32, DType::F32 | DType::F16) => pairs.for_each(|(to, &a)| *to = (a as i32 as f32).to_bits()),
        (_, DType::F32 | DType::F16) => pairs.for_each(|(to, &a)| *to = (a as f32).to_bits()),
        (DType::I32, DType::U32) => pairs.for_each(|(to, &a)| *to = (a as i32).max(0) as u32),
        (DType::U32, DType::I32) => pairs.for_each(|(to, &a)| *to = a.min(i32::MAX as u32)),
        _ => to.copy_from_slice(a),
    }
    round(into, to);
}

/// `x / divisor` of numbers below 2³¹ by one multiplication and a shift.
///
/// With `s = 31 + ⌈log₂ d⌉` and `m = ⌈2ˢ / d⌉` the error `m·d − 2ˢ` is below `2^(s − 31)`, which makes `⌊m·x / 2ˢ⌋` exact
/// (Granlund and Montgomery, "Division by invariant integers using multiplication", PLDI 1994).
#[derive(Clone, Copy)]
pub(super) struct Divisor {
    multiplier: u64,
    shift: u32,
}

impl Divisor {
    /// For a divisor from 1 to 2³¹.
    pub(super) fn new(divisor: u32) -> Divisor {
        let shift = 31 + divisor.next_power_of_two().trailing_zeros();
        Divisor { multiplier: (1_u64 << shift).div_ceil(u64::from(divisor)), shift }
    }

    #[inline(always)]
    pub(super) fn divide(self, x: u32) -> u32 {
        ((u64::from(x) * self.multiplier) >> self.shift) as u32
    }
}

/// One value, encoded as the 32 bits of a register.
pub(super) fn encode(dtype: DType, value: f64) -> u32 {
    match dtype {
        DType::F32 | DType::F16 => (dtype.round(value) as f32).to_bits(),
        DType::U32 | DType::Bool => value as u32,
        DType::I32 => value as i32 as u32,
    }
}

/// The inverse of [`encode`].
pub(super) fn decode(dtype: DType, bits: u32) -> f64 {
    match dtype {
        DType::F32 | DType::F16 => f64::from(f32::from_bits(bits)),
        DType::U32 | DType::Bool => f64::from(bits),
        DType::I32 => f64::from(bits as i32),
    }
}

/// All lanes folded into one value: 16 interleaved partial results in f32, combined in f64.
pub(super) fn fold(monoid: Monoid, dtype: DType, lanes: &[u32]) -> f64 {
    let identity = monoid.identity(dtype).value();
    if !dtype.is_float() {
        return lanes.iter().fold(identity, |folded, &x| monoid.combine().eval(dtype, folded, decode(dtype, x)));
    }
    let lanes = cast_slice::<u32, f32>(lanes);
    let partials = match monoid {
        Monoid::Sum => partials(lanes, 0.0, |a, b| a + b),
        Monoid::Prod => partials(lanes, 1.0, |a, b| a * b),
        Monoid::Max => partials(lanes, f32::NEG_INFINITY, larger),
        Monoid::Min => partials(lanes, f32::INFINITY, smaller),
    };
    partials.iter().fold(identity, |folded, &x| monoid.combine().eval(dtype, folded, f64::from(x)))
}

#[inline(always)]
fn partials(lanes: &[f32], identity: f32, combine: impl Fn(f32, f32) -> f32) -> [f32; PARTIALS] {
    let mut partials = [identity; PARTIALS];
    let (groups, rest) = lanes.as_chunks::<PARTIALS>();
    for group in groups {
        for (partial, &x) in partials.iter_mut().zip(group) {
            *partial = combine(*partial, x);
        }
    }
    for (partial, &x) in partials.iter_mut().zip(rest) {
        *partial = combine(*partial, x);
    }
    partials
}

/// Each lane folded into its own running value, in f64.
pub(super) fn accumulate(monoid: Monoid, dtype: DType, lanes: &[u32], folded: &mut [f64]) {
    match (monoid, dtype.is_float()) {
        (Monoid::Sum, true) => {
            for (folded, &x) in folded.iter_mut().zip(cast_slice::<u32, f32>(lanes)) {
                *folded += f64::from(x);
            }
        }
        _ => {
            for (folded, &x) in folded.iter_mut().zip(lanes) {
                *folded = monoid.combine().eval(dtype, *folded, decode(dtype, x));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_by_multiplication_is_exact_at_the_edges() {
        for divisor in (1..2000).chain([4095, 4096, 4097, 65_535, 1 << 30, (1 << 31) - 1, 1 << 31]) {
            let reciprocal = Divisor::new(divisor);
            for quotient in [0, 1, 2, 1000, (u32::MAX >> 1) / divisor] {
                let product = quotient.min((u32::MAX >> 1) / divisor) * divisor;
                for x in [product.saturating_sub(1), product, (product + 1).min(u32::MAX >> 1)] {
                    assert_eq!(reciprocal.divide(x), x / divisor, "{x} / {divisor}");
                }
            }
        }
    }
}
