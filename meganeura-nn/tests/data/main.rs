//! Data sets on disk and loaders.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod csv;
mod folder;
mod loader;
mod mnist;
mod text;
