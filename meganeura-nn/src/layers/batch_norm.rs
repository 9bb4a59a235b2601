//! Normalisation over a batch, with running statistics.

use super::norm::{per_channel, standardized};
use crate::init::Init;
use crate::params::Scope;
use meganeura_core::ir::Value;
use meganeura_core::shape::Shape;

/// `(x − mean) / √(variance + ε) · weight + bias` for each channel over all items and positions; `weight` (ones) and `bias`
/// (zeros) are `[channels]`.
///
/// Training uses the batch's mean and biased variance, and moves the buffers `running_mean` (zeros) and `running_var` (ones)
/// towards its mean and unbiased variance: `r += momentum · (batch − r)`, as PyTorch does. Inference uses the buffers; so
/// does training where they are frozen. One use for each scope: a second one would move the statistics twice in a step,
/// which the builder refuses.
///
/// Source: Ioffe and Szegedy, Batch Normalization, ICML 2015.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNorm {
    /// Added to the variance.
    pub epsilon: f32,
    /// Part of the running statistics that a step replaces.
    pub momentum: f32,
}

impl Default for BatchNorm {
    /// PyTorch's: ε = 1e-5, momentum = 0.1.
    fn default() -> BatchNorm {
        BatchNorm { epsilon: 1e-5, momentum: 0.1 }
    }
}

impl BatchNorm {
    /// Applies it to `x`, `f32[items, channels, …]`.
    #[track_caller]
    pub fn forward<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>) -> Value<'g> {
        let shape = x.shape();
        let channels = shape.get(1).copied().unwrap_or(1);
        let weight = g.parameter("weight", [channels], Init::Ones);
        let bias = g.parameter("bias", [channels], Init::Zeros);
        let mean = g.buffer("running_mean", [channels], Init::Zeros);
        let variance = g.buffer("running_var", [channels], Init::Ones);
        g.mark(|| {
            let normal = if g.is_training() && !g.is_frozen("running_mean") {
                self.follow(x, &shape, mean, variance);
                standardized(x, &batch_axes(&shape), self.epsilon)
            } else {
                (x - per_channel(mean, &shape)) * per_channel((variance + self.epsilon).rsqrt(), &shape)
            };
            normal * per_channel(weight, &shape) + per_channel(bias, &shape)
        })
    }

    /// Moves the running statistics towards those of `x`.
    #[track_caller]
    fn follow<'g>(&self, x: Value<'g>, shape: &Shape, mean: Value<'g>, variance: Value<'g>) {
        let axes = batch_axes(shape);
        let x = x.stop_gradient();
        let count: usize = axes.iter().filter_map(|&axis| shape.get(axis)).product();
        // Of a single element the unbiased variance is 0 / 0; PyTorch refuses it, and here the statistics become NaN.
        let unbiased = x.variance(axes.clone()) * x.like(count as f64 / (count as f64 - 1.0));
        let moved = |old: Value<'g>, new: Value<'g>| old + (new - old) * self.momentum;
        mean.builder().update(mean, moved(mean, x.mean(axes)));
        variance.builder().update(variance, moved(variance, unbiased));
    }
}

/// All dimensions but the channels'.
fn batch_axes(shape: &Shape) -> Vec<usize> {
    (0..shape.rank()).filter(|&dim| dim != 1).collect()
}
