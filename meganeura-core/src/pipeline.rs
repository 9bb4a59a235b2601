//! The whole compiler on one screen: each stage, then its verifier.

use crate::fuse::{self, PartitionError};
use crate::ir::{self, Graph, GraphError};
use crate::layout::{LayoutError, Layouts};
use crate::memory::{self, Evidence, MemoryError, PlanError, Planned, StateLayout};
use crate::observer::Observer;
use crate::options::Options;
pub use crate::program::{Program, ProgramError};
pub use crate::report::{Report, Stage, StageTime};
use crate::rewrite;
use crate::schedule::{self, Caps, ScheduleError, Scheduler};
use std::sync::Arc;
use web_time::Instant;

/// Why a graph could not be compiled.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The program does not fit the device or the state store.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A defect of this library: the graph broke an invariant after some pass.
    #[error("defect in meganeura: {0}")]
    Graph(#[from] GraphError),
    /// A defect of this library: a layout broke an invariant.
    #[error("defect in meganeura: {0}")]
    Layout(#[from] LayoutError),
    /// A defect of this library: the partition broke an invariant.
    #[error("defect in meganeura: {0}")]
    Partition(#[from] PartitionError),
    /// A defect of this library: a schedule does not fit its kernel or device.
    #[error("defect in meganeura: {0}")]
    Schedule(#[from] ScheduleError),
    /// A defect of this library: the memory plan broke an invariant.
    #[error("defect in meganeura: {0}")]
    Memory(#[from] MemoryError),
}

/// Compiles a graph for a device. `layout` is that of the state store which the program will share; without one the
/// program's own states make a new layout.
///
/// # Errors
/// [`CompileError::Plan`] if the program does not fit the device or the store; the others are defects of this library.
pub fn compile(
    graph: &Graph,
    options: &Options,
    caps: &Caps,
    layout: Option<&StateLayout>,
) -> Result<Program, CompileError> {
    let start = Instant::now();
    let _span = tracing::info_span!("compile").entered();
    let observer = Observer::new(graph, options);
    observer.check(|| ir::verify(graph))?;

    let simplified = simplify(graph, options, &observer)?;
    let layouts = observer.time(Stage::Layout, || match options.layout {
        true => Layouts::choose(&simplified),
        false => Layouts::row_major(&simplified),
    });
    observer.check(|| layouts.verify(&simplified))?;
    observer.layouts(&simplified, &layouts);

    let layout = layout.cloned().unwrap_or_else(|| StateLayout::of_graph(&simplified, caps));
    let pass = Pass { graph: &simplified, layouts: &layouts, states: &layout, options, caps, observer: &observer };
    let Planned { plan, lifetimes } = pass.plan()?;

    let report = Report {
        nodes: graph.nodes().len(),
        simplified: simplified.nodes().len(),
        kernels: plan.kernels.len(),
        dispatches: plan.dispatches.len(),
        groups: plan.dispatches.last().map_or(0, |last| last.group + 1),
        planned_bytes: plan.total_bytes(),
        cached: false,
        stages: observer.stages(),
        elapsed: start.elapsed(),
    };
    observer.done(&plan, &report);
    let initial = graph.states().iter().map(|state| (state.name.to_string(), state.init)).collect();
    let evidence = Arc::new(Evidence::new(&simplified, lifetimes));
    Ok(Program { plan: Arc::new(plan), layout, initial, report, evidence })
}

/// The plan of a graph as it is, row-major, each kernel one dispatch: for tests, which know its nodes.
#[cfg(test)]
pub(crate) fn planned_as_built(graph: &Graph, caps: &Caps) -> Result<Planned, CompileError> {
    let options = &Options { simplify: false, expand: false, verify: true, ..Options::default() };
    let (layouts, states) = (&Layouts::row_major(graph), &StateLayout::of_graph(graph, caps));
    let observer = &Observer::new(graph, options);
    Pass { graph, layouts, states, options, caps, observer }.plan()
}

/// What the later stages read.
struct Pass<'a> {
    graph: &'a Graph,
    layouts: &'a Layouts,
    states: &'a StateLayout,
    options: &'a Options,
    caps: &'a Caps,
    observer: &'a Observer,
}

/// Tensors that every single op's kernel can bind at least: three operands, a key, a result.
const FEWEST_BINDINGS: u32 = 5;

impl Pass<'_> {
    /// From the graph to placed dispatches. Fusion counts on states being updated in place; where that proves impossible a
    /// kernel can bind a tensor too many, and the graph is partitioned again for fewer.
    fn plan(&self) -> Result<Planned, CompileError> {
        let mut most = self.caps.max_bindings;
        loop {
            match self.plan_within(most) {
                Err(CompileError::Plan(PlanError::Bindings { .. })) if most > FEWEST_BINDINGS => most -= 1,
                result => return result,
            }
        }
    }

    fn plan_within(&self, max_bindings: u32) -> Result<Planned, CompileError> {
        let Pass { graph, layouts, states, options, caps, observer } = *self;
        let partition =
            observer.time(Stage::Partition, || fuse::partition(graph, layouts, options.fuse, max_bindings as usize));
        observer.partition(&partition);
        // A device on which not even single ops fit is no defect: planning refuses it.
        let most = max_bindings.max(FEWEST_BINDINGS) as usize;
        observer.check(|| fuse::verify(graph, &partition, most))?;

        let scheduler = Scheduler { caps, numerics: options.numerics, expand: options.expand };
        let (steps, temporaries) = observer.time(Stage::Schedule, || scheduler.schedule(partition));
        observer.steps(&steps);
        observer.check(|| schedule::verify_steps(&steps, caps))?;

        let schedule = |fragment| scheduler.step(fragment);
        let order = observer.time(Stage::Order, || memory::order(graph, steps, temporaries, &schedule));
        let planned = observer.time(Stage::Place, || memory::plan(graph, &order, states, caps))?;
        observer.check(|| memory::verify(graph, &planned, caps))?;
        Ok(planned)
    }
}

fn simplify(graph: &Graph, options: &Options, observer: &Observer) -> Result<Graph, CompileError> {
    if !options.simplify {
        return Ok(graph.clone());
    }
    let simplified = observer.time(Stage::Simplify, || rewrite::simplify(graph, &options.rules.rules()))?;
    observer.graph("simplified", &simplified);
    observer.check(|| ir::verify(&simplified))?;
    observer.check(|| rewrite::verify_clean(&simplified))?;
    observer.check(|| ir::verify_same_boundary(graph, &simplified))?;
    Ok(simplified)
}
