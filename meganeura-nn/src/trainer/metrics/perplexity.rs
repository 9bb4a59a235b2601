//! Perplexity.

use super::{Classes, Metric, MetricError, Predictions, Results};

/// `exp` of the mean over all rows of `logsumexp(logits) − logits[label]`: how many equally likely classes would be as
/// hard to tell (Jelinek, Mercer, Bahl and Baker, 1977).
#[derive(Clone, Debug)]
pub struct Perplexity {
    from: Classes,
    surprise: f64,
    rows: u64,
}

impl Perplexity {
    /// Of logits `f32[…, classes]` and labels `u32[…]` of those names.
    pub fn new(logits: &str, labels: &str) -> Perplexity {
        Perplexity { from: Classes::new(logits, labels), surprise: 0.0, rows: 0 }
    }

    /// Leaves out rows of that label, such as padding.
    #[must_use]
    pub fn ignoring(mut self, label: u32) -> Perplexity {
        self.from.ignored = Some(label);
        self
    }

    /// Counts rows.
    ///
    /// # Errors
    /// [`MetricError::Label`] if a label is no class.
    pub fn count(&mut self, predictions: &Predictions<'_>) -> Result<(), MetricError> {
        predictions.for_each(|logits, label| {
            self.rows += 1;
            self.surprise += log_sum_exp(logits) - f64::from(logits[label]);
        })
    }
}

/// `NaN` if a logit is.
fn log_sum_exp(logits: &[f32]) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if largest == f32::NEG_INFINITY && logits.iter().all(|logit| !logit.is_nan()) {
        return f64::NEG_INFINITY;
    }
    let largest = f64::from(largest);
    largest + logits.iter().map(|&logit| (f64::from(logit) - largest).exp()).sum::<f64>().ln()
}

impl Metric for Perplexity {
    fn name(&self) -> String {
        "perplexity".to_owned()
    }

    fn update(&mut self, batch: &Results<'_>) -> Result<(), MetricError> {
        let predictions = self.from.of(batch)?;
        self.count(&predictions)
    }

    fn value(&self) -> f64 {
        (self.surprise / self.rows as f64).exp()
    }

    fn reset(&mut self) {
        (self.surprise, self.rows) = (0.0, 0);
    }
}
