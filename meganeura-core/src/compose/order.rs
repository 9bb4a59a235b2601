//! Elements by their order along the last axis.
//!
//! An element's place is the number of those that come before it: a fold over all pairs, of which nothing is stored. It is
//! stable and deterministic; work grows with the square of the extent.

use crate::dtype::DType;
use crate::ir::{Value, Violation};
use crate::scalar::{Scalar, Unary};
use crate::shape::Shape;

/// Values in order, and where they were.
#[derive(Clone, Copy, Debug)]
pub struct Sorted<'g> {
    /// The values; gradients flow to where they were.
    pub values: Value<'g>,
    /// Their positions along the last axis, `u32`.
    pub indices: Value<'g>,
}

impl<'g> Value<'g> {
    /// The elements of each row (the last axis) in ascending or descending order; equal ones keep theirs. `NaN` counts as
    /// the largest, as in PyTorch. `f32`, `u32` or `i32`.
    #[track_caller]
    pub fn sort(self, descending: bool) -> Sorted<'g> {
        let count = self.shape().last().copied().unwrap_or(1);
        self.topk(count, descending)
    }

    /// The first `count` elements of [`Value::sort`].
    #[track_caller]
    pub fn topk(self, count: usize, largest: bool) -> Sorted<'g> {
        let shape = self.shape();
        let fits = shape.last().is_some_and(|&extent| count <= extent);
        if !fits || !matches!(self.dtype(), DType::F32 | DType::U32 | DType::I32) {
            let violation = Violation::new("rows of numbers, at least as long as asked for", self.ty().to_string());
            let poison = self.builder().refuse("topk", &[self], violation);
            return Sorted { values: poison, indices: poison };
        }
        let (builder, extent) = (self.builder(), shape[shape.rank() - 1]);
        let outer: usize = shape[..shape.rank() - 1].iter().product();
        let x = self.reshape([outer, extent]);
        let mut key = x.stop_gradient().order_key();
        if largest {
            key = key.not();
        }
        let (own, other) = (key.reshape([outer, extent, 1]), key.reshape([outer, 1, extent]));
        let square: Shape = [extent, extent].into();
        let earlier = builder.iota(square.clone(), 1).lt(builder.iota(square, 0));
        let before = other.lt(own).or(other.eq(own).and(earlier));
        let scalar = |value: u32| builder.fill(Scalar::u32(value), Shape::scalar());
        let place = before.select(scalar(1), scalar(0)).sum([2]);
        let here = place.reshape([outer, 1, extent]).eq(builder.iota([1, count, 1], 1));
        let from = builder.iota([1, 1, extent], 2);
        let x = x.reshape([outer, 1, extent]);
        let result = [&shape[..shape.rank() - 1], &[count]].concat();
        Sorted {
            values: here.select(x, x.like(0.0)).sum([2]).reshape(result.clone()),
            indices: here.select(from, scalar(0)).sum([2]).reshape(result),
        }
    }

    /// A `u32` of each element that has its order; `−0` equals 0, every `NaN` is the largest.
    #[track_caller]
    fn order_key(self) -> Value<'g> {
        let high = self.builder().fill(Scalar::u32(1 << 31), Shape::scalar());
        match self.dtype() {
            DType::U32 => self,
            DType::F32 => {
                let zero = self.like(0.0);
                let bits = self.eq(zero).select(zero, self).bitcast(DType::U32);
                let key = bits.ge(high).select(bits.not(), bits.or(high));
                let nan = self.unary(Unary::IsNan).ne(zero);
                nan.select(self.builder().fill(Scalar::u32(u32::MAX), Shape::scalar()), key)
            }
            _ => self.bitcast(DType::U32).xor(high),
        }
    }
}
