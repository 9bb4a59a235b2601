//! Elements by index.

use super::{Fill, Op, Operation, Sample, SampleOperand, Vjp, operand_count};
use crate::dtype::DType;
use crate::index::Index;
use crate::ir::{Value, Violation, text};
use crate::kernel::{Bound, Expr, ExprId, Mismatch, PointContext};
use crate::oracle::Array;
use crate::scalar::Scalar;
use crate::shape::{Shape, TensorType};

/// `result[outer, i, inner] = x[outer, indices[i], inner]`, where `axis` separates outer and inner dimensions and `i` runs
/// over all dimensions of `indices` (`u32`): the rows of an embedding. An index out of range gives `NaN`, or 0 in types
/// without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gather {
    /// The dimension of `x` that is indexed.
    pub axis: usize,
}

impl Gather {
    fn missing(dtype: DType) -> Scalar {
        Scalar::new(dtype, if dtype.is_float() { f64::NAN } else { 0.0 })
    }
}

impl Operation for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }
    fn attributes(&self) -> String {
        format!("axis={}", self.axis)
    }
    fn parse(name: &str, attributes: &str, _: &TensorType) -> Option<Self> {
        let axis = text::number(attributes, "axis").filter(|_| name == "gather")?;
        Some(Gather { axis })
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 2)?;
        let [data, indices] = operands else { return Err(Violation::new("two operands", "")) };
        Violation::unless(self.axis < data.shape.rank(), "the axis is a dimension of the data", || {
            format!("axis {} of {}", self.axis, data.shape)
        })?;
        Violation::unless(indices.dtype == DType::U32, "indices are u32", || indices.dtype.to_string())?;
        let (outer, inner) = (&data.shape[..self.axis], &data.shape[self.axis + 1..]);
        Ok(TensorType::new(data.dtype, Shape::new([outer, &indices.shape, inner].concat())))
    }
    fn vjp<'g>(&self, at: &Vjp<'_, 'g>) -> Vec<Option<Value<'g>>> {
        let extent = at.operands[0].shape()[self.axis];
        vec![Some(at.cotangent.scatter_add(at.operands[1], self.axis, extent)), None]
    }
    fn eval(&self, operands: &[&Array], result: &TensorType) -> Array {
        let indexed = self.axis + operands[1].ty.shape.rank();
        let extent = operands[0].ty.shape[self.axis];
        Array::from_fn(result, |coords| {
            let index = operands[1].at(&coords[self.axis..indexed]) as usize;
            let source = [&coords[..self.axis], &[index], &coords[indexed..]].concat();
            if index < extent { operands[0].at(&source) } else { Gather::missing(result.dtype).value() }
        })
    }
    fn point(
        &self,
        operands: &[TensorType],
        result: &TensorType,
        cx: &mut dyn PointContext,
        coords: &[Index],
    ) -> Result<ExprId, Mismatch> {
        let indexed = self.axis + operands[1].shape.rank();
        let index = cx.operand(1, &coords[self.axis..indexed])?;
        let index = Index::value(index, operands[0].shape[self.axis]);
        let bounds = [Bound { index: index.clone(), extent: operands[0].shape[self.axis] }];
        let source = [&coords[..self.axis], &[index], &coords[indexed..]].concat();
        let element = cx.masked(&bounds, &mut |cx| cx.operand(0, &source))?;
        let within = cx.push(Expr::Within(bounds.to_vec()));
        let missing = cx.push(Expr::Const(Gather::missing(result.dtype)));
        Ok(cx.push(Expr::Select(within, element, missing)))
    }
    fn samples() -> Vec<Sample> {
        let cases: [(&[usize], &[usize], usize); 6] = [
            (&[1], &[1], 0),
            (&[7, 5], &[3], 0),
            (&[33, 65], &[2, 3], 0),
            (&[4, 13], &[17], 1),
            (&[2, 5, 3], &[4], 1),
            (&[11], &[], 0),
        ];
        let sample = |&(shape, indices, axis): &(&[usize], &[usize], usize)| {
            let operands = [SampleOperand::float(shape), SampleOperand::index(indices, shape[axis])];
            Sample::new(Op::Gather(Gather { axis }), operands)
        };
        let mut samples: Vec<Sample> = cases.iter().map(sample).collect();
        // Some indices out of range, on a type that shows it as 0.
        let data = SampleOperand::of(DType::U32, [5, 3], Fill::Bits);
        samples.push(Sample::new(Op::Gather(Gather { axis: 0 }), [data, SampleOperand::index([9], 8)]));
        samples
    }
}
