//! Activations as values, for layers that let their user choose.

use meganeura_core::ir::Value;

/// A function of each element; each is also a method of [`Value`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Activation {
    /// `x`.
    Identity,
    /// [`Value::relu`].
    Relu,
    /// [`Value::gelu`], exact.
    #[default]
    Gelu,
    /// [`Value::gelu_tanh`].
    GeluTanh,
    /// [`Value::silu`].
    Silu,
    /// [`Value::tanh`].
    Tanh,
    /// [`Value::sigmoid`].
    Sigmoid,
}

impl Activation {
    /// Applies it.
    #[track_caller]
    pub fn forward(self, x: Value<'_>) -> Value<'_> {
        match self {
            Activation::Identity => x,
            Activation::Relu => x.relu(),
            Activation::Gelu => x.gelu(),
            Activation::GeluTanh => x.gelu_tanh(),
            Activation::Silu => x.silu(),
            Activation::Tanh => x.tanh(),
            Activation::Sigmoid => x.sigmoid(),
        }
    }
}
