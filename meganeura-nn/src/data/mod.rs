//! Data sets on disk and their division into batches.

mod batches;
mod error;
pub mod idx;
mod mnist;

pub use batches::{Batches, shuffled};
pub use error::DataError;
pub use mnist::{LabelledImages, Mnist};
