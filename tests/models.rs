//! How many dispatches the programs of the workloads take on a large GPU, and how long they take to compile.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use meganeura::nn::models::workload::{self, Phase, Variant, program};
use meganeura::options::Options;
use meganeura::schedule::Caps;

#[test]
fn dump() {
    let only = std::env::var("ONLY").unwrap_or_default();
    for workload in workload::all(Variant::Full) {
        if !workload.name().contains(&only) {
            continue;
        }
        for phase in Phase::ALL {
            let start = std::time::Instant::now();
            let graph = program(&*workload, phase).unwrap().graph;
            let built = start.elapsed();
            let options = Options { verify: false, ..Options::default() };
            let program = meganeura::compile(&graph, &options, &Caps::h200(), None).unwrap();
            let r = &program.report;
            eprintln!(
                "{:9} {:9} nodes {:5} simplified {:5} dispatches {:5} kernels {:4} groups {:4} bytes {:>6} MB build {:.2} compile {:.2} {:?}",
                workload.name(),
                phase.name(),
                r.nodes,
                r.simplified,
                r.dispatches,
                r.kernels,
                r.groups,
                r.planned_bytes >> 20,
                built.as_secs_f64(),
                r.elapsed.as_secs_f64(),
                r.stages.iter().map(|s| format!("{} {:.2}", s.stage.name(), s.time.as_secs_f64())).collect::<Vec<_>>()
            );
            if std::env::var("LIST").is_ok_and(|p| p == phase.name()) {
                for (at, d) in program.plan.dispatches.iter().enumerate() {
                    let k = &program.plan.kernels[d.kernel];
                    eprintln!("{at:4} g{:<4} {:18} {}", d.group, d.family(k), d.label);
                }
            }
        }
    }
}
