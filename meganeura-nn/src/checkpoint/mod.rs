//! Weights and other states in safetensors files, and where a training stands beside them.

mod convert;
mod error;
mod header;
mod index;
mod load;
mod progress;
mod read;
mod rename;
mod source;
mod write;

pub use error::{CheckpointError, Differences, FormatError, Misshapen, StoredType};
pub use index::{IndexError, save_sharded};
pub use load::Fit;
pub use progress::{PartError, Progress};
pub use read::Checkpoint;
pub use rename::Renames;
pub(crate) use write::write_whole;
pub use write::{save, save_states};
