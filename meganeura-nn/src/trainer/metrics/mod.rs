//! Metrics, computed on the host from what a program gives for each batch.
//!
//! A metric counts; it never averages averages, so that batches of unequal size, the partial last one among them, give
//! what one batch of all rows would.

mod confusion;
mod mean;
mod perplexity;
mod predictions;
mod top_k;

pub use confusion::ConfusionMatrix;
pub use mean::Mean;
pub use perplexity::Perplexity;
pub use predictions::Predictions;
pub use top_k::TopK;

use meganeura_core::shape::TensorType;
use meganeura_core::tensor::{Tensor, TensorError};
use std::fmt;

/// A number that tells how good a model is, of all batches since [`reset`](Metric::reset).
pub trait Metric: fmt::Debug {
    /// The name under which it is logged, such as `accuracy`.
    fn name(&self) -> String;

    /// Takes a batch into account.
    ///
    /// # Errors
    /// [`MetricError`] if what it needs is absent or of another type.
    fn update(&mut self, batch: &Results<'_>) -> Result<(), MetricError>;

    /// Its value; `NaN` if nothing was counted.
    fn value(&self) -> f64;

    /// Forgets all batches.
    fn reset(&mut self);
}

/// What is known of a batch after a step: the model's outputs and the batch itself, by name.
#[derive(Clone, Copy, Debug)]
pub struct Results<'a> {
    /// Outputs first, then inputs.
    tensors: [&'a [(String, Tensor)]; 2],
}

impl<'a> Results<'a> {
    /// The results of a step with these `outputs`, on these `inputs`. Of equal names the output counts.
    pub fn new(outputs: &'a [(String, Tensor)], inputs: &'a [(String, Tensor)]) -> Results<'a> {
        Results { tensors: [outputs, inputs] }
    }

    /// The tensor of that name.
    ///
    /// # Errors
    /// [`MetricError::Missing`].
    pub fn tensor(&self, name: &str) -> Result<&'a Tensor, MetricError> {
        let all = || self.tensors.into_iter().flatten();
        let found = all().find(|(own, _)| own == name);
        found.map(|(_, tensor)| tensor).ok_or_else(|| MetricError::Missing {
            name: name.to_owned(),
            known: all().map(|(name, _)| name.clone()).collect(),
        })
    }
}

/// A metric could not be computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MetricError {
    /// Neither the model's outputs nor the batch have it.
    #[error("a metric needs {name:?}, expected one of {known:?}")]
    Missing {
        /// The tensor asked for.
        name: String,
        /// The tensors that there are.
        known: Vec<String>,
    },
    /// Labels do not fit the scores.
    #[error("labels {labels} do not fit scores {scores}, expected one label for each row of scores")]
    Shapes {
        /// Type of the scores.
        scores: TensorType,
        /// Type of the labels.
        labels: TensorType,
    },
    /// A label is no class.
    #[error("label {index} is {found}, expected less than {classes}")]
    Label {
        /// Position of the label, from 0.
        index: usize,
        /// The label.
        found: u32,
        /// Number of classes.
        classes: usize,
    },
    /// A tensor has another element type.
    #[error("{name:?}: {source}")]
    Tensor {
        /// Its name.
        name: String,
        /// What is wrong.
        source: TensorError,
    },
}

/// Where a metric of classes finds scores and labels.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Classes {
    scores: String,
    labels: String,
    ignored: Option<u32>,
}

impl Classes {
    fn new(scores: &str, labels: &str) -> Classes {
        Classes { scores: scores.to_owned(), labels: labels.to_owned(), ignored: None }
    }

    fn of<'a>(&self, batch: &Results<'a>) -> Result<Predictions<'a>, MetricError> {
        let predictions = Predictions::new(batch.tensor(&self.scores)?, batch.tensor(&self.labels)?)?;
        Ok(self.ignored.map_or(predictions, |label| predictions.ignoring(label)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(rows: usize, values: &[f32]) -> Tensor {
        Tensor::from_f32([rows, values.len() / rows], values.to_vec()).unwrap()
    }

    fn labels(values: &[u32]) -> Tensor {
        Tensor::from_u32([values.len()], values.to_vec()).unwrap()
    }

    /// The value after batches of these rows.
    fn value(metric: &mut dyn Metric, batches: &[(Tensor, Tensor)]) -> f64 {
        metric.reset();
        for (scores, labels) in batches {
            let inputs = [("labels".to_owned(), labels.clone())];
            let outputs = [("logits".to_owned(), scores.clone())];
            metric.update(&Results::new(&outputs, &inputs)).unwrap();
        }
        metric.value()
    }

    #[test]
    fn accuracies_by_hand_with_a_partial_batch() {
        // Classes 1, 0, 2; then 1, of which 0 and 1 tie.
        let first = scores(3, &[0.1, 0.7, 0.2, 5.0, 4.0, 3.0, -3.0, -2.0, -1.0]);
        let batches = [(first, labels(&[1, 1, 0])), (scores(1, &[0.5, 0.5, 0.0]), labels(&[1]))];
        let mut accuracy = TopK::accuracy("logits", "labels");
        assert!(value(&mut accuracy, &[]).is_nan());
        // Means of batches would give (1/3 + 0) / 2.
        assert_eq!(value(&mut accuracy, &batches), 0.25);
        assert_eq!(value(&mut TopK::new(2, "logits", "labels"), &batches), 0.75);
        assert_eq!(value(&mut TopK::new(3, "logits", "labels"), &batches), 1.0);
        assert_eq!(value(&mut accuracy.ignoring(0), &batches), 1.0 / 3.0);
        let predictions = Predictions::new(&batches[0].0, &batches[0].1).unwrap().take(1);
        let mut one = TopK::accuracy("logits", "labels");
        one.count(&predictions).unwrap();
        assert_eq!(one.value(), 1.0);
    }

    #[test]
    fn scores_that_are_nan_are_never_right() {
        let batch = [(scores(2, &[f32::NAN, 1.0, 0.0, f32::NAN]), labels(&[0, 0]))];
        assert_eq!(value(&mut TopK::accuracy("logits", "labels"), &batch), 0.0);
        let mut matrix = ConfusionMatrix::new("logits", "labels");
        value(&mut matrix, &batch);
        assert_eq!([matrix.at(0, 0), matrix.at(0, 1)], [1, 1]);
        assert!(value(&mut Perplexity::new("logits", "labels"), &batch).is_nan());
    }

    #[test]
    fn perplexity_is_the_number_of_equally_likely_classes() {
        let mut perplexity = Perplexity::new("logits", "labels");
        let even = [(scores(2, &[3.0; 8]), labels(&[0, 3]))];
        assert!((value(&mut perplexity, &even) - 4.0).abs() < 1e-12);
        // Probabilities 1/2, 1/4, 1/8: exp((ln 2 + ln 4 + ln 8) / 3) = 4, in batches of two and one.
        let first = scores(2, &[0.0, 0.0, 0.0, 3_f32.ln()]);
        let batches = [(first, labels(&[0, 0])), (scores(1, &[0.0, 7_f32.ln()]), labels(&[0]))];
        assert!((value(&mut perplexity, &batches) - 4.0).abs() < 1e-6);
        // Large logits neither overflow nor vanish.
        let large = [(scores(1, &[1000.0, 1000.0]), labels(&[0]))];
        assert!((value(&mut perplexity, &large) - 2.0).abs() < 1e-9);
        let padded = [(scores(2, &[0.0, 0.0, 9.0, 0.0]), labels(&[0, 1]))];
        assert!((value(&mut perplexity.ignoring(1), &padded) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn confusion_by_hand() {
        let one_hot = |class: usize| (0..3).map(|other| f32::from(u8::from(other == class))).collect::<Vec<_>>();
        let rows: Vec<f32> = [0, 1, 1, 2, 2, 0].iter().flat_map(|&class| one_hot(class)).collect();
        let batches = [(scores(4, &rows[..12]), labels(&[0, 0, 1, 2])), (scores(2, &rows[12..]), labels(&[1, 0]))];
        let mut matrix = ConfusionMatrix::new("logits", "labels");
        // F1: class 0: 4/(4+1), class 1: 2/(2+1+1), class 2: 2/(2+1).
        let expected = (4.0 / 5.0 + 0.5 + 2.0 / 3.0) / 3.0;
        assert!((value(&mut matrix, &batches) - expected).abs() < 1e-12);
        assert_eq!((matrix.at(0, 0), matrix.at(0, 1), matrix.at(1, 2), matrix.at(9, 0)), (2, 1, 1, 0));
        assert_eq!((matrix.precision(0), matrix.recall(0)), (1.0, 2.0 / 3.0));
        assert_eq!((matrix.precision(2), matrix.recall(2)), (0.5, 1.0));
        let table = "       0 1 2\n     0 2 1 0\n     1 0 1 1\n     2 0 0 1";
        assert_eq!(matrix.to_string(), table);
    }

    #[test]
    fn mistakes_are_named() {
        let (two, three) = (scores(2, &[0.0; 4]), labels(&[0, 1, 0]));
        let error = Predictions::new(&two, &three).unwrap_err();
        assert_eq!(
            error.to_string(),
            "labels u32[3] do not fit scores f32[2, 2], expected one label for each row of scores"
        );
        let (good, bad) = (scores(2, &[0.0; 4]), labels(&[0, 2]));
        let error = TopK::accuracy("", "").count(&Predictions::new(&good, &bad).unwrap()).unwrap_err();
        assert_eq!(error, MetricError::Label { index: 1, found: 2, classes: 2 });
        let outputs = [("loss".to_owned(), Tensor::scalar(1.0))];
        let error = TopK::accuracy("logits", "labels").update(&Results::new(&outputs, &[])).unwrap_err();
        assert_eq!(error.to_string(), r#"a metric needs "logits", expected one of ["loss"]"#);
        assert!(matches!(Predictions::new(&good, &good.clone()), Err(MetricError::Shapes { .. })));
        let floats = Tensor::from_f32([2], vec![0.0, 1.0]).unwrap();
        assert!(matches!(Predictions::new(&good, &floats), Err(MetricError::Tensor { .. })));
    }

    #[test]
    fn means_count_items() {
        let mut mean = Mean::default();
        assert!(mean.value().is_nan());
        mean.add(1.0, 3.0);
        mean.add(5.0, 1.0);
        assert_eq!(mean.value(), 2.0);
    }
}
