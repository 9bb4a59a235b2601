//! How a task is trained, and the graphs which that makes.

use super::error::TrainError;
use super::task::{Inputs, Task};
use crate::optim::{Optimizer, Rate, Schedule, Training};
use crate::params::{ParameterSpec, Parameters};
use meganeura_core::ir::{Builder, Graph};
use meganeura_core::shape::TensorType;
use std::fmt;

/// Output of both graphs: `f32[]`.
pub(super) const LOSS: &str = "loss";
/// Output of a graph that trains: the learning rate, `f32[]`.
pub(super) const RATE: &str = "rate";
/// Output of a graph that trains: the norm of all gradients together before clipping, `f32[]`.
pub(super) const GRADIENT_NORM: &str = "gradient_norm";

/// Optimiser, learning rate, and what surrounds them.
pub struct Recipe {
    optimizer: Box<dyn Optimizer>,
    rate: Schedule,
    configure: Box<Configure>,
    frozen: Vec<String>,
    gradient_norm: bool,
}

type Configure = dyn for<'a, 'g> Fn(Training<'a, 'g>) -> Training<'a, 'g>;

/// A graph and the parameters that it uses.
#[derive(Clone, Debug)]
pub struct TaskGraph {
    /// The graph.
    pub graph: Graph,
    /// Its parameters, in the order of their making.
    pub parameters: Vec<ParameterSpec>,
}

impl Recipe {
    /// Training by an optimiser at a learning rate.
    pub fn new(optimizer: impl Optimizer + 'static, rate: Schedule) -> Recipe {
        let (optimizer, configure) = (Box::new(optimizer), Box::new(same));
        Recipe { optimizer, rate, configure, frozen: Vec::new(), gradient_norm: true }
    }

    /// What [`Training`] offers: groups, clipping, accumulation, averages. Of several calls the last one counts.
    ///
    /// ```
    /// # use meganeura_nn::{optim::{AdamW, Schedule}, trainer::Recipe};
    /// let recipe = Recipe::new(AdamW::default(), Schedule::constant(1e-3))
    ///     .training(|training| training.decay_matrices_only().clip_norm(1.0));
    /// ```
    #[must_use]
    pub fn training(self, configure: impl for<'a, 'g> Fn(Training<'a, 'g>) -> Training<'a, 'g> + 'static) -> Recipe {
        Recipe { configure: Box::new(configure), ..self }
    }

    /// Freezes parameters by their names; see [`Parameters::freeze`].
    #[must_use]
    pub fn freeze(mut self, pattern: impl Into<String>) -> Recipe {
        self.frozen.push(pattern.into());
        self
    }

    /// Does without the norm of the gradients, which reports then lack. It costs a pass over all gradients, and on a GPU
    /// dispatches of its own; with clipping by norm it is there anyway.
    #[must_use]
    pub fn without_gradient_norm(self) -> Recipe {
        Recipe { gradient_norm: false, ..self }
    }

    /// The graph of a step that trains on batches of these fields. Outputs `loss`, `rate` and, unless it is done without,
    /// `gradient_norm`, each `f32[]`.
    ///
    /// # Errors
    /// Those of the task, and [`TrainError::Build`].
    pub fn training_graph(&self, task: &dyn Task, fields: &[(String, TensorType)]) -> Result<TaskGraph, TrainError> {
        let builder = Builder::new();
        let parameters = self.freezing(Parameters::new(&builder));
        let outcome = task.step(&parameters.root(), &Inputs::declare(&builder, fields))?;
        let training = Training::new(&parameters, self.optimizer.as_ref(), Rate::from(self.rate.clone()));
        let trained = (self.configure)(training).minimize(outcome.loss);
        builder.output(LOSS, outcome.loss);
        builder.output(RATE, trained.rate);
        if self.gradient_norm {
            builder.output(GRADIENT_NORM, trained.gradient_norm);
        }
        let parameters = parameters.specs();
        Ok(TaskGraph { graph: builder.finish()?, parameters })
    }

    /// The graph of a step that validates. Outputs `loss`, and those of the task.
    ///
    /// # Errors
    /// Those of the task, and [`TrainError::Build`].
    pub fn validation_graph(&self, task: &dyn Task, fields: &[(String, TensorType)]) -> Result<TaskGraph, TrainError> {
        let builder = Builder::new();
        let parameters = self.freezing(Parameters::inference(&builder));
        let outcome = task.step(&parameters.root(), &Inputs::declare(&builder, fields))?;
        builder.output(LOSS, outcome.loss);
        outcome.outputs.into_iter().for_each(|(name, value)| builder.output(name, value));
        let parameters = parameters.specs();
        Ok(TaskGraph { graph: builder.finish()?, parameters })
    }

    fn freezing<'g>(&self, parameters: Parameters<'g>) -> Parameters<'g> {
        self.frozen.iter().fold(parameters, |parameters, pattern| parameters.freeze(pattern.clone()))
    }
}

fn same<'a, 'g>(training: Training<'a, 'g>) -> Training<'a, 'g> {
    training
}

impl fmt::Debug for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recipe").field("rate", &self.rate).field("frozen", &self.frozen).finish_non_exhaustive()
    }
}
