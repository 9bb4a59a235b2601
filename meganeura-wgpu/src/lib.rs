//! The GPU runtime of meganeura on wgpu: kernels are printed as WGSL specialised to the program, and dispatched.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod wgsl;
