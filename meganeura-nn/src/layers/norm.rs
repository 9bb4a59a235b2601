//! Normalisations within an item: over its last dimension or over groups of its channels.

use crate::init::Init;
use crate::params::Scope;
use meganeura_core::ir::Value;

/// `(x − mean) / √(variance + ε) · weight + bias` over the last dimension; `weight` (ones) and `bias` (zeros) are `[width]`.
///
/// Source: Ba, Kiros and Hinton, Layer Normalization, arXiv 1607.06450.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerNorm {
    /// Added to the variance.
    pub epsilon: f32,
    /// Whether there is a bias.
    pub bias: bool,
}

impl Default for LayerNorm {
    /// PyTorch's: ε = 1e-5, with a bias.
    fn default() -> LayerNorm {
        LayerNorm { epsilon: 1e-5, bias: true }
    }
}

impl LayerNorm {
    /// Applies it to `x`, `f32[…, width]`.
    #[track_caller]
    pub fn forward<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>) -> Value<'g> {
        let shape = x.shape();
        let width = shape.last().copied().unwrap_or(1);
        let weight = g.parameter("weight", [width], Init::Ones);
        let bias = self.bias.then(|| g.parameter("bias", [width], Init::Zeros));
        g.mark(|| {
            let scaled = x.layer_norm(1, f64::from(self.epsilon)) * weight;
            bias.map_or(scaled, |bias| scaled + bias)
        })
    }
}

/// `x / √(mean(x²) + ε) · weight` over the last dimension; `weight` (ones) is `[width]`.
///
/// Source: Zhang and Sennrich, Root Mean Square Layer Normalization, NeurIPS 2019.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmsNorm {
    /// Added to the mean square.
    pub epsilon: f32,
}

impl Default for RmsNorm {
    /// ε = 1e-6.
    fn default() -> RmsNorm {
        RmsNorm { epsilon: 1e-6 }
    }
}

impl RmsNorm {
    /// Applies it to `x`, `f32[…, width]`.
    #[track_caller]
    pub fn forward<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>) -> Value<'g> {
        let shape = x.shape();
        let weight = g.parameter("weight", [shape.last().copied().unwrap_or(1)], Init::Ones);
        g.mark(|| x.rms_norm(1, f64::from(self.epsilon)) * weight)
    }
}

/// As [`LayerNorm`], over each of `groups` groups of neighbouring channels together with all positions; `weight` (ones) and
/// `bias` (zeros) are `[channels]`.
///
/// Source: Wu and He, Group Normalization, ECCV 2018.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupNorm {
    /// Number of groups; divides the channels.
    pub groups: usize,
    /// Added to the variance; PyTorch has 1e-5.
    pub epsilon: f32,
}

impl GroupNorm {
    /// That many groups, ε = 1e-5.
    pub fn new(groups: usize) -> GroupNorm {
        GroupNorm { groups, epsilon: 1e-5 }
    }

    /// Applies it to `x`, `f32[items, channels, …]`.
    #[track_caller]
    pub fn forward<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>) -> Value<'g> {
        let shape = x.shape();
        let channels = shape.get(1).copied().unwrap_or(1);
        let weight = g.parameter("weight", [channels], Init::Ones);
        let bias = g.parameter("bias", [channels], Init::Zeros);
        g.mark(|| x.group_norm(self.groups, f64::from(self.epsilon)) * weight.along(1, x) + bias.along(1, x))
    }
}
