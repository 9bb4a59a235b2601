//! What an optimiser sees of one parameter.

use meganeura_core::ir::{StateSpec, Value};
use meganeura_core::scalar::Scalar;
use meganeura_core::shape::{Shape, TensorType};

/// One parameter in one step: its learning rate, the number of the step, and the states kept for it.
#[derive(Debug)]
pub struct Slot<'a, 'g> {
    pub(super) name: &'a str,
    pub(super) parameter: Value<'g>,
    pub(super) rate: Value<'g>,
    pub(super) step: Value<'g>,
    pub(super) decay: f32,
    /// Whether this run of the program is an update, where several runs make one; `bool[]`.
    pub(super) applies: Option<Value<'g>>,
}

impl<'g> Slot<'_, 'g> {
    /// The parameter's name.
    pub fn name(&self) -> &str {
        self.name
    }

    /// Its learning rate, `f32[]`.
    pub fn rate(&self) -> Value<'g> {
        self.rate
    }

    /// The number of this update, from 1, `f32[]`.
    pub fn step(&self) -> Value<'g> {
        self.step
    }

    /// A weight decay as this parameter's group has it.
    pub fn decay(&self, decay: f32) -> f32 {
        decay * self.decay
    }

    /// A state kept for the parameter: `optimizer.{kind}.{name}`, of the parameter's type, 0 at first.
    #[track_caller]
    pub fn state(&self, kind: &str) -> Value<'g> {
        self.state_of(kind, self.parameter.shape())
    }

    /// As [`state`](Slot::state), of another shape.
    #[track_caller]
    pub fn state_of(&self, kind: &str, shape: impl Into<Shape>) -> Value<'g> {
        let dtype = self.parameter.dtype();
        let name = format!("optimizer.{kind}.{}", self.name);
        let group = format!("optimizer.{kind}");
        let ty = TensorType::new(dtype, shape);
        self.parameter.builder().state(StateSpec { name, ty, group, init: Scalar::zero(dtype) })
    }

    /// Lets a state have the value `new` from the next update on.
    #[track_caller]
    pub fn set(&self, old: Value<'g>, new: Value<'g>) {
        let new = self.applies.map_or(new, |applies| applies.select(new, old));
        old.builder().update(old, new);
    }
}
