//! Checkpoints of a training, and going on from one.

use super::early_stop::{Aim, Seen};
use super::error::TrainError;
use super::event::Event;
use super::fit::{Fit, Place};
use super::options::Every;
use crate::checkpoint::{Best, CheckpointFolder, Keep, Progress};
use crate::data::LoaderState;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The parts of a [`Progress`].
const TRAINER: &str = "trainer";
const DATA: &str = "data";

/// Where and when a [`Trainer`](super::Trainer) saves, and whether it goes on from what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoints {
    pub(super) path: PathBuf,
    pub(super) every: Every,
    pub(super) last: usize,
    pub(super) best: Option<(String, Aim)>,
    pub(super) resume: bool,
}

impl Checkpoints {
    /// In a folder of that name, each epoch, of which the last three are kept. An interrupted or ended training is saved too.
    pub fn new(path: impl Into<PathBuf>) -> Checkpoints {
        Checkpoints { path: path.into(), every: Every::Epochs(1), last: 3, best: None, resume: false }
    }

    /// Saves so often; at the end in any case.
    #[must_use]
    pub fn every(self, every: Every) -> Checkpoints {
        Checkpoints { every, ..self }
    }

    /// Keeps the last so many.
    #[must_use]
    pub fn keep_last(self, last: usize) -> Checkpoints {
        Checkpoints { last, ..self }
    }

    /// Keeps also the one with the best value of a metric, of those that were saved right after a validation.
    #[must_use]
    pub fn keep_best(self, metric: impl Into<String>, aim: Aim) -> Checkpoints {
        Checkpoints { best: Some((metric.into(), aim)), ..self }
    }

    /// Goes on from the newest checkpoint of the folder, if there is one, as if the training had never stopped: to the bit.
    #[must_use]
    pub fn resume(self, resume: bool) -> Checkpoints {
        Checkpoints { resume, ..self }
    }

    pub(super) fn open(&self) -> Result<CheckpointFolder, TrainError> {
        let best = self.best.as_ref().map(|(_, aim)| match aim {
            Aim::Least => Best::Lowest,
            Aim::Most => Best::Highest,
        });
        Ok(CheckpointFolder::open(&self.path, Keep { last: self.last, best })?)
    }
}

/// What is saved beside the states and the loader's place.
#[derive(Serialize, Deserialize)]
struct Part {
    place: Place,
    early_stop: Option<Seen>,
}

impl Fit<'_> {
    /// Goes to where the newest checkpoint stood; whether there is one.
    pub(super) fn resume(&mut self) -> Result<bool, TrainError> {
        let resume = self.options.checkpoints.as_ref().is_some_and(|checkpoints| checkpoints.resume);
        let Some(folder) = self.folder.as_ref().filter(|_| resume) else { return Ok(false) };
        let Some(saved) = folder.latest()? else { return Ok(false) };
        saved.load(&self.programs.store)?;
        let Part { place, early_stop } = saved.progress.part(TRAINER)?;
        self.training.restore(saved.progress.part::<LoaderState>(DATA)?)?;
        self.place = place;
        self.saved = Some(self.place.step);
        if let (Some(stop), Some(seen)) = (&mut self.options.early_stop, early_stop) {
            stop.seen = seen;
        }
        Ok(true)
    }

    /// Saves, unless this step is saved already. What is reported as no number is an error before.
    pub(super) fn save(&mut self) -> Result<(), TrainError> {
        self.flush()?;
        let Some(folder) = &self.folder else { return Ok(()) };
        if self.saved == Some(self.place.step) {
            return Ok(());
        }
        let part =
            Part { place: self.place.clone(), early_stop: self.options.early_stop.as_ref().map(|stop| stop.seen) };
        let state = self.training.state();
        let mut progress = Progress::new(self.place.step).with(TRAINER, &part)?.with(DATA, &state)?;
        let best = self.options.checkpoints.as_ref().and_then(|checkpoints| checkpoints.best.as_ref());
        if let Some((name, _)) = best.filter(|_| self.place.validated == Some(self.place.step)) {
            progress.metric = self.place.values.iter().find(|(own, _)| own == name).and_then(|(_, value)| *value);
        }
        let path = folder.save(&self.programs.store, &self.programs.parameters, &progress)?;
        self.saved = Some(self.place.step);
        self.reports.restart();
        self.tell(&Event::Saved { step: self.place.step, epoch: state.epoch, path })
    }
}
