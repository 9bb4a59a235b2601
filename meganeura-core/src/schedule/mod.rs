//! How kernels are spread over a device: plain data about the device ([`Caps`]) and about one dispatch ([`Spec`]).

mod caps;
mod choose;
pub mod expand;
mod spec;

pub use caps::*;
pub use choose::*;
pub use spec::*;
