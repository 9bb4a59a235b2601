//! How many dispatches a step of the example `mnist` takes, on the devices that decide differently.
#![allow(clippy::unwrap_used)]

#[path = "../examples/mnist/model.rs"]
#[allow(dead_code)]
mod model;

use meganeura::ir::Phase;
use meganeura::options::Options;
use meganeura::schedule::Caps;

#[test]
fn a_training_step_takes_at_most_16_dispatches() {
    for (name, caps, most) in
        [("cpu", Caps::cpu(2), 14), ("h200", Caps::h200(), 16), ("base", Caps { max_bindings: 16, ..Caps::base() }, 16)]
    {
        for batch in [64, 128] {
            let graph = model::training(batch).unwrap().graph;
            let report = meganeura::compile(&graph, &Options::default(), &caps, None).unwrap().report;
            assert!(report.dispatches <= most, "{name}, batch {batch}: {} dispatches", report.dispatches);
        }
    }
}

#[test]
fn every_dispatch_is_charged_to_a_layer_and_a_phase() {
    let graph = model::training(64).unwrap().graph;
    let plan = meganeura::compile(&graph, &Options::default(), &Caps::h200(), None).unwrap().plan;
    for layer in ["fc1", "fc2", "fc3"] {
        for phase in Phase::ALL {
            let does = |origin: &meganeura::ir::Origin| &*origin.scope == layer && origin.phase == phase;
            let found = plan.dispatches.iter().any(|dispatch| dispatch.provenance.origins.iter().any(does));
            assert!(found, "no dispatch does the {} work of {layer}", phase.name());
        }
    }
    assert!(plan.dispatches.iter().all(|dispatch| !dispatch.provenance.origins.is_empty()));
}
