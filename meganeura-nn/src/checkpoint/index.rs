//! Models in several files, with an index: `model.safetensors.index.json`, as Hugging Face's libraries read and write it.

use super::source::{self, Source};
use super::write::{self, Tensors};
use super::{Checkpoint, CheckpointError};
use meganeura_core::tensor::Tensor;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// The largest index that is read, as large as the largest header.
const LARGEST: u64 = 100_000_000;

/// An index does not hold what it should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// It is too large to be one.
    #[error("has {found} bytes, the most that is read is {LARGEST}")]
    TooLarge {
        /// Its bytes.
        found: u64,
    },
    /// It is no JSON, or JSON of something else.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// It names a file that is not beside it.
    #[error("tensor {tensor:?} is said to be in {file:?}, expected the name of a file in the same folder")]
    Elsewhere {
        /// The tensor.
        tensor: String,
        /// The file.
        file: String,
    },
    /// It names a file for a tensor that is not in it.
    #[error("tensor {tensor:?} is said to be in {file:?}, but is not there")]
    Absent {
        /// The tensor.
        tensor: String,
        /// The file.
        file: String,
    },
}

#[derive(Deserialize)]
struct Index {
    weight_map: WeightMap,
}

/// The file of each tensor, named once.
struct WeightMap(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WeightMap, D::Error> {
        struct Files;
        impl<'de> Visitor<'de> for Files {
            type Value = WeightMap;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from tensors to files")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightMap, A::Error> {
                let mut files = BTreeMap::new();
                while let Some((tensor, file)) = map.next_entry::<String, String>()? {
                    if files.insert(tensor.clone(), file).is_some() {
                        return Err(A::Error::custom(format_args!("the name {tensor:?} comes twice")));
                    }
                }
                Ok(WeightMap(files))
            }
        }
        deserializer.deserialize_map(Files)
    }
}

/// Opens all files that an index names. What is in them but not in the index counts too, so that a report shows it.
pub(super) fn open(path: &Path) -> Result<Checkpoint, CheckpointError> {
    let failed = |source| CheckpointError::Index { path: path.into(), source };
    let WeightMap(map) = read(path)?.map_err(failed)?;
    let mut files = BTreeMap::new();
    for (tensor, file) in &map {
        if !is_plain(file) {
            return Err(failed(IndexError::Elsewhere { tensor: tensor.clone(), file: file.clone() }));
        }
        if !files.contains_key(file) {
            files.insert(file.clone(), Source::open(&path.with_file_name(file))?);
        }
    }
    let absent = map.iter().find(|(tensor, file)| files.get(*file).is_none_or(|(_, own)| !own.contains_key(*tensor)));
    if let Some((tensor, file)) = absent {
        return Err(failed(IndexError::Absent { tensor: tensor.clone(), file: file.clone() }));
    }
    Checkpoint::of(files.into_values(), path)
}

fn read(path: &Path) -> Result<Result<WeightMap, IndexError>, CheckpointError> {
    let failed = |source| CheckpointError::Io { path: path.into(), action: "read", source };
    let (file, found) = source::regular(path).map_err(failed)?;
    if found > LARGEST {
        return Ok(Err(IndexError::TooLarge { found }));
    }
    let mut text = Vec::new();
    file.take(LARGEST).read_to_end(&mut text).map_err(failed)?;
    let index: Result<Index, _> = serde_json::from_slice(&text);
    Ok(index.map(|index| index.weight_map).map_err(IndexError::from))
}

/// Whether a name leads to no other folder, on any system.
fn is_plain(file: &str) -> bool {
    let mut components = Path::new(file).components();
    let one = matches!((components.next(), components.next()), (Some(Component::Normal(name)), None) if name == file);
    one && !file.contains(['/', '\\', ':', '\0'])
}

/// Writes tensors into several files of at most `most` bytes of data each (but at least one tensor), and an index, whose
/// path is returned: `model-00001-of-00003.safetensors`, …, `model.safetensors.index.json` for a `stem` of `model`.
///
/// The index comes last, so that there is none while files are missing. A folder that has an index of that name is
/// refused: its files could not be replaced all at once.
///
/// # Errors
/// As [`save`](super::save).
pub fn save_sharded<'a>(
    folder: &Path,
    stem: &str,
    tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
    most: usize,
) -> Result<PathBuf, CheckpointError> {
    let path = folder.join(format!("{stem}.safetensors.index.json"));
    if path.exists() {
        let source = io::Error::new(io::ErrorKind::AlreadyExists, "there is one already");
        return Err(CheckpointError::Io { path, action: "write an index", source });
    }
    let tensors: Vec<(&str, &Tensor)> = tensors.into_iter().collect();
    let mut names = BTreeSet::new();
    if let Some((name, _)) = tensors.iter().find(|(name, _)| !names.insert(*name)) {
        return Err(CheckpointError::Twice { path, tensor: (*name).to_owned() });
    }
    let shards = divided(&tensors, most);
    let mut weight_map = BTreeMap::new();
    for (at, shard) in shards.iter().enumerate() {
        let file = format!("{stem}-{:05}-of-{:05}.safetensors", at + 1, shards.len());
        let types: Tensors<'_> = shard.iter().map(|(name, tensor)| (*name, tensor.ty())).collect();
        write::tensors(&folder.join(&file), types, |at| Ok(Cow::Borrowed(shard[at].1)))?;
        weight_map.extend(shard.iter().map(|(name, _)| (*name, file.clone())));
    }
    let total_size = tensors.iter().map(|(_, tensor)| tensor.ty().bytes()).sum();
    let text = serde_json::to_vec_pretty(&Written { metadata: Total { total_size }, weight_map });
    let text = text.map_err(|source| CheckpointError::Index { path: path.clone(), source: source.into() })?;
    write::write_whole(&path, &text)?;
    Ok(path)
}

#[derive(Serialize)]
struct Written<'a> {
    metadata: Total,
    weight_map: BTreeMap<&'a str, String>,
}

#[derive(Serialize)]
struct Total {
    total_size: usize,
}

/// Consecutive tensors of at most `most` bytes together.
fn divided<'t, 'a>(tensors: &'t [(&'a str, &'a Tensor)], most: usize) -> Vec<&'t [(&'a str, &'a Tensor)]> {
    let mut shards = Vec::new();
    let (mut start, mut bytes) = (0, 0_usize);
    for (at, (_, tensor)) in tensors.iter().enumerate() {
        let own = tensor.ty().bytes();
        if at > start && bytes.saturating_add(own) > most {
            shards.push(&tensors[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes = bytes.saturating_add(own);
    }
    if start < tensors.len() {
        shards.push(&tensors[start..]);
    }
    shards
}
