//! How kernels are spread over a device: plain data about the device ([`Caps`]) and about one dispatch ([`Spec`]), the
//! rule that picks one for the other ([`choose`]), and what a schedule must satisfy ([`verify`]).

mod caps;
mod choose;
pub mod expand;
mod run;
mod spec;
mod step;
mod vectors;
mod verify;

pub use caps::*;
pub use choose::{Choice, Numerics, choose};
pub use run::{ScheduleError, Scheduler, verify_steps};
pub use spec::*;
pub use step::Step;
pub use vectors::{VECTOR, wide_arguments};
pub use verify::*;
