//! The graph: what a program means, before any decision about how to run it.
//!
//! A [`Graph`] is a list of [`Node`]s in which operands precede users. A node has one result; an algorithm with several
//! results is several nodes over the same operands, which partitioning puts into one kernel. States are values that
//! outlive a step: a [`StateDecl`] is read through a leaf and written at most once, by an [`Update`].

mod builder;
mod dot;
mod error;
mod graph;
mod print;
mod value;
mod verify;

pub use builder::{Builder, StateSpec};
pub use dot::dot;
pub use error::{BuildError, BuildErrors, Violation};
pub use graph::{Graph, Node, NodeId, Origin, Output, Phase, StateDecl, StateId, Update};
pub use value::Value;
pub use verify::{GraphError, verify, verify_same_boundary};
