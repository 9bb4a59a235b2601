//! Residual networks of bottleneck blocks.

use crate::layers::{Conv2d, Linear, MaxPool2d};
use crate::params::Scope;
use meganeura_core::ir::Value;

/// Images `f32[batch, 3, height, width]` to logits `f32[batch, classes]`.
///
/// torchvision's ResNet with the stride in the 3×3 convolution and without normalisation: each batch norm is replaced by the
/// bias of its convolution.
///
/// Source: He, Zhang, Ren and Sun, Deep Residual Learning for Image Recognition, arXiv 1512.03385.
#[derive(Clone, Debug, PartialEq)]
pub struct ResNet {
    /// Channels of the first convolution.
    pub stem: usize,
    /// Inner channels of the blocks of each stage; they have four times as many outputs.
    pub planes: Vec<usize>,
    /// Number of blocks in each stage.
    pub blocks: Vec<usize>,
    /// Number of logits.
    pub classes: usize,
}

impl ResNet {
    /// ResNet-50: 25.5 million parameters.
    pub fn resnet50() -> ResNet {
        ResNet { stem: 64, planes: vec![64, 128, 256, 512], blocks: vec![3, 4, 6, 3], classes: 1000 }
    }

    /// The same in small, for tests.
    pub fn tiny() -> ResNet {
        ResNet { stem: 4, planes: vec![4, 8, 12, 16], blocks: vec![2, 1, 1, 1], classes: 10 }
    }

    /// The logits of `images`.
    #[track_caller]
    pub fn forward<'g>(&self, g: &Scope<'_, 'g>, images: Value<'g>) -> Value<'g> {
        let x = Conv2d::new(self.stem, 7).stride(2).padding(3).forward(&g.sub("conv1"), images).relu();
        let mut x = MaxPool2d::new(3).stride(2).padding(1).forward(x);
        for (stage, (&planes, &blocks)) in self.planes.iter().zip(&self.blocks).enumerate() {
            let layer = g.sub(format!("layer{}", stage + 1));
            for block in 0..blocks {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                x = bottleneck(&layer.sub(block), x, planes, stride, block == 0);
            }
        }
        Linear::new(self.classes).forward(&g.sub("fc"), x.mean([2, 3]))
    }
}

/// `relu(conv3(relu(conv2(relu(conv1(x))))) + x)`, where a stage's first block projects `x` to its own shape.
#[track_caller]
fn bottleneck<'g>(g: &Scope<'_, 'g>, x: Value<'g>, planes: usize, stride: usize, project: bool) -> Value<'g> {
    let h = Conv2d::new(planes, 1).forward(&g.sub("conv1"), x).relu();
    let h = Conv2d::new(planes, 3).stride(stride).padding(1).forward(&g.sub("conv2"), h).relu();
    let h = Conv2d::new(4 * planes, 1).forward(&g.sub("conv3"), h);
    let shortcut = match project {
        true => Conv2d::new(4 * planes, 1).stride(stride).forward(&g.sub("downsample").sub(0), x),
        false => x,
    };
    (h + shortcut).relu()
}
