//! Training runs: what stands around the steps of a program. Each part is of use alone.

mod early_stop;
pub mod metrics;

pub use early_stop::{Aim, EarlyStop};
