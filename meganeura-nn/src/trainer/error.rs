//! Why a training cannot go on.

use super::event::ObserverError;
use super::metrics::MetricError;
use crate::checkpoint::{CheckpointError, PartError};
use crate::data::LoaderError;
use crate::train::InitError;
use meganeura_core::ir::BuildErrors;
use meganeura_core::pipeline::CompileError;
use meganeura_core::tensor::TensorError;
use meganeura_wgpu::DeviceError;

/// A training could not begin, or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The task asks for a field that batches do not have.
    #[error("the task needs the field {name:?}, but a batch has {known:?}")]
    NoField {
        /// The field.
        name: String,
        /// The fields that there are.
        known: Vec<String>,
    },
    /// The task itself refuses.
    #[error("{0}")]
    Task(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Mistakes in building a graph.
    #[error(transparent)]
    Build(#[from] BuildErrors),
    /// A graph could not be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// An output is not what it should be.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// Initial values could not be written.
    #[error(transparent)]
    Init(#[from] InitError),
    /// A batch could not be read.
    #[error(transparent)]
    Loader(#[from] LoaderError),
    /// A checkpoint, a log or curves could not be written or read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A checkpoint is of another kind of training.
    #[error(transparent)]
    Part(#[from] PartError),
    /// A metric could not be computed.
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// A metric is asked for that no validation gives.
    #[error("there is no metric {name:?}; a validation gives {known:?}")]
    NoMetric {
        /// Its name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// An observer cannot go on.
    #[error(transparent)]
    Observer(ObserverError),
    /// A result of a step is `NaN` or infinite.
    #[error("the {what} of step {step} is {value}, expected a number{}", place.as_deref().map(|place| format!("; {place}")).unwrap_or_default())]
    NotFinite {
        /// `loss` or `gradient norm`.
        what: &'static str,
        /// The step, from 1.
        step: u64,
        /// What it is.
        value: f64,
        /// Where it came from, if a watch was asked to find that out.
        place: Option<String>,
    },
}
