//! The compiler of meganeura: a static typed graph is differentiated, simplified, laid out, partitioned into kernels,
//! scheduled for a device, and memory-planned. This crate knows neither WGSL nor wgpu nor files; it holds the f64
//! oracle that defines what every op means, and the CPU device that executes the same [`memory::Plan`] as a GPU.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod cpu;
pub mod dtype;
pub mod index;
pub mod kernel;
pub mod memory;
pub mod scalar;
pub mod schedule;
pub mod shape;
