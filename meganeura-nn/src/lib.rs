//! Layers, losses, optimisers, data and checkpoints of meganeura.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod checkpoint;
pub mod data;
pub mod init;
pub mod layers;
pub mod loss;
pub mod models;
pub mod optim;
pub mod params;
pub mod random;
pub mod train;
pub mod trainer;
