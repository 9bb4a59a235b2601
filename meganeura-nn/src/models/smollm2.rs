//! SmolLM2: a Llama-like decoder.

use crate::layers::{Embedding, MultiHeadAttention, RmsNorm, SwiGlu};
use crate::params::Scope;
use meganeura_core::compose::Rope;
use meganeura_core::ir::Value;

/// Token ids `u32[batch, tokens]` to logits `f32[batch, tokens, vocab]` by a causal decoder whose head is its embedding.
///
/// Source: Allal et al., SmolLM2, arXiv 2502.02737; Touvron et al., LLaMA, arXiv 2302.13971. Names of Hugging Face's files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmolLm2 {
    /// Number of tokens there are.
    pub vocab: usize,
    /// Features of a token.
    pub width: usize,
    /// Number of layers.
    pub layers: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Features of a head.
    pub head_width: usize,
    /// Features inside the feed-forward layer.
    pub inner: usize,
    /// Base of the rotary positions.
    pub rope_base: f64,
}

/// Added to the mean square by norms.
const NORM: RmsNorm = RmsNorm { epsilon: 1e-5 };

impl SmolLm2 {
    /// SmolLM2-135M: 134.5 million parameters.
    pub fn smollm2_135m() -> SmolLm2 {
        SmolLm2 {
            vocab: 49152,
            width: 576,
            layers: 30,
            heads: 9,
            kv_heads: 3,
            head_width: 64,
            inner: 1536,
            rope_base: 100_000.0,
        }
    }

    /// The same in small, for tests.
    pub fn tiny() -> SmolLm2 {
        let full = SmolLm2::smollm2_135m();
        SmolLm2 { vocab: 96, width: 48, layers: 2, heads: 6, kv_heads: 2, head_width: 8, inner: 64, ..full }
    }

    /// The logits that follow each of the tokens `ids`.
    #[track_caller]
    pub fn forward<'g>(&self, g: &Scope<'_, 'g>, ids: Value<'g>) -> Value<'g> {
        let model = g.sub("model");
        let tokens = Embedding::new(self.vocab, self.width);
        let mut x = tokens.forward(&model.sub("embed_tokens"), ids);
        for layer in 0..self.layers {
            x = self.layer(&model.sub("layers").sub(layer), x);
        }
        tokens.logits(&model.sub("embed_tokens"), NORM.forward(&model.sub("norm"), x))
    }

    #[track_caller]
    fn layer<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>) -> Value<'g> {
        let attention = MultiHeadAttention::new(self.heads)
            .head_width(self.head_width)
            .kv_heads(self.kv_heads)
            .with_names(["q_proj", "k_proj", "v_proj", "o_proj"])
            .without_bias()
            .causal()
            .rope(Rope { base: self.rope_base, ..Rope::default() });
        let x = x + attention.forward(&g.sub("self_attn"), NORM.forward(&g.sub("input_layernorm"), x));
        x + SwiGlu::new(self.inner).forward(&g.sub("mlp"), NORM.forward(&g.sub("post_attention_layernorm"), x))
    }
}
