//! The sign of a momentum.

use super::{Optimizer, Slot};
use meganeura_core::ir::Value;

/// Lion (Chen et al., Symbolic Discovery of Optimization Algorithms, NeurIPS 2023, algorithm 2):
/// `p −= rate · (sign(β₁ m + (1 − β₁) g) + decay · p)`, then `m = β₂ m + (1 − β₂) g`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lion {
    /// Parts of the momentum that the direction and the next momentum keep.
    pub betas: [f64; 2],
    /// Weight decay, apart from the gradient.
    pub weight_decay: f32,
}

impl Default for Lion {
    /// The paper's: betas 0.9 and 0.99, no decay.
    fn default() -> Lion {
        Lion { betas: [0.9, 0.99], weight_decay: 0.0 }
    }
}

impl Optimizer for Lion {
    #[track_caller]
    fn update<'g>(&self, slot: &Slot<'_, 'g>, p: Value<'g>, g: Value<'g>) -> Value<'g> {
        let old = slot.state("exp_avg");
        let [direction, m] = self.betas.map(|beta| old * beta as f32 + g * (1.0 - beta) as f32);
        slot.set(old, m);
        p * (1.0 - slot.rate() * slot.decay(self.weight_decay)) - direction.sign() * slot.rate()
    }
}
