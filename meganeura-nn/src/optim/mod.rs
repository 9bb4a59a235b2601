//! Optimisers: updates of the parameters as part of the same program.

mod adamw;
mod sgd;

pub use adamw::AdamW;
pub use sgd::Sgd;

use crate::params::Parameters;
use meganeura_core::dtype::DType;
use meganeura_core::ir::{Phase, StateSpec, Value};
use meganeura_core::scalar::Scalar;
use meganeura_core::shape::TensorType;

/// An algorithm that changes parameters along their gradients.
pub trait Optimizer {
    /// Adds the update of every trainable parameter to the graph. `rate` is the learning rate, `f32[]`: an input, or
    /// computed from a step counter, so that it changes without another program.
    fn update<'g>(&self, parameters: &Parameters<'g>, gradients: &[Value<'g>], rate: Value<'g>);

    /// Differentiates `loss` (`f32[]`) and updates every trainable parameter. The gradients, in the order of
    /// [`Parameters::trainable`].
    #[track_caller]
    fn minimize<'g>(&self, parameters: &Parameters<'g>, loss: Value<'g>, rate: Value<'g>) -> Vec<Value<'g>> {
        let values: Vec<Value<'g>> = parameters.trainable().into_iter().map(|(_, value)| value).collect();
        let gradients = parameters.builder().gradients(loss, &values);
        parameters.builder().in_phase(Phase::Update, || self.update(parameters, &gradients, rate));
        gradients
    }
}

/// A state that an optimiser keeps for a parameter: `optimizer.{kind}.{name}`, of the parameter's type, 0 at first.
#[track_caller]
fn moment<'g>(kind: &str, name: &str, parameter: Value<'g>) -> Value<'g> {
    let ty = parameter.ty();
    let init = Scalar::zero(ty.dtype);
    let name = format!("optimizer.{kind}.{name}");
    parameter.builder().state(StateSpec { name, ty, group: format!("optimizer.{kind}"), init })
}

/// Runs `build` with the nodes that it makes marked as work on the layer that has the parameter `name`.
fn for_layer<R>(parameters: &Parameters<'_>, name: &str, build: impl FnOnce() -> R) -> R {
    let layer = name.rsplit_once('.').map_or(name, |(layer, _)| layer);
    parameters.builder().scoped(layer, build)
}

/// The number of this step, from 1, as `u32[]`: a state that counts itself.
#[track_caller]
fn step_number<'g>(parameters: &Parameters<'g>) -> Value<'g> {
    let builder = parameters.builder();
    let init = Scalar::zero(DType::U32);
    let ty = TensorType::new(DType::U32, []);
    let steps = builder.state(StateSpec { name: "optimizer.step".to_owned(), ty, group: "optimizer".to_owned(), init });
    let now = steps + steps.like(1.0);
    builder.update(steps, now);
    now
}
