//! Optimisers: updates of the parameters as part of the same program.
//!
//! An [`Optimizer`] is a formula for one parameter; [`Training`] applies it to all of a model, with what surrounds it:
//! a learning rate or a [`Schedule`], [`Group`]s, clipping, accumulation of gradients, moving averages of the weights.

mod adafactor;
mod adagrad;
mod adam;
mod lion;
mod rmsprop;
mod schedule;
mod sgd;
mod slot;
mod training;

pub use adafactor::Adafactor;
pub use adagrad::Adagrad;
pub use adam::{Adam, AdamW};
pub use lion::Lion;
pub use rmsprop::RmsProp;
pub use schedule::{Curve, Piece, Rate, Schedule, ScheduleError};
pub use sgd::Sgd;
pub use slot::Slot;
pub use training::{Group, Trained, Training};

use crate::params::Parameters;
use meganeura_core::ir::Value;

/// An algorithm that changes a parameter along its gradient.
pub trait Optimizer {
    /// The new value of the parameter of `slot`, which is now `parameter`, from its gradient; both of one type. What is
    /// kept from step to step is declared and set through `slot`.
    #[track_caller]
    fn update<'g>(&self, slot: &Slot<'_, 'g>, parameter: Value<'g>, gradient: Value<'g>) -> Value<'g>;

    /// Differentiates `loss` (`f32[]`) and updates every trainable parameter at the learning rate `rate` (`f32[]`: an
    /// input, a constant, or computed). The gradients, in the order of [`Parameters::trainable`].
    ///
    /// The short form of [`Training::minimize`].
    #[track_caller]
    fn minimize<'g>(&self, parameters: &Parameters<'g>, loss: Value<'g>, rate: Value<'g>) -> Vec<Value<'g>>
    where
        Self: Sized,
    {
        Training::new(parameters, self, rate).minimize(loss).gradients
    }
}
