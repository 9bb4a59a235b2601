//! The action expert of SmolVLA.

use crate::layers::{AttentionContext, Linear, MultiHeadAttention, RmsNorm, SwiGlu};
use crate::params::Scope;
use meganeura_core::ir::Value;

/// Noisy actions `f32[batch, tokens, action]` to the flow that moves them towards those of a robot, of the same shape.
///
/// Its layers attend, in turn, to the actions before (even ones) and to features of a vision-language model (odd ones).
///
/// Source: Shukor et al., SmolVLA, arXiv 2506.01844.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmolVla {
    /// Numbers of an action.
    pub action: usize,
    /// Features of an action's token.
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
}

/// Added to the mean square by norms.
const NORM: RmsNorm = RmsNorm { epsilon: 1e-5 };

impl SmolVla {
    /// The published sizes: 99.8 million parameters with a timestep of 1440 and a vision-language model of 320 features.
    pub fn published() -> SmolVla {
        SmolVla { action: 32, width: 720, layers: 16, heads: 15, kv_heads: 5, head_width: 64, inner: 2048 }
    }

    /// The same in small, for tests.
    pub fn tiny() -> SmolVla {
        SmolVla { action: 8, width: 40, layers: 2, heads: 6, kv_heads: 2, head_width: 8, inner: 64 }
    }

    /// The flow at `actions`, at the time with the embedding `timestep` (`f32[batch, …]`), given the features `vision`
    /// (`f32[batch, tokens, …]`).
    #[track_caller]
    pub fn forward<'g>(
        &self,
        g: &Scope<'_, 'g>,
        actions: Value<'g>,
        timestep: Value<'g>,
        vision: Value<'g>,
    ) -> Value<'g> {
        let time = Linear::new(self.width).forward(&g.sub("time_in"), timestep).silu();
        let time = Linear::new(self.width).forward(&g.sub("time_out"), time);
        let mut x = Linear::new(self.width).forward(&g.sub("action_in"), actions) + time.unsqueeze(1);
        for layer in 0..self.layers {
            let vision = (layer % 2 == 1).then_some(vision);
            x = self.layer(&g.sub("layers").sub(layer), x, vision);
        }
        Linear::new(self.action).forward(&g.sub("action_out"), x)
    }

    /// Attends to `vision`, if given, else to the tokens before.
    #[track_caller]
    fn layer<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>, vision: Option<Value<'g>>) -> Value<'g> {
        let attention = MultiHeadAttention::new(self.heads)
            .head_width(self.head_width)
            .kv_heads(self.kv_heads)
            .with_names(["q_proj", "k_proj", "v_proj", "o_proj"])
            .without_bias();
        let attention = if vision.is_none() { attention.causal() } else { attention };
        let context = AttentionContext { source: vision, ..AttentionContext::default() };
        let x = x + attention.forward_in(g, NORM.forward(&g.sub("attn_norm"), x), context);
        x + SwiGlu::new(self.inner).forward(&g.sub("mlp"), NORM.forward(&g.sub("mlp_norm"), x))
    }
}
