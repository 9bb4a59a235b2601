//! SmolLM2-135M on one sequence.

use super::{Feed, Variant, Workload, usual_scale};
use crate::loss::cross_entropy;
use crate::models::SmolLm2;
use crate::params::Scope;
use meganeura_core::ir::Value;

pub(super) struct SmolLm2Workload {
    variant: Variant,
    model: SmolLm2,
    tokens: usize,
}

impl SmolLm2Workload {
    pub(super) fn new(variant: Variant) -> SmolLm2Workload {
        match variant {
            Variant::Tiny => SmolLm2Workload { variant, model: SmolLm2::tiny(), tokens: 12 },
            Variant::Full => SmolLm2Workload { variant, model: SmolLm2::smollm2_135m(), tokens: 128 },
        }
    }
}

impl Workload for SmolLm2Workload {
    fn name(&self) -> &'static str {
        "smollm2"
    }
    fn variant(&self) -> Variant {
        self.variant
    }
    fn inputs(&self, minimal: bool) -> Vec<Feed> {
        vec![Feed::integers("ids", [1, if minimal { 1 } else { self.tokens }], 0)]
    }
    fn target(&self) -> Option<Feed> {
        Some(Feed::integers("target", [1, self.tokens], 1))
    }
    fn output<'g>(&self, g: &Scope<'_, 'g>, inputs: &[Value<'g>]) -> Value<'g> {
        self.model.forward(g, inputs[0])
    }
    fn loss<'g>(&self, output: Value<'g>, target: Option<Value<'g>>) -> Value<'g> {
        target.map_or(output, |target| cross_entropy(output, target))
    }
    fn weight_scale(&self) -> f32 {
        usual_scale(self.variant)
    }
}
