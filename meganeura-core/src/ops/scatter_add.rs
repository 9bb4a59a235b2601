//! Sums by index.

use super::{Lowering, Op, Operation, Sample, SampleOperand, Vjp, operand_count};
use crate::dtype::DType;
use crate::index::Index;
use crate::ir::{Value, Violation};
use crate::kernel::{Expr, ExprId, Mismatch, PointContext};
use crate::oracle::Array;
use crate::oracle::{for_each_point, linear};
use crate::scalar::{Compare, Monoid, Scalar};
use crate::shape::{Shape, TensorType};

/// `result[outer, v, inner] = Σ over i with indices[i] = v of x[outer, i, inner]`, `v < extent`: the transpose of
/// [`Gather`](super::Gather). `x` has the shape of that op's result; indices (`u32`) out of range add nothing. The order
/// of the sum is fixed, so the same inputs give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScatterAdd {
    /// The dimension of the result that is indexed.
    pub axis: usize,
    /// Its extent.
    pub extent: usize,
}

impl Operation for ScatterAdd {
    fn name(&self) -> &'static str {
        "scatter_add"
    }
    fn attributes(&self) -> String {
        format!("axis={}", self.axis)
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 2)?;
        let [data, indices] = operands else { return Err(Violation::new("two operands", "")) };
        let indexed = self.axis.saturating_add(indices.shape.rank());
        let fits = data.shape.get(self.axis..indexed) == Some(&*indices.shape);
        Violation::unless(fits, "the data has the indices' dimensions at the axis", || {
            format!("{} at axis {} of {}", indices.shape, self.axis, data.shape)
        })?;
        Violation::unless(indices.dtype == DType::U32, "indices are u32", || indices.dtype.to_string())?;
        Violation::unless(data.dtype != DType::Bool, "the data is numeric", || data.dtype.to_string())?;
        let (outer, inner) = (&data.shape[..self.axis], &data.shape[indexed..]);
        Ok(TensorType::new(data.dtype, Shape::new([outer, &[self.extent], inner].concat())))
    }
    fn vjp<'g>(&self, at: &Vjp<'_, 'g>) -> Vec<Option<Value<'g>>> {
        let (data, indices) = (at.operands[0].shape(), at.operands[1]);
        let gathered = at.cotangent.gather(indices, self.axis);
        // Where an index is out of range nothing was added, so nothing flows back.
        let inner = data.rank() - self.axis - indices.shape().rank();
        let aligned = Shape::new([&*indices.shape(), &vec![1; inner]].concat());
        let bound = at.cotangent.builder().fill(Scalar::u32(self.extent as u32), Shape::scalar());
        let inside = indices.lt(bound).reshape(aligned);
        vec![Some(inside.select(gathered, gathered.like(0.0))), None]
    }
    fn eval(&self, operands: &[&Array], result: &TensorType) -> Array {
        let mut sum = Array::new(result.clone(), Vec::new());
        let indexed = self.axis + operands[1].ty.shape.rank();
        for_each_point(&operands[0].ty.shape, |coords| {
            let index = operands[1].at(&coords[self.axis..indexed]) as usize;
            if index < self.extent {
                let at = linear(&result.shape, &[&coords[..self.axis], &[index], &coords[indexed..]].concat());
                sum.data[at] = result.dtype.wrapping_sum(sum.data[at], operands[0].at(coords));
            }
        });
        sum
    }
    fn lower(&self, operands: &[TensorType], _: &TensorType) -> Lowering {
        Lowering::Fold { monoid: Monoid::Sum, extents: operands[1].shape.to_vec() }
    }
    fn point(
        &self,
        operands: &[TensorType],
        result: &TensorType,
        cx: &mut dyn PointContext,
        coords: &[Index],
    ) -> Result<ExprId, Mismatch> {
        let (coords, listed) = coords.split_at(result.shape.rank());
        let index = cx.operand(1, listed)?;
        let source = [&coords[..self.axis], listed, &coords[self.axis + 1..]].concat();
        debug_assert_eq!(source.len(), operands[0].shape.rank());
        let element = cx.operand(0, &source)?;
        let destination = cx.push(Expr::Index(coords[self.axis].clone()));
        let hit = cx.push(Expr::Compare(Compare::Eq, index, destination));
        let zero = cx.push(Expr::Const(Scalar::zero(result.dtype)));
        Ok(cx.push(Expr::Select(hit, element, zero)))
    }
    fn samples() -> Vec<Sample> {
        let cases: [(&[usize], &[usize], usize, usize); 6] = [
            (&[1], &[1], 0, 1),
            (&[3, 5], &[3], 0, 7),
            (&[2, 3, 65], &[2, 3], 0, 33),
            (&[4, 17], &[17], 1, 13),
            (&[2, 4, 3], &[4], 1, 5),
            (&[101], &[101], 0, 7),
        ];
        let sample = |&(shape, indices, axis, extent): &(&[usize], &[usize], usize, usize)| {
            // Some indices are out of range.
            let operands = [SampleOperand::float(shape), SampleOperand::index(indices, extent + 1)];
            Sample::new(Op::ScatterAdd(ScatterAdd { axis, extent }), operands)
        };
        cases.iter().map(sample).collect()
    }
}
