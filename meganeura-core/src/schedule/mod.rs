//! How kernels are spread over a device: plain data about the device ([`Caps`]) and about one dispatch ([`Spec`]).

mod caps;
mod run;
mod spec;
mod step;

pub use caps::*;
pub use run::{ScheduleError, schedule, verify};
pub use spec::*;
pub use step::Step;
