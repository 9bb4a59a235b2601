//! Kernels as data: what one dispatch computes, without saying how.
//!
//! A [`Kernel`] has an iteration space, tensors it reads and writes, a list of scalar expressions, and stores. There is
//! no list of kernel names: a fused norm, an optimiser update and a matrix product with an activation are all the same
//! structure with other fields. How a kernel is spread over a device is its [`schedule`](crate::schedule), not part of it.
//!
//! - **Map**: every axis is [`Role::Parallel`]; each point computes its stores.
//! - **Row**: some axes are [`Role::Reduce`]; [`Expr::Reduce`] folds an expression over them, and later expressions may
//!   use the folded value again at each element, so softmax, norms and their gradients are one kernel of several passes.
//!   Parallel axes precede reduce axes.
//! - **Contract**: [`Body::Contract`]; axes are batch (`Parallel`), rows, columns and the contracted `Reduce` axes; the
//!   operands are arbitrary expressions (loads with access maps and elementwise work: the *prologue*) and the stores see
//!   [`Expr::Acc`] (the *epilogue*).
//! - **Stream**: [`Body::Stream`]; rows stay while elements pass by: products, a softmax or any other function of them, and
//!   products again, as in attention.

mod interp;
mod ir;
mod merge;
mod point;
mod print;
mod stream;
mod substitute;
mod verify;

pub use interp::{InterpError, interp};
pub use ir::*;
pub use merge::{map_indices, merge_axes};
pub use point::{Mismatch, PointContext};
pub use stream::{Score, Stream, Total};
pub use substitute::Transplant;
pub use verify::{Invariant, Part, Problem, VerifyError, verify};
