//! What watches the stages go by: a stopwatch, the verifiers, and the texts that people asked for.

use crate::debug::{Log, STAGE_LEVEL};
use crate::fuse::{Fragment, Partition, Source};
use crate::ir::{self, Graph};
use crate::kernel::Kernel;
use crate::layout::Layouts;
use crate::memory::{Binding, Dispatch, Place, Plan};
use crate::options::Options;
use crate::pipeline::CompileError;
use crate::report::{Report, Stage, StageTime};
use crate::schedule::Step;
use std::cell::RefCell;
use std::fmt::Write;
use web_time::{Duration, Instant};

/// Watches one compilation.
pub(crate) struct Observer {
    verify: bool,
    stages: RefCell<Vec<StageTime>>,
    log: Log,
}

impl Observer {
    /// One for a graph that is about to be compiled.
    pub fn new(graph: &Graph, options: &Options) -> Observer {
        let observer = Observer { verify: options.verify, stages: RefCell::default(), log: Log::new("program") };
        observer.count(Stage::Build, graph.time.build);
        observer.count(Stage::Differentiate, graph.time.differentiate);
        observer.graph("graph", graph);
        observer
    }

    /// Runs a stage.
    pub fn time<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let _span = tracing::info_span!("stage", name = stage.name()).entered();
        let start = Instant::now();
        let result = work();
        self.count(stage, start.elapsed());
        result
    }

    /// Runs a verifier, if verifiers are wanted.
    pub fn check<E: Into<CompileError>>(&self, verify: impl FnOnce() -> Result<(), E>) -> Result<(), CompileError> {
        if self.verify { self.time(Stage::Verify, verify).map_err(Into::into) } else { Ok(()) }
    }

    fn count(&self, stage: Stage, time: Duration) {
        let mut stages = self.stages.borrow_mut();
        match stages.iter_mut().find(|entry| entry.stage == stage) {
            Some(entry) => entry.time += time,
            None => stages.push(StageTime { stage, time }),
        }
    }

    /// The times so far.
    pub fn stages(&self) -> Vec<StageTime> {
        self.stages.borrow().clone()
    }

    /// A graph as text and as a drawing.
    pub fn graph(&self, name: &str, graph: &Graph) {
        self.log.show(STAGE_LEVEL, &[name, ".txt"], || graph.to_string());
        self.log.dump(&[name, ".dot"], || ir::dot(graph));
    }

    /// Dimension orders that are not row-major.
    pub fn layouts(&self, graph: &Graph, layouts: &Layouts) {
        self.log.show(STAGE_LEVEL, &["layout.txt"], || {
            let order = |id| layouts.order(id).map(|order| format!("{id} {order:?}\n"));
            graph.ids().filter_map(order).collect()
        });
    }

    /// Kernels before they are scheduled.
    pub fn partition(&self, partition: &Partition) {
        let text = |fragment: &Fragment| described(&fragment.label, &fragment.args, &fragment.kernel);
        self.log.show(STAGE_LEVEL, &["partition.txt"], || partition.fragments.iter().map(text).collect());
    }

    /// Scheduled kernels, before they are ordered.
    pub fn steps(&self, steps: &[Step]) {
        let text = |step: &Step| format!("{:?}\n{}", step.spec, described(&step.label, &step.args, &step.kernel));
        self.log.show(STAGE_LEVEL, &["schedule.txt"], || steps.iter().map(text).collect());
    }

    /// The program at the end.
    pub fn done(&self, plan: &Plan, report: &Report) {
        self.log.show(3, &["plan.txt"], || plan_text(plan));
        self.log.dump(&["report.txt"], || report.to_string());
        report.tell(&self.log);
    }
}

fn described(label: &str, args: &[Source], kernel: &Kernel) -> String {
    let args: Vec<String> = args.iter().enumerate().map(|(at, source)| format!("a{at} = {source:?}")).collect();
    format!("{label}: {}\n{kernel}\n", args.join(", "))
}

/// Dispatches, buffers and ports, one a line.
fn plan_text(plan: &Plan) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    for (at, dispatch) in plan.dispatches.iter().enumerate() {
        let Dispatch { kernel, spec, group, label, bindings, arg_binding, .. } = dispatch;
        let _ = writeln!(text, "dispatch {at}: {label}\n  group {group}, kernel {kernel}, {spec:?}");
        for (arg, &binding) in arg_binding.iter().enumerate() {
            let Some(Binding { place, writable }) = bindings.get(binding) else { continue };
            let access = if *writable { "read_write" } else { "read" };
            let _ = writeln!(text, "  a{arg} = binding {binding}, {access}, {}", place_text(place));
        }
    }
    for (at, buffer) in plan.buffers.iter().enumerate() {
        let _ = writeln!(text, "buffer {at}: {} bytes, {:?}", buffer.bytes, buffer.owner);
    }
    for (kind, ports) in [("input", &plan.inputs), ("output", &plan.outputs), ("state", &plan.states)] {
        for port in ports {
            let _ = writeln!(text, "{kind} {:?}: {} in {}", port.name, port.ty, place_text(&port.place));
        }
    }
    text
}

fn place_text(place: &Place) -> String {
    format!("buffer {} bytes {}..{}", place.buffer, place.offset, place.offset + place.bytes)
}
