//! How many dispatches the programs of the workloads take on a large GPU, and how long they take to compile.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use meganeura::nn::models::workload::{self, Phase, Variant, program};
use meganeura::options::Options;
use meganeura::pipeline::Report;
use meganeura::schedule::Caps;
use std::time::{Duration, Instant};

/// Dispatches of each phase: inference, minimal, forward + loss + backward, step. Who lowers one writes it down here.
const DISPATCHES: [(&str, [usize; 4]); 5] = [
    ("smollm2", [573, 363, 1421, 1422]),
    ("smolvla", [277, 180, 704, 705]),
    ("unet", [201, 201, 581, 582]),
    ("resnet50", [89, 89, 329, 330]),
    ("whisper", [60, 60, 211, 212]),
];

/// Graph to program, on a machine that does other work beside.
const SLOWEST: Duration = Duration::from_secs(10);

/// What compiling the full variant took, and how long that was with building the graph.
fn compiled(name: &str, phase: Phase) -> (Report, Duration) {
    let start = Instant::now();
    let workload = workload::find(name, Variant::Full).unwrap();
    let graph = program(&*workload, phase).unwrap().graph;
    let program = meganeura::compile(&graph, &Options::default(), &Caps::h200(), None).unwrap();
    (program.report, start.elapsed())
}

#[test]
fn full_workloads_take_no_more_dispatches_than_they_did() {
    let mut wrong = Vec::new();
    for (name, most) in DISPATCHES {
        for (phase, most) in Phase::ALL.into_iter().zip(most) {
            let (report, time) = compiled(name, phase);
            let Report { dispatches, groups, kernels, nodes, .. } = report;
            let bytes = report.planned_bytes as f64 / 1e6;
            println!(
                "{name:9} {:9} {dispatches:5} dispatches, {groups:4} groups, {kernels:4} kernels, {nodes:6} nodes, {bytes:7.1} MB, {time:.2?}",
                phase.name()
            );
            if dispatches > most {
                wrong.push(format!("{name} {}: {dispatches} dispatches, not {most}", phase.name()));
            }
            if time > SLOWEST {
                wrong.push(format!("{name} {}: {time:.1?} from graph to program", phase.name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
