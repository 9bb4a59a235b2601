//! Dimensions in another order.

use super::{Fill, Op, Operation, Sample, SampleOperand, Vjp, operand_count};
use crate::dtype::DType;
use crate::index::Index;
use crate::ir::{Value, Violation, text};
use crate::kernel::{ExprId, Mismatch, PointContext};
use crate::oracle::Array;
use crate::shape::TensorType;

/// `result[i_order[0], i_order[1], …] = x[i₀, i₁, …]`: dimension `d` of the result is dimension `order[d]` of the operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Permute {
    /// A permutation of the operand's dimensions.
    pub order: Vec<usize>,
}

impl Permute {
    /// The permutation that undoes this one.
    pub fn inverse(&self) -> Vec<usize> {
        let mut inverse = vec![0; self.order.len()];
        self.order.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
        inverse
    }
}

impl Operation for Permute {
    fn name(&self) -> &'static str {
        "permute"
    }
    fn attributes(&self) -> String {
        format!("order={:?}", self.order)
    }
    fn parse(name: &str, attributes: &str, _: &TensorType) -> Option<Self> {
        let order = text::list(text::field(attributes, "order")?).filter(|_| name == "permute")?;
        Some(Permute { order })
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 1)?;
        let mut sorted = self.order.clone();
        sorted.sort_unstable();
        let complete = sorted.iter().copied().eq(0..operands[0].shape.rank());
        Violation::unless(complete, "the order names each dimension of the operand once", || {
            format!("{:?} for {}", self.order, operands[0].shape)
        })?;
        let shape: Vec<usize> = self.order.iter().map(|&dim| operands[0].shape[dim]).collect();
        Ok(TensorType::new(operands[0].dtype, shape))
    }
    fn vjp<'g>(&self, at: &Vjp<'_, 'g>) -> Vec<Option<Value<'g>>> {
        vec![Some(at.cotangent.permute(self.inverse()))]
    }
    fn eval(&self, operands: &[&Array], result: &TensorType) -> Array {
        let inverse = self.inverse();
        Array::from_fn(result, |coords| {
            let source: Vec<usize> = inverse.iter().map(|&dim| coords[dim]).collect();
            operands[0].at(&source)
        })
    }
    fn point(
        &self,
        _: &[TensorType],
        _: &TensorType,
        cx: &mut dyn PointContext,
        coords: &[Index],
    ) -> Result<ExprId, Mismatch> {
        let source: Vec<Index> = self.inverse().iter().map(|&dim| coords[dim].clone()).collect();
        cx.operand(0, &source)
    }
    fn carry(&self, _: &TensorType, _: &TensorType, coords: &[Index], _: &[usize]) -> Option<Vec<Index>> {
        Some(self.order.iter().map(|&dim| coords[dim].clone()).collect())
    }
    fn is_view(&self) -> bool {
        true
    }
    fn samples() -> Vec<Sample> {
        let cases: [(&[usize], &[usize]); 6] = [
            (&[], &[]),
            (&[1, 7], &[1, 0]),
            (&[33, 65], &[1, 0]),
            (&[2, 3, 17], &[2, 0, 1]),
            (&[3, 2, 4, 5], &[0, 2, 1, 3]),
            (&[2, 1, 3, 2, 1, 3], &[5, 4, 3, 2, 1, 0]),
        ];
        let sample = |&(shape, order): &(&[usize], &[usize])| {
            Sample::new(Op::Permute(Permute { order: order.to_vec() }), [SampleOperand::float(shape)])
        };
        let mut samples: Vec<Sample> = cases.iter().map(sample).collect();
        // Moved as whole words: other types too.
        for dtype in [DType::U32, DType::Bool] {
            let fill = if dtype == DType::Bool { Fill::Bool } else { Fill::Bits };
            samples.push(Sample::new(
                Op::Permute(Permute { order: vec![1, 0] }),
                [SampleOperand::of(dtype, [5, 7], fill)],
            ));
        }
        samples
    }
}
