//! Layers: plain values that make their parameters where [`forward`](Linear::forward) applies them; see
//! [`params`](crate::params) for how they make a model. Activations need no parameters; they are methods of
//! [`Value`](meganeura_core::ir::Value): `x.relu()`, `x.gelu()`.

mod activation;
mod attention;
mod batch_norm;
mod conv;
mod dropout;
mod embedding;
mod linear;
mod mlp;
mod norm;
mod pool;
mod swiglu;
mod transformer;

pub use activation::Activation;
pub use attention::{AttentionContext, MultiHeadAttention};
pub use batch_norm::BatchNorm;
pub use conv::{Conv, Conv1d, Conv2d, ConvTranspose, ConvTranspose1d, ConvTranspose2d};
pub use dropout::{Dropout, Randomness};
pub use embedding::Embedding;
pub use linear::Linear;
pub use mlp::Mlp;
pub use norm::{GroupNorm, LayerNorm, RmsNorm};
pub use pool::{AvgPool2d, MaxPool2d};
pub use swiglu::SwiGlu;
pub use transformer::TransformerEncoderLayer;
