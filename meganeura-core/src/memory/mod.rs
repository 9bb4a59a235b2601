//! The memory plan: which dispatches run in which order, and where every tensor lies.
//!
//! `order` puts scheduled kernels into groups that barriers separate, so that states are written after every
//! read of their old value; `place` gives every tensor a range of a buffer, sharing storage between tensors whose
//! lifetimes do not overlap; `verify` checks the result.

mod alias;
mod evidence;
mod interp;
mod layout;
mod order;
mod place;
mod plan;
mod verify;

pub use evidence::{Before, Evidence, UpdateOf};
pub use interp::interp;
pub use order::{Order, order};
pub use place::{Lifetime, PlanError, Planned, plan};
pub use plan::*;
pub use verify::{MemoryError, verify, verify_plan};
