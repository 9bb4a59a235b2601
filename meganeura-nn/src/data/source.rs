//! Files, raw or compressed.

use super::DataError;
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The first bytes of every gzip stream (RFC 1952, 2.3.1).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Opens a file, but nothing that could block for ever, such as a pipe.
fn open_regular(path: &Path) -> io::Result<File> {
    match std::fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// The bytes of a file, unpacked if it is gzip, as told by its first bytes.
pub(super) fn open(path: &Path) -> Result<Box<dyn Read>, DataError> {
    let opened = open_regular(path).map(|file| BufReader::with_capacity(1 << 16, file));
    let mut file = opened.map_err(|source| DataError::Read { path: path.into(), source })?;
    let start = file.fill_buf().map_err(|source| DataError::Read { path: path.into(), source })?;
    if start.starts_with(&GZIP_MAGIC) { Ok(Box::new(MultiGzDecoder::new(file))) } else { Ok(Box::new(file)) }
}

/// All bytes of a file of at most `limit`, which holds for what is unpacked: memory is bounded by it.
pub(super) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, DataError> {
    let mut bytes = Vec::new();
    let read = open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|source| DataError::Read { path: path.into(), source })?;
    if bytes.len() as u64 > limit { Err(DataError::TooLong { path: path.into(), limit }) } else { Ok(bytes) }
}
