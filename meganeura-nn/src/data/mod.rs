//! Data sets on disk and their division into batches.

mod batches;
mod dataset;
mod error;
pub mod idx;
mod loader;
mod mnist;

pub use batches::{Batches, shuffled};
pub use dataset::{Dataset, Field, ItemError, Map, Subset};
pub use error::DataError;
pub use loader::{Batch, Loader, LoaderError, LoaderOptions, LoaderState, Partial};
pub use mnist::{LabelledImages, Mnist};
