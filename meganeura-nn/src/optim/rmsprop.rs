//! Gradients divided by a moving root mean square.

use super::adam::with_decay;
use super::{Optimizer, Slot};
use meganeura_core::ir::Value;

/// RMSprop (Tieleman and Hinton, lecture 6.5 of Neural Networks for Machine Learning, 2012) by PyTorch's formula:
/// `g += decay · p`, `v = α v + (1 − α) g²`, `d = g / (√v + ε)`, `m = momentum · m + d`, `p −= rate · m`. Centred, the
/// square of `a = α a + (1 − α) g` is subtracted from `v` under the root (Graves, arXiv 1308.0850).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmsProp {
    /// Part of the mean square that is kept.
    pub alpha: f64,
    /// Added to the denominator.
    pub epsilon: f32,
    /// Part of the last step's direction that is kept; 0 needs no state.
    pub momentum: f32,
    /// Whether to divide by the deviation in place of the root mean square.
    pub centered: bool,
    /// Weight decay, added to the gradient.
    pub weight_decay: f32,
}

impl Default for RmsProp {
    /// PyTorch's: α = 0.99, ε = 1e-8, nothing else.
    fn default() -> RmsProp {
        RmsProp { alpha: 0.99, epsilon: 1e-8, momentum: 0.0, centered: false, weight_decay: 0.0 }
    }
}

impl Optimizer for RmsProp {
    #[track_caller]
    fn update<'g>(&self, slot: &Slot<'_, 'g>, p: Value<'g>, g: Value<'g>) -> Value<'g> {
        let g = with_decay(slot, p, g, self.weight_decay);
        let follow = |kind: &str, value: Value<'g>| {
            let old = slot.state(kind);
            let new = old * self.alpha as f32 + value * (1.0 - self.alpha) as f32;
            slot.set(old, new);
            new
        };
        let mut square = follow("square_avg", g * g);
        if self.centered {
            let mean = follow("grad_avg", g);
            square = square - mean * mean;
        }
        let direction = g / (square.sqrt() + self.epsilon);
        if self.momentum == 0.0 {
            return p - direction * slot.rate();
        }
        let old = slot.state("momentum");
        let m = old * self.momentum + direction;
        slot.set(old, m);
        p - m * slot.rate()
    }
}
