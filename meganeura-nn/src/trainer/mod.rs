//! Training runs: what stands around the steps of a program.
//!
//! A [`Task`] says what is learnt, a [`Recipe`] how, a [`Trainer`] runs it. Each part is of use alone: a recipe makes graphs
//! for anybody's loop, and [`metrics`], [`EarlyStop`], [`Console`], [`EventLog`], [`History`] and [`Interrupt`] know no trainer.

mod console;
#[cfg(feature = "plot")]
pub mod curves;
mod early_stop;
mod error;
mod event;
mod fit;
mod history;
mod interrupt;
mod log;
pub mod metrics;
mod options;
mod programs;
mod recipe;
mod reports;
mod saving;
mod task;
mod validate;

pub use console::Console;
pub use early_stop::{Aim, EarlyStop};
pub use error::TrainError;
pub use event::{Ended, EpochStart, Event, Observer, ObserverError, StepReport};
pub use fit::Fitted;
pub use history::History;
pub use interrupt::{Interrupt, SignalError};
pub use log::EventLog;
pub use options::{Every, Trainer};
pub use recipe::{Recipe, TaskGraph};
pub use saving::Checkpoints;
pub use task::{Inputs, Outcome, Task};
