//! A value through which no gradient flows.

use super::{Op, Operation, Sample, SampleOperand, operand_count};
use crate::index::Index;
use crate::ir::Violation;
use crate::kernel::{ExprId, Mismatch, PointContext};
use crate::oracle::Array;
use crate::shape::TensorType;

/// `result = x`, with derivative 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StopGradient;

impl Operation for StopGradient {
    fn name(&self) -> &'static str {
        "stop_gradient"
    }
    fn parse(name: &str, _: &str, _: &TensorType) -> Option<Self> {
        (name == "stop_gradient").then_some(StopGradient)
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 1)?;
        Ok(operands[0].clone())
    }
    fn eval(&self, operands: &[&Array], _: &TensorType) -> Array {
        operands[0].clone()
    }
    fn point(
        &self,
        _: &[TensorType],
        _: &TensorType,
        cx: &mut dyn PointContext,
        coords: &[Index],
    ) -> Result<ExprId, Mismatch> {
        cx.operand(0, coords)
    }
    fn is_elementwise(&self) -> bool {
        true
    }
    fn is_view(&self) -> bool {
        true
    }
    fn samples() -> Vec<Sample> {
        let sample = |shape| Sample::new(Op::StopGradient(StopGradient), [SampleOperand::float(shape)]);
        super::sample::usual_shapes().into_iter().map(sample).collect()
    }
}
