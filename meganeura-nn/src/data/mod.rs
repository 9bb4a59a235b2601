//! Data sets on disk and their division into batches.

mod augment;
mod batches;
mod csv;
mod dataset;
mod error;
pub mod idx;
#[cfg(feature = "images")]
mod image_folder;
mod loader;
mod mnist;
mod source;
mod text;

pub use augment::{Augment, AugmentError, Augmented};
pub use batches::{Batches, shuffled};
pub use csv::{ColumnType, CsvError, CsvOptions, CsvTable};
pub use dataset::{Dataset, Field, ItemError, Map, Subset};
pub use error::DataError;
#[cfg(feature = "images")]
pub use image_folder::{Channels, ImageFolder};
pub use loader::{Batch, Loader, LoaderError, LoaderOptions, LoaderState, Partial};
pub use mnist::{LabelledImages, Mnist};
pub use text::{TextWindows, UnknownCharacter, Vocabulary, read_text};
