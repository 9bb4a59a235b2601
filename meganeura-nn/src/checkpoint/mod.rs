//! Weights and other states in safetensors files, and where a training stands beside them.

mod convert;
mod error;
mod folder;
mod header;
mod index;
mod load;
mod progress;
mod read;
mod rename;
mod saved;
mod source;
mod write;

pub use error::{CheckpointError, Differences, FormatError, Misshapen, StoredType};
pub use folder::{Best, CheckpointFolder, Keep};
pub use index::{IndexError, save_sharded};
pub use load::Fit;
pub use progress::{PartError, Progress};
pub use read::Checkpoint;
pub use rename::Renames;
pub use saved::Saved;
pub(crate) use write::write_whole;
pub use write::{save, save_states};
