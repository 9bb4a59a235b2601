//! Scores of classes beside the labels.

use super::MetricError;
use meganeura_core::tensor::{Tensor, TensorError};

/// Rows of scores (logits, probabilities or their logarithms), each with its label.
#[derive(Clone, Copy, Debug)]
pub struct Predictions<'a> {
    scores: &'a [f32],
    labels: &'a [u32],
    classes: usize,
    rows: usize,
    ignored: Option<u32>,
}

impl<'a> Predictions<'a> {
    /// Scores `f32[…, classes]` and labels `u32[…]`.
    ///
    /// # Errors
    /// [`MetricError::Shapes`] and [`MetricError::Tensor`] if the types are others.
    pub fn new(scores: &'a Tensor, labels: &'a Tensor) -> Result<Predictions<'a>, MetricError> {
        let named = |name: &str| {
            let name = name.to_owned();
            move |source: TensorError| MetricError::Tensor { name, source }
        };
        let (last, fits) = match scores.shape().split_last() {
            Some((&last, rows)) => (last, rows == &labels.shape()[..]),
            None => (0, false),
        };
        if !fits {
            let (scores, labels) = (scores.ty().clone(), labels.ty().clone());
            return Err(MetricError::Shapes { scores, labels });
        }
        let (scores, labels) = (scores.as_f32().map_err(named("scores"))?, labels.as_u32().map_err(named("labels"))?);
        Ok(Predictions { scores, labels, classes: last, rows: labels.len(), ignored: None })
    }

    /// Only the first `rows` rows: those that count, where a batch was filled up.
    #[must_use]
    pub fn take(self, rows: usize) -> Predictions<'a> {
        Predictions { rows: rows.min(self.rows), ..self }
    }

    /// Without the rows of that label, as the `ignore_index` of PyTorch's losses.
    #[must_use]
    pub fn ignoring(self, label: u32) -> Predictions<'a> {
        Predictions { ignored: Some(label), ..self }
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Gives `each` the scores and the label of every row that counts.
    ///
    /// # Errors
    /// [`MetricError::Label`] if a label is no class.
    pub fn for_each(&self, mut each: impl FnMut(&[f32], usize)) -> Result<(), MetricError> {
        let rows = self.scores.chunks_exact(self.classes.max(1)).zip(self.labels).take(self.rows);
        for (index, (scores, &label)) in rows.enumerate() {
            if Some(label) == self.ignored {
                continue;
            }
            if label as usize >= self.classes {
                return Err(MetricError::Label { index, found: label, classes: self.classes });
            }
            each(scores, label as usize);
        }
        Ok(())
    }

    /// The place of a class among its row's scores, from 0. Of equal scores the first class is ahead, and `NaN` is ahead
    /// of all numbers, so that no class counts as right for want of scores.
    pub(super) fn place(scores: &[f32], class: usize) -> usize {
        let own = scores[class];
        let ahead = |(other, &score): (usize, &f32)| {
            other != class && (score > own || score.is_nan() || own.is_nan() || (score == own && other < class))
        };
        scores.iter().enumerate().filter(|&item| ahead(item)).count()
    }

    /// The likeliest class: the first of the largest scores, or the first `NaN`.
    pub(super) fn likeliest(scores: &[f32]) -> usize {
        let nan = scores.iter().position(|score| score.is_nan());
        let larger = |best: usize, class: usize| if scores[class] > scores[best] { class } else { best };
        nan.unwrap_or_else(|| (0..scores.len()).fold(0, larger))
    }
}
