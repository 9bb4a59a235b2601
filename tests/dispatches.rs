//! How many dispatches a step of the example `mnist` takes, on the devices that decide differently.
#![allow(clippy::unwrap_used)]

#[path = "../examples/mnist/model.rs"]
#[allow(dead_code)]
mod model;

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
