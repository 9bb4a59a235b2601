//! Tensors of one file or several.

use super::convert;
use super::header::Place;
use super::source::Source;
use super::{CheckpointError, Differences, Misshapen, StoredType};
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;
use std::path::{Path, PathBuf};

/// A safetensors file, or several with an index, whose lengths and offsets were checked against the bytes that are there.
/// Tensors are read when they are asked for, one at a time.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    path: PathBuf,
    sources: Vec<Source>,
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    /// Position in `sources`.
    source: usize,
    /// The name there.
    stored_name: String,
    place: Place,
}

impl Checkpoint {
    /// Opens a safetensors file, or all files that an index (`model.safetensors.index.json`) names, and checks their
    /// headers.
    ///
    /// # Errors
    /// [`CheckpointError::Io`], [`CheckpointError::Format`] and [`CheckpointError::Index`].
    pub fn open(path: &Path) -> Result<Checkpoint, CheckpointError> {
        if path.extension().is_some_and(|extension| extension == "json") {
            return super::index::open(path);
        }
        Checkpoint::of([Source::open(path)?], path)
    }

    /// A safetensors file in memory. Errors call it `path`.
    ///
    /// # Errors
    /// [`CheckpointError::Format`].
    pub fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Checkpoint, CheckpointError> {
        Checkpoint::of([Source::memory(path, bytes)?], path)
    }

    /// The tensors of several files, whose names must all be different.
    pub(super) fn of(
        files: impl IntoIterator<Item = (Source, BTreeMap<String, Place>)>,
        path: &Path,
    ) -> Result<Checkpoint, CheckpointError> {
        let mut checkpoint = Checkpoint { path: path.into(), sources: Vec::new(), entries: BTreeMap::new() };
        for (source, places) in files {
            for (name, place) in places {
                let entry = Entry { source: checkpoint.sources.len(), stored_name: name.clone(), place };
                if checkpoint.entries.insert(name.clone(), entry).is_some() {
                    return Err(CheckpointError::Twice { path: source.path, tensor: name });
                }
            }
            checkpoint.sources.push(source);
        }
        Ok(checkpoint)
    }

    /// The file, or the index.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names and types of all tensors, sorted by name.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &StoredType)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), &entry.place.ty))
    }

    /// The same tensors under other names, for a model that calls them differently; those without a new name are left
    /// out. See [`Renames`](super::Renames) for patterns.
    ///
    /// # Errors
    /// [`CheckpointError::Collision`] if two tensors would have one name.
    pub fn renamed(self, rename: impl Fn(&str) -> Option<String>) -> Result<Checkpoint, CheckpointError> {
        let mut entries = BTreeMap::new();
        for (name, entry) in self.entries {
            let Some(new) = rename(&name) else { continue };
            match entries.entry(new) {
                MapEntry::Vacant(vacant) => {
                    vacant.insert((name, entry));
                }
                MapEntry::Occupied(occupied) => {
                    let (tensor, first) = (occupied.key().clone(), occupied.get().0.clone());
                    return Err(CheckpointError::Collision { path: self.path, tensor, names: [first, name] });
                }
            }
        }
        let entries = entries.into_iter().map(|(new, (_, entry))| (new, entry)).collect();
        Ok(Checkpoint { entries, ..self })
    }

    /// The tensor of that name, of exactly that shape. Floating-point numbers convert to the wanted type (rounded to
    /// the nearest); integers and truth values must have it.
    ///
    /// # Errors
    /// [`CheckpointError::Missing`], [`CheckpointError::Type`] and [`CheckpointError::Io`].
    pub fn tensor(&self, name: &str, ty: &TensorType) -> Result<Tensor, CheckpointError> {
        let Some(entry) = self.entries.get(name) else {
            let (path, tensor) = (self.path.clone(), name.to_owned());
            return Err(CheckpointError::Missing { path, tensor, expected: ty.clone() });
        };
        let (source, place) = (&self.sources[entry.source], &entry.place);
        let of_type = if convert::fits(&place.ty, ty) {
            convert::tensor(&place.ty, &source.read(place.bytes.clone())?, ty)
        } else {
            None
        };
        of_type.ok_or_else(|| CheckpointError::Type {
            path: source.path.clone(),
            tensor: entry.stored_name.clone(),
            expected: ty.clone(),
            found: place.ty.clone(),
        })
    }

    /// How this file differs from a model of these tensors.
    pub fn differences<'a>(&self, wanted: impl IntoIterator<Item = (&'a str, &'a TensorType)>) -> Differences {
        let wanted: BTreeMap<&str, &TensorType> = wanted.into_iter().collect();
        let mut differences = Differences::default();
        for (&name, &ty) in &wanted {
            match self.entries.get(name) {
                None => differences.missing.push(name.to_owned()),
                Some(entry) if !convert::fits(&entry.place.ty, ty) => {
                    let (expected, found) = (ty.clone(), entry.place.ty.clone());
                    differences.misshapen.push(Misshapen { name: name.to_owned(), expected, found });
                }
                Some(_) => {}
            }
        }
        let unexpected = self.entries.keys().filter(|name| !wanted.contains_key(name.as_str()));
        differences.unexpected = unexpected.cloned().collect();
        differences
    }
}
