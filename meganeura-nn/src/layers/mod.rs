//! Layers: plain values that make their parameters where they are applied. Activations need no parameters; they are
//! methods of [`Value`](meganeura_core::ir::Value): `x.relu()`, `x.gelu()`.

mod dropout;
mod linear;

pub use dropout::{Dropout, Randomness};
pub use linear::Linear;
