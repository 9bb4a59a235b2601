//! The same elements under another shape.

use super::{Fill, Op, Operation, Sample, SampleOperand, Vjp, operand_count};
use crate::dtype::DType;
use crate::index::{self, Index};
use crate::ir::{Value, Violation};
use crate::kernel::{ExprId, Mismatch, PointContext};
use crate::oracle::Array;
use crate::shape::{Shape, TensorType};

/// The operand's elements in row-major order under `shape`, which has as many elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reshape {
    /// The result's shape.
    pub shape: Shape,
}

impl Operation for Reshape {
    fn name(&self) -> &'static str {
        "reshape"
    }
    fn parse(name: &str, _: &str, result: &TensorType) -> Option<Self> {
        (name == "reshape").then(|| Reshape { shape: result.shape.clone() })
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 1)?;
        let from = operands[0].elements();
        let kept = self.shape.checked_elements() == Some(from);
        Violation::unless(kept, "a reshape keeps the number of elements", || {
            format!("{} ({from} elements) to {}", operands[0].shape, self.shape)
        })?;
        Ok(TensorType::new(operands[0].dtype, &self.shape))
    }
    fn vjp<'g>(&self, at: &Vjp<'_, 'g>) -> Vec<Option<Value<'g>>> {
        vec![Some(at.cotangent.reshape(at.operands[0].shape()))]
    }
    fn eval(&self, operands: &[&Array], result: &TensorType) -> Array {
        Array::new(result.clone(), operands[0].data.clone())
    }
    fn point(
        &self,
        operands: &[TensorType],
        result: &TensorType,
        cx: &mut dyn PointContext,
        coords: &[Index],
    ) -> Result<ExprId, Mismatch> {
        let axes = cx.axes().to_vec();
        let coords = index::reshape(coords, &result.shape, &operands[0].shape, &axes);
        cx.operand(0, &coords)
    }
    fn carry(&self, operand: &TensorType, result: &TensorType, coords: &[Index], axes: &[usize]) -> Option<Vec<Index>> {
        Some(index::reshape(coords, &operand.shape, &result.shape, axes))
    }
    fn is_view(&self) -> bool {
        true
    }
    fn samples() -> Vec<Sample> {
        let shapes: [(&[usize], &[usize]); 6] = [
            (&[], &[1]),
            (&[1], &[1, 1]),
            (&[3, 35], &[7, 15]),
            (&[65, 2], &[13, 10]),
            (&[4, 6, 17], &[24, 17]),
            (&[101], &[101, 1]),
        ];
        let mut samples: Vec<Sample> = shapes
            .iter()
            .map(|&(from, to)| Sample::new(Op::Reshape(Reshape { shape: to.into() }), [SampleOperand::float(from)]))
            .collect();
        // Moved as whole words: other types too.
        for dtype in [DType::U32, DType::Bool] {
            let fill = if dtype == DType::Bool { Fill::Bool } else { Fill::Bits };
            samples.push(Sample::new(
                Op::Reshape(Reshape { shape: [7, 5].into() }),
                [SampleOperand::of(dtype, [5, 7], fill)],
            ));
        }
        samples
    }
}
