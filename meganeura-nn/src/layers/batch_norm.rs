//! Normalisation over a batch, with running statistics.

use crate::init::Init;
use crate::params::Scope;
use meganeura_core::ir::Value;

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
            let epsilon = f64::from(self.epsilon);
            let normal = if g.is_training() && !g.is_frozen("running_mean") {
                let batch = x.batch_norm(epsilon);
                self.follow(mean, batch.mean);
                self.follow(variance, batch.variance);
                batch.value
            } else {
                x.batch_norm_with(mean, variance, epsilon)
            };
            normal * weight.along(1, x) + bias.along(1, x)
        })
    }

    /// Moves a running statistic towards the batch's. Of a single element the unbiased variance is 0 / 0; PyTorch refuses it,
    /// and here the statistics become NaN.
    #[track_caller]
    fn follow<'g>(&self, running: Value<'g>, batch: Value<'g>) {
        running.builder().update(running, running + (batch - running) * self.momentum);
    }
}
