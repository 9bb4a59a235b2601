//! What happens in a training, for those who watch it.

use std::path::PathBuf;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// An epoch begins, or goes on after a resumption.
    Epoch(EpochStart),
    /// A step was done and its results were read.
    Step(StepReport),
    /// The model was validated.
    Validation {
        /// Steps done so far.
        step: u64,
        /// The epoch, from 0.
        epoch: u64,
        /// Mean loss of the reported steps since the last validation.
        training_loss: f64,
        /// `loss`, then the metrics in the order in which they were given.
        values: Vec<(String, f64)>,
    },
    /// A checkpoint was written.
    Saved {
        /// Steps done so far.
        step: u64,
        /// The epoch, from 0.
        epoch: u64,
        /// Where it is.
        path: PathBuf,
    },
    /// Training ended.
    End {
        /// Steps done in all.
        step: u64,
        /// The epoch, from 0.
        epoch: u64,
        /// Why.
        ended: Ended,
    },
}

/// The beginning of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    /// The epoch, from 0.
    pub epoch: u64,
    /// Epochs in all.
    pub epochs: u64,
    /// Steps of this epoch that are done already: after a resumption.
    pub done: u64,
    /// Steps of an epoch.
    pub steps: u64,
}

/// The results of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// Steps done so far, this one included.
    pub step: u64,
    /// The epoch, from 0.
    pub epoch: u64,
    /// Steps of this epoch done so far, this one included.
    pub in_epoch: u64,
    /// The loss before this step's update.
    pub loss: f64,
    /// The learning rate.
    pub rate: f64,
    /// The norm of all gradients together, before clipping; none if the recipe does without.
    pub gradient_norm: Option<f64>,
    /// Items a second since the last report.
    pub per_second: f64,
    /// What is counted: `samples`, or what the trainer was told.
    pub unit: String,
}

/// Why a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// All epochs or steps are done.
    Finished,
    /// A metric no longer got better.
    EarlyStop,
    /// Somebody asked for it; see [`Interrupt`](super::Interrupt).
    Interrupted,
}

impl Ended {
    /// The exit code by which shells know a program that was interrupted, 128 + SIGINT; it is also that of a second
    /// Ctrl-C, which ends the program without a checkpoint.
    pub const INTERRUPTED: u8 = 130;

    /// An exit code for a program that ends with its training: 0, or [`INTERRUPTED`](Ended::INTERRUPTED).
    pub fn exit_code(self) -> u8 {
        match self {
            Ended::Finished | Ended::EarlyStop => 0,
            Ended::Interrupted => Ended::INTERRUPTED,
        }
    }

    /// Its name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Ended::Finished => "finished",
            Ended::EarlyStop => "early stop",
            Ended::Interrupted => "interrupted",
        }
    }
}

impl Event {
    /// Steps done when it happened; nothing for the beginning of an epoch.
    pub fn step(&self) -> Option<u64> {
        match self {
            Event::Epoch(_) => None,
            Event::Step(report) => Some(report.step),
            Event::Validation { step, .. } | Event::Saved { step, .. } | Event::End { step, .. } => Some(*step),
        }
    }
}

/// Somebody who is told what happens: a console, a log, or a closure.
pub trait Observer {
    /// Takes notice. An error ends the training; a closed pipe, as that of `| head`, should be one.
    ///
    /// # Errors
    /// Whatever the observer cannot go on after.
    fn observe(&mut self, event: &Event) -> Result<(), ObserverError>;
}

/// Why an observer cannot go on.
pub type ObserverError = Box<dyn std::error::Error + Send + Sync>;

impl<F: FnMut(&Event) -> Result<(), ObserverError>> Observer for F {
    fn observe(&mut self, event: &Event) -> Result<(), ObserverError> {
        self(event)
    }
}
