//! The U-Net of latent diffusion.

use crate::layers::{AttentionContext, Conv2d, GroupNorm, LayerNorm, Linear, Mlp, MultiHeadAttention};
use crate::params::Scope;
use meganeura_core::compose::Resize;
use meganeura_core::ir::Value;

/// A noisy latent `f32[batch, channels, side, side]` to its noise, of the same shape, given a time and a text.
///
/// At each level a residual block, and below the first one a transformer, on the way down, in the middle, and on the way up
/// with the result of the way down beside. Stages are named by level.
///
/// Source: Rombach et al., High-Resolution Image Synthesis with Latent Diffusion Models, arXiv 2112.10752.
#[derive(Clone, Debug, PartialEq)]
pub struct UNet {
    /// Channels of each level; each has half the side of the one before.
    pub widths: Vec<usize>,
    /// Groups of channels that are normalised together.
    pub groups: usize,
    /// Features of the time.
    pub time_width: usize,
    /// Features of a head.
    pub head_width: usize,
}

impl UNet {
    /// 10.9 million parameters with a latent of 4 channels, a timestep of 64 and a text of 768 features.
    pub fn small() -> UNet {
        UNet { widths: vec![64, 128, 256], groups: 16, time_width: 256, head_width: 32 }
    }

    /// The same in small, for tests.
    pub fn tiny() -> UNet {
        UNet { widths: vec![4, 8, 16], groups: 2, time_width: 16, head_width: 4 }
    }

    /// The noise in `latent`, at the time with the embedding `timestep` (`f32[batch, …]`), given the text `context`
    /// (`f32[batch, tokens, …]`).
    #[track_caller]
    pub fn forward<'g>(
        &self,
        g: &Scope<'_, 'g>,
        latent: Value<'g>,
        timestep: Value<'g>,
        context: Value<'g>,
    ) -> Value<'g> {
        let time = Linear::new(self.time_width).forward(&g.sub("time_fc1"), timestep).silu();
        let time = Linear::new(self.time_width).forward(&g.sub("time_fc2"), time);
        let channels = latent.shape().get(1).copied().unwrap_or(1);
        let last = self.widths.len().saturating_sub(1);
        let first = self.widths.first().copied().unwrap_or(channels);
        let mut x = conv(first, 3).forward(&g.sub("conv_in"), latent);
        let mut skips = Vec::with_capacity(self.widths.len());
        for (level, &width) in self.widths.iter().enumerate() {
            let down = g.sub("down").sub(level);
            x = self.stage(&down, x, time, (level > 0).then_some(context), width);
            skips.push(x);
            if level < last {
                x = conv(width, 3).stride(2).forward(&down.sub("downsample"), x);
            }
        }
        x = self.stage(&g.sub("mid"), x, time, Some(context), self.widths[last]);
        for (level, (&width, &skip)) in self.widths.iter().zip(&skips).enumerate().rev() {
            if level < last {
                x = x.resize(&skip.shape()[2..], Resize::Nearest);
            }
            x = self.stage(&g.sub("up").sub(level), x.concat(&[skip], 1), time, (level > 0).then_some(context), width);
        }
        conv(channels, 3).forward(&g.sub("conv_out"), self.norm(&g.sub("norm_out"), x).silu())
    }

    /// A residual block, and a transformer where a text is given.
    #[track_caller]
    fn stage<'g>(
        &self,
        g: &Scope<'_, 'g>,
        x: Value<'g>,
        time: Value<'g>,
        context: Option<Value<'g>>,
        width: usize,
    ) -> Value<'g> {
        let x = self.block(&g.sub("block"), x, time, width);
        context.map_or(x, |context| self.transformer(&g.sub("transformer"), x, context))
    }

    #[track_caller]
    fn block<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>, time: Value<'g>, width: usize) -> Value<'g> {
        let time = Linear::new(width).forward(&g.sub("time"), time).unsqueeze(2).unsqueeze(3);
        let h = conv(width, 3).forward(&g.sub("conv1"), self.norm(&g.sub("norm1"), x).silu()) + time;
        let h = conv(width, 3).forward(&g.sub("conv2"), self.norm(&g.sub("norm2"), h).silu());
        match x.shape().get(1) {
            Some(&inputs) if inputs == width => h + x,
            _ => h + conv(width, 1).forward(&g.sub("skip"), x),
        }
    }

    /// Attention of the pixels to each other and to the text.
    #[track_caller]
    fn transformer<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>, context: Value<'g>) -> Value<'g> {
        let shape = x.shape();
        let width = shape.get(1).copied().unwrap_or(1);
        let norm = |name: &str, x| LayerNorm::default().forward(&g.sub(name), x);
        let attention = MultiHeadAttention::new(width / self.head_width.max(1)).with_names(["q", "k", "v", "o"]);
        let attention = attention.without_bias();
        let text = AttentionContext { source: Some(context), ..AttentionContext::default() };
        let image = conv(width, 1).forward(&g.sub("proj_in"), self.norm(&g.sub("norm"), x));
        let tokens = image.flatten(2, shape.rank() - 1).transpose();
        let tokens = tokens + attention.forward(&g.sub("self_attn"), norm("norm1", tokens));
        let tokens = tokens + attention.forward_in(&g.sub("cross_attn"), norm("norm2", tokens), text);
        let tokens = tokens + Mlp::new(4 * width, width).forward(g, norm("norm3", tokens));
        x + conv(width, 1).forward(&g.sub("proj_out"), tokens.transpose().reshape(shape))
    }

    #[track_caller]
    fn norm<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>) -> Value<'g> {
        GroupNorm::new(self.groups).forward(g, x)
    }
}

/// A convolution that keeps the side, without a bias.
fn conv(outputs: usize, size: usize) -> Conv2d {
    Conv2d::new(outputs, size).padding(size / 2).without_bias()
}
