//! The gated feed-forward layer of Llama and its relatives.

use super::Linear;
use crate::params::Scope;
use meganeura_core::ir::Value;

/// `down_proj(silu(gate_proj(x)) · up_proj(x))`, without biases: `[…, in] → […, in]`.
///
/// Source: Shazeer, GLU Variants Improve Transformer, arXiv 2002.05202; the names are those of Hugging Face's Llama.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwiGlu {
    inner: usize,
}

impl SwiGlu {
    /// With `inner` features between.
    pub fn new(inner: usize) -> SwiGlu {
        SwiGlu { inner }
    }

    /// Applies it to `x`, `f32[…, in]`.
    #[track_caller]
    pub fn forward<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>) -> Value<'g> {
        let width = x.shape().last().copied().unwrap_or(1);
        let project =
            |name: &str, outputs: usize, x: Value<'g>| Linear::new(outputs).without_bias().forward(&g.sub(name), x);
        let (gate, up) = (project("gate_proj", self.inner, x), project("up_proj", self.inner, x));
        project("down_proj", width, g.mark(|| gate.swiglu(up)))
    }
}
