//! The compiler of meganeura: a static typed graph is differentiated, simplified, laid out, partitioned into kernels,
//! scheduled for a device, and memory-planned. This crate knows neither WGSL nor wgpu; it holds the f64
//! oracle that defines what every op means, and the CPU device that executes the same [`memory::Plan`] as a GPU.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod compose;
pub mod cost;
pub mod cpu;
pub mod debug;
pub mod dtype;
pub mod fuse;
pub mod grad;
pub mod index;
pub mod ir;
pub mod kernel;
pub mod layout;
pub mod memory;
mod observer;
pub mod ops;
pub mod options;
pub mod oracle;
pub mod pipeline;
pub mod program;
pub mod report;
pub mod rewrite;
pub mod scalar;
pub mod schedule;
pub mod shape;
pub mod tensor;
#[doc(hidden)]
pub mod testing;
