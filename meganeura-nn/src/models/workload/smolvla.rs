//! The action expert of SmolVLA on one chunk of actions.

use super::{Feed, Fill, Variant, Workload, usual_scale};
use crate::models::SmolVla;
use crate::params::Scope;
use meganeura_core::ir::Value;

pub(super) struct SmolVlaWorkload {
    variant: Variant,
    model: SmolVla,
    tokens: usize,
    timestep: usize,
    /// Tokens and features of the vision-language model.
    vision: [usize; 2],
}

impl SmolVlaWorkload {
    pub(super) fn new(variant: Variant) -> SmolVlaWorkload {
        let (model, tokens, timestep, vision) = match variant {
            Variant::Tiny => (SmolVla::tiny(), 7, 48, [5, 24]),
            Variant::Full => (SmolVla::published(), 50, 1440, [16, 320]),
        };
        SmolVlaWorkload { variant, model, tokens, timestep, vision }
    }
}

impl Workload for SmolVlaWorkload {
    fn name(&self) -> &'static str {
        "smolvla"
    }
    fn variant(&self) -> Variant {
        self.variant
    }
    fn inputs(&self, minimal: bool) -> Vec<Feed> {
        let (pace, gain) = (self.variant.pace(), 1.0);
        let tokens = if minimal { 1 } else { self.tokens };
        let [vision, features] = self.vision;
        vec![
            Feed::floats("actions", [1, tokens, self.model.action], Fill::Sin { step: 0.01 * pace, gain }),
            Feed::floats("timestep", [1, self.timestep], Fill::Sin { step: 0.005 * pace, gain }),
            Feed::floats("vlm_kv", [1, vision, features], Fill::Cos { step: 0.01 * pace, gain }),
        ]
    }
    fn target(&self) -> Option<Feed> {
        None
    }
    fn output<'g>(&self, g: &Scope<'_, 'g>, inputs: &[Value<'g>]) -> Value<'g> {
        self.model.forward(g, inputs[0], inputs[1], inputs[2])
    }
    fn loss<'g>(&self, output: Value<'g>, _: Option<Value<'g>>) -> Value<'g> {
        (output * output).mean_all()
    }
    fn weight_scale(&self) -> f32 {
        usual_scale(self.variant)
    }
}
