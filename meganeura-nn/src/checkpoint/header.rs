//! Headers of safetensors files that nobody vouches for.
//!
//! A file is an 8-byte length, that many bytes of JSON, and the data. The JSON says for each tensor its element type, shape
//! and range of the data. What is checked here: the length against the file, that no name comes twice (of which JSON
//! readers keep one or the other), and, by the `safetensors` crate, that sizes do not overflow, fit their ranges, and that
//! the ranges tile the data. Source: <https://github.com/huggingface/safetensors#format>.

use super::StoredType;
use super::error::FormatError;
use safetensors::SafeTensorError;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::ops::Range;

/// Bytes of the header's length.
const LENGTH: u64 = size_of::<u64>() as u64;
/// The longest header that the format allows.
const LONGEST: u64 = 100_000_000;
/// The key of what is no tensor.
const METADATA: &str = "__metadata__";

/// Where a tensor lies in its file.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// What is there.
    pub ty: StoredType,
    /// Its bytes, from the start of the file.
    pub bytes: Range<u64>,
}

/// Reads the header at the start of a stream of `length` bytes. Takes memory for as many bytes as the stream really has.
pub(super) fn read(mut stream: impl Read, length: u64) -> io::Result<Result<BTreeMap<String, Place>, FormatError>> {
    let mut start = Vec::new();
    stream.by_ref().take(LENGTH).read_to_end(&mut start)?;
    if let Some(what) = stranger(&start) {
        return Ok(Err(FormatError::Stranger { what }));
    }
    let Ok(announced) = start[..].try_into().map(u64::from_le_bytes) else {
        return Ok(Err(SafeTensorError::HeaderTooSmall.into()));
    };
    if announced > LONGEST {
        return Ok(Err(SafeTensorError::HeaderTooLarge.into()));
    }
    if announced > length.saturating_sub(LENGTH) {
        return Ok(Err(FormatError::HeaderLength { announced, found: length.saturating_sub(LENGTH) }));
    }
    let mut text = Vec::new();
    stream.take(announced).read_to_end(&mut text)?;
    Ok(parse(&text, LENGTH + announced, length))
}

/// Parses the JSON of a header, after which the data begin at byte `data` of a file of `length` bytes.
fn parse(text: &[u8], data: u64, length: u64) -> Result<BTreeMap<String, Place>, FormatError> {
    let text = std::str::from_utf8(text).map_err(SafeTensorError::InvalidHeader)?;
    let Header(tensors) = serde_json::from_str(text).map_err(SafeTensorError::InvalidHeaderDeserialization)?;
    let mut by_offset: Vec<(String, TensorInfo)> = tensors.into_iter().collect();
    by_offset.sort_by_key(|(_, info)| info.data_offsets);
    // Checks that the ranges are those of the types, and tile the data.
    let end = Metadata::new(None, by_offset.clone())?.data_len() as u64;
    if data.checked_add(end) != Some(length) {
        return Err(FormatError::DataLength { announced: end, found: length.saturating_sub(data) });
    }
    let place = |info: TensorInfo| {
        let (start, end) = info.data_offsets;
        Place { ty: StoredType { dtype: info.dtype, shape: info.shape }, bytes: data + start as u64..data + end as u64 }
    };
    Ok(by_offset.into_iter().map(|(name, info)| (name, place(info))).collect())
}

/// What a file is that begins like something else which is often found under a model's name.
fn stranger(start: &[u8]) -> Option<&'static str> {
    // A header's length in the first eight bytes would have to be beyond the format's limit.
    let kinds: [(&[u8], &str); 5] = [
        (b"<!doctyp", "an HTML page, as a failed download leaves"),
        (b"<html", "an HTML page, as a failed download leaves"),
        (b"version ", "a pointer of Git LFS, whose file was not fetched"),
        (b"pk\x03\x04", "a zip archive, as PyTorch's own format is"),
        (b"gguf", "a GGUF file"),
    ];
    let start = start.to_ascii_lowercase();
    kinds.iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, what)| *what)
}

/// The header's map, whose names are all different.
struct Header(BTreeMap<String, TensorInfo>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Header, D::Error> {
        struct Tensors;
        impl<'de> Visitor<'de> for Tensors {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut tensors = BTreeMap::new();
                let mut metadata = false;
                while let Some(name) = map.next_key::<String>()? {
                    let twice = if name == METADATA {
                        map.next_value::<IgnoredAny>()?;
                        std::mem::replace(&mut metadata, true)
                    } else {
                        let info = map.next_value()?;
                        tensors.insert(name.clone(), info).is_some()
                    };
                    if twice {
                        return Err(A::Error::custom(format_args!("the name {name:?} comes twice")));
                    }
                }
                Ok(Header(tensors))
            }
        }
        deserializer.deserialize_map(Tensors)
    }
}
