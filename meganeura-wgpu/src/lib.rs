//! The GPU runtime of meganeura on wgpu: kernels are printed as WGSL specialised to the program, and dispatched.
//!
//! [`Device`] finds what runs programs, a [`StateStore`] holds the states that programs share, and a [`Session`] runs
//! one planned program, on a GPU through wgpu or on the CPU device.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod buffers;
pub mod cache;
pub mod device;
pub mod error;
mod pipelines;
pub mod profile;
mod record;
pub mod session;
pub mod store;
mod transfer;
pub mod wgsl;

pub use cache::Cache;
pub use device::{AdapterSummary, Device, DeviceInfo, DeviceKind, Selector, adapters};
pub use error::{DeviceError, LayoutMismatch};
pub use profile::{HostSpans, Profile, ProfileError};
pub use session::{PendingRead, Recording, Report, Session, SessionOptions, ShaderChecks};
pub use store::StateStore;
