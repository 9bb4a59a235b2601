//! Gradient descent.

use super::adam::with_decay;
use super::{Optimizer, Slot};
use meganeura_core::ir::Value;

/// Stochastic gradient descent with momentum, by PyTorch's formula:
/// `g += decay · p`, `m = momentum · m + g`, `p −= rate · m`, or `p −= rate · (g + momentum · m)` in Nesterov's form.
///
/// The moment starts at 0, so the first step has `m = g` as in PyTorch (with its default of no dampening).
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Sgd {
    /// Part of the last step's direction that is kept; 0 needs no state.
    pub momentum: f32,
    /// Whether to look ahead along the momentum (Sutskever et al., ICML 2013).
    pub nesterov: bool,
    /// Weight decay, added to the gradient.
    pub weight_decay: f32,
}

impl Optimizer for Sgd {
    #[track_caller]
    fn update<'g>(&self, slot: &Slot<'_, 'g>, p: Value<'g>, g: Value<'g>) -> Value<'g> {
        let g = with_decay(slot, p, g, self.weight_decay);
        if self.momentum == 0.0 {
            return p - g * slot.rate();
        }
        let old = slot.state("momentum");
        let m = old * self.momentum + g;
        slot.set(old, m);
        let direction = if self.nesterov { g + m * self.momentum } else { m };
        p - direction * slot.rate()
    }
}
