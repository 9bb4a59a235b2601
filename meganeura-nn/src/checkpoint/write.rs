//! Writing files that are whole or not there.

use super::CheckpointError;
use meganeura_core::dtype::DType;
use meganeura_core::tensor::Tensor;
use meganeura_wgpu::StateStore;
use safetensors::{Dtype, View};
use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes tensors as a safetensors file, which other libraries read too. Equal tensors give equal bytes.
///
/// The file appears under its name only when it is complete and on disk: it is written beside under a temporary name,
/// synchronised, renamed, and the folder synchronised. A file of that name is replaced.
///
/// # Errors
/// [`CheckpointError::Io`]; [`CheckpointError::Format`] if the names take more than the format's header holds.
pub fn save<'a>(path: &Path, tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>) -> Result<(), CheckpointError> {
    let views = tensors.into_iter().map(|(name, tensor)| (name, Stored(tensor)));
    let bytes = safetensors::serialize(views, None);
    let bytes = bytes.map_err(|source| CheckpointError::Format { path: path.into(), source })?;
    write_whole(path, &bytes)
}

/// Writes states of a store under their names, after all steps so far: [`StateStore::names`] for all that a training
/// needs to go on, or a model's parameters alone.
///
/// # Errors
/// As [`save`], and [`CheckpointError::Device`].
pub fn save_states<'a>(
    path: &Path,
    store: &StateStore,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<(), CheckpointError> {
    let read = |name: &'a str| {
        let device =
            |source| CheckpointError::Device { path: path.into(), tensor: name.to_owned(), source: Box::new(source) };
        store.read(name).map(|tensor| (name, tensor)).map_err(device)
    };
    let tensors = names.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    save(path, tensors.iter().map(|(name, tensor)| (*name, tensor)))
}

/// Writes a file that is whole or not there; see [`save`].
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    let failed = |path: &Path, action| {
        let path = PathBuf::from(path);
        move |source| CheckpointError::Io { path, action, source }
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = folder.join(name);
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let renamed = written
        .map_err(failed(&temporary, "write"))
        .and_then(|()| fs::rename(&temporary, path).map_err(failed(path, "give the file its name")));
    if renamed.is_err() {
        // What is left is of no use to anybody; that it cannot be removed would hide the first error.
        let _ = fs::remove_file(&temporary);
        return renamed;
    }
    sync_folder(folder).map_err(failed(folder, "synchronise the folder"))
}

/// Makes a rename last through a power cut. Only Unix lets a program open a folder for that.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// A tensor as the format sees it.
struct Stored<'a>(&'a Tensor);

impl View for Stored<'_> {
    fn dtype(&self) -> Dtype {
        match self.0.dtype() {
            DType::F32 => Dtype::F32,
            DType::F16 => Dtype::F16,
            DType::U32 => Dtype::U32,
            DType::I32 => Dtype::I32,
            DType::Bool => Dtype::BOOL,
        }
    }

    fn shape(&self) -> &[usize] {
        self.0.shape()
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match self.0.dtype() {
            // One byte each in the format, a word each on a device.
            DType::Bool => self.0.bytes().iter().step_by(4).copied().collect(),
            _ => Cow::Borrowed(&self.0.bytes()[..self.0.ty().bytes()]),
        }
    }

    fn data_len(&self) -> usize {
        match self.0.dtype() {
            DType::Bool => self.0.ty().elements(),
            _ => self.0.ty().bytes(),
        }
    }
}
