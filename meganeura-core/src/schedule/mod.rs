//! How kernels are spread over a device: plain data about the device ([`Caps`]) and about one dispatch ([`Spec`]).

mod caps;
mod spec;

pub use caps::*;
pub use spec::*;
