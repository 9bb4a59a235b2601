//! Weights and other states in safetensors files, and where a training stands beside them.

mod error;
mod progress;
mod read;
mod write;

pub use error::{CheckpointError, Differences, Misshapen, StoredType};
pub use progress::{PartError, Progress};
pub use read::Checkpoint;
pub(crate) use write::write_whole;
pub use write::{save, save_states};
