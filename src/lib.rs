//! Trains and runs neural networks on any GPU: a static typed graph is differentiated, fused, planned, printed as WGSL
//! that fits the program, and dispatched through Vulkan or Metal. The CPU device runs the same plan without a GPU.
//!
//! A model is built with a [`Builder`](ir::Builder), compiled for a [`Device`] by [`compile`], and run by a [`Session`]
//! whose states live in a [`StateStore`] that several sessions may share. [`prelude`] has what most programs use.
#![doc = "\n"]
#![doc = include_str!("../README.md")]

mod error;

pub use error::Error;
pub use meganeura_core::pipeline::{CompileError, Program, compile};
pub use meganeura_core::{
    compose, cost, dtype, ir, memory, ops, options, oracle, pipeline, scalar, schedule, shape, tensor,
};
pub use meganeura_nn as nn;
pub use meganeura_wgpu::{
    AdapterSummary, Cache, Device, DeviceError, DeviceInfo, DeviceKind, HostSpans, PendingRead, Profile, Recording,
    Selector, Session, SessionOptions, StateStore, adapters, profile,
};

/// What most programs use.
pub mod prelude {
    pub use crate::{Device, Error, Program, Session, StateStore, compile};
    pub use meganeura_core::compose::{AttentionOptions, Border, ConvOptions, PoolOptions, Positions, Resize, Rope};
    pub use meganeura_core::dtype::DType;
    pub use meganeura_core::ir::{BuildErrors, Builder, Graph, StateSpec, Value};
    pub use meganeura_core::options::Options;
    pub use meganeura_core::scalar::Scalar;
    pub use meganeura_core::shape::{Shape, TensorType};
    pub use meganeura_core::tensor::Tensor;
    pub use meganeura_nn::checkpoint::{Checkpoint, Fit, Progress, Renames, save_states};
    pub use meganeura_nn::data::{Batch, Batches, Dataset, Loader, LoaderOptions, Mnist, Partial, shuffled};
    pub use meganeura_nn::init::Init;
    pub use meganeura_nn::layers::{
        Activation, AttentionContext, AvgPool2d, BatchNorm, Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d, Dropout,
        Embedding, GroupNorm, LayerNorm, Linear, MaxPool2d, Mlp, MultiHeadAttention, Randomness, RmsNorm, SwiGlu,
        TransformerEncoderLayer,
    };
    pub use meganeura_nn::loss::{cross_entropy, mean_squared_error};
    pub use meganeura_nn::optim::{
        Adafactor, Adagrad, Adam, AdamW, Group, Lion, Optimizer, Rate, RmsProp, Schedule, Sgd, Trained, Training,
    };
    pub use meganeura_nn::params::{ParameterSpec, Parameters, Scope, summary};
    pub use meganeura_nn::train::{cosine_rate, initialize};
}
