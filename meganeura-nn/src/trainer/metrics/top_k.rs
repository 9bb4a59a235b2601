//! Accuracy.

use super::{Classes, Metric, MetricError, Predictions, Results};

/// The share of rows whose label is among the `k` likeliest classes, from 0 to 1. With `k = 1` this is the accuracy.
#[derive(Clone, Debug)]
pub struct TopK {
    from: Classes,
    k: usize,
    right: u64,
    rows: u64,
}

impl TopK {
    /// Of scores `f32[…, classes]` and labels `u32[…]` of those names.
    pub fn new(k: usize, scores: &str, labels: &str) -> TopK {
        TopK { from: Classes::new(scores, labels), k, right: 0, rows: 0 }
    }

    /// The share of rows whose likeliest class is the label.
    pub fn accuracy(scores: &str, labels: &str) -> TopK {
        TopK::new(1, scores, labels)
    }

    /// Leaves out rows of that label.
    #[must_use]
    pub fn ignoring(mut self, label: u32) -> TopK {
        self.from.ignored = Some(label);
        self
    }

    /// Counts rows.
    ///
    /// # Errors
    /// [`MetricError::Label`] if a label is no class.
    pub fn count(&mut self, predictions: &Predictions<'_>) -> Result<(), MetricError> {
        predictions.for_each(|scores, label| {
            self.rows += 1;
            self.right += u64::from(Predictions::place(scores, label) < self.k);
        })
    }
}

impl Metric for TopK {
    fn name(&self) -> String {
        if self.k == 1 { "accuracy".to_owned() } else { format!("top{}_accuracy", self.k) }
    }

    fn update(&mut self, batch: &Results<'_>) -> Result<(), MetricError> {
        let predictions = self.from.of(batch)?;
        self.count(&predictions)
    }

    fn value(&self) -> f64 {
        self.right as f64 / self.rows as f64
    }

    fn reset(&mut self) {
        (self.right, self.rows) = (0, 0);
    }
}
