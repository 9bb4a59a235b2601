//! Results of steps, read while later steps run.

use super::error::TrainError;
use super::event::StepReport;
use super::options::Trainer;
use super::recipe::{GRADIENT_NORM, LOSS, RATE};
use meganeura_wgpu::Session;
use meganeura_wgpu::session::PendingRead;
use web_time::Instant;

/// Which step a report is of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub step: u64,
    pub epoch: u64,
    pub in_epoch: u64,
}

/// One report may be under way: it is read when the next one begins.
pub(super) struct Reports {
    unit: (String, u64),
    pending: Option<Pending>,
    /// Items trained on since the last report began.
    items: u64,
    since: Instant,
}

struct Pending {
    clock: Clock,
    loss: PendingRead,
    rate: PendingRead,
    gradient_norm: Option<PendingRead>,
    /// Items since the report before.
    items: u64,
}

impl Reports {
    pub fn new(options: &Trainer) -> Reports {
        Reports { unit: options.unit.clone(), pending: None, items: 0, since: Instant::now() }
    }

    /// A step on so many items was submitted.
    pub fn count(&mut self, items: u64) {
        self.items += items;
    }

    /// Begins to read the results of the last step; the report before, if there is one.
    pub fn begin(&mut self, session: &Session, clock: Clock) -> Result<Option<StepReport>, TrainError> {
        let has_norm = session.plan().outputs.iter().any(|port| port.name == GRADIENT_NORM);
        let pending = Pending {
            clock,
            loss: session.read_later(LOSS)?,
            rate: session.read_later(RATE)?,
            items: std::mem::take(&mut self.items),
            gradient_norm: has_norm.then(|| session.read_later(GRADIENT_NORM)).transpose()?,
        };
        let before = self.pending.replace(pending);
        before.map(|pending| self.deliver(pending)).transpose()
    }

    /// Waits for the report that is under way.
    pub fn finish(&mut self) -> Result<Option<StepReport>, TrainError> {
        let pending = self.pending.take();
        pending.map(|pending| self.deliver(pending)).transpose()
    }

    /// Time that passed since the last report does not count: it was no training.
    pub fn restart(&mut self) {
        self.since = Instant::now();
    }

    fn deliver(&mut self, pending: Pending) -> Result<StepReport, TrainError> {
        let Clock { step, epoch, in_epoch } = pending.clock;
        let items = pending.items * self.unit.1;
        let loss = scalar(pending.loss)?;
        let rate = scalar(pending.rate)?;
        let gradient_norm = pending.gradient_norm.map(scalar).transpose()?;
        let seconds = self.since.elapsed().as_secs_f64();
        let per_second = items as f64 / seconds.max(1e-9);
        self.restart();
        let unit = self.unit.0.clone();
        Ok(StepReport { step, epoch, in_epoch, loss, rate, gradient_norm, per_second, unit })
    }
}

fn scalar(read: PendingRead) -> Result<f64, TrainError> {
    Ok(read.wait()?.to_f64().iter().sum())
}

/// Refuses what is no number.
pub(super) fn check(report: &StepReport) -> Result<(), TrainError> {
    for (what, value) in [("loss", Some(report.loss)), ("gradient norm", report.gradient_norm)] {
        if let Some(value) = value.filter(|value| !value.is_finite()) {
            return Err(TrainError::NotFinite { what, step: report.step, value, place: None });
        }
    }
    Ok(())
}
