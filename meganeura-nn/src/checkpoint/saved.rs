//! One checkpoint of a folder of them.

use super::error::failed;
use super::source::{self, Source};
use super::write::write_whole;
use super::{Checkpoint, CheckpointError, Fit, Progress, save_states};
use crate::params::ParameterSpec;
use meganeura_wgpu::StateStore;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// What the names of checkpoints begin with.
pub(super) const NAME: &str = "step-";
const MODEL: &str = "model.safetensors";
const TRAINING: &str = "training.safetensors";
const PROGRESS: &str = "progress.json";
/// The most bytes of a `progress.json`.
const LIMIT: u64 = 1 << 24;

/// A whole training state on disk, in a [`CheckpointFolder`](super::CheckpointFolder).
#[derive(Clone, Debug, PartialEq)]
pub struct Saved {
    /// Its own folder.
    pub path: PathBuf,
    /// What was saved beside the states.
    pub progress: Progress,
}

impl Saved {
    /// All checkpoints in a folder, by rising step. One that is being written or removed meanwhile is not among them.
    ///
    /// # Errors
    /// [`CheckpointError::Io`], and [`CheckpointError::Progress`] if a `progress.json` is none.
    pub fn list(folder: &Path) -> Result<Vec<Saved>, CheckpointError> {
        let mut found: Vec<((u64, u64), PathBuf)> =
            entries(folder)?.into_iter().filter_map(|(name, path)| Some((number(&name)?, path))).collect();
        found.sort();
        let mut list = Vec::with_capacity(found.len());
        for (_, path) in found {
            match Saved::open(&path) {
                // Removed by the process that writes here.
                Err(_) if !path.exists() => {}
                saved => list.push(saved?),
            }
        }
        Ok(list)
    }

    /// The checkpoint that is the folder `path`.
    ///
    /// # Errors
    /// As [`list`](Saved::list).
    pub fn open(path: &Path) -> Result<Saved, CheckpointError> {
        let file = path.join(PROGRESS);
        let (opened, length) = source::regular(&file).map_err(failed(&file, "read"))?;
        check_size(&file, length)?;
        let mut text = Vec::new();
        opened.take(LIMIT).read_to_end(&mut text).map_err(failed(&file, "read"))?;
        let progress =
            serde_json::from_slice(&text).map_err(|source| CheckpointError::Progress { path: file, source })?;
        Ok(Saved { path: path.into(), progress })
    }

    /// The file of the model's weights alone, which other libraries read too.
    pub fn model(&self) -> PathBuf {
        self.path.join(MODEL)
    }

    /// All its states: the model's and those that training needs beside.
    ///
    /// # Errors
    /// As [`Checkpoint::open`].
    pub fn states(&self) -> Result<Checkpoint, CheckpointError> {
        let files = [Source::open(&self.model())?, Source::open(&self.path.join(TRAINING))?];
        Checkpoint::of(files, &self.path)
    }

    /// Writes all its states into the store of a program with the same states, from which training goes on. Nothing is
    /// written unless all fit. For inference, which has fewer states, load [`states`](Saved::states) with
    /// [`Fit::Subset`].
    ///
    /// # Errors
    /// As [`Checkpoint::open`] and [`Checkpoint::load`].
    pub fn load(&self, store: &StateStore) -> Result<(), CheckpointError> {
        self.states()?.load(store, store.names(), Fit::Exact).map(|_| ())
    }
}

/// Writes all files of a checkpoint into its folder.
pub(super) fn write(
    folder: &Path,
    store: &StateStore,
    parameters: &[ParameterSpec],
    progress: &Progress,
) -> Result<(), CheckpointError> {
    let is_own = |name: &&str| parameters.iter().any(|spec| spec.name == **name);
    let (own, others): (Vec<&str>, Vec<&str>) = store.names().partition(is_own);
    save_states(&folder.join(MODEL), store, own)?;
    save_states(&folder.join(TRAINING), store, others)?;
    let file = folder.join(PROGRESS);
    let text = serde_json::to_vec_pretty(progress);
    let text = text.map_err(|source| CheckpointError::Progress { path: file.clone(), source })?;
    // What could not be read again is not written.
    check_size(&file, text.len() as u64)?;
    write_whole(&file, &text)
}

fn check_size(path: &Path, bytes: u64) -> Result<(), CheckpointError> {
    let large = || CheckpointError::TooLarge { path: path.into(), bytes, limit: LIMIT };
    if bytes > LIMIT { Err(large()) } else { Ok(()) }
}

/// The name of the checkpoint of a step. Several of one step, of which the last counts, are told apart by a number.
pub(super) fn name(step: u64, again: u64) -> String {
    if again == 0 { format!("{NAME}{step:010}") } else { format!("{NAME}{step:010}.{again}") }
}

/// The inverse of [`name`].
pub(super) fn number(name: &str) -> Option<(u64, u64)> {
    let numbers = name.strip_prefix(NAME)?;
    match numbers.split_once('.') {
        None => Some((numbers.parse().ok()?, 0)),
        Some((step, again)) => Some((step.parse().ok()?, again.parse().ok()?)),
    }
}

/// Names and paths of all that is in a folder.
pub(super) fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, CheckpointError> {
    let list = || fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>();
    let named = |path: PathBuf| Some((path.file_name()?.to_str()?.to_owned(), path));
    Ok(list().map_err(failed(folder, "list the folder"))?.into_iter().filter_map(named).collect())
}
