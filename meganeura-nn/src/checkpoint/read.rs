//! Reading files that nobody vouches for.

use super::{CheckpointError, Differences, Misshapen, StoredType};
use half::{bf16, f16};
use meganeura_core::dtype::DType;
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use meganeura_wgpu::{DeviceError, StateStore};
use safetensors::tensor::TensorInfo;
use safetensors::{Dtype, SafeTensorError, SafeTensors};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A safetensors file in memory, whose lengths and offsets were checked against the bytes that are there.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    path: PathBuf,
    bytes: Vec<u8>,
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    ty: StoredType,
    bytes: Range<usize>,
}

impl Checkpoint {
    /// Reads a file and checks its header.
    ///
    /// # Errors
    /// [`CheckpointError::Io`] and [`CheckpointError::Format`].
    pub fn open(path: &Path) -> Result<Checkpoint, CheckpointError> {
        let bytes =
            read_file(path).map_err(|source| CheckpointError::Io { path: path.into(), action: "read", source })?;
        let entries = entries(&bytes).map_err(|source| CheckpointError::Format { path: path.into(), source })?;
        Ok(Checkpoint { path: path.into(), bytes, entries })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names and types of all tensors, sorted by name.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &StoredType)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), &entry.ty))
    }

    /// The tensor of that name, of exactly that shape. Floating-point numbers convert to the wanted type (rounded to
    /// the nearest); integers and truth values must have it.
    ///
    /// # Errors
    /// [`CheckpointError::Missing`] and [`CheckpointError::Type`].
    pub fn tensor(&self, name: &str, ty: &TensorType) -> Result<Tensor, CheckpointError> {
        let Some(entry) = self.entries.get(name) else {
            return Err(CheckpointError::Missing {
                path: self.path.clone(),
                tensor: name.to_owned(),
                expected: ty.clone(),
            });
        };
        entry.tensor(&self.bytes, ty).ok_or_else(|| CheckpointError::Type {
            path: self.path.clone(),
            tensor: name.to_owned(),
            expected: ty.clone(),
            found: entry.ty.clone(),
        })
    }

    /// How this file differs from a model of these tensors.
    pub fn differences<'a>(&self, wanted: impl IntoIterator<Item = (&'a str, &'a TensorType)>) -> Differences {
        let wanted: BTreeMap<&str, &TensorType> = wanted.into_iter().collect();
        let mut differences = Differences::default();
        for (&name, &ty) in &wanted {
            match self.entries.get(name) {
                None => differences.missing.push(name.to_owned()),
                Some(entry) if !entry.fits(ty) => {
                    let (expected, found) = (ty.clone(), entry.ty.clone());
                    differences.misshapen.push(Misshapen { name: name.to_owned(), expected, found });
                }
                Some(_) => {}
            }
        }
        let unexpected = self.entries.keys().filter(|name| !wanted.contains_key(name.as_str()));
        differences.unexpected = unexpected.cloned().collect();
        differences
    }

    /// Writes these states of a store. Nothing is written unless the file has exactly these tensors, of their shapes;
    /// use [`differences`](Checkpoint::differences) and [`tensor`](Checkpoint::tensor) to load parts.
    ///
    /// # Errors
    /// [`CheckpointError::Mismatch`] and [`CheckpointError::Device`].
    pub fn load_states<'a>(
        &self,
        store: &StateStore,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), CheckpointError> {
        let mut wanted: Vec<(&str, &TensorType)> = Vec::new();
        let states = &store.layout().states;
        for name in names {
            let slot = states.iter().find(|slot| slot.name == name).ok_or_else(|| self.unknown(name, store))?;
            wanted.push((name, &slot.ty));
        }
        let differences = self.differences(wanted.iter().copied());
        if !differences.is_empty() {
            return Err(CheckpointError::Mismatch { path: self.path.clone(), differences });
        }
        for (name, ty) in wanted {
            let tensor = self.tensor(name, ty)?;
            store.write(name, &tensor).map_err(|source| self.device(name, source))?;
        }
        Ok(())
    }

    fn unknown(&self, name: &str, store: &StateStore) -> CheckpointError {
        let known = store.names().map(str::to_owned).collect();
        self.device(name, DeviceError::UnknownTensor { kind: "state", name: name.to_owned(), known })
    }

    fn device(&self, name: &str, source: DeviceError) -> CheckpointError {
        CheckpointError::Device { path: self.path.clone(), tensor: name.to_owned(), source: Box::new(source) }
    }
}

impl Entry {
    /// Whether [`tensor`](Entry::tensor) gives one.
    fn fits(&self, ty: &TensorType) -> bool {
        let converts = match self.ty.dtype {
            Dtype::F32 | Dtype::F16 | Dtype::BF16 | Dtype::F64 => ty.dtype.is_float(),
            Dtype::U32 => ty.dtype == DType::U32,
            Dtype::I32 => ty.dtype == DType::I32,
            Dtype::BOOL => ty.dtype == DType::Bool,
            _ => false,
        };
        converts && self.ty.shape[..] == ty.shape[..]
    }

    fn tensor(&self, file: &[u8], ty: &TensorType) -> Option<Tensor> {
        if !self.fits(ty) {
            return None;
        }
        let bytes = file.get(self.bytes.clone())?;
        let words = match (self.ty.dtype, ty.dtype) {
            (Dtype::F32, DType::F32) | (Dtype::F16, DType::F16) | (Dtype::U32 | Dtype::I32, _) => bytes.to_vec(),
            (Dtype::BOOL, _) => bytes.iter().flat_map(|&byte| u32::from(byte != 0).to_le_bytes()).collect(),
            (stored, DType::F16) => {
                floats(stored, bytes).flat_map(|value| f16::from_f64(value).to_le_bytes()).collect()
            }
            (stored, _) => floats(stored, bytes).flat_map(|value| (value as f32).to_le_bytes()).collect(),
        };
        Tensor::from_bytes(ty.clone(), &words).ok()
    }
}

/// The elements of a stored floating-point tensor, little-endian.
fn floats(dtype: Dtype, bytes: &[u8]) -> Box<dyn Iterator<Item = f64> + '_> {
    match dtype {
        Dtype::F64 => Box::new(bytes.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b))),
        Dtype::F16 => Box::new(bytes.as_chunks().0.iter().map(|&b| f16::from_le_bytes(b).to_f64())),
        Dtype::BF16 => Box::new(bytes.as_chunks().0.iter().map(|&b| bf16::from_le_bytes(b).to_f64())),
        _ => Box::new(bytes.as_chunks().0.iter().map(|&b| f64::from(f32::from_le_bytes(b)))),
    }
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    // A device file has no end.
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    BufReader::new(file).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Types and byte ranges of all tensors; the format's own check made sure that they tile the data exactly.
fn entries(bytes: &[u8]) -> Result<BTreeMap<String, Entry>, SafeTensorError> {
    let (header, metadata) = SafeTensors::read_metadata(bytes)?;
    // The header follows its own length, a u64.
    let data = size_of::<u64>() + header;
    let entry = |info: &TensorInfo| {
        let (start, end) = info.data_offsets;
        let ty = StoredType { dtype: info.dtype, shape: info.shape.clone() };
        Entry { ty, bytes: data + start..data + end }
    };
    Ok(metadata.tensors().into_iter().map(|(name, info)| (name, entry(info))).collect())
}
