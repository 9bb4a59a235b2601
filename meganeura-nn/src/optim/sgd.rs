//! Gradient descent.

use super::{Optimizer, for_layer, moment};
use crate::params::Parameters;
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
    fn update<'g>(&self, parameters: &Parameters<'g>, gradients: &[Value<'g>], rate: Value<'g>) {
        for ((name, p), &gradient) in parameters.trainable().into_iter().zip(gradients) {
            for_layer(parameters, &name, || {
                let g = if self.weight_decay == 0.0 { gradient } else { gradient + p * self.weight_decay };
                let direction = if self.momentum == 0.0 {
                    g
                } else {
                    let old = moment("momentum", &name, p);
                    let m = old * self.momentum + g;
                    p.builder().update(old, m);
                    if self.nesterov { g + m * self.momentum } else { m }
                };
                p.builder().update(p, p - direction * rate);
            });
        }
    }
}
