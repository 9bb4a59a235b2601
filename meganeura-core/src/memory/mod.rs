//! The memory plan: which dispatches run in which order, and where every tensor lies.

mod plan;

pub use plan::*;
