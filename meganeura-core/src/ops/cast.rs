//! Other element types.

use super::{Fill, Op, Operation, Sample, SampleOperand, Vjp, operand_count};
use crate::dtype::DType;
use crate::index::Index;
use crate::ir::{Value, Violation};
use crate::kernel::{Expr, ExprId, Mismatch, PointContext};
use crate::oracle::Array;
use crate::shape::TensorType;

/// `result[i]` is `x[i]` in another type: rounded to the nearest for floats; truncated and saturated for integers, where
/// `NaN` gives 0; `x[i] ≠ 0` for `Bool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cast(pub DType);

/// The same 32 bits read as another type; not to or from `f16` and `Bool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bitcast(pub DType);

impl Operation for Cast {
    fn name(&self) -> &'static str {
        "cast"
    }
    fn parse(name: &str, _: &str, result: &TensorType) -> Option<Self> {
        (name == "cast").then_some(Cast(result.dtype))
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 1)?;
        Ok(TensorType::new(self.0, &operands[0].shape))
    }
    fn vjp<'g>(&self, at: &Vjp<'_, 'g>) -> Vec<Option<Value<'g>>> {
        let from = at.operands[0].dtype();
        vec![(from.is_float() && self.0.is_float()).then(|| at.cotangent.cast(from))]
    }
    fn eval(&self, operands: &[&Array], result: &TensorType) -> Array {
        // Floats keep the precision of the oracle: rounding to f32 is not part of a model's meaning.
        let convert = |x: f64| if self.0.is_float() { x } else { self.0.round(x) };
        Array::elementwise(result, operands, |x| convert(x[0]))
    }
    fn point(
        &self,
        _: &[TensorType],
        _: &TensorType,
        cx: &mut dyn PointContext,
        coords: &[Index],
    ) -> Result<ExprId, Mismatch> {
        let x = cx.operand(0, coords)?;
        Ok(cx.push(Expr::Cast(x, self.0)))
    }
    fn is_elementwise(&self) -> bool {
        true
    }
    fn samples() -> Vec<Sample> {
        let types = [DType::F32, DType::U32, DType::I32, DType::Bool];
        let pairs = types.into_iter().flat_map(|from| types.into_iter().map(move |to| (from, to)));
        let sample = |((from, to), shape)| {
            let fill = match from {
                DType::Bool => Fill::Bool,
                DType::U32 => Fill::Uniform(0.0, 1000.0),
                _ => Fill::Uniform(-3.0, 1000.0),
            };
            Sample::new(Op::Cast(Cast(to)), [SampleOperand::of(from, shape, fill)])
        };
        let to_self = |((from, to), _): &((DType, DType), _)| from != to;
        pairs.zip(super::sample::usual_shapes().into_iter().cycle()).filter(to_self).map(sample).collect()
    }
}

impl Operation for Bitcast {
    fn name(&self) -> &'static str {
        "bitcast"
    }
    fn parse(name: &str, _: &str, result: &TensorType) -> Option<Self> {
        (name == "bitcast").then_some(Bitcast(result.dtype))
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 1)?;
        let takes = |dtype| matches!(dtype, DType::F32 | DType::U32 | DType::I32);
        Violation::unless(takes(self.0) && takes(operands[0].dtype), "both types are f32, u32 or i32", || {
            format!("{} to {}", operands[0].dtype, self.0)
        })?;
        Ok(TensorType::new(self.0, &operands[0].shape))
    }
    fn eval(&self, operands: &[&Array], result: &TensorType) -> Array {
        let from = operands[0].ty.dtype;
        Array::elementwise(result, operands, |x| bits_to_value(self.0, value_to_bits(from, x[0])))
    }
    fn point(
        &self,
        _: &[TensorType],
        _: &TensorType,
        cx: &mut dyn PointContext,
        coords: &[Index],
    ) -> Result<ExprId, Mismatch> {
        let x = cx.operand(0, coords)?;
        Ok(cx.push(Expr::Bitcast(x, self.0)))
    }
    fn is_elementwise(&self) -> bool {
        true
    }
    fn samples() -> Vec<Sample> {
        let sample = |(shape, [from, to]): (crate::shape::Shape, [DType; 2])| {
            // Bits of ordinary numbers, as devices may flush subnormal ones.
            let fill = if from == DType::F32 { Fill::Uniform(-9.0, 9.0) } else { Fill::Uniform(1e9, 1.1e9) };
            Sample::new(Op::Bitcast(Bitcast(to)), [SampleOperand::of(from, shape, fill)])
        };
        let pairs = [[DType::F32, DType::U32], [DType::U32, DType::F32], [DType::I32, DType::F32]];
        super::sample::usual_shapes().into_iter().zip(pairs.into_iter().cycle()).map(sample).collect()
    }
}

fn value_to_bits(dtype: DType, value: f64) -> u32 {
    match dtype {
        DType::I32 => value as i32 as u32,
        DType::U32 | DType::Bool => value as u32,
        DType::F32 | DType::F16 => (value as f32).to_bits(),
    }
}

fn bits_to_value(dtype: DType, bits: u32) -> f64 {
    match dtype {
        DType::I32 => f64::from(bits as i32),
        DType::U32 | DType::Bool => f64::from(bits),
        DType::F32 | DType::F16 => f64::from(f32::from_bits(bits)),
    }
}
