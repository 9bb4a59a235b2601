//! Means over items.

use serde::{Deserialize, Serialize};

/// A mean of values that stand for several items each: a loss of a batch counts as often as the batch has rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mean {
    sum: f64,
    weight: f64,
}

impl Mean {
    /// Takes the mean of `weight` items into account.
    pub fn add(&mut self, value: f64, weight: f64) {
        self.sum += value * weight;
        self.weight += weight;
    }

    /// The mean over all items; `NaN` if there are none.
    pub fn value(&self) -> f64 {
        self.sum / self.weight
    }
}
