//! Layers: plain values that make their parameters where they are applied.

mod activation;
mod dropout;
mod linear;

pub use activation::{Activation, gelu, relu, silu};
pub use dropout::{Dropout, Randomness};
pub use linear::Linear;
