//! Adam with decoupled weight decay.

use super::{Optimizer, for_layer, moment, step_number};
use crate::params::Parameters;
use meganeura_core::dtype::DType;
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
    fn update<'g>(&self, parameters: &Parameters<'g>, gradients: &[Value<'g>], rate: Value<'g>) {
        let step = step_number(parameters).cast(DType::F32);
        // 1 − βᵗ = −expm1(t ln β): the difference itself would lose all digits for β near 1 and small t.
        let [first, second] = self.betas.map(|beta| -(step * beta.ln() as f32).expm1());
        let keep = 1.0 - rate * self.weight_decay;
        let [beta1, beta2] = self.betas.map(|beta| beta as f32);
        let [new1, new2] = self.betas.map(|beta| (1.0 - beta) as f32);
        for ((name, p), &g) in parameters.trainable().into_iter().zip(gradients) {
            for_layer(parameters, &name, || {
                let [m_old, v_old] = ["exp_avg", "exp_avg_sq"].map(|kind| moment(kind, &name, p));
                let m = m_old * beta1 + g * new1;
                let v = v_old * beta2 + g * g * new2;
                let denominator = (v / second).sqrt() + self.epsilon;
                p.builder().update(m_old, m);
                p.builder().update(v_old, v);
                p.builder().update(p, p * keep - rate * (m / first) / denominator);
            });
        }
    }
}
