//! ResNet-50 on small batches of images.

use super::{Feed, Fill, Variant, Workload};
use crate::loss::cross_entropy;
use crate::models::ResNet;
use crate::params::Scope;
use meganeura_core::ir::Value;

pub(super) struct ResNetWorkload {
    variant: Variant,
    model: ResNet,
    batch: usize,
    side: [usize; 2],
}

impl ResNetWorkload {
    pub(super) fn new(variant: Variant) -> ResNetWorkload {
        match variant {
            Variant::Tiny => ResNetWorkload { variant, model: ResNet::tiny(), batch: 2, side: [41, 56] },
            Variant::Full => ResNetWorkload { variant, model: ResNet::resnet50(), batch: 4, side: [224, 224] },
        }
    }
}

impl Workload for ResNetWorkload {
    fn name(&self) -> &'static str {
        "resnet50"
    }
    fn variant(&self) -> Variant {
        self.variant
    }
    fn inputs(&self, minimal: bool) -> Vec<Feed> {
        let [height, width] = self.side;
        let wave = Fill::Sin { step: 0.001 * self.variant.pace(), gain: 1.0 };
        let (batch, fill) = if minimal { (1, Fill::Zero) } else { (self.batch, wave) };
        vec![Feed::floats("images", [batch, 3, height, width], fill)]
    }
    fn target(&self) -> Option<Feed> {
        Some(Feed::integers("target", [self.batch], 0))
    }
    fn output<'g>(&self, g: &Scope<'_, 'g>, inputs: &[Value<'g>]) -> Value<'g> {
        self.model.forward(g, inputs[0])
    }
    fn loss<'g>(&self, output: Value<'g>, target: Option<Value<'g>>) -> Value<'g> {
        target.map_or(output, |target| cross_entropy(output, target))
    }
    fn weight_scale(&self) -> f32 {
        // Without normalisation, smaller weights would leave logits near 0.
        match self.variant {
            Variant::Tiny => 0.35,
            Variant::Full => 0.07,
        }
    }
}
