//! Weights and other states in safetensors files.

mod error;
mod read;
mod write;

pub use error::{CheckpointError, Differences, Misshapen, StoredType};
pub use read::Checkpoint;
pub use write::{save, save_states};
