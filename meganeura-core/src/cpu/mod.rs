//! The CPU device: executes a [`Plan`](crate::memory::Plan) with blocked vector loops on all threads.
//!
//! Preparation lowers each distinct kernel once, to straight-line instructions over blocks of consecutive points
//! (`code`); running evaluates an instruction for a whole block before the next one, so that interpretation costs
//! little and the inner loops are vector code. Floats are computed in f32, as on a GPU. Results do not depend on the number
//! of threads: work is cut by the kernel's extents alone. [`Spec`](crate::schedule::Spec)s are ignored.

mod buffer;
mod coalesce;
mod code;
mod contract;
mod executor;
mod functions;
mod gemm;
mod lanes;
mod machine;
mod passes;
mod row;
#[cfg(test)]
mod speed;
mod stream;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod threads;

pub use buffer::{Buffer, RangeError};
pub use executor::{Executor, RunError};
