//! The loop.

use super::error::TrainError;
use super::event::{Ended, EpochStart, Event, StepReport};
use super::history::History;
use super::log::EventLog;
use super::metrics::Mean;
use super::options::{Every, Trainer};
use super::programs::{Programs, Tensors, rows, types};
use super::reports::{self, Clock, Reports};
use super::task::Task;
use super::validate::{check_metric, validate};
use crate::checkpoint::CheckpointFolder;
use crate::data::Loader;
use crate::params::ParameterSpec;
use meganeura_wgpu::{Session, StateStore};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::rc::Rc;

/// A training that ended.
pub struct Fitted {
    /// Why it ended.
    pub ended: Ended,
    /// Steps done in all, before a resumption too.
    pub step: u64,
    /// The states, for other programs: inference, more training.
    pub store: StateStore,
    /// The model's parameters.
    pub parameters: Vec<ParameterSpec>,
    /// All that was reported.
    pub history: History,
    /// `loss` and the metrics of the last validation; none if there was none.
    pub values: Vec<(String, f64)>,
    /// The program that trains on full batches, for profiles.
    pub session: Session,
}

impl fmt::Debug for Fitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fitted { ended, step, values, .. } = self;
        f.debug_struct("Fitted")
            .field("ended", ended)
            .field("step", step)
            .field("values", values)
            .finish_non_exhaustive()
    }
}

/// Where a training stands, beside the store and the loader.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Place {
    /// Steps done.
    pub step: u64,
    /// Steps of this epoch done.
    pub in_epoch: u64,
    /// Losses reported since the last validation.
    pub losses: Mean,
    /// The step of the last validation.
    pub validated: Option<u64>,
    /// The last validation's values.
    pub values: Vec<(String, Option<f64>)>,
}

/// A training under way.
pub(super) struct Fit<'a> {
    pub options: Trainer,
    pub programs: Programs<'a>,
    pub training: Loader,
    pub validation: Option<Loader>,
    pub place: Place,
    pub reports: Reports,
    pub history: History,
    pub folder: Option<CheckpointFolder>,
    /// The step of the last checkpoint.
    pub saved: Option<u64>,
}

pub(super) fn fit(
    options: Trainer,
    task: &dyn Task,
    mut training: Loader,
    validation: Option<Loader>,
) -> Result<Fitted, TrainError> {
    check_metric(options.early_stop.as_ref().map(|stop| stop.metric()), &options.metrics)?;
    let checkpoints = options.checkpoints.as_ref();
    check_metric(checkpoints.and_then(|own| own.best.as_ref()).map(|(name, _)| name.as_str()), &options.metrics)?;
    let folder = checkpoints.map(|checkpoints| checkpoints.open()).transpose()?;
    let first = first_batch(&mut training)?;
    // Their borrows outlive the loop's changes of the rest.
    let (device, recipe) = (options.device.clone(), Rc::clone(&options.recipe));
    let programs = Programs::new(&device, &recipe, task, &types(&first), options.seed)?;
    let (place, history) = (Place::default(), History::default());
    let reports = Reports::new(&options);
    let mut fit = Fit { options, programs, training, validation, place, reports, history, folder, saved: None };
    if !fit.resume()?
        && let Some(start) = &fit.options.start
    {
        start(&fit.programs.store, &fit.programs.parameters)?;
    }
    fit.open_log()?;
    let ended = fit.run()?;
    let epoch = fit.training.state().epoch;
    fit.tell(&Event::End { step: fit.place.step, epoch, ended })?;
    fit.draw()?;
    let Fit { programs, place, history, .. } = fit;
    let values = place.values.into_iter().map(|(name, value)| (name, value.unwrap_or(f64::NAN))).collect();
    let (store, parameters) = (programs.store.clone(), programs.parameters.clone());
    Ok(Fitted { ended, step: place.step, store, parameters, history, values, session: programs.into_session() })
}

/// A batch of the loader, which then stands where it stood.
fn first_batch(loader: &mut Loader) -> Result<Tensors, TrainError> {
    let state = loader.state();
    let mut batch = loader.next_batch()?;
    if batch.is_none() {
        batch = loader.next_batch()?;
    }
    loader.restore(state)?;
    batch.map_or(Ok(Vec::new()), rows)
}

impl Fit<'_> {
    fn run(&mut self) -> Result<Ended, TrainError> {
        while self.training.state().epoch < self.options.epochs && self.place.step < self.options.steps {
            self.begin_epoch()?;
            loop {
                if self.options.interrupt.is_requested() {
                    return self.stop(Ended::Interrupted);
                }
                if self.place.step >= self.options.steps && self.place.in_epoch < self.steps_per_epoch() {
                    return self.stop(Ended::Finished);
                }
                let Some(batch) = self.training.next_batch()? else { break };
                self.step(rows(batch)?)?;
                if self.options.validate.after_step(self.place.step) && self.validate()? {
                    return self.stop(Ended::EarlyStop);
                }
                if self.saves().after_step(self.place.step) {
                    self.save()?;
                }
            }
            if self.end_epoch()? {
                return self.stop(Ended::EarlyStop);
            }
            if self.saves().after_epoch(self.training.state().epoch) {
                self.save()?;
            }
        }
        self.stop(Ended::Finished)
    }

    fn steps_per_epoch(&self) -> u64 {
        self.training.batches_per_epoch() as u64
    }

    fn saves(&self) -> Every {
        self.options.checkpoints.as_ref().map_or(Every::Never, |checkpoints| checkpoints.every)
    }

    fn begin_epoch(&mut self) -> Result<(), TrainError> {
        let steps = self.steps_per_epoch();
        let (epoch, epochs, done) = (self.training.state().epoch, self.options.epochs, self.place.in_epoch);
        self.tell(&Event::Epoch(EpochStart { epoch, epochs, done, steps }))
    }

    /// Trains on a batch.
    fn step(&mut self, batch: Tensors) -> Result<(), TrainError> {
        self.place.step += 1;
        self.place.in_epoch += 1;
        let last = self.place.in_epoch == self.steps_per_epoch();
        // What is to be saved is looked at before.
        let saves = self.saves().after_step(self.place.step) || self.place.step == self.options.steps;
        let due = last || saves || self.place.step.is_multiple_of(self.options.report);
        let items = batch.first().and_then(|(_, tensor)| tensor.shape().first().copied()).unwrap_or(0) as u64;
        let clock = Clock { step: self.place.step, epoch: self.training.state().epoch, in_epoch: self.place.in_epoch };
        let session = self.programs.train(&batch)?;
        self.reports.count(items);
        if due {
            let ready = self.reports.begin(session, clock)?;
            self.deliver(ready)?;
        }
        Ok(())
    }

    /// Takes notice of a report that has come.
    fn deliver(&mut self, report: Option<StepReport>) -> Result<(), TrainError> {
        let Some(report) = report else { return Ok(()) };
        self.place.losses.add(report.loss, 1.0);
        let event = Event::Step(report);
        self.history.observe(&event);
        self.tell(&event)?;
        let Event::Step(report) = event else { return Ok(()) };
        reports::check(&report)
    }

    /// Waits for the reports that are under way.
    pub(super) fn flush(&mut self) -> Result<(), TrainError> {
        let last = self.reports.finish()?;
        self.deliver(last)
    }

    /// The end of an epoch; whether it is an early end of the training.
    fn end_epoch(&mut self) -> Result<bool, TrainError> {
        self.place.in_epoch = 0;
        self.flush()?;
        let done = self.training.state().epoch;
        Ok(self.options.validate.after_epoch(done) && self.validate()?)
    }

    /// Ends the training with a checkpoint.
    fn stop(&mut self, ended: Ended) -> Result<Ended, TrainError> {
        self.save()?;
        Ok(ended)
    }

    /// Validates; whether training should end early.
    fn validate(&mut self) -> Result<bool, TrainError> {
        self.flush()?;
        let Some(loader) = &mut self.validation else { return Ok(false) };
        let values = validate(&mut self.programs, loader, &mut self.options.metrics)?;
        self.reports.restart();
        // At the end of an epoch the loader stands at the next one.
        let state = self.training.state();
        let epoch = if self.place.in_epoch == 0 { state.epoch.saturating_sub(1) } else { state.epoch };
        let losses = std::mem::take(&mut self.place.losses).value();
        let event = Event::Validation { step: self.place.step, epoch, training_loss: losses, values: values.clone() };
        self.history.observe(&event);
        self.tell(&event)?;
        self.draw()?;
        let found = |name: &str| values.iter().find(|(own, _)| own == name).map_or(f64::NAN, |(_, value)| *value);
        let stop = self.options.early_stop.as_mut().is_some_and(|stop| {
            let value = found(stop.metric());
            stop.update(value)
        });
        let finite = |value: f64| value.is_finite().then_some(value);
        self.place.validated = Some(self.place.step);
        self.place.values = values.into_iter().map(|(name, value)| (name, finite(value))).collect();
        Ok(stop)
    }

    fn open_log(&mut self) -> Result<(), TrainError> {
        let Some(path) = self.options.log.take() else { return Ok(()) };
        let log = match self.place.step {
            0 => EventLog::create(path)?,
            step => {
                let (log, history) = EventLog::resume(path, step)?;
                self.history = history;
                log
            }
        };
        self.options.observers.insert(0, Box::new(log));
        Ok(())
    }

    pub(super) fn tell(&mut self, event: &Event) -> Result<(), TrainError> {
        self.options.observers.iter_mut().try_for_each(|observer| observer.observe(event).map_err(TrainError::Observer))
    }

    #[cfg(feature = "plot")]
    fn draw(&self) -> Result<(), TrainError> {
        let Some(path) = &self.options.curves else { return Ok(()) };
        super::curves::save(path, &self.history).map_err(|error| TrainError::Observer(error.into()))
    }

    #[cfg(not(feature = "plot"))]
    fn draw(&self) -> Result<(), TrainError> {
        Ok(())
    }
}
