//! Convolutions of real networks, forward and both gradients.

use crate::cases::{Tensors, toward};
use meganeura::compose::ConvOptions;
use meganeura::prelude::*;

/// `[batch, channels, side…]` with `outputs` filters of `taps` along each dimension, zeros around so that stride 1 keeps the
/// side.
#[derive(Clone, Copy)]
pub struct Convolution {
    pub name: &'static str,
    /// Spatial dimensions.
    pub rank: usize,
    pub input: [usize; 3],
    pub outputs: usize,
    pub taps: usize,
    pub stride: usize,
}

/// Which of a convolution's three kernels.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Input,
    Weight,
}

const fn conv(name: &'static str, input: [usize; 3], outputs: usize, taps: usize, stride: usize) -> Convolution {
    Convolution { name, rank: 2, input, outputs, taps, stride }
}

/// Of a sequence.
const fn conv1d(name: &'static str, input: [usize; 3], outputs: usize, taps: usize, stride: usize) -> Convolution {
    Convolution { rank: 1, ..conv(name, input, outputs, taps, stride) }
}

/// Every one.
pub const CONVOLUTIONS: &[Convolution] = &[
    conv("resnet stem 4×3×224² 7×7/2", [4, 3, 224], 64, 7, 2),
    conv("resnet 4×64×56² 3×3", [4, 64, 56], 64, 3, 1),
    conv("resnet 4×256×56² 1×1", [4, 256, 56], 64, 1, 1),
    conv("resnet 4×256×14² 3×3", [4, 256, 14], 256, 3, 1),
    conv("resnet 4×512×7² 3×3", [4, 512, 7], 512, 3, 1),
    conv("unet 1×64×32² 3×3", [1, 64, 32], 64, 3, 1),
    conv("unet 1×512×8² 3×3", [1, 512, 8], 256, 3, 1),
    conv("unet 1×128×16² 3×3/2", [1, 128, 16], 128, 3, 2),
    conv1d("whisper 1×80×3000 3", [1, 80, 3000], 384, 3, 1),
    conv1d("whisper 1×384×3000 3/2", [1, 384, 3000], 384, 3, 2),
];

impl Convolution {
    pub fn build<'g>(&self, t: &Tensors<'g>, direction: Direction) -> Value<'g> {
        let [batch, channels, side] = self.input;
        let along = |leading: [usize; 2], extent: usize| [&leading[..], &vec![extent; self.rank]].concat();
        let x = t.floats(along([batch, channels], side));
        let weight = t.floats(along([self.outputs, channels], self.taps));
        let options = ConvOptions::default().stride(self.stride).padding(self.taps / 2);
        let y = x.conv(weight, &options);
        match direction {
            Direction::Forward => y,
            Direction::Input => toward(t, y, x),
            Direction::Weight => toward(t, y, weight),
        }
    }
}
