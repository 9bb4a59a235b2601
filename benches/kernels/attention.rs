//! Attention of real networks, forward, and forward with every gradient.

use crate::cases::{Tensors, toward_all};
use meganeura::Device;
use meganeura::prelude::*;

/// Attention of one batch item.
#[derive(Clone, Copy)]
pub struct Attention {
    pub name: &'static str,
    /// Heads of queries, and of keys and values.
    pub heads: [usize; 2],
    /// Queries, and keys.
    pub lengths: [usize; 2],
    /// Of a head.
    pub width: usize,
    pub causal: bool,
}

const fn causal(name: &'static str, heads: [usize; 2], length: usize) -> Attention {
    Attention { name, heads, lengths: [length; 2], width: 64, causal: true }
}

const fn full(name: &'static str, heads: [usize; 2], lengths: [usize; 2], width: usize) -> Attention {
    Attention { name, heads, lengths, width, causal: false }
}

/// Every one.
pub const ATTENTIONS: &[Attention] = &[
    causal("smollm2 attention 128", [9, 3], 128),
    causal("smollm2 attention 512", [9, 3], 512),
    causal("smollm2 attention 2048", [9, 3], 2048),
    full("whisper attention 1500", [6, 6], [1500; 2], 64),
    full("unet self-attention 16²", [4, 4], [256; 2], 32),
    full("unet self-attention 8²", [8, 8], [64; 2], 32),
    full("unet cross-attention 16²×77", [4, 4], [256, 77], 32),
    full("unet cross-attention 8²×77", [8, 8], [64, 77], 32),
    causal("smolvla self-attention 50", [15, 5], 50),
    full("smolvla cross-attention 50×16", [15, 5], [50, 16], 64),
];

/// Lengths at which memory is compared.
const LENGTHS: [usize; 3] = [512, 2048, 8192];

impl Attention {
    pub fn build<'g>(&self, t: &Tensors<'g>, backward: bool) -> Value<'g> {
        let [queries, keys] = self.lengths;
        let query = t.floats([1, self.heads[0], queries, self.width]);
        let [key, value] = [(); 2].map(|()| t.floats([1, self.heads[1], keys, self.width]));
        let y = query.attention(key, value, AttentionOptions { causal: self.causal, ..AttentionOptions::default() });
        if !backward {
            return y;
        }
        let gradients = toward_all(t, y, &[query, key, value]);
        t.output("key gradient", gradients[1]);
        t.output("value gradient", gradients[2]);
        gradients[0]
    }
}

/// A line about the planned bytes of SmolLM2's attention with its gradients, of growing lengths.
pub fn memory(device: &Device) -> Result<String, Error> {
    let megabytes = |length: usize| -> Result<String, Error> {
        let built = super::Built::new(|tensors| causal("", [9, 3], length).build(tensors, true))?;
        let program = compile(&built.graph, &Options::default(), device.caps(), None)?;
        Ok(format!("{:.1} MB at {length}", program.report.planned_bytes as f64 * 1e-6))
    };
    let lengths: Vec<String> = LENGTHS.into_iter().map(megabytes).collect::<Result<_, _>>()?;
    Ok(format!("planned memory of smollm2 attention, forward and backward: {}", lengths.join(", ")))
}
