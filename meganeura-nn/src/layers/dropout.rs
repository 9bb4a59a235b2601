//! Dropout and its random state.

use crate::params::Scope;
use meganeura_core::dtype::DType;
use meganeura_core::ir::{Builder, StateSpec, Value};
use meganeura_core::scalar::Scalar;
use meganeura_core::shape::{Shape, TensorType};
use std::cell::Cell;

/// The source of a program's random numbers: a state `u32[2]` of seed and step, that counts the steps itself.
///
/// Each user takes a stream of its own, so that equal layers draw different masks.
#[derive(Debug)]
pub struct Randomness<'g> {
    key: Value<'g>,
    streams: Cell<u32>,
}

impl<'g> Randomness<'g> {
    /// Name of the state; write `[seed, 0]` to it before the first step.
    pub const STATE: &'static str = "random.key";

    /// Declares the state and its update. One for a graph.
    #[track_caller]
    pub fn new(builder: &'g Builder) -> Randomness<'g> {
        let ty = TensorType::new(DType::U32, [2]);
        let init = Scalar::zero(DType::U32);
        let key = builder.state(StateSpec { name: Self::STATE.to_owned(), ty, group: "random".to_owned(), init });
        // [seed, step] + [0, 1]
        builder.update(key, key + builder.iota([2], 0));
        Randomness { key, streams: Cell::new(0) }
    }

    /// Uniform `f32` of `[0, 1)`, from a stream that no other call uses.
    #[track_caller]
    pub fn uniform(&self, shape: impl Into<Shape>) -> Value<'g> {
        let stream = self.streams.get();
        self.streams.set(stream.wrapping_add(1));
        self.key.builder().random_uniform(self.key, shape, stream)
    }
}

/// Sets each element to 0 with probability `rate` and divides the others by `1 − rate` (Srivastava et al., JMLR 2014, in
/// its inverted form).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    rate: f32,
}

impl Dropout {
    /// Drops elements with a probability of `rate`, in `[0, 1]`; `NaN` outside, so that a mistake shows in the loss.
    pub fn new(rate: f32) -> Dropout {
        Dropout { rate: if (0.0..=1.0).contains(&rate) { rate } else { f32::NAN } }
    }

    /// Applies it to `x`, of any shape, while training; the identity in a program for inference.
    #[track_caller]
    pub fn forward<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>) -> Value<'g> {
        if self.rate == 0.0 {
            return x;
        }
        let Some(randomness) = g.randomness() else { return x };
        let dropped = randomness.uniform(x.shape()).lt(x.like(f64::from(self.rate)));
        let scale = if self.rate == 1.0 { 1.0 } else { 1.0 / (1.0 - self.rate) };
        // A product, not a choice between x and 0: NaN in a dropped element stays, as in PyTorch.
        x * dropped.select(x.like(0.0), x.like(f64::from(scale)))
    }
}
