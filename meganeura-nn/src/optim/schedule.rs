//! Learning rates as functions of the step, evaluated on the device from a table in the store.

use meganeura_core::dtype::DType;
use meganeura_core::ir::{StateSpec, Value};
use meganeura_core::scalar::Scalar;
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::{Tensor, TensorError};
use meganeura_wgpu::{DeviceError, StateStore};
use std::f64::consts::PI;

/// Name of the state with the table.
pub(super) const STATE: &str = "optimizer.schedule";
/// Pieces that a table holds.
const PIECES: usize = 64;
/// Numbers of a piece: first step, step after the last, 1 / steps, value at the start, at the end, cosine or power, power.
const COLUMNS: usize = 7;
/// Steps are counted in `f32`, which holds whole numbers up to here.
const MOST_STEPS: u64 = 1 << 24;

/// How a piece of a schedule gets from its first value to its last, with `x` from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Curve {
    /// `to + (from − to) · (1 − x)ᵖ`; 1 is a straight line.
    Power(f32),
    /// `to + (from − to) · (1 + cos πx) / 2`.
    Cosine,
}

/// A number of steps in which the rate goes from one value to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Its steps.
    pub steps: u32,
    /// Rate at its first step.
    pub from: f32,
    /// Rate at the step after its last.
    pub to: f32,
    /// What lies between.
    pub curve: Curve,
}

/// A learning rate as a function of the step, from 0: pieces one after another; after the last one its end stays.
///
/// A program evaluates it from a table in a state, so that another schedule needs no other program.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pieces: Vec<Piece>,
}

/// A schedule could not be put into a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// It is too long.
    #[error("a schedule of {pieces} pieces and {steps} steps, expected at most {PIECES} pieces and {MOST_STEPS} steps")]
    TooLong {
        /// Its pieces.
        pieces: usize,
        /// Their steps.
        steps: u64,
    },
    /// The table is no tensor.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The device refused it: there is no such state, because the program has a rate of its own.
    #[error("the schedule cannot be written: {0}")]
    Device(#[from] DeviceError),
}

impl Schedule {
    /// One rate for ever.
    pub fn constant(rate: f32) -> Schedule {
        Schedule::line(0, rate, rate)
    }

    /// A straight line: a warm-up, if it rises. A warm-up that PyTorch users write as `(step + 1) / steps` starts at
    /// `peak / steps`.
    pub fn line(steps: u32, from: f32, to: f32) -> Schedule {
        Schedule { pieces: vec![Piece { steps, from, to, curve: Curve::Power(1.0) }] }
    }

    /// Half a cosine (Loshchilov and Hutter, SGDR, ICLR 2017, eq. 5, without restarts).
    pub fn cosine(steps: u32, from: f32, to: f32) -> Schedule {
        Schedule { pieces: vec![Piece { steps, from, to, curve: Curve::Cosine }] }
    }

    /// `rate · (1 − step / steps)ᵖᵒʷᵉʳ`, as PyTorch's `PolynomialLR`.
    pub fn polynomial(steps: u32, rate: f32, power: f32) -> Schedule {
        Schedule { pieces: vec![Piece { steps, from: rate, to: 0.0, curve: Curve::Power(power) }] }
    }

    /// `rate · factorⁿ` after `n · every` steps, `times` times, as PyTorch's `StepLR`.
    pub fn stairs(every: u32, rate: f32, factor: f32, times: u32) -> Schedule {
        let stair = |n: u32| {
            let rate = (f64::from(rate) * f64::from(factor).powi(n as i32)) as f32;
            Piece { steps: every, from: rate, to: rate, curve: Curve::Power(1.0) }
        };
        Schedule { pieces: (0..=times).map(stair).collect() }
    }

    /// Up from `peak / 25` in the first 30 % of the steps and down to `peak / 250,000`, both by a cosine: the one-cycle
    /// policy (Smith and Topin, arXiv 1708.07120) as in PyTorch's `OneCycleLR`, but that its peak is at a whole step.
    pub fn one_cycle(steps: u32, peak: f32) -> Schedule {
        // PyTorch reaches the peak at 0.3 · steps − 1, here a whole step, and the end at the last step.
        let up = ((f64::from(steps) * 0.3).round() as u32).saturating_sub(1);
        let start = peak / 25.0;
        Schedule::cosine(up, start, peak).then(Schedule::cosine(steps.saturating_sub(1 + up), peak, start / 1e4))
    }

    /// A linear rise to `peak` in `warmup` steps, then half a cosine down to 0 at `steps`.
    pub fn warmup_cosine(steps: u32, warmup: u32, peak: f32) -> Schedule {
        Schedule::line(warmup, peak / warmup.max(1) as f32, peak + peak / warmup.max(1) as f32).then(Schedule::cosine(
            steps.saturating_sub(warmup),
            peak,
            0.0,
        ))
    }

    /// This one, then `next`, whose step 0 is the first after this one's last.
    #[must_use]
    pub fn then(mut self, next: Schedule) -> Schedule {
        self.pieces.extend(next.pieces);
        self
    }

    /// Its pieces.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The rate at a step, from 0, as the program computes it but in f64.
    pub fn at(&self, step: u64) -> f64 {
        let mut start = 0;
        for (at, piece) in self.pieces.iter().enumerate() {
            let last = at + 1 == self.pieces.len();
            if step < start + u64::from(piece.steps) || last {
                let steps = f64::from(piece.steps.max(1));
                let x = if piece.steps == 0 { 1.0 } else { ((step - start) as f64 / steps).min(1.0) };
                let part = match piece.curve {
                    Curve::Power(power) => (1.0 - x).powf(f64::from(power)),
                    Curve::Cosine => (1.0 + (PI * x).cos()) / 2.0,
                };
                let (from, to) = (f64::from(piece.from), f64::from(piece.to));
                return to + (from - to) * part;
            }
            start += u64::from(piece.steps);
        }
        f64::NAN
    }

    /// Puts it into a store, for the steps to come, in place of the one that the program was built with.
    ///
    /// # Errors
    /// [`ScheduleError`] if it is too long, or the store has no schedule.
    pub fn store(&self, store: &StateStore) -> Result<(), ScheduleError> {
        Ok(store.write(STATE, &self.table()?)?)
    }

    /// Its table, `f32[64, 7]`.
    ///
    /// # Errors
    /// [`ScheduleError::TooLong`].
    pub fn table(&self) -> Result<Tensor, ScheduleError> {
        let steps = self.pieces.iter().map(|piece| u64::from(piece.steps)).sum();
        if self.pieces.len() > PIECES || steps > MOST_STEPS {
            return Err(ScheduleError::TooLong { pieces: self.pieces.len(), steps });
        }
        let mut rows = self.rows();
        // Rows that end before they begin never apply.
        rows.resize(PIECES, [0.0, -1.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
        Ok(Tensor::from_f32([PIECES, COLUMNS], rows.concat())?)
    }

    /// The rows of its table that apply at some step.
    fn rows(&self) -> Vec<[f32; COLUMNS]> {
        let mut rows = Vec::with_capacity(PIECES);
        let mut start = 0.0;
        for (at, piece) in self.pieces.iter().enumerate() {
            let last = at + 1 == self.pieces.len();
            let end = if last { f32::MAX } else { start + piece.steps as f32 };
            // A piece of no steps that stays is at its end: x grows to 1 at once, beyond which it is held.
            let (begin, per_step) =
                if piece.steps == 0 { (start - 1.0, 1.0) } else { (start, 1.0 / piece.steps as f32) };
            let (cosine, power) = match piece.curve {
                Curve::Power(power) => (0.0, power),
                Curve::Cosine => (1.0, 1.0),
            };
            if piece.steps > 0 || last {
                rows.push([begin, end, per_step, piece.from, piece.to, cosine, power]);
            }
            start += piece.steps as f32;
        }
        rows
    }
}

/// Where a [`Training`](super::Training) has its learning rate from.
#[derive(Clone, Debug)]
pub enum Rate<'g> {
    /// From the program, `f32[]`: an input, or computed.
    Value(Value<'g>),
    /// From a schedule, until [`Schedule::store`] puts another one into the store.
    Schedule(Schedule),
}

impl<'g> From<Value<'g>> for Rate<'g> {
    fn from(rate: Value<'g>) -> Rate<'g> {
        Rate::Value(rate)
    }
}

impl From<Schedule> for Rate<'_> {
    fn from(schedule: Schedule) -> Self {
        Rate::Schedule(schedule)
    }
}

/// A constant one.
impl From<f32> for Rate<'_> {
    fn from(rate: f32) -> Self {
        Rate::Schedule(Schedule::constant(rate))
    }
}

impl<'g> Rate<'g> {
    /// Its value at `step`, `u32[]`, from 0.
    #[track_caller]
    pub(super) fn at(&self, step: Value<'g>) -> Value<'g> {
        match self {
            Rate::Value(rate) => *rate,
            Rate::Schedule(schedule) => scheduled(step, schedule),
        }
    }
}

/// The rate by the table in the state, which it declares; by `own` while none is there. The state begins as zeros, and
/// the first row of every table ends after step 0.
#[track_caller]
fn scheduled<'g>(step: Value<'g>, own: &Schedule) -> Value<'g> {
    let builder = step.builder();
    let ty = TensorType::new(DType::F32, [PIECES, COLUMNS]);
    let group = "optimizer.schedule".to_owned();
    let table = builder.state(StateSpec { name: STATE.to_owned(), ty, group, init: Scalar::zero(DType::F32) });
    let step = step.cast(DType::F32);
    let stored = applied(step, |column| table.slice([0, column], [PIECES, 1]).reshape([PIECES])).sum([0]);
    let pieces = own.rows().into_iter().map(|row| applied(step, |column| step.like(f64::from(row[column]))));
    let own = pieces.reduce(|sum, piece| sum + piece).unwrap_or_else(|| step.like(f64::NAN));
    let is_stored = table.slice([0, 1], [1, 1]).reshape([]).gt(step.like(0.0));
    is_stored.select(stored, own)
}

/// What rows of a table, given by columns, bring at `step`: their rate, or 0 where they do not apply.
#[track_caller]
fn applied<'g>(step: Value<'g>, column: impl Fn(usize) -> Value<'g>) -> Value<'g> {
    let applies = step.ge(column(0)).and(step.lt(column(1)));
    let x = ((step - column(0)) * column(2)).minimum(step.like(1.0)).maximum(step.like(0.0));
    let power = (1.0 - x).pow(column(6));
    let cosine = ((x * PI as f32).cos() + 1.0) * 0.5;
    let part = column(5).gt(step.like(0.5)).select(cosine, power);
    let value = column(4) + (column(3) - column(4)) * part;
    applies.select(value, value.like(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(schedule: &Schedule, steps: u64) -> Vec<f64> {
        (0..steps).map(|step| schedule.at(step)).collect()
    }

    fn close(found: &[f64], expected: &[f64]) {
        let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-6;
        assert!(found.len() == expected.len() && found.iter().zip(expected).all(near), "{found:?}");
    }

    #[test]
    fn schedules_follow_their_formulas() {
        close(&rates(&Schedule::constant(0.5), 3), &[0.5; 3]);
        close(&rates(&Schedule::line(4, 1.0, 0.0), 6), &[1.0, 0.75, 0.5, 0.25, 0.0, 0.0]);
        close(&rates(&Schedule::stairs(2, 1.0, 0.1, 2), 8), &[1.0, 1.0, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01]);
        close(&rates(&Schedule::polynomial(4, 1.0, 2.0), 5), &[1.0, 0.5625, 0.25, 0.0625, 0.0]);
        let warm = Schedule::warmup_cosine(14, 4, 1.0);
        let same: Vec<f64> = (0..16).map(|step| f64::from(crate::train::cosine_rate(1.0, step, 14, 4))).collect();
        close(&rates(&warm, 16), &same);
        let cycle = rates(&Schedule::one_cycle(20, 1.0), 20);
        // PyTorch's OneCycleLR(max_lr=1, total_steps=20).
        close(&[cycle[0], cycle[5], cycle[19]], &[0.04, 1.0, 4e-6]);
        // to + (from − to) rounds.
        assert!(cycle.iter().all(|&rate| rate <= 1.0 + f64::EPSILON));
    }

    #[test]
    fn schedules_that_do_not_fit_are_refused() {
        assert!(matches!(Schedule::stairs(1, 1.0, 0.5, 64).table(), Err(ScheduleError::TooLong { pieces: 65, .. })));
        assert!(Schedule::line(1 << 24, 0.0, 1.0).table().is_ok());
        assert!(Schedule::line((1 << 24) + 1, 0.0, 1.0).table().is_err());
    }
}
