//! IDX files: `00 00`, element type, rank, one big-endian `u32` for each dimension, then the elements, row-major.
//!
//! Files are not trusted: memory grows with the bytes that are really there, never beyond the header's claim nor the
//! caller's limit, so neither a claim of 2³² items nor a compressed stream that unpacks without end costs more.

use super::{DataError, source};
use std::io::{self, Read};
use std::path::Path;

/// The element type `u8` in an IDX header.
const UNSIGNED_BYTE: u8 = 0x08;

/// A tensor of bytes read from an IDX file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idx<const RANK: usize> {
    /// Extents, slowest first.
    pub extents: [usize; RANK],
    /// Elements, row-major.
    pub bytes: Vec<u8>,
}

impl<const RANK: usize> Idx<RANK> {
    /// Reads a file, raw or gzip (told by its first bytes), of at most `limit` bytes of data.
    ///
    /// # Errors
    /// [`DataError`] if it cannot be read, is no IDX file of `u8` with `RANK` dimensions, or is shorter or longer than
    /// its header says.
    pub fn read(path: &Path, limit: u64) -> Result<Idx<RANK>, DataError> {
        Self::decode(source::open(path)?, path, limit)
    }

    /// Reads an uncompressed stream to its end; `path` is for errors only.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn decode(mut stream: impl Read, path: &Path, limit: u64) -> Result<Idx<RANK>, DataError> {
        let header = header(&mut stream, path, 4 + 4 * RANK)?;
        let word = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
        let expected = [0, 0, UNSIGNED_BYTE, RANK as u8];
        if word(0) != expected {
            return Err(DataError::Magic { path: path.into(), expected, found: word(0) });
        }
        let extents = std::array::from_fn(|dim| u32::from_be_bytes(word(4 + 4 * dim)) as usize);
        let product = |so_far: u64, extent: &usize| so_far.checked_mul(*extent as u64);
        let claimed = extents.iter().try_fold(1, product);
        let claimed = claimed.unwrap_or(u64::MAX);
        if claimed > limit {
            return Err(DataError::TooLarge { path: path.into(), limit, found: claimed });
        }
        Ok(Idx { extents, bytes: elements(stream, path, claimed)? })
    }
}

/// Reads exactly `claimed` bytes, after which the stream must end.
fn elements(mut stream: impl Read, path: &Path, claimed: u64) -> Result<Vec<u8>, DataError> {
    let failed = |source| DataError::Read { path: path.into(), source };
    let mut bytes = Vec::new();
    let found = (&mut stream).take(claimed).read_to_end(&mut bytes).map_err(|source| match source.kind() {
        // A compressed stream that stops within a block says so itself.
        io::ErrorKind::UnexpectedEof => truncated(path, "data", claimed, bytes.len()),
        _ => failed(source),
    })?;
    if (found as u64) < claimed {
        return Err(truncated(path, "data", claimed, found));
    }
    // Reading on to the end also makes a gzip stream check its sum.
    match stream.read(&mut [0]).map_err(failed)? {
        0 => Ok(bytes),
        _ => Err(DataError::Trailing { path: path.into(), expected: claimed }),
    }
}

/// Reads the `size` bytes of the header.
fn header(stream: &mut impl Read, path: &Path, size: usize) -> Result<Vec<u8>, DataError> {
    let mut bytes = Vec::with_capacity(size);
    let read = stream.take(size as u64).read_to_end(&mut bytes);
    match read {
        Err(source) if source.kind() != io::ErrorKind::UnexpectedEof => {
            Err(DataError::Read { path: path.into(), source })
        }
        _ if bytes.len() < size => Err(truncated(path, "header", size as u64, bytes.len())),
        _ => Ok(bytes),
    }
}

fn truncated(path: &Path, part: &'static str, expected: u64, found: usize) -> DataError {
    DataError::Truncated { path: path.into(), part, expected, found: found as u64 }
}
