//! What a trainer is told.

use super::early_stop::EarlyStop;
use super::error::TrainError;
use super::event::{Event, Observer, ObserverError};
use super::fit::{self, Fitted};
use super::interrupt::Interrupt;
use super::metrics::Metric;
use super::recipe::Recipe;
use super::saving::Checkpoints;
use super::task::Task;
use crate::data::Loader;
use crate::params::ParameterSpec;
use meganeura_wgpu::{Device, StateStore};
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;

/// How often something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// At the end of every so many epochs.
    Epochs(u64),
    /// After every so many steps.
    Steps(u64),
    /// Never.
    Never,
}

impl Every {
    pub(super) fn after_step(self, step: u64) -> bool {
        matches!(self, Every::Steps(steps) if steps > 0 && step.is_multiple_of(steps))
    }

    pub(super) fn after_epoch(self, done: u64) -> bool {
        matches!(self, Every::Epochs(epochs) if epochs > 0 && done.is_multiple_of(epochs))
    }
}

/// What the initial values of a store are changed by; see [`Trainer::start_from`].
type Start = dyn Fn(&StateStore, &[ParameterSpec]) -> Result<(), TrainError>;

/// Runs a training: steps, validations, early stopping, and those who watch. See [`fit`](Trainer::fit).
///
/// ```no_run
/// # use meganeura_nn::{data::Loader, optim::{AdamW, Schedule}, trainer::*};
/// # fn train(device: meganeura_wgpu::Device, task: impl Task, train: Loader, valid: Loader)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// let recipe = Recipe::new(AdamW::default(), Schedule::warmup_cosine(4000, 200, 1e-3))
///     .training(|training| training.clip_norm(1.0));
/// let fitted = Trainer::new(&device, recipe)
///     .epochs(10)
///     .metric(metrics::TopK::accuracy("logits", "labels"))
///     .early_stop(EarlyStop::new("accuracy", Aim::Most).patience(3))
///     .checkpoints(Checkpoints::new("target/run").keep_best("accuracy", Aim::Most).resume(true))
///     .observe(Console::new())
///     .interrupt(&Interrupt::on_ctrl_c()?)
///     .fit(&task, train, Some(valid))?;
/// println!("{:?} after {} steps", fitted.ended, fitted.step);
/// # Ok(())
/// # }
/// ```
pub struct Trainer {
    pub(super) device: Device,
    pub(super) recipe: Rc<Recipe>,
    pub(super) epochs: u64,
    pub(super) steps: u64,
    pub(super) seed: u64,
    pub(super) report: u64,
    pub(super) validate: Every,
    pub(super) unit: (String, u64),
    pub(super) metrics: Vec<Box<dyn Metric>>,
    pub(super) early_stop: Option<EarlyStop>,
    pub(super) observers: Vec<Box<dyn Observer>>,
    pub(super) interrupt: Interrupt,
    pub(super) start: Option<Box<Start>>,
    pub(super) log: Option<PathBuf>,
    pub(super) curves: Option<PathBuf>,
    pub(super) checkpoints: Option<Checkpoints>,
}

impl Trainer {
    /// One epoch by a recipe, under seed 0, validated at its end, with a report every step and nobody who watches.
    pub fn new(device: &Device, recipe: Recipe) -> Trainer {
        Trainer {
            device: device.clone(),
            recipe: Rc::new(recipe),
            epochs: 1,
            steps: u64::MAX,
            seed: 0,
            report: 1,
            validate: Every::Epochs(1),
            unit: ("samples".to_owned(), 1),
            metrics: Vec::new(),
            early_stop: None,
            observers: Vec::new(),
            interrupt: Interrupt::new(),
            start: None,
            log: None,
            curves: None,
            checkpoints: None,
        }
    }

    /// Passes over the data.
    #[must_use]
    pub fn epochs(self, epochs: u64) -> Trainer {
        Trainer { epochs, ..self }
    }

    /// The most steps in all, whatever the epochs.
    #[must_use]
    pub fn steps(self, steps: u64) -> Trainer {
        Trainer { steps, ..self }
    }

    /// Seed of the first values and of dropout. That of the data's order is the loader's.
    #[must_use]
    pub fn seed(self, seed: u64) -> Trainer {
        Trainer { seed, ..self }
    }

    /// Reports every so many steps, and the last of an epoch. A report is read while the next steps run, so that a GPU
    /// does not wait for it.
    #[must_use]
    pub fn report_every(self, steps: u64) -> Trainer {
        Trainer { report: steps.max(1), ..self }
    }

    /// Validates so often.
    #[must_use]
    pub fn validate_every(self, every: Every) -> Trainer {
        Trainer { validate: every, ..self }
    }

    /// What speed is counted in: `("tokens", 128)` if each item has 128 tokens.
    #[must_use]
    pub fn unit(self, name: impl Into<String>, of_an_item: u64) -> Trainer {
        Trainer { unit: (name.into(), of_an_item), ..self }
    }

    /// Computes a metric at each validation.
    #[must_use]
    pub fn metric(mut self, metric: impl Metric + 'static) -> Trainer {
        self.metrics.push(Box::new(metric));
        self
    }

    /// Ends the training when a metric no longer gets better.
    #[must_use]
    pub fn early_stop(self, early_stop: EarlyStop) -> Trainer {
        Trainer { early_stop: Some(early_stop), ..self }
    }

    /// Tells somebody what happens: a [`Console`](super::Console), or a closure over [`Event`]s.
    #[must_use]
    pub fn observe(mut self, observer: impl Observer + 'static) -> Trainer {
        self.observers.push(Box::new(observer));
        self
    }

    /// As [`observe`](Trainer::observe), for closures, whose argument's type is then known.
    #[must_use]
    pub fn on_event(self, observer: impl FnMut(&Event) -> Result<(), ObserverError> + 'static) -> Trainer {
        self.observe(observer)
    }

    /// Stops after the current step when it is requested. What validation or reading is under way comes to its end first.
    #[must_use]
    pub fn interrupt(self, interrupt: &Interrupt) -> Trainer {
        Trainer { interrupt: interrupt.clone(), ..self }
    }

    /// Changes the first values, such as by loading weights; not called where a training is resumed.
    #[must_use]
    pub fn start_from(
        self,
        start: impl Fn(&StateStore, &[ParameterSpec]) -> Result<(), TrainError> + 'static,
    ) -> Trainer {
        Trainer { start: Some(Box::new(start)), ..self }
    }

    /// Saves whole training states, and goes on from them if told to.
    #[must_use]
    pub fn checkpoints(self, checkpoints: Checkpoints) -> Trainer {
        Trainer { checkpoints: Some(checkpoints), ..self }
    }

    /// Writes an [`EventLog`](super::EventLog); one of a training that is resumed is gone on with.
    #[must_use]
    pub fn log(self, path: impl Into<PathBuf>) -> Trainer {
        Trainer { log: Some(path.into()), ..self }
    }

    /// Draws [`curves`](super::curves) at each validation and at the end.
    #[cfg(feature = "plot")]
    #[must_use]
    pub fn curves(self, path: impl Into<PathBuf>) -> Trainer {
        Trainer { curves: Some(path.into()), ..self }
    }

    /// Trains a task on the batches of a loader, and validates it on one epoch of another.
    ///
    /// The loss that reports show is that of one batch; a validation's is the mean over all items, and metrics are over all
    /// items. The partial batch of a loader that fills up ([`Partial::Pad`](crate::data::Partial::Pad)) is cut to the rows
    /// that count and computed by a program of its size.
    ///
    /// # Errors
    /// [`TrainError`]. [`TrainError::NotFinite`] if a reported loss or gradient norm is `NaN` or infinite: such a state is
    /// never saved.
    pub fn fit(self, task: &dyn Task, training: Loader, validation: Option<Loader>) -> Result<Fitted, TrainError> {
        fit::fit(self, task, training, validation)
    }
}

impl fmt::Debug for Trainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trainer").field("recipe", &self.recipe).field("epochs", &self.epochs).finish_non_exhaustive()
    }
}
