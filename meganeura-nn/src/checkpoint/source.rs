//! Where the bytes of a checkpoint come from.

use super::CheckpointError;
use super::header::{self, Place};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// One safetensors file, whose tensors are read when they are asked for.
///
/// It is not mapped into memory: a mapped file that somebody cuts short ends the process with a signal, and one that
/// somebody changes is undefined behaviour. A read that fails is an error.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Its path, or what stands for one.
    pub path: PathBuf,
    bytes: Bytes,
}

#[derive(Clone, Debug)]
enum Bytes {
    File(Arc<Mutex<File>>),
    Memory(Arc<[u8]>),
}

impl Source {
    /// Opens a file and reads its header.
    pub(super) fn open(path: &Path) -> Result<(Source, BTreeMap<String, Place>), CheckpointError> {
        let failed = |source| CheckpointError::Io { path: path.into(), action: "read", source };
        let (file, length) = regular(path).map_err(failed)?;
        let places = header::read(&file, length).map_err(failed)?;
        let places = places.map_err(|source| CheckpointError::Format { path: path.into(), source })?;
        Ok((Source { path: path.into(), bytes: Bytes::File(Arc::new(Mutex::new(file))) }, places))
    }

    /// Reads the header of a file in memory, which errors call `path`.
    pub(super) fn memory(path: &Path, bytes: Vec<u8>) -> Result<(Source, BTreeMap<String, Place>), CheckpointError> {
        let failed = |source| CheckpointError::Io { path: path.into(), action: "read", source };
        let places = header::read(&bytes[..], bytes.len() as u64).map_err(failed)?;
        let places = places.map_err(|source| CheckpointError::Format { path: path.into(), source })?;
        Ok((Source { path: path.into(), bytes: Bytes::Memory(bytes.into()) }, places))
    }

    /// A range of the file, which [`header::read`] found to be inside of it.
    pub(super) fn read(&self, range: Range<u64>) -> Result<Vec<u8>, CheckpointError> {
        let read = match &self.bytes {
            Bytes::File(file) => read_range(&mut file.lock().unwrap_or_else(PoisonError::into_inner), range),
            Bytes::Memory(bytes) => {
                let range = range.start as usize..range.end as usize;
                bytes.get(range).map(<[u8]>::to_vec).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
            }
        };
        read.map_err(|source| CheckpointError::Io { path: self.path.clone(), action: "read", source })
    }
}

/// Opens a file, but no folder, and nothing without an end, such as a device or a pipe; and its length.
pub(super) fn regular(path: &Path) -> io::Result<(File, u64)> {
    // Asked before opening: to open a pipe waits for a writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

fn read_range(file: &mut File, range: Range<u64>) -> io::Result<Vec<u8>> {
    let length = range.end - range.start;
    file.seek(SeekFrom::Start(range.start))?;
    let mut bytes = Vec::with_capacity(length as usize);
    // Fewer if the file was cut short meanwhile.
    file.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
