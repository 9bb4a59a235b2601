//! A layer of a transformer.

use super::{Activation, AttentionContext, Dropout, LayerNorm, Linear, MultiHeadAttention};
use crate::params::Scope;
use meganeura_core::ir::Value;

/// Self-attention and two affine maps at each position, each added to its operand: PyTorch's `TransformerEncoderLayer`, with
/// its names `self_attn`, `linear1`, `linear2`, `norm1`, `norm2`; with causal attention a layer of a decoder without cross
/// attention, such as GPT's. `f32[batch, length, width] → f32[batch, length, width]`.
///
/// `x = norm1(x + self_attn(x)); norm2(x + linear2(activation(linear1(x))))`, or, with [`norm_first`](Self::norm_first),
/// `x = x + self_attn(norm1(x)); x + linear2(activation(linear1(norm2(x))))` (Xiong et al., arXiv 2002.04745).
#[derive(Clone, Copy, Debug)]
pub struct TransformerEncoderLayer {
    attention: MultiHeadAttention,
    hidden: usize,
    activation: Activation,
    norm: LayerNorm,
    norm_first: bool,
    dropout: Dropout,
}

impl TransformerEncoderLayer {
    /// `heads` heads with stacked maps, `hidden` features between the affine maps; ReLU, norms at the end, no dropout.
    pub fn new(heads: usize, hidden: usize) -> TransformerEncoderLayer {
        TransformerEncoderLayer {
            attention: MultiHeadAttention::new(heads).packed(),
            hidden,
            activation: Activation::Relu,
            norm: LayerNorm::default(),
            norm_first: false,
            dropout: Dropout::new(0.0),
        }
    }

    /// The same with other attention.
    #[must_use]
    pub fn with_attention(self, attention: MultiHeadAttention) -> TransformerEncoderLayer {
        TransformerEncoderLayer { attention, ..self }
    }

    /// The same with another activation.
    #[must_use]
    pub fn with_activation(self, activation: Activation) -> TransformerEncoderLayer {
        TransformerEncoderLayer { activation, ..self }
    }

    /// The same with other norms.
    #[must_use]
    pub fn with_norm(self, norm: LayerNorm) -> TransformerEncoderLayer {
        TransformerEncoderLayer { norm, ..self }
    }

    /// The same with norms before attention and before the affine maps, not after.
    #[must_use]
    pub fn norm_first(self) -> TransformerEncoderLayer {
        TransformerEncoderLayer { norm_first: true, ..self }
    }

    /// The same with dropout of what attention and the affine maps give, and between these.
    #[must_use]
    pub fn with_dropout(self, rate: f32) -> TransformerEncoderLayer {
        TransformerEncoderLayer { dropout: Dropout::new(rate), ..self }
    }

    /// Applies it to `x`, `f32[batch, length, width]`.
    #[track_caller]
    pub fn forward<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>) -> Value<'g> {
        self.forward_in(g, x, AttentionContext::default())
    }

    /// The same with masks, lengths or positions.
    #[track_caller]
    pub fn forward_in<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>, context: AttentionContext<'g>) -> Value<'g> {
        let norm = |name: &str, x: Value<'g>| self.norm.forward(&g.sub(name), x);
        let attend = |x: Value<'g>| {
            let attended = self.attention.forward_in(&g.sub("self_attn"), x, context);
            self.dropout.forward(g, attended)
        };
        if self.norm_first {
            let x = x + attend(norm("norm1", x));
            return x + self.affine(g, norm("norm2", x));
        }
        let x = norm("norm1", x + attend(x));
        norm("norm2", x + self.affine(g, x))
    }

    #[track_caller]
    fn affine<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>) -> Value<'g> {
        let width = x.shape().last().copied().unwrap_or(1);
        let hidden = self.activation.forward(Linear::new(self.hidden).forward(&g.sub("linear1"), x));
        let result = Linear::new(width).forward(&g.sub("linear2"), self.dropout.forward(g, hidden));
        self.dropout.forward(g, result)
    }
}
