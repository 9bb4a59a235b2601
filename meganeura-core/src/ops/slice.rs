//! Blocks.

use super::{Fill, Op, Operation, Sample, SampleOperand, Vjp, operand_count};
use crate::dtype::DType;
use crate::index::Index;
use crate::ir::{Value, Violation, text};
use crate::kernel::{ExprId, Mismatch, PointContext};
use crate::oracle::Array;
use crate::shape::TensorType;

/// `result[i₀, …] = x[starts₀ + i₀, …]`, of `extents`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    /// First coordinate along each dimension.
    pub starts: Vec<usize>,
    /// The result's extents.
    pub extents: Vec<usize>,
}

impl Operation for Slice {
    fn name(&self) -> &'static str {
        "slice"
    }
    fn attributes(&self) -> String {
        format!("starts={:?}", self.starts)
    }
    fn parse(name: &str, attributes: &str, result: &TensorType) -> Option<Self> {
        let starts = text::list(text::field(attributes, "starts")?).filter(|_| name == "slice")?;
        Some(Slice { starts, extents: result.shape.to_vec() })
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 1)?;
        let shape = &operands[0].shape;
        let complete = self.starts.len() == shape.rank() && self.extents.len() == shape.rank();
        let ends = |dim: usize| self.starts[dim].checked_add(self.extents[dim]);
        let inside = complete && (0..shape.rank()).all(|dim| ends(dim).is_some_and(|end| end <= shape[dim]));
        Violation::unless(inside, "a start and an extent for each dimension, inside the operand", || {
            format!("starts {:?}, extents {:?} of {shape}", self.starts, self.extents)
        })?;
        Ok(TensorType::new(operands[0].dtype, self.extents.clone()))
    }
    fn vjp<'g>(&self, at: &Vjp<'_, 'g>) -> Vec<Option<Value<'g>>> {
        let shape = at.operands[0].shape();
        let after: Vec<usize> =
            (0..shape.rank()).map(|dim| shape[dim] - self.starts[dim] - self.extents[dim]).collect();
        vec![Some(at.cotangent.pad(self.starts.clone(), after, 0.0))]
    }
    fn eval(&self, operands: &[&Array], result: &TensorType) -> Array {
        Array::from_fn(result, |coords| {
            let source: Vec<usize> = coords.iter().zip(&self.starts).map(|(coord, start)| coord + start).collect();
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
        let source: Vec<Index> =
            coords.iter().zip(&self.starts).map(|(coord, &start)| coord.clone().shifted(start as i64)).collect();
        cx.operand(0, &source)
    }
    fn is_view(&self) -> bool {
        true
    }
    fn samples() -> Vec<Sample> {
        let cases: [(&[usize], &[usize], &[usize]); 5] = [
            (&[7], &[2], &[1]),
            (&[5, 66], &[1, 1], &[3, 65]),
            (&[4, 7, 5], &[0, 3, 2], &[4, 1, 3]),
            (&[1, 13], &[0, 0], &[1, 13]),
            (&[40, 3], &[7, 0], &[33, 3]),
        ];
        let sample = |&(shape, starts, extents): &(&[usize], &[usize], &[usize])| {
            let slice = Slice { starts: starts.to_vec(), extents: extents.to_vec() };
            Sample::new(Op::Slice(slice), [SampleOperand::float(shape)])
        };
        let mut samples: Vec<Sample> = cases.iter().map(sample).collect();
        // Moved as whole words: other types too.
        for dtype in [DType::U32, DType::Bool] {
            let fill = if dtype == DType::Bool { Fill::Bool } else { Fill::Bits };
            samples.push(Sample::new(
                Op::Slice(Slice { starts: vec![1, 2], extents: vec![3, 5] }),
                [SampleOperand::of(dtype, [5, 7], fill)],
            ));
        }
        samples
    }
}
