//! Adam, with weight decay in the gradient or apart from it.

use super::{Optimizer, Slot};
use meganeura_core::ir::Value;

/// AdamW (Loshchilov and Hutter, ICLR 2019) by PyTorch's formula, at step `t` from 1:
/// `p *= 1 − rate · decay`, `m = β₁ m + (1 − β₁) g`, `v = β₂ v + (1 − β₂) g²`,
/// `p −= rate · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// Decay of the first and second moments.
    pub betas: [f64; 2],
    /// Added to the denominator.
    pub epsilon: f32,
    /// Weight decay; 0 gives Adam.
    pub weight_decay: f32,
}

impl Default for AdamW {
    /// PyTorch's: betas 0.9 and 0.999, epsilon 1e-8, decay 0.01.
    fn default() -> AdamW {
        AdamW { betas: [0.9, 0.999], epsilon: 1e-8, weight_decay: 0.01 }
    }
}

impl Optimizer for AdamW {
    #[track_caller]
    fn update<'g>(&self, slot: &Slot<'_, 'g>, p: Value<'g>, g: Value<'g>) -> Value<'g> {
        let step = rate_times_direction(slot, g, self.betas, self.epsilon);
        p * (1.0 - slot.rate() * slot.decay(self.weight_decay)) - step
    }
}

/// Adam (Kingma and Ba, ICLR 2015): as [`AdamW`], with the weight decay added to the gradient, `g += decay · p`, as
/// PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// Decay of the first and second moments.
    pub betas: [f64; 2],
    /// Added to the denominator.
    pub epsilon: f32,
    /// Weight decay, added to the gradient.
    pub weight_decay: f32,
}

impl Default for Adam {
    /// PyTorch's: betas 0.9 and 0.999, epsilon 1e-8, no decay.
    fn default() -> Adam {
        Adam { betas: [0.9, 0.999], epsilon: 1e-8, weight_decay: 0.0 }
    }
}

impl Optimizer for Adam {
    #[track_caller]
    fn update<'g>(&self, slot: &Slot<'_, 'g>, p: Value<'g>, g: Value<'g>) -> Value<'g> {
        let g = with_decay(slot, p, g, self.weight_decay);
        p - rate_times_direction(slot, g, self.betas, self.epsilon)
    }
}

/// `g + decay · p`: the gradient of the loss with half the squared norm of the weights, where there is a decay.
#[track_caller]
pub(super) fn with_decay<'g>(slot: &Slot<'_, 'g>, p: Value<'g>, g: Value<'g>, decay: f32) -> Value<'g> {
    match slot.decay(decay) {
        0.0 => g,
        decay => g + p * decay,
    }
}

#[track_caller]
fn rate_times_direction<'g>(slot: &Slot<'_, 'g>, g: Value<'g>, betas: [f64; 2], epsilon: f32) -> Value<'g> {
    // 1 − βᵗ = −expm1(t ln β): the difference itself would lose all digits for β near 1 and small t.
    let [first, second] = betas.map(|beta| -(slot.step() * beta.ln() as f32).expm1());
    let [beta1, beta2] = betas.map(|beta| beta as f32);
    let [new1, new2] = betas.map(|beta| (1.0 - beta) as f32);
    let [m_old, v_old] = ["exp_avg", "exp_avg_sq"].map(|kind| slot.state(kind));
    let m = m_old * beta1 + g * new1;
    let v = v_old * beta2 + g * g * new2;
    slot.set(m_old, m);
    slot.set(v_old, v);
    slot.rate() * (m / first) / ((v / second).sqrt() + epsilon)
}
