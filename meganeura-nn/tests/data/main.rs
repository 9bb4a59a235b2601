//! Data sets on disk and loaders.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod augment;
mod csv;
mod folder;
#[cfg(feature = "images")]
mod images;
mod loader;
mod mnist;
mod text;
