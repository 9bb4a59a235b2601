//! What can go wrong between tensors and a file.

use super::IndexError;
use meganeura_core::shape::TensorType;
use meganeura_wgpu::DeviceError;
use safetensors::SafeTensorError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A checkpoint could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The operating system refused.
    #[error("{path}: cannot {action}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// The file is not in the safetensors format, is cut short, or contradicts itself.
    #[error("{path}: not a valid safetensors file: {source}")]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: FormatError,
    },
    /// An index of several files is none, or contradicts itself or them.
    #[error("{path}: not a valid index of safetensors files: {source}")]
    Index {
        /// The index.
        path: PathBuf,
        /// What is wrong.
        source: IndexError,
    },
    /// A name comes twice, in one file to write or in two that belong together.
    #[error("{path}: tensor {tensor:?} comes twice")]
    Twice {
        /// The file; of two, the one read later.
        path: PathBuf,
        /// The tensor.
        tensor: String,
    },
    /// Two tensors would have one name after renaming.
    #[error("{path}: tensors {names:?} would both be named {tensor:?}")]
    Collision {
        /// The file.
        path: PathBuf,
        /// The new name.
        tensor: String,
        /// The names in the file.
        names: [String; 2],
    },
    /// A tensor of that name is not in the file.
    #[error("{path}: has no tensor {tensor:?}, expected {expected}")]
    Missing {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The type it should have.
        expected: TensorType,
    },
    /// A tensor has another shape, or an element type that does not convert.
    #[error("{path}: tensor {tensor:?} is {found}, expected {expected}")]
    Type {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The type it should have.
        expected: TensorType,
        /// The type in the file.
        found: StoredType,
    },
    /// The file and the model do not have the same tensors.
    #[error("{path}: does not fit the model: {differences}")]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// All differences.
        differences: Differences,
    },
    /// The JSON beside the states is not what it should be, or the caller's parts are not representable.
    #[error("{path}: not the progress of a training: {source}")]
    Progress {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: serde_json::Error,
    },
    /// The JSON beside the states is larger than is read.
    #[error("{path}: {bytes} bytes, the most that is read is {limit}")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        bytes: u64,
        /// The most.
        limit: u64,
    },
    /// Another process, or another value in this one, writes checkpoints there.
    #[error("{path}: another process writes checkpoints there")]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The device refused to read or write a state.
    #[error("{path}: tensor {tensor:?}: {source}")]
    Device {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The reason.
        source: Box<DeviceError>,
    },
}

/// What is wrong with a safetensors file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The header cannot be read, or contradicts itself.
    #[error(transparent)]
    Header(#[from] SafeTensorError),
    /// The header would end beyond the file.
    #[error("its header is said to have {announced} bytes, but {found} follow")]
    HeaderLength {
        /// Bytes that the file says.
        announced: u64,
        /// Bytes after the header's length.
        found: u64,
    },
    /// The data are not as many as the header says.
    #[error("its header describes {announced} bytes of data, but {found} follow it")]
    DataLength {
        /// Bytes by the header.
        announced: u64,
        /// Bytes after the header.
        found: u64,
    },
    /// It begins like another kind of file.
    #[error("it begins like {what}")]
    Stranger {
        /// The kind.
        what: &'static str,
    },
}

/// Element type and extents as a file states them; may be of types that meganeura does not compute in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredType {
    /// Element type, by its name in the format.
    pub dtype: safetensors::Dtype,
    /// Extents.
    pub shape: Vec<usize>,
}

impl fmt::Display for StoredType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype.to_string().to_lowercase(), self.shape)
    }
}

/// How the tensors of a file differ from those of a model; names are sorted.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Differences {
    /// Asked for, but not in the file.
    pub missing: Vec<String>,
    /// In the file, but not asked for.
    pub unexpected: Vec<String>,
    /// In both, but of types that do not fit.
    pub misshapen: Vec<Misshapen>,
}

/// A tensor whose stored type does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misshapen {
    /// Its name.
    pub name: String,
    /// The type in the model.
    pub expected: TensorType,
    /// The type in the file.
    pub found: StoredType,
}

impl Differences {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.misshapen.is_empty()
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let misshapen =
            self.misshapen.iter().map(|own| format!("{} ({}, expected {})", own.name, own.found, own.expected));
        let kinds = [
            ("missing", self.missing.clone()),
            ("unexpected", self.unexpected.clone()),
            ("of another type", misshapen.collect()),
        ];
        let named = kinds.iter().filter(|(_, names)| !names.is_empty());
        let text: Vec<String> = named.map(|(kind, names)| format!("{kind}: {}", names.join(", "))).collect();
        f.write_str(&text.join("; "))
    }
}

/// What makes an error of the operating system one of ours.
pub(super) fn failed(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> CheckpointError + use<> {
    let path = path.to_path_buf();
    move |source| CheckpointError::Io { path, action, source }
}
