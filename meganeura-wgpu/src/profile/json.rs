//! The profile as JSON.

use super::{Bucket, Clock, DispatchProfile, Key, Profile};
use meganeura_core::cost::Cost;
use meganeura_core::ir::Origin;
use serde_json::{Map, Value, json};

impl Profile {
    /// All figures: `device`, `clock`, `steps`, `seconds`, `ceilings`, `dispatches`, and one list for each [`Key`], such as
    /// `by_family`. Rates are a second; `share_of_ceiling` is the least time over the time.
    pub fn json(&self) -> Value {
        let ceilings = &self.ceilings;
        let mut all = Map::new();
        let mut put = |name: &str, value: Value| all.insert(name.to_owned(), value);
        put("device", json!(self.device));
        put("clock", json!(if self.clock == Clock::Device { "device" } else { "host" }));
        put("steps", json!(self.steps.len()));
        put("seconds", json!(self.seconds()));
        put(
            "ceilings",
            json!({
                "flops_per_second": ceilings.flops, "matrix_flops_per_second": ceilings.matrix_flops,
                "bytes_per_second": ceilings.bytes,
            }),
        );
        for key in Key::ALL {
            put(&format!("by_{}", key.name()), self.by(key).iter().map(bucket).collect());
        }
        put("dispatches", self.dispatches.iter().map(dispatch).collect());
        Value::Object(all)
    }
}

fn bucket(bucket: &Bucket) -> Value {
    json!({
        "name": bucket.name, "dispatches": bucket.dispatches, "seconds": bucket.seconds, "cost": cost(&bucket.cost),
        "flops_per_second": bucket.flops(), "bytes_per_second": bucket.bytes(),
        "share_of_ceiling": bucket.share_of_ceiling(),
    })
}

pub(super) fn dispatch(dispatch: &DispatchProfile) -> Value {
    json!({
        "label": dispatch.label, "family": dispatch.family, "origin": origin(&dispatch.origin),
        "fused": dispatch.fused.iter().map(origin).collect::<Vec<_>>(), "group": dispatch.group,
        "seconds": dispatch.seconds, "least_seconds": dispatch.least_seconds, "cost": cost(&dispatch.cost),
    })
}

fn cost(cost: &Cost) -> Value {
    json!({ "flops": cost.flops, "bytes_read": cost.bytes_read, "bytes_written": cost.bytes_written })
}

fn origin(origin: &Origin) -> Value {
    json!({ "layer": &*origin.scope, "phase": origin.phase.name() })
}
