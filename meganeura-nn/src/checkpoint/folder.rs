//! Folders of whole training states, from which a training goes on as if it had never stopped.

use super::error::failed;
use super::saved::{self, NAME, Saved};
use super::write::sync_folder;
use super::{CheckpointError, Progress};
use crate::params::ParameterSpec;
use meganeura_wgpu::StateStore;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// Names that begin with this are unfinished, or being removed.
const HIDDEN: &str = ".";
/// The file that the one process which writes here holds locked.
const LOCK: &str = ".lock";

/// A folder of checkpoints: `step-0000000100/` and so on.
///
/// Each has the weights (`model.safetensors`), all other states of the program (`training.safetensors`: moments, counters,
/// schedule, random numbers, averages) and a [`Progress`] (`progress.json`).
///
/// # What a kill, a power cut or a full disk leaves
/// A checkpoint is written into a folder beside, synchronised, renamed, and the parent synchronised; older ones are removed
/// only then. So whatever is under such a name is whole, and once there is a checkpoint, there always is one.
#[derive(Debug)]
pub struct CheckpointFolder {
    path: PathBuf,
    keep: Keep,
    /// Locked until dropped.
    _lock: Option<File>,
}

/// Which checkpoints stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The newest, so many; at least one.
    pub last: usize,
    /// The best, whatever its age.
    pub best: Option<Best>,
}

/// The last three.
impl Default for Keep {
    fn default() -> Keep {
        Keep { last: 3, best: None }
    }
}

/// Which metric is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Best {
    /// The lowest, as of a loss.
    #[default]
    Lowest,
    /// The highest, as of an accuracy.
    Highest,
}

impl CheckpointFolder {
    /// Uses a folder for writing, made if it is not there, and removes what an interrupted process left unfinished. No
    /// other process can open it for writing until this value is dropped, or its process ends in whatever way; on file
    /// systems that know no locks it is up to the caller. Reading needs no lock: [`Saved::list`].
    ///
    /// # Errors
    /// [`CheckpointError::Io`]; [`CheckpointError::InUse`] if another process has it.
    pub fn open(path: &Path, keep: Keep) -> Result<CheckpointFolder, CheckpointError> {
        fs::create_dir_all(path).map_err(failed(path, "make the folder"))?;
        let folder = CheckpointFolder { path: path.into(), keep, _lock: lock(path)? };
        for (name, path) in saved::entries(&folder.path)? {
            if name.strip_prefix(HIDDEN).is_some_and(|name| name.starts_with(NAME)) {
                fs::remove_dir_all(&path).map_err(failed(&path, "remove an unfinished checkpoint"))?;
            }
        }
        Ok(folder)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Saves all states of a store, after all steps so far, as the checkpoint of `progress.step`; then removes those that
    /// need not be kept, but never this one. `parameters` are the model's own states. Its path.
    ///
    /// # Errors
    /// As [`save_states`](super::save_states), and [`CheckpointError::Progress`]. Whatever fails, the checkpoints that
    /// were there are still there.
    pub fn save(
        &self,
        store: &StateStore,
        parameters: &[ParameterSpec],
        progress: &Progress,
    ) -> Result<PathBuf, CheckpointError> {
        let name = self.free_name(progress.step)?;
        let (unfinished, path) = (self.path.join(format!("{HIDDEN}{name}")), self.path.join(&name));
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(failed(&unfinished, "remove an unfinished checkpoint"))?;
        }
        fs::create_dir(&unfinished).map_err(failed(&unfinished, "make the folder"))?;
        let written = saved::write(&unfinished, store, parameters, progress)
            .and_then(|()| fs::rename(&unfinished, &path).map_err(failed(&path, "give the checkpoint its name")));
        if written.is_err() {
            // What is left is of no use; that it cannot be removed would hide the first error.
            let _ = fs::remove_dir_all(&unfinished);
        }
        written?;
        sync_folder(&self.path).map_err(failed(&self.path, "synchronise the folder"))?;
        self.prune(&path)?;
        Ok(path)
    }

    /// All checkpoints, by rising step.
    ///
    /// # Errors
    /// As [`Saved::list`].
    pub fn list(&self) -> Result<Vec<Saved>, CheckpointError> {
        Saved::list(&self.path)
    }

    /// The checkpoint of the most steps; `None` if there is none.
    ///
    /// # Errors
    /// As [`Saved::list`].
    pub fn latest(&self) -> Result<Option<Saved>, CheckpointError> {
        Ok(self.list()?.pop())
    }

    /// The checkpoint with the best metric, by what is kept (the lowest if nothing is said); of equals the first. `None`
    /// if none has a metric.
    ///
    /// # Errors
    /// As [`Saved::list`].
    pub fn best(&self) -> Result<Option<Saved>, CheckpointError> {
        Ok(self.keep.best.unwrap_or_default().of(self.list()?))
    }

    /// A name for a step that no checkpoint has: one that is there already is only removed when the new one is.
    fn free_name(&self, step: u64) -> Result<String, CheckpointError> {
        let taken = saved::entries(&self.path)?.into_iter().filter_map(|(name, _)| saved::number(&name));
        let last = taken.filter(|&(other, _)| other == step).map(|(_, again)| again).max();
        Ok(saved::name(step, last.map_or(0, |again| again.saturating_add(1))))
    }

    /// Removes what need not be kept. The name goes first, so that no kill leaves half a checkpoint under it.
    fn prune(&self, new: &Path) -> Result<(), CheckpointError> {
        let all = self.list()?;
        let best = self.keep.best.and_then(|best| best.of(all.clone()));
        let is_kept = |saved: &Saved| saved.path == new || best.as_ref().is_some_and(|best| best.path == saved.path);
        for saved in superfluous(&all, self.keep.last.max(1)).filter(|saved| !is_kept(saved)) {
            let mut name = OsString::from(HIDDEN);
            name.push(saved.path.file_name().unwrap_or_default());
            let hidden = saved.path.with_file_name(name);
            let removed = fs::rename(&saved.path, &hidden).and_then(|()| fs::remove_dir_all(&hidden));
            removed.map_err(failed(&saved.path, "remove an old checkpoint"))?;
        }
        Ok(())
    }
}

/// All but the newest of the `last` highest steps.
fn superfluous(all: &[Saved], last: usize) -> impl Iterator<Item = &Saved> {
    let (mut steps, mut later) = (0, None);
    all.iter().rev().filter(move |saved| {
        let again = later.replace(saved.progress.step) == Some(saved.progress.step);
        steps += usize::from(!again);
        again || steps > last
    })
}

impl Best {
    /// The first of the best.
    fn of(self, all: Vec<Saved>) -> Option<Saved> {
        let measured = all.into_iter().filter_map(|saved| saved.progress.metric.map(|metric| (metric, saved)));
        let better = |a: f64, b: f64| if self == Best::Lowest { a < b } else { a > b };
        measured.reduce(|best, next| if better(next.0, best.0) { next } else { best }).map(|(_, saved)| saved)
    }
}

/// Locks a folder, if its file system can.
fn lock(folder: &Path) -> Result<Option<File>, CheckpointError> {
    let path = folder.join(LOCK);
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(failed(&path, "open the lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(CheckpointError::InUse { path: folder.into() }),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}
