//! Training runs: what stands around the steps of a program. Each part is of use alone.

mod console;
#[cfg(feature = "plot")]
pub mod curves;
mod early_stop;
mod event;
mod history;
mod interrupt;
mod log;
pub mod metrics;

pub use console::Console;
pub use early_stop::{Aim, EarlyStop};
pub use event::{Ended, EpochStart, Event, Observer, ObserverError, StepReport};
pub use history::History;
pub use interrupt::{Interrupt, SignalError};
pub use log::EventLog;
