//! Borders that repeat a tensor's own elements.

use crate::dtype::DType;
use crate::ir::{Value, Violation};
use crate::ops::{Unfold, Window};
use crate::scalar::Scalar;

/// What lies outside of a tensor, as in `torch.nn.functional.pad`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Border {
    /// One number.
    Constant(f64),
    /// The elements mirrored at the outermost one, which is not repeated: `c b | a b c | b a`.
    Reflect,
    /// The outermost element: `a a | a b c | c c`.
    Replicate,
    /// The elements from the other end: `b c | a b c | a b`.
    Circular,
}

impl<'g> Value<'g> {
    /// This tensor with `before[d]` and `after[d]` elements more around each dimension. Mirrored borders are shorter than
    /// the dimension, circular ones no longer.
    #[track_caller]
    pub fn pad_border(self, before: impl Into<Vec<usize>>, after: impl Into<Vec<usize>>, border: Border) -> Value<'g> {
        let (before, after, shape) = (before.into(), after.into(), self.shape());
        if let Border::Constant(fill) = border {
            return self.pad(before, after, fill);
        }
        let most = |extent: usize| match border {
            Border::Reflect => extent.saturating_sub(1),
            Border::Circular => extent,
            _ if extent == 0 => 0,
            _ => usize::MAX,
        };
        let complete = before.len() == shape.rank() && after.len() == shape.rank();
        if !complete || (0..shape.rank()).any(|dim| before[dim].max(after[dim]) > most(shape[dim])) {
            let rule = "a width before and after each dimension, no more than it has elements to repeat";
            let found = format!("{before:?} and {after:?} for {} with {border:?}", self.ty());
            return self.builder().refuse("pad_border", &[self], Violation::new(rule, found));
        }
        let mut padded = self;
        for dim in (0..shape.rank()).filter(|&dim| before[dim] + after[dim] > 0) {
            padded = padded.border_along(dim, before[dim], after[dim], border);
        }
        padded
    }

    /// A border along one dimension.
    #[track_caller]
    fn border_along(self, dim: usize, before: usize, after: usize, border: Border) -> Value<'g> {
        if self.is_poisoned() {
            return self;
        }
        let extent = self.shape()[dim];
        let [head, tail] = match border {
            Border::Reflect => [self.run(dim, before as i64, -1, before), self.run(dim, extent as i64 - 2, -1, after)],
            Border::Circular => [self.run(dim, extent as i64 - before as i64, 1, before), self.run(dim, 0, 1, after)],
            Border::Replicate | Border::Constant(_) => {
                let edge = |at: usize, width: usize| {
                    let mut shape = self.shape().to_vec();
                    let mut starts = vec![0; shape.len()];
                    (starts[dim], shape[dim]) = (at, 1);
                    let edge = self.slice(starts, shape.clone());
                    shape[dim] = width;
                    edge.broadcast(shape)
                };
                [edge(0, before), edge(extent - 1, after)]
            }
        };
        joined(dim, &[(head, before), (self, extent), (tail, after)])
    }

    /// `count` elements along a dimension from `first` on, in steps of 1 or −1.
    #[track_caller]
    fn run(self, dim: usize, first: i64, step: i64, count: usize) -> Value<'g> {
        let mut shape = self.shape().to_vec();
        shape[dim] = count;
        let window = Window { extent: count, taps: 1, stride: step, dilation: 1, offset: first, spread: 1 };
        let fill = Scalar::zero(self.dtype());
        self.unfold(Unfold { dims: vec![dim], windows: vec![window], tapped: false, fill }).reshape(shape)
    }
}

/// Parts (with their extents) one after another along a dimension: each padded with zeros to the whole, and added.
#[track_caller]
pub(super) fn joined<'g>(dim: usize, parts: &[(Value<'g>, usize)]) -> Value<'g> {
    let total: usize = parts.iter().map(|(_, extent)| extent).sum();
    let (mut at, mut sum) = (0, parts[0].0);
    let mut first = true;
    for &(part, extent) in parts.iter().filter(|(_, extent)| *extent > 0) {
        let rank = part.shape().rank();
        let [mut before, mut after] = [vec![0; rank], vec![0; rank]];
        if let (Some(before), Some(after)) = (before.get_mut(dim), after.get_mut(dim)) {
            (*before, *after) = (at, total - at - extent);
        }
        let padded = part.pad(before, after, 0.0);
        sum = match first {
            true => padded,
            false if part.dtype() == DType::Bool => sum.or(padded),
            false => sum + padded,
        };
        first = false;
        at += extent;
    }
    sum
}
