//! What the tests of every crate share: cases that run each op alone, a gradient check, random graphs. Nothing of a
//! program depends on it.
//!
//! Panics here are failures of the test that called: a sample that does not build is a defect of the op table.
#![allow(clippy::panic)]

mod case;
mod compositions;
mod counts;
mod coverage;
mod draws;
mod fuzz;
mod gradcheck;
mod states;
mod step;
mod windows;

pub use case::{Case, Variant, cases_of_op_table, cases_of_sample};
pub use compositions::{Composition, Function, cases_of_compositions, compositions};
pub use counts::{counts, is_differentiable};
pub use coverage::{Lack, lacks};
pub use draws::Draws;
pub use fuzz::random_graph;
pub use gradcheck::{GradientError, gradcheck};
pub use states::cases_of_states;
