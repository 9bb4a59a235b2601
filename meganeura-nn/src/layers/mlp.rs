//! Two affine maps with an activation between them.

use super::{Activation, Dropout, Linear};
use crate::init::Init;
use crate::params::Scope;
use meganeura_core::ir::Value;

/// `fc2(dropout(activation(fc1(x))))`, as in transformers: `[…, in] → […, out]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mlp {
    fc1: Linear,
    activation: Activation,
    dropout: Dropout,
    fc2: Linear,
}

impl Mlp {
    /// A hidden layer of `hidden` features, and `outputs` at the end; GELU between, no dropout.
    pub fn new(hidden: usize, outputs: usize) -> Mlp {
        let (fc1, fc2) = (Linear::new(hidden), Linear::new(outputs));
        Mlp { fc1, activation: Activation::Gelu, dropout: Dropout::new(0.0), fc2 }
    }

    /// The same with another activation.
    #[must_use]
    pub fn with_activation(self, activation: Activation) -> Mlp {
        Mlp { activation, ..self }
    }

    /// The same with dropout of the hidden features.
    #[must_use]
    pub fn with_dropout(self, rate: f32) -> Mlp {
        Mlp { dropout: Dropout::new(rate), ..self }
    }

    /// The same with weights filled by `init` and biases of zeros.
    #[must_use]
    pub fn with_init(self, init: Init) -> Mlp {
        Mlp { fc1: self.fc1.with_init(init), fc2: self.fc2.with_init(init), ..self }
    }

    /// Applies it to `x`, `f32[…, in]`.
    #[track_caller]
    pub fn forward<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>) -> Value<'g> {
        let hidden = self.activation.forward(self.fc1.forward(&g.sub("fc1"), x));
        self.fc2.forward(&g.sub("fc2"), self.dropout.forward(g, hidden))
    }
}
