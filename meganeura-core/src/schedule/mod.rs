//! How kernels are spread over a device: plain data about the device ([`Caps`]) and about one dispatch ([`Spec`]), the
//! rule that picks one for the other ([`choose`]), and what a schedule must satisfy ([`verify`]).

mod caps;
pub mod choose;
pub mod expand;
mod spec;
mod vectors;
mod verify;

pub use caps::*;
pub use choose::{Choice, Numerics, choose, contract};
pub use spec::*;
pub use vectors::{VECTOR, wide_arguments};
pub use verify::*;
