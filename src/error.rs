//! One error over those of all stages.

use meganeura_core::ir::BuildErrors;
use meganeura_core::pipeline::CompileError;
use meganeura_core::tensor::TensorError;
use meganeura_nn::checkpoint::{CheckpointError, PartError};
use meganeura_nn::data::{DataError, LoaderError};
use meganeura_nn::loss::LabelError;
use meganeura_nn::optim::ScheduleError;
use meganeura_nn::train::InitError;
use meganeura_wgpu::{DeviceError, ProfileError};

/// Whatever can go wrong, for programs that handle it in one place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Mistakes in building a graph.
    #[error(transparent)]
    Build(#[from] BuildErrors),
    /// A graph could not be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A device, store or session failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A profile could not be made.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// Host data do not make the tensor asked for.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// Initial values could not be written.
    #[error(transparent)]
    Init(#[from] InitError),
    /// A checkpoint could not be written or read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A part of a training's state could not be put in or taken out.
    #[error(transparent)]
    Part(#[from] PartError),
    /// A schedule could not be stored.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A data set could not be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A batch could not be read.
    #[error(transparent)]
    Loader(#[from] LoaderError),
    /// A label is no class.
    #[error(transparent)]
    Label(#[from] LabelError),
}
