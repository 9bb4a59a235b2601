//! What can be wrong with a data set on disk.

use super::{CsvError, ItemError};
use std::io;
use std::path::PathBuf;

/// A data set could not be read. Every variant names the file (or folder), what was expected there and what was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file of the set is not in the folder under any of its usual names.
    #[error("{folder}: there is no file `{name}` or `{name}.gz`")]
    Missing {
        /// Where it was looked for.
        folder: PathBuf,
        /// Its name without compression.
        name: &'static str,
    },
    /// The operating system refused to open or read the file, or its compressed stream is damaged.
    #[error("{path}: cannot be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The first four bytes are not those of an IDX file of bytes with the expected number of dimensions.
    #[error("{path}: not the expected IDX file: starts with {found:02x?}, expected {expected:02x?}")]
    Magic {
        /// The file.
        path: PathBuf,
        /// The first four bytes of such a file.
        expected: [u8; 4],
        /// Its first four bytes.
        found: [u8; 4],
    },
    /// The file ends early.
    #[error("{path}: ends after {found} bytes of its {part}, expected {expected}")]
    Truncated {
        /// The file.
        path: PathBuf,
        /// `header` or `data`.
        part: &'static str,
        /// Bytes that part has by the format or by the header.
        expected: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// Something follows the last element that the header announces.
    #[error("{path}: goes on after the {expected} bytes of data that its header announces")]
    Trailing {
        /// The file.
        path: PathBuf,
        /// Bytes of data by the header.
        expected: u64,
    },
    /// The header announces more data than a reader accepts.
    #[error("{path}: its header announces {found} bytes of data, the most that is read is {limit}")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Bytes that are accepted.
        limit: u64,
        /// Bytes by the header, `u64::MAX` if even that overflows.
        found: u64,
    },
    /// A file without a header, or what it unpacks to, is longer than a reader accepts.
    #[error("{path}: is longer than the {limit} bytes that are read at most")]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Bytes that are accepted.
        limit: u64,
    },
    /// A text is no UTF-8.
    #[error("{path}: is no UTF-8 text: byte {offset} begins no character")]
    Encoding {
        /// The file.
        path: PathBuf,
        /// Bytes before the first that is wrong.
        offset: usize,
    },
    /// A table of comma-separated values is damaged or has not what was asked for.
    #[error("{path}: {source}")]
    Csv {
        /// The file.
        path: PathBuf,
        /// The reason, with the line.
        source: CsvError,
    },
    /// An image cannot be decoded.
    #[error("{path}: no image that can be read: {source}")]
    Image {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: ItemError,
    },
    /// A dimension in the header is not what the data set has.
    #[error("{path}: has {found} {dimension}, expected {expected}")]
    Extent {
        /// The file.
        path: PathBuf,
        /// What is counted: `rows`, `columns`.
        dimension: &'static str,
        /// What the data set has.
        expected: usize,
        /// What the header says.
        found: usize,
    },
    /// The set has no items.
    #[error("{path}: has no items")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Images and labels are not the same in number.
    #[error("{path}: has {found} labels, expected one for each of the {expected} images in {images}")]
    Count {
        /// The file of labels.
        path: PathBuf,
        /// The file of images.
        images: PathBuf,
        /// Number of images.
        expected: usize,
        /// Number of labels.
        found: usize,
    },
    /// A label is not a class.
    #[error("{path}: label {index} is {found}, expected less than {classes}")]
    Label {
        /// The file of labels.
        path: PathBuf,
        /// Position of the label, from 0.
        index: usize,
        /// Number of classes.
        classes: u8,
        /// The label.
        found: u8,
    },
}
