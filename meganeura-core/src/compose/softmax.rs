//! Softmax and its relatives, along one axis.

use crate::ir::Value;
use crate::shape::Shape;

impl<'g> Value<'g> {
    /// `e^(xᵢ − max) / Σⱼ e^(xⱼ − max)` along `axis`.
    #[track_caller]
    pub fn softmax(self, axis: usize) -> Value<'g> {
        let exponentials = (self - self.max_kept(axis)).exp();
        exponentials / exponentials.sum([axis]).kept(self, axis)
    }

    /// `xᵢ − ln Σⱼ e^(xⱼ)` along `axis`, without overflow.
    #[track_caller]
    pub fn log_softmax(self, axis: usize) -> Value<'g> {
        self - self.logsumexp(axis).kept(self, axis)
    }

    /// `ln Σⱼ e^(xⱼ)` along `axis`, which disappears; without overflow.
    #[track_caller]
    pub fn logsumexp(self, axis: usize) -> Value<'g> {
        let largest = self.max_kept(axis);
        let shape = self.shape();
        let outer = shape.without(&[axis.min(shape.rank().saturating_sub(1))]);
        (self - largest).exp().sum([axis]).log() + largest.reshape(outer)
    }

    /// The largest element along `axis`, which keeps extent 1. A shift that cancels, so no gradient flows through it.
    #[track_caller]
    fn max_kept(self, axis: usize) -> Value<'g> {
        self.stop_gradient().max([axis]).kept(self, axis)
    }

    /// This value, a fold of `of` along `axis`, with that axis back at extent 1.
    #[track_caller]
    pub(super) fn kept(self, of: Value<'g>, axis: usize) -> Value<'g> {
        let shape = of.shape();
        self.reshape((0..shape.rank()).map(|dim| if dim == axis { 1 } else { shape[dim] }).collect::<Shape>())
    }
}
