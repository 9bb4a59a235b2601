//! Ending a training that no longer gets better.

use serde::{Deserialize, Serialize};

/// Which of two values of a metric is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Aim {
    /// The smaller one, as of losses.
    Least,
    /// The larger one, as of accuracies.
    Most,
}

impl Aim {
    /// Whether `value` is better than `best` by more than `delta`. `NaN` is never better; every number is better than `NaN`.
    pub fn is_better(self, value: f64, best: f64, delta: f64) -> bool {
        match self {
            _ if value.is_nan() => false,
            _ if best.is_nan() => true,
            Aim::Least => value < best - delta,
            Aim::Most => value > best + delta,
        }
    }
}

/// Ends a training when a metric has not become better for some validations, as Keras's and Lightning's `EarlyStopping`.
#[derive(Clone, Debug, PartialEq)]
pub struct EarlyStop {
    metric: String,
    aim: Aim,
    patience: u32,
    min_delta: f64,
    /// What it has seen so far.
    pub(super) seen: Seen,
}

/// What an [`EarlyStop`] remembers.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Seen {
    best: Option<f64>,
    waited: u32,
}

impl EarlyStop {
    /// By a metric of the validation, such as `loss` or `accuracy`; at the third validation in a row without progress.
    pub fn new(metric: impl Into<String>, aim: Aim) -> EarlyStop {
        EarlyStop { metric: metric.into(), aim, patience: 3, min_delta: 0.0, seen: Seen::default() }
    }

    /// Ends at the `validations`-th validation in a row without progress; at least 1.
    #[must_use]
    pub fn patience(self, validations: u32) -> EarlyStop {
        EarlyStop { patience: validations.max(1), ..self }
    }

    /// Takes only what is better than the best by more than `delta` as progress.
    #[must_use]
    pub fn min_delta(self, delta: f64) -> EarlyStop {
        EarlyStop { min_delta: delta.abs(), ..self }
    }

    /// The metric's name.
    pub fn metric(&self) -> &str {
        &self.metric
    }

    /// The best value so far.
    pub fn best(&self) -> Option<f64> {
        self.seen.best
    }

    /// Takes the metric's value at the next validation; whether to end.
    pub fn update(&mut self, value: f64) -> bool {
        let better = match self.seen.best {
            None => !value.is_nan(),
            Some(best) => self.aim.is_better(value, best, self.min_delta),
        };
        self.seen = match better {
            true => Seen { best: Some(value), waited: 0 },
            false => Seen { waited: self.seen.waited + 1, ..self.seen },
        };
        self.seen.waited >= self.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends_at(stop: &EarlyStop, values: &[f64]) -> Option<usize> {
        let mut stop = stop.clone();
        values.iter().position(|&value| stop.update(value))
    }

    #[test]
    fn patience_counts_validations_without_progress_in_a_row() {
        let stop = EarlyStop::new("loss", Aim::Least).patience(2);
        assert_eq!(ends_at(&stop, &[3.0, 2.0, 2.0, 1.0, 1.5, 1.2, 0.5]), Some(5));
        assert_eq!(ends_at(&stop, &[3.0, 2.0, 2.5, 1.0, 1.5, 0.5]), None);
        assert_eq!(ends_at(&stop.clone().patience(0), &[1.0, 1.0]), Some(1));
        assert_eq!(ends_at(&EarlyStop::new("accuracy", Aim::Most).patience(1), &[0.5, 0.6, 0.6]), Some(2));
    }

    #[test]
    fn small_steps_are_no_progress_and_do_not_move_the_best() {
        let stop = EarlyStop::new("loss", Aim::Least).patience(2).min_delta(0.1);
        // 0.95 and 0.91 are within 0.1 of the best, 1.0.
        assert_eq!(ends_at(&stop, &[1.0, 0.95, 0.91]), Some(2));
        // Two small steps that are a large one together are progress.
        assert_eq!(ends_at(&stop, &[1.0, 0.95, 0.85, 0.84, 0.83]), Some(4));
    }

    #[test]
    fn nan_is_no_progress_and_anything_is_better() {
        let stop = EarlyStop::new("loss", Aim::Least).patience(2);
        assert_eq!(ends_at(&stop, &[f64::NAN, f64::NAN]), Some(1));
        assert_eq!(ends_at(&stop, &[f64::NAN, 5.0, f64::NAN, 4.0]), None);
        assert!(Aim::Most.is_better(-1.0, f64::NAN, 9.0) && !Aim::Most.is_better(f64::NAN, f64::NAN, 0.0));
    }
}
