//! Why there is no batch.

use crate::data::ItemError;
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::TensorError;
use std::io;

/// A loader could not be made, restored, or read from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoaderError {
    /// An epoch would have no batch.
    #[error("a set of {items} items has no batch of {batch}")]
    NoBatch {
        /// Items of the set.
        items: usize,
        /// Items of a batch.
        batch: usize,
    },
    /// A state is not of such a loader.
    #[error("the state of another loader: expected {what} {expected}, found {found}")]
    State {
        /// What differs.
        what: &'static str,
        /// What this loader has.
        expected: u64,
        /// What the state has.
        found: u64,
    },
    /// An item cannot be read.
    #[error("item {index} cannot be read: {source}")]
    Item {
        /// Its number.
        index: usize,
        /// The set's error.
        source: ItemError,
    },
    /// Reading an item panicked.
    #[error("item {index} cannot be read: the data set panicked: {message}")]
    Panic {
        /// Its number.
        index: usize,
        /// What the panic said.
        message: String,
    },
    /// An item has more or fewer tensors than the set has fields.
    #[error("item {index} has {found} tensors, expected one for each of the {expected} fields")]
    Fields {
        /// Its number.
        index: usize,
        /// Fields of the set.
        expected: usize,
        /// Tensors of the item.
        found: usize,
    },
    /// A tensor of an item is not of its field's type.
    #[error("item {index}: {field:?} is {expected}, but the item has {found}")]
    Type {
        /// Its number.
        index: usize,
        /// Name of the field.
        field: String,
        /// Type of the field.
        expected: TensorType,
        /// Type of the tensor.
        found: TensorType,
    },
    /// A batch is too large for a tensor.
    #[error("a batch of {field:?} is no tensor: {source}")]
    Tensor {
        /// Name of the field.
        field: String,
        /// The reason.
        source: TensorError,
    },
    /// The system gave no thread.
    #[error("no thread to read ahead: {source}")]
    Thread {
        /// The reason.
        source: io::Error,
    },
    /// A thread that reads ahead ended before its time.
    #[error("a thread that reads ahead has ended")]
    Lost,
}
