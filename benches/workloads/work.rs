//! What the dispatches of a program compute, and which take the most time.

use meganeura::cost::Cost;
use meganeura::memory::Plan;
use meganeura::schedule::{ContractSpec, Spec, Unit};
use serde_json::{Value as Json, json};
use std::collections::HashMap;

/// Arithmetic of a step.
pub struct Work {
    pub flops: u64,
    /// What of it runs on matrix units.
    pub matrix_flops: u64,
}

impl Work {
    pub fn of(plan: &Plan) -> Work {
        let costs: Vec<u64> = plan.kernels.iter().map(|kernel| Cost::of(kernel).flops).collect();
        let mut work = Work { flops: 0, matrix_flops: 0 };
        for dispatch in &plan.dispatches {
            let flops = costs[dispatch.kernel];
            let cooperative =
                matches!(dispatch.spec, Spec::Contract(ContractSpec { unit: Unit::Cooperative { .. }, .. }));
            work.flops += flops;
            work.matrix_flops += if cooperative { flops } else { 0 };
        }
        work
    }

    pub fn matrix_share(&self) -> f64 {
        self.matrix_flops as f64 / self.flops.max(1) as f64
    }
}

/// All dispatches of one kernel together.
pub struct Item {
    /// Kernel family, and what the first of them computes.
    pub label: String,
    pub dispatches: usize,
    pub seconds: f64,
}

impl Item {
    /// The kernels that take the most time, the longest first.
    pub fn largest(plan: &Plan, seconds: &[f64]) -> Vec<Item> {
        let mut items: HashMap<usize, Item> = HashMap::new();
        for (dispatch, seconds) in plan.dispatches.iter().zip(seconds) {
            let label = || format!("{}: {}", dispatch.family(&plan.kernels[dispatch.kernel]), dispatch.label);
            let new = || Item { label: label(), dispatches: 0, seconds: 0.0 };
            let item = items.entry(dispatch.kernel).or_insert_with(new);
            item.dispatches += 1;
            item.seconds += seconds;
        }
        let mut items: Vec<Item> = items.into_values().collect();
        items.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        items
    }

    pub fn json(&self) -> Json {
        json!({ "label": self.label, "dispatches": self.dispatches, "seconds": self.seconds })
    }
}
