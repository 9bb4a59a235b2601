//! Relations, and choice by a truth value.

use super::{Fill, Op, Operation, Sample, SampleOperand, Vjp, operand_count, same_types, scalars_at};
use crate::dtype::DType;
use crate::index::Index;
use crate::ir::{Value, Violation};
use crate::kernel::{Expr, ExprId, Mismatch, PointContext};
use crate::oracle::Array;
use crate::scalar::Compare;
use crate::shape::TensorType;

/// `result[i] = a[i] ~ b[i]`, `Bool`; both operands of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompareOp(pub Compare);

/// `result[i] = condition[i] ? yes[i] : no[i]`; `condition` is `Bool`, the others of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Select;

impl Operation for CompareOp {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn parse(name: &str, _: &str, _: &TensorType) -> Option<Self> {
        Compare::from_name(name).map(CompareOp)
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        let ty = same_types(operands, 2)?;
        Violation::unless(self.0.takes(ty.dtype), "the relation takes the operands' element type", || {
            ty.dtype.to_string()
        })?;
        Ok(TensorType::new(DType::Bool, &ty.shape))
    }
    fn eval(&self, operands: &[&Array], result: &TensorType) -> Array {
        Array::elementwise(result, operands, |x| f64::from(u8::from(self.0.eval(x[0], x[1]))))
    }
    fn point(
        &self,
        operands: &[TensorType],
        _: &TensorType,
        cx: &mut dyn PointContext,
        coords: &[Index],
    ) -> Result<ExprId, Mismatch> {
        let scalars = scalars_at(operands, cx, coords)?;
        Ok(cx.push(Expr::Compare(self.0, scalars[0], scalars[1])))
    }
    fn is_elementwise(&self) -> bool {
        true
    }
    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for &relation in Compare::ALL {
            let dtypes = [DType::F32, DType::U32, DType::I32, DType::Bool].into_iter().filter(|&ty| relation.takes(ty));
            for (shape, dtype) in super::sample::usual_shapes().into_iter().zip(dtypes.cycle()) {
                let fill = match dtype {
                    DType::F32 => Fill::Uniform(-1.0, 1.0),
                    DType::Bool => Fill::Bool,
                    _ => Fill::Uniform(0.0, 4.0),
                };
                let operand = SampleOperand::of(dtype, shape, fill);
                samples.push(Sample::new(Op::Compare(CompareOp(relation)), [operand.clone(), operand]));
            }
        }
        samples
    }
}

impl Operation for Select {
    fn name(&self) -> &'static str {
        "select"
    }
    fn parse(name: &str, _: &str, _: &TensorType) -> Option<Self> {
        (name == "select").then_some(Select)
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 3)?;
        let ty = same_types(&operands[1..], 2)?;
        let condition = TensorType::new(DType::Bool, &ty.shape);
        Violation::unless(operands[0] == condition, "the condition is `bool` and broadcasts with the choices", || {
            operands[0].to_string()
        })?;
        Ok(ty.clone())
    }
    fn vjp<'g>(&self, at: &Vjp<'_, 'g>) -> Vec<Option<Value<'g>>> {
        let zero = at.cotangent.like(0.0);
        let condition = at.operands[0];
        vec![None, Some(condition.select(at.cotangent, zero)), Some(condition.select(zero, at.cotangent))]
    }
    fn eval(&self, operands: &[&Array], result: &TensorType) -> Array {
        Array::elementwise(result, operands, |x| if x[0] != 0.0 { x[1] } else { x[2] })
    }
    fn point(
        &self,
        operands: &[TensorType],
        _: &TensorType,
        cx: &mut dyn PointContext,
        coords: &[Index],
    ) -> Result<ExprId, Mismatch> {
        let scalars = scalars_at(operands, cx, coords)?;
        Ok(cx.push(Expr::Select(scalars[0], scalars[1], scalars[2])))
    }
    fn carry(&self, operand: &TensorType, result: &TensorType, coords: &[Index], _: &[usize]) -> Option<Vec<Index>> {
        (operand.shape == result.shape).then(|| coords.to_vec())
    }
    fn is_elementwise(&self) -> bool {
        true
    }
    fn samples() -> Vec<Sample> {
        let dtypes = [DType::F32, DType::U32, DType::I32, DType::Bool].into_iter().cycle();
        let sample = |(shape, dtype): (crate::shape::Shape, DType)| {
            let fill = match dtype {
                DType::F32 => Fill::Uniform(-1.0, 1.0),
                DType::Bool => Fill::Bool,
                _ => Fill::Bits,
            };
            let choice = SampleOperand::of(dtype, &shape, fill);
            let condition = SampleOperand::of(DType::Bool, &shape, Fill::Bool);
            Sample::new(Op::Select(Select), [condition, choice.clone(), choice])
        };
        let floats = super::sample::usual_shapes().into_iter().map(|shape| (shape, DType::F32));
        floats.chain(super::sample::usual_shapes().into_iter().zip(dtypes)).map(sample).collect()
    }
}
