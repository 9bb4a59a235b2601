//! Which classes are taken for which.

use super::{Classes, Metric, MetricError, Predictions, Results};
use std::fmt;

/// How many rows of each class were taken for each class. As a [`Metric`] its value is the mean F1 score of the classes.
#[derive(Clone, Debug)]
pub struct ConfusionMatrix {
    from: Classes,
    classes: usize,
    /// Row-major: the label's row, the likeliest class's column.
    counts: Vec<u64>,
}

impl ConfusionMatrix {
    /// Of scores `f32[…, classes]` and labels `u32[…]` of those names.
    pub fn new(scores: &str, labels: &str) -> ConfusionMatrix {
        ConfusionMatrix { from: Classes::new(scores, labels), classes: 0, counts: Vec::new() }
    }

    /// Leaves out rows of that label.
    #[must_use]
    pub fn ignoring(mut self, label: u32) -> ConfusionMatrix {
        self.from.ignored = Some(label);
        self
    }

    /// Counts rows. Predictions with another number of classes than before begin a new matrix.
    ///
    /// # Errors
    /// [`MetricError::Label`] if a label is no class.
    pub fn count(&mut self, predictions: &Predictions<'_>) -> Result<(), MetricError> {
        if self.classes != predictions.classes() {
            self.classes = predictions.classes();
            self.counts = vec![0; self.classes * self.classes];
        }
        let (counts, classes) = (&mut self.counts, self.classes);
        predictions.for_each(|scores, label| counts[label * classes + Predictions::likeliest(scores)] += 1)
    }

    /// Number of classes; 0 before the first batch.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Rows of class `label` that were taken for class `predicted`; 0 if there is no such class.
    pub fn at(&self, label: usize, predicted: usize) -> u64 {
        let inside = label < self.classes && predicted < self.classes;
        if inside { self.counts[label * self.classes + predicted] } else { 0 }
    }

    /// Of the rows that were taken for a class, the share that is of it; `NaN` if there are none.
    pub fn precision(&self, class: usize) -> f64 {
        let taken: u64 = (0..self.classes).map(|label| self.at(label, class)).sum();
        self.at(class, class) as f64 / taken as f64
    }

    /// Of the rows of a class, the share that was taken for it; `NaN` if there are none.
    pub fn recall(&self, class: usize) -> f64 {
        let labelled: u64 = (0..self.classes).map(|predicted| self.at(class, predicted)).sum();
        self.at(class, class) as f64 / labelled as f64
    }

    /// The harmonic mean of precision and recall, `2 tp / (2 tp + fp + fn)`; `NaN` if the class is neither a label nor
    /// predicted.
    pub fn f1(&self, class: usize) -> f64 {
        let right = 2 * self.at(class, class);
        let others = |at: &dyn Fn(usize) -> u64| (0..self.classes).filter(|&c| c != class).map(at).sum::<u64>();
        let wrong = others(&|label| self.at(label, class)) + others(&|predicted| self.at(class, predicted));
        right as f64 / (right + wrong) as f64
    }
}

impl Metric for ConfusionMatrix {
    fn name(&self) -> String {
        "macro_f1".to_owned()
    }

    fn update(&mut self, batch: &Results<'_>) -> Result<(), MetricError> {
        let predictions = self.from.of(batch)?;
        self.count(&predictions)
    }

    /// The mean of [`f1`](ConfusionMatrix::f1) over the classes that occur.
    fn value(&self) -> f64 {
        let scores: Vec<f64> = (0..self.classes).map(|class| self.f1(class)).filter(|f1| !f1.is_nan()).collect();
        scores.iter().sum::<f64>() / scores.len() as f64
    }

    fn reset(&mut self) {
        self.counts.fill(0);
    }
}

/// A table: a row for each label, a column for each class that it was taken for.
impl fmt::Display for ConfusionMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = self.counts.iter().copied().max().unwrap_or(0).max(self.classes as u64);
        let width = widest.to_string().len() + 1;
        write!(f, "{:>6}", "")?;
        (0..self.classes).try_for_each(|class| write!(f, "{class:>width$}"))?;
        for label in 0..self.classes {
            write!(f, "\n{label:>6}")?;
            (0..self.classes).try_for_each(|class| write!(f, "{:>width$}", self.at(label, class)))?;
        }
        Ok(())
    }
}
