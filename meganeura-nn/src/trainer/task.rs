//! What is trained: a model and what it is to learn, as one function from a batch to a loss.

use super::error::TrainError;
use crate::params::Scope;
use meganeura_core::ir::{Builder, Value};
use meganeura_core::shape::TensorType;

/// A model with its loss. The same function builds the program that trains and the one that validates;
/// [`Scope::is_training`] tells them apart, as dropout and batch norm do by themselves.
///
/// ```
/// use meganeura_nn::layers::Linear;
/// use meganeura_nn::loss::cross_entropy;
/// use meganeura_nn::params::Scope;
/// use meganeura_nn::trainer::{Inputs, Outcome, Task, TrainError};
///
/// struct Digits;
///
/// impl Task for Digits {
///     fn step<'g>(&self, g: &Scope<'_, 'g>, batch: &Inputs<'g>) -> Result<Outcome<'g>, TrainError> {
///         let (images, labels) = (batch.get("images")?, batch.get("labels")?);
///         let pixels = images.reshape([images.shape()[0], 784]);
///         let logits = Linear::new(10).forward(&g.sub("fc"), pixels);
///         Ok(Outcome::new(cross_entropy(logits, labels)).output("logits", logits))
///     }
/// }
/// ```
pub trait Task {
    /// Builds the model and its loss on a batch whose fields are the loader's.
    ///
    /// # Errors
    /// [`TrainError::NoField`] from [`Inputs::get`], or [`TrainError::Task`].
    fn step<'g>(&self, g: &Scope<'_, 'g>, batch: &Inputs<'g>) -> Result<Outcome<'g>, TrainError>;
}

/// The fields of a batch as inputs of a program, each `[rows, …]`.
#[derive(Clone, Debug)]
pub struct Inputs<'g> {
    values: Vec<(String, Value<'g>)>,
}

impl<'g> Inputs<'g> {
    /// Declares an input for each field.
    #[track_caller]
    pub fn declare(builder: &'g Builder, fields: &[(String, TensorType)]) -> Inputs<'g> {
        let declare = |(name, ty): &(String, TensorType)| (name.clone(), builder.input(name.clone(), ty.clone()));
        Inputs { values: fields.iter().map(declare).collect() }
    }

    /// The field of that name.
    ///
    /// # Errors
    /// [`TrainError::NoField`].
    pub fn get(&self, name: &str) -> Result<Value<'g>, TrainError> {
        let found = self.values.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| *value).ok_or_else(|| TrainError::NoField {
            name: name.to_owned(),
            known: self.values.iter().map(|(name, _)| name.clone()).collect(),
        })
    }
}

/// What a [`Task`] makes of a batch.
#[derive(Clone, Debug)]
pub struct Outcome<'g> {
    pub(super) loss: Value<'g>,
    pub(super) outputs: Vec<(String, Value<'g>)>,
}

impl<'g> Outcome<'g> {
    /// A loss, `f32[]`, which is a mean over the rows of the batch.
    pub fn new(loss: Value<'g>) -> Outcome<'g> {
        Outcome { loss, outputs: Vec::new() }
    }

    /// A value that validations give to metrics: logits, or a number. A program that trains does not compute it for its
    /// own sake. `loss` is there already.
    #[must_use]
    pub fn output(mut self, name: impl Into<String>, value: Value<'g>) -> Outcome<'g> {
        self.outputs.push((name.into(), value));
        self
    }
}
