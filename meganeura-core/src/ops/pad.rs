//! Borders.

use super::{Fill, Op, Operation, Sample, SampleOperand, Vjp, operand_count};
use crate::dtype::DType;
use crate::index::Index;
use crate::ir::{Value, Violation, text};
use crate::kernel::{Bound, ExprId, Mismatch, PointContext};
use crate::oracle::Array;
use crate::scalar::Scalar;
use crate::shape::TensorType;

/// The operand with `before[d]` and `after[d]` copies of `fill` around dimension `d`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pad {
    /// Elements before the first along each dimension.
    pub before: Vec<usize>,
    /// Elements after the last along each dimension.
    pub after: Vec<usize>,
    /// Value of the border; has the operand's type.
    pub fill: Scalar,
}

impl Operation for Pad {
    fn name(&self) -> &'static str {
        "pad"
    }
    fn attributes(&self) -> String {
        format!("before={:?}, after={:?}, fill={}", self.before, self.after, self.fill)
    }
    fn parse(name: &str, attributes: &str, _: &TensorType) -> Option<Self> {
        let widths = |key| text::list(text::field(attributes, key)?).filter(|_| name == "pad");
        let fill = text::scalar(text::field(attributes, "fill")?)?;
        Some(Pad { before: widths("before")?, after: widths("after")?, fill })
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 1)?;
        let shape = &operands[0].shape;
        let complete = self.before.len() == shape.rank() && self.after.len() == shape.rank();
        Violation::unless(complete, "a width before and after each dimension", || {
            format!("{} and {} for {shape}", self.before.len(), self.after.len())
        })?;
        let same = self.fill.dtype() == operands[0].dtype;
        Violation::unless(same, "the border has the operand's element type", || self.fill.to_string())?;
        let extent = |dim: usize| shape[dim].checked_add(self.before[dim])?.checked_add(self.after[dim]);
        let extents = (0..shape.rank()).map(extent).collect::<Option<Vec<usize>>>();
        let extents = extents.ok_or_else(|| Violation::new("extents fit in memory", self.attributes()))?;
        Ok(TensorType::new(operands[0].dtype, extents))
    }
    fn vjp<'g>(&self, at: &Vjp<'_, 'g>) -> Vec<Option<Value<'g>>> {
        vec![Some(at.cotangent.slice(self.before.clone(), at.operands[0].shape().to_vec()))]
    }
    fn eval(&self, operands: &[&Array], result: &TensorType) -> Array {
        let shape = &operands[0].ty.shape;
        Array::from_fn(result, |coords| {
            let source: Option<Vec<usize>> = (0..shape.rank())
                .map(|dim| coords[dim].checked_sub(self.before[dim]).filter(|&coord| coord < shape[dim]))
                .collect();
            source.map_or(self.fill.value(), |source| operands[0].at(&source))
        })
    }
    fn point(
        &self,
        operands: &[TensorType],
        _: &TensorType,
        cx: &mut dyn PointContext,
        coords: &[Index],
    ) -> Result<ExprId, Mismatch> {
        let shape = &operands[0].shape;
        let source: Vec<Index> =
            coords.iter().zip(&self.before).map(|(coord, &before)| coord.clone().shifted(-(before as i64))).collect();
        let padded = |&dim: &usize| self.before[dim] > 0 || self.after[dim] > 0;
        let bounds: Vec<Bound> = (0..shape.rank())
            .filter(padded)
            .map(|dim| Bound { index: source[dim].clone(), extent: shape[dim] })
            .collect();
        let inside = cx.masked(&bounds, &mut |cx| cx.operand(0, &source))?;
        Ok(cx.filled(bounds, inside, self.fill))
    }
    fn is_view(&self) -> bool {
        true
    }
    fn samples() -> Vec<Sample> {
        type PadCase = (&'static [usize], &'static [usize], &'static [usize], f64);
        let cases: [PadCase; 5] = [
            (&[1], &[2], &[0], 0.0),
            (&[5, 13], &[0, 2], &[1, 0], 1.5),
            (&[3, 32], &[1, 0], &[1, 1], -1.0),
            (&[2, 3, 4], &[0, 1, 2], &[1, 0, 3], 0.0),
            (&[7, 1], &[0, 0], &[0, 0], 0.0),
        ];
        let sample = |&(shape, before, after, fill): &PadCase| {
            let fill = Scalar::new(DType::F32, fill);
            let pad = Pad { before: before.to_vec(), after: after.to_vec(), fill };
            Sample::new(Op::Pad(pad), [SampleOperand::float(shape)])
        };
        let mut samples: Vec<Sample> = cases.iter().map(sample).collect();
        // Moved as whole words: other types too.
        for dtype in [DType::U32, DType::Bool] {
            let fill = if dtype == DType::Bool { Fill::Bool } else { Fill::Bits };
            samples.push(Sample::new(
                Op::Pad(Pad { before: vec![1, 0], after: vec![0, 2], fill: Scalar::one(dtype) }),
                [SampleOperand::of(dtype, [5, 7], fill)],
            ));
        }
        samples
    }
}
