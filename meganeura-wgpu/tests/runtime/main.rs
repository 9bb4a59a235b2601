//! What happens over many steps, between threads, and when things go wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod pending;
mod soak;
mod threads;

use common::*;
use meganeura_core::memory::Plan;
use meganeura_core::tensor::Tensor;
use meganeura_wgpu::{Device, Recording, Session, SessionOptions, StateStore};
use std::sync::Arc;

/// `0, scale, 2 · scale, …`
fn ramp(scale: f32) -> Tensor {
    Tensor::from_f32([N], (0..N).map(|at| at as f32 * scale).collect()).unwrap()
}

/// The ways in which a device can record a step.
fn recordings(device: &Device) -> &'static [Recording] {
    match device.info().backend.as_str() {
        "vulkan" => &[Recording::Safe, Recording::Native],
        _ => &[Recording::Safe],
    }
}

fn recorded(recording: Recording) -> SessionOptions {
    SessionOptions { recording, ..SessionOptions::default() }
}

/// A session of a plan on a store, with `x` written.
fn open(device: &Device, plan: Plan, store: &StateStore, options: &SessionOptions, scale: f32) -> Session {
    let mut session = Session::with_options(device, Arc::new(plan), store, options).unwrap();
    session.write("x", &ramp(scale)).unwrap();
    session
}
