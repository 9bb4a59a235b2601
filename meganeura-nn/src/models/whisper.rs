//! Whisper's encoder of sound.

use crate::init::Init;
use crate::layers::{Conv1d, LayerNorm, Mlp, MultiHeadAttention};
use crate::params::Scope;
use meganeura_core::ir::Value;

/// A mel spectrogram `f32[batch, mels, frames]` to states `f32[batch, positions, width]`, with a position for every second frame.
///
/// The table of positions, `embed_positions.weight`, is no trained parameter.
///
/// Source: Radford et al., Robust Speech Recognition via Large-Scale Weak Supervision, arXiv 2212.04356. Names of Hugging
/// Face's files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WhisperEncoder {
    /// Features of a position.
    pub width: usize,
    /// Number of layers.
    pub layers: usize,
    /// Number of heads.
    pub heads: usize,
    /// Features inside the feed-forward layer.
    pub inner: usize,
}

impl WhisperEncoder {
    /// Whisper-tiny's: 8.2 million parameters with 80 mels and 1500 positions.
    pub fn whisper_tiny() -> WhisperEncoder {
        WhisperEncoder { width: 384, layers: 4, heads: 6, inner: 1536 }
    }

    /// The same in small, for tests.
    pub fn tiny() -> WhisperEncoder {
        WhisperEncoder { width: 32, layers: 2, heads: 4, inner: 64 }
    }

    /// The states of the spectrogram `mel`.
    #[track_caller]
    pub fn forward<'g>(&self, g: &Scope<'_, 'g>, mel: Value<'g>) -> Value<'g> {
        let conv = Conv1d::new(self.width, 3).padding(1);
        let x = conv.clone().forward(&g.sub("conv1"), mel).gelu();
        let x = conv.stride(2).forward(&g.sub("conv2"), x).gelu().transpose();
        let positions = x.shape().get(1).copied().unwrap_or(1);
        let table = g.sub("embed_positions").frozen();
        let init = Init::Normal { mean: 0.0, std: 1.0 };
        let mut x = x + table.parameter("weight", [positions, self.width], init);
        for layer in 0..self.layers {
            x = self.layer(&g.sub("layers").sub(layer), x);
        }
        LayerNorm::default().forward(&g.sub("layer_norm"), x)
    }

    #[track_caller]
    fn layer<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>) -> Value<'g> {
        let attention = MultiHeadAttention::new(self.heads).with_biases([true, false, true, true]);
        let h = LayerNorm::default().forward(&g.sub("self_attn_layer_norm"), x);
        let x = x + attention.forward(&g.sub("self_attn"), h);
        x + Mlp::new(self.inner, self.width).forward(g, LayerNorm::default().forward(&g.sub("final_layer_norm"), x))
    }
}
