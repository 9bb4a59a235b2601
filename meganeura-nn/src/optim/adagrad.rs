//! Gradients divided by the root of all squares so far.

use super::adam::with_decay;
use super::{Optimizer, Slot};
use meganeura_core::ir::Value;

/// Adagrad (Duchi, Hazan and Singer, JMLR 2011) by PyTorch's formula, without its decay of the rate:
/// `g += decay · p`, `s += g²`, `p −= rate · g / (√s + ε)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adagrad {
    /// Added to the denominator.
    pub epsilon: f32,
    /// Weight decay, added to the gradient.
    pub weight_decay: f32,
}

impl Default for Adagrad {
    /// PyTorch's: ε = 1e-10, no decay.
    fn default() -> Adagrad {
        Adagrad { epsilon: 1e-10, weight_decay: 0.0 }
    }
}

impl Optimizer for Adagrad {
    #[track_caller]
    fn update<'g>(&self, slot: &Slot<'_, 'g>, p: Value<'g>, g: Value<'g>) -> Value<'g> {
        let g = with_decay(slot, p, g, self.weight_decay);
        let old = slot.state("sum");
        let sum = old + g * g;
        slot.set(old, sum);
        p - g * slot.rate() / (sum.sqrt() + self.epsilon)
    }
}
