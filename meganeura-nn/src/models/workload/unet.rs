//! The U-Net of latent diffusion on one latent.

use super::{Feed, Fill, Variant, Workload, usual_scale};
use crate::loss::mean_squared_error;
use crate::models::UNet;
use crate::params::Scope;
use meganeura_core::ir::Value;

/// Channels of the latent.
const CHANNELS: usize = 4;

pub(super) struct UNetWorkload {
    variant: Variant,
    model: UNet,
    side: usize,
    timestep: usize,
    /// Tokens and features of the text.
    context: [usize; 2],
}

impl UNetWorkload {
    pub(super) fn new(variant: Variant) -> UNetWorkload {
        let (model, side, timestep, context) = match variant {
            Variant::Tiny => (UNet::tiny(), 8, 16, [5, 24]),
            Variant::Full => (UNet::small(), 32, 64, [77, 768]),
        };
        UNetWorkload { variant, model, side, timestep, context }
    }

    fn latent(&self) -> [usize; 4] {
        [1, CHANNELS, self.side, self.side]
    }
}

impl Workload for UNetWorkload {
    fn name(&self) -> &'static str {
        "unet"
    }
    fn variant(&self) -> Variant {
        self.variant
    }
    fn inputs(&self, _: bool) -> Vec<Feed> {
        let pace = self.variant.pace();
        let [tokens, features] = self.context;
        vec![
            Feed::floats("latent", self.latent(), Fill::Sin { step: 0.01 * pace, gain: 1.0 }),
            Feed::floats("timestep", [1, self.timestep], Fill::Sin { step: 0.005 * pace, gain: 1.0 }),
            Feed::floats("context", [1, tokens, features], Fill::Cos { step: 0.003 * pace, gain: 0.1 }),
        ]
    }
    fn target(&self) -> Option<Feed> {
        let step = 0.007 * self.variant.pace();
        Some(Feed::floats("target", self.latent(), Fill::Cos { step, gain: 1.0 }))
    }
    fn output<'g>(&self, g: &Scope<'_, 'g>, inputs: &[Value<'g>]) -> Value<'g> {
        self.model.forward(g, inputs[0], inputs[1], inputs[2])
    }
    fn loss<'g>(&self, output: Value<'g>, target: Option<Value<'g>>) -> Value<'g> {
        target.map_or(output, |target| mean_squared_error(output, target))
    }
    fn weight_scale(&self) -> f32 {
        usual_scale(self.variant)
    }
}
