//! Softmax and its relatives, along one axis.

use crate::ir::Value;
use crate::shape::Shape;

impl<'g> Value<'g> {
    /// `e^(xᵢ − max) / Σⱼ e^(xⱼ − max)` along `axis`. A row of `−∞` gives `NaN`, as in PyTorch.
    #[track_caller]
    pub fn softmax(self, axis: usize) -> Value<'g> {
        let x = self.floating("softmax");
        let exponentials = (x - x.max_kept(axis)).exp();
        exponentials / exponentials.sum([axis]).kept(x, axis)
    }

    /// `xᵢ − ln Σⱼ e^(xⱼ)` along `axis`, without overflow, and without cancellation in rows of large elements.
    #[track_caller]
    pub fn log_softmax(self, axis: usize) -> Value<'g> {
        let x = self.floating("log_softmax");
        let shifted = x - x.max_kept(axis);
        shifted - shifted.exp().sum([axis]).log().kept(x, axis)
    }

    /// `ln Σⱼ e^(xⱼ)` along `axis`, which disappears; without overflow. A row of `−∞` gives `−∞`, one with `∞` gives `∞`.
    #[track_caller]
    pub fn logsumexp(self, axis: usize) -> Value<'g> {
        let x = self.floating("logsumexp");
        let largest = x.max_kept(axis);
        // ∞ − ∞ is NaN: infinite rows are not shifted.
        let shift = largest.abs().eq(x.like(f64::INFINITY)).select(x.like(0.0), largest);
        let outer = x.shape().without(&[axis]);
        (x - shift).exp().sum([axis]).log() + shift.reshape(outer)
    }

    /// The largest element along `axis`, which keeps extent 1. A shift that cancels, so no gradient flows through it.
    #[track_caller]
    pub(super) fn max_kept(self, axis: usize) -> Value<'g> {
        self.stop_gradient().max([axis]).kept(self, axis)
    }

    /// This value, a fold of `of` along `axis`, with that axis back at extent 1.
    #[track_caller]
    pub(super) fn kept(self, of: Value<'g>, axis: usize) -> Value<'g> {
        let shape = of.shape();
        self.reshape((0..shape.rank()).map(|dim| if dim == axis { 1 } else { shape[dim] }).collect::<Shape>())
    }
}
