//! Writing files that are whole or not there.

use super::error::failed;
use super::{CheckpointError, convert};
use meganeura_core::dtype::DType;
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use meganeura_wgpu::StateStore;
use safetensors::SafeTensorError;
use safetensors::tensor::{Metadata, TensorInfo};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Names and types of what a file will hold.
pub(super) type Tensors<'a> = Vec<(&'a str, &'a TensorType)>;

/// Writes tensors as a safetensors file, which other libraries read too. Equal tensors give equal bytes.
///
/// The file appears under its name only when it is complete and on disk: it is written beside under a temporary name,
/// synchronised, renamed, and the folder synchronised. A file of that name is replaced.
///
/// # Errors
/// [`CheckpointError::Io`]; [`CheckpointError::Twice`] if two tensors have one name; [`CheckpointError::Format`] if the
/// names take more than the format's header holds.
pub fn save<'a>(path: &Path, list: impl IntoIterator<Item = (&'a str, &'a Tensor)>) -> Result<(), CheckpointError> {
    let list: Vec<(&str, &Tensor)> = list.into_iter().collect();
    let types = list.iter().map(|(name, tensor)| (*name, tensor.ty())).collect();
    tensors(path, types, |at| Ok(Cow::Borrowed(list[at].1)))
}

/// Writes states of a store under their names, after all steps so far: [`StateStore::names`] for all that a training
/// needs to go on, or a model's parameters alone. They are read one at a time.
///
/// # Errors
/// As [`save`], and [`CheckpointError::Device`].
pub fn save_states<'a>(
    path: &Path,
    store: &StateStore,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<(), CheckpointError> {
    let failed = |name: &str, source| {
        let (path, tensor) = (path.to_path_buf(), name.to_owned());
        CheckpointError::Device { path, tensor, source: Box::new(source) }
    };
    let mut types: Tensors<'_> = Vec::new();
    for name in names {
        match store.layout().slot(name) {
            Some(slot) => types.push((name, &slot.ty)),
            // Reading says what is wrong with the name.
            None => store.read(name).map(|_| ()).map_err(|source| failed(name, source))?,
        }
    }
    let names: Vec<&str> = types.iter().map(|(name, _)| *name).collect();
    tensors(path, types, |at| store.read(names[at]).map(Cow::Owned).map_err(|source| failed(names[at], source)))
}

/// Writes a file of these tensors, asking for one after another by their positions in `types`.
pub(super) fn tensors<'t>(
    path: &Path,
    types: Tensors<'_>,
    mut tensor: impl FnMut(usize) -> Result<Cow<'t, Tensor>, CheckpointError>,
) -> Result<(), CheckpointError> {
    let mut order: Vec<usize> = (0..types.len()).collect();
    // By falling alignment, so that every tensor is aligned, then by name, as the format's own writers do.
    order.sort_by_key(|&at| (Reverse(convert::stored(types[at].1.dtype)), types[at].0));
    let header = header(path, order.iter().map(|&at| types[at]))?;
    let mut failed = None;
    let written = whole(path, |file| {
        file.write_all(&header)?;
        for at in order {
            match tensor(at) {
                Ok(tensor) => file.write_all(&data(&tensor))?,
                Err(error) => {
                    failed = Some(error);
                    return Err(io::ErrorKind::Other.into());
                }
            }
        }
        Ok(())
    });
    failed.map_or(written, Err)
}

/// The header's length and text, padded so that the data are aligned to 8 bytes.
fn header<'a>(path: &Path, types: impl Iterator<Item = (&'a str, &'a TensorType)>) -> Result<Vec<u8>, CheckpointError> {
    let failed = |source: SafeTensorError| CheckpointError::Format { path: path.into(), source: source.into() };
    let mut end = 0;
    let mut list: Vec<(String, TensorInfo)> = Vec::new();
    // The format has this name for itself.
    let mut names = BTreeSet::from(["__metadata__"]);
    for (name, ty) in types {
        if !names.insert(name) {
            return Err(CheckpointError::Twice { path: path.into(), tensor: name.to_owned() });
        }
        let dtype = convert::stored(ty.dtype);
        let start = end;
        end += ty.elements() * dtype.bitsize() / 8;
        list.push((name.to_owned(), TensorInfo { dtype, shape: ty.shape.to_vec(), data_offsets: (start, end) }));
    }
    let metadata = Metadata::new(None, list).map_err(failed)?;
    let mut text = serde_json::to_vec(&metadata).map_err(|source| failed(source.into()))?;
    text.resize(text.len().next_multiple_of(8), b' ');
    if text.len() > 100_000_000 {
        return Err(failed(SafeTensorError::HeaderTooLarge));
    }
    Ok([&(text.len() as u64).to_le_bytes()[..], &text].concat())
}

/// A tensor's bytes as the format has them.
fn data(tensor: &Tensor) -> Cow<'_, [u8]> {
    match tensor.dtype() {
        // One byte each in the format, a word each on a device.
        DType::Bool => tensor.bytes().iter().step_by(4).copied().collect(),
        _ => Cow::Borrowed(&tensor.bytes()[..tensor.ty().bytes()]),
    }
}

/// Writes a file of these bytes; see [`whole`].
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    whole(path, |file| file.write_all(bytes))
}

/// Writes a file under a temporary name, and gives it its own when all of it is on disk.
pub(super) fn whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), CheckpointError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = folder.join(name);
    let written = File::create(&temporary).and_then(|file| {
        let mut file = BufWriter::with_capacity(1 << 20, file);
        write(&mut file)?;
        file.into_inner()?.sync_all()
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
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
