//! The oracle: host tensors of f64 and a graph interpreter over them. Slow and obvious; it defines what every op means
//! and serves tests only.

mod array;
mod run;

pub use array::{Array, for_each_point, linear};
pub use run::{OracleError, Run, run};
