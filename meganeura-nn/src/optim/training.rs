//! The update of a whole model.

use super::schedule::{self, Rate, Schedule};
use super::{Optimizer, Slot};
use crate::params::{Parameters, average_name, matches};
use meganeura_core::dtype::DType;
use meganeura_core::ir::{Phase, StateSpec, Value};
use meganeura_core::scalar::Scalar;
use meganeura_core::shape::TensorType;

/// What some parameters have differently; see [`Training::group`].
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Names, as in [`Parameters::freeze`].
    pub pattern: String,
    /// Factor of the learning rate.
    pub rate: f32,
    /// Factor of the weight decay.
    pub decay: f32,
}

/// How a model is trained: an optimiser and what surrounds it. All of it is part of the program.
#[derive(Clone)]
pub struct Training<'a, 'g> {
    parameters: &'a Parameters<'g>,
    optimizer: &'a dyn Optimizer,
    rate: Rate<'g>,
    groups: Vec<Group>,
    decay_vectors: bool,
    clip_norm: Option<f32>,
    clip_value: Option<f32>,
    accumulate: u32,
    average: Option<f32>,
    loss_scale: f32,
}

/// What [`Training::minimize`] leaves for outputs and logs. What is not used is not computed.
#[derive(Clone, Debug)]
pub struct Trained<'g> {
    /// Gradients as differentiation gives them, in the order of [`Parameters::trainable`].
    pub gradients: Vec<Value<'g>>,
    /// Norm of all gradients together (accumulated, before any clipping), `f32[]`.
    pub gradient_norm: Value<'g>,
    /// The learning rate of this step, `f32[]`.
    pub rate: Value<'g>,
}

/// The state that counts updates, `u32[]`.
pub(crate) const STEP: &str = "optimizer.step";
/// The state that counts runs of the program since the last update, `u32[]`.
const MICRO_STEP: &str = "optimizer.micro_step";

impl<'a, 'g> Training<'a, 'g> {
    /// Training by `optimizer` of all trainable parameters of a model, at a learning rate: a number, a [`Schedule`] (which
    /// can be changed later: [`Schedule::store`]), or a value of the program.
    pub fn new(
        parameters: &'a Parameters<'g>,
        optimizer: &'a dyn Optimizer,
        rate: impl Into<Rate<'g>>,
    ) -> Training<'a, 'g> {
        Training {
            parameters,
            optimizer,
            rate: rate.into(),
            groups: Vec::new(),
            decay_vectors: true,
            clip_norm: None,
            clip_value: None,
            accumulate: 1,
            average: None,
            loss_scale: 1.0,
        }
    }

    /// Parameters with factors of their own. Of several groups that match a name the last one counts.
    #[must_use]
    pub fn group(mut self, group: Group) -> Self {
        self.groups.push(group);
        self
    }

    /// No weight decay of parameters with fewer than two dimensions: biases, and the weights of norms.
    #[must_use]
    pub fn decay_matrices_only(self) -> Self {
        Training { decay_vectors: false, ..self }
    }

    /// Scales all gradients by `limit / (norm + 1e-6)` where their common norm is beyond `limit`, as PyTorch does
    /// (Pascanu, Mikolov and Bengio, ICML 2013).
    #[must_use]
    pub fn clip_norm(self, limit: f32) -> Self {
        Training { clip_norm: Some(limit), ..self }
    }

    /// Clips each element of the gradients to `±limit`; before the norm, if both are asked for.
    #[must_use]
    pub fn clip_value(self, limit: f32) -> Self {
        Training { clip_value: Some(limit), ..self }
    }

    /// One update for every `runs` runs of the program, along the mean of their gradients.
    #[must_use]
    pub fn accumulate(self, runs: u32) -> Self {
        Training { accumulate: runs.max(1), ..self }
    }

    /// Keeps a moving average of each trainable parameter, `a = decay · a + (1 − decay) · p`, from the first update's
    /// result on; [`Parameters::averaged`] builds a model on them.
    #[must_use]
    pub fn average(self, decay: f32) -> Self {
        Training { average: Some(decay), ..self }
    }

    /// Differentiates `scale` times the loss, and divides the gradients by it: keeps small derivatives in the range of f16 where
    /// products round their operands to it. A power of two changes nothing else. Micikevicius et al., arXiv 1710.03740.
    #[must_use]
    pub fn loss_scale(self, scale: f32) -> Self {
        Training { loss_scale: scale, ..self }
    }

    /// The gradients of `loss` (`f32[]`) by all trainable parameters, in the order of [`Parameters::trainable`].
    #[track_caller]
    pub fn gradients(&self, loss: Value<'g>) -> Vec<Value<'g>> {
        let values: Vec<Value<'g>> = self.parameters.trainable().into_iter().map(|(_, value)| value).collect();
        let builder = self.parameters.builder();
        if self.loss_scale == 1.0 {
            return builder.gradients(loss, &values);
        }
        let scaled = builder.gradients(loss * self.loss_scale, &values);
        scaled.into_iter().map(|gradient| gradient * (1.0 / self.loss_scale)).collect()
    }

    /// Differentiates `loss` (`f32[]`) and updates every trainable parameter.
    #[track_caller]
    pub fn minimize(&self, loss: Value<'g>) -> Trained<'g> {
        let trainable = self.parameters.trainable();
        let builder = self.parameters.builder();
        let gradients = self.gradients(loss);
        builder.in_phase(Phase::Update, || {
            let applies = self.applies();
            let mut used: Vec<Value<'g>> = gradients.clone();
            if let Some(applies) = applies {
                used = trainable.iter().zip(used).map(|((name, _), g)| self.accumulated(name, g, applies)).collect();
            }
            let gradient_norm = norm(&used, loss);
            let clipped = self.clipped(used, loss);
            let step = self.step(applies);
            let one = builder.fill(Scalar::u32(1), []);
            let rate = self.rate.at(step - one);
            for ((name, p), g) in trainable.iter().zip(clipped) {
                // The work counts as the layer's that has the parameter.
                let layer = name.rsplit_once('.').map_or(name.as_str(), |(layer, _)| layer);
                builder.scoped(layer, || self.update(name, *p, g, rate, step, applies));
            }
            Trained { gradients, gradient_norm, rate }
        })
    }

    #[track_caller]
    fn update(
        &self,
        name: &str,
        p: Value<'g>,
        g: Value<'g>,
        rate: Value<'g>,
        step: Value<'g>,
        applies: Option<Value<'g>>,
    ) {
        let group = self.groups.iter().rev().find(|group| matches(&group.pattern, name));
        let default = if self.decay_vectors || p.shape().rank() > 1 { 1.0 } else { 0.0 };
        let (factor, decay) = group.map_or((1.0, default), |group| (group.rate, group.decay));
        let rate = if factor == 1.0 { rate } else { rate * factor };
        let slot = Slot { name, parameter: p, rate, step: step.cast(DType::F32), decay, applies };
        let new = self.optimizer.update(&slot, p, g);
        slot.set(p, new);
        if let Some(decay) = self.average {
            let ty = p.ty();
            let init = Scalar::zero(ty.dtype);
            let old = p.builder().state(StateSpec { name: average_name(name), ty, group: "average".to_owned(), init });
            let moved = old + (new - old) * (1.0 - decay);
            let first = step.eq(step.like(1.0));
            slot.set(old, first.select(new, moved));
        }
    }

    /// Whether this run of the program updates; nothing if every run does.
    #[track_caller]
    fn applies(&self) -> Option<Value<'g>> {
        if self.accumulate == 1 {
            return None;
        }
        let runs = self.counter(MICRO_STEP);
        let now = runs + runs.like(1.0);
        let last = now.ge(now.like(f64::from(self.accumulate)));
        self.parameters.builder().update(runs, last.select(now.like(0.0), now));
        Some(last)
    }

    /// The mean of the gradients since the last update, so far.
    #[track_caller]
    fn accumulated(&self, name: &str, g: Value<'g>, applies: Value<'g>) -> Value<'g> {
        let (ty, builder) = (g.ty(), g.builder());
        let init = Scalar::zero(ty.dtype);
        let (name, group) = (format!("optimizer.gradient.{name}"), "optimizer.gradient".to_owned());
        let old = builder.state(StateSpec { name, ty, group, init });
        let sum = old + g * (1.0 / self.accumulate as f32);
        builder.update(old, applies.select(sum.like(0.0), sum));
        sum
    }

    #[track_caller]
    fn clipped(&self, mut gradients: Vec<Value<'g>>, loss: Value<'g>) -> Vec<Value<'g>> {
        if let Some(limit) = self.clip_value.map(f64::from) {
            let clip = |g: Value<'g>| g.minimum(g.like(limit)).maximum(g.like(-limit));
            gradients = gradients.into_iter().map(clip).collect();
        }
        if let Some(limit) = self.clip_norm {
            let factor = limit / (norm(&gradients, loss) + 1e-6);
            let factor = factor.minimum(factor.like(1.0));
            gradients = gradients.into_iter().map(|g| g * factor).collect();
        }
        gradients
    }

    /// The number of the update that this run is part of, from 1, `u32[]`: a state that counts itself.
    #[track_caller]
    fn step(&self, applies: Option<Value<'g>>) -> Value<'g> {
        let steps = self.counter(STEP);
        let now = steps + steps.like(1.0);
        self.parameters.builder().update(steps, applies.map_or(now, |applies| applies.select(now, steps)));
        now
    }

    #[track_caller]
    fn counter(&self, name: &str) -> Value<'g> {
        let ty = TensorType::new(DType::U32, []);
        let (name, group) = (name.to_owned(), "optimizer".to_owned());
        self.parameters.builder().state(StateSpec { name, ty, group, init: Scalar::zero(DType::U32) })
    }
}

/// Euclidean norm of all values together; 0 of none.
#[track_caller]
fn norm<'g>(values: &[Value<'g>], loss: Value<'g>) -> Value<'g> {
    let squares = values.iter().map(|&g| (g * g).sum_all());
    squares.reduce(|sum, square| sum + square).unwrap_or_else(|| loss.builder().constant(0.0)).sqrt()
}

impl std::fmt::Debug for Training<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Training")
            .field("groups", &self.groups)
            .field("accumulate", &self.accumulate)
            .finish_non_exhaustive()
    }
}

impl Schedule {
    /// The state that holds the schedule of a program whose [`Training`] was given one.
    pub const STATE: &'static str = schedule::STATE;
}
