//! The whole compiler on one screen: each stage, then its verifier.

use crate::fuse::{self, PartitionError};
use crate::ir::{self, Graph, GraphError};
use crate::layout::{LayoutError, Layouts};
use crate::memory::{self, MemoryError, Plan, PlanError, Planned, StateLayout};
use crate::options::Options;
use crate::rewrite;
use crate::scalar::Scalar;
use crate::schedule::{self, Caps, ScheduleError, Scheduler};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// A compiled program: a plan, the states it needs, and what compilation found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Program {
    /// What an executor runs.
    pub plan: Arc<Plan>,
    /// Where states lie; a new store takes it, an existing one gave it.
    pub layout: StateLayout,
    /// What a new store fills each state with, by name.
    pub initial: Vec<(String, Scalar)>,
    /// Figures for people.
    pub report: Report,
}

/// Figures about one compilation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Nodes of the graph as built.
    pub nodes: usize,
    /// Nodes after simplification.
    pub simplified: usize,
    /// Distinct kernels.
    pub kernels: usize,
    /// Dispatches of one step.
    pub dispatches: usize,
    /// Groups of dispatches that barriers separate.
    pub groups: usize,
    /// Bytes of all buffers, states included.
    pub planned_bytes: usize,
    /// Wall-clock time of the stages together.
    pub elapsed: Duration,
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
    check(options, || ir::verify(graph))?;

    let simplified = tracing::info_span!("simplify").in_scope(|| simplify(graph, options))?;
    let layouts = if options.layout { Layouts::choose(&simplified) } else { Layouts::row_major(&simplified) };
    check(options, || layouts.verify(&simplified))?;

    let layout = layout.cloned().unwrap_or_else(|| StateLayout::of_graph(&simplified, caps));
    let stage = Stage { graph: &simplified, layouts: &layouts, states: &layout, options, caps };
    let planned = stage.plan()?;

    let plan = planned.plan;
    let report = Report {
        nodes: graph.nodes().len(),
        simplified: simplified.nodes().len(),
        kernels: plan.kernels.len(),
        dispatches: plan.dispatches.len(),
        groups: plan.dispatches.last().map_or(0, |last| last.group + 1),
        planned_bytes: plan.total_bytes(),
        elapsed: start.elapsed(),
    };
    let initial = graph.states().iter().map(|state| (state.name.to_string(), state.init)).collect();
    Ok(Program { plan: Arc::new(plan), layout, initial, report })
}

/// The plan of a graph as it is, row-major, each kernel one dispatch: for tests, which know its nodes.
#[cfg(test)]
pub(crate) fn planned_as_built(graph: &Graph, caps: &Caps) -> Result<Planned, CompileError> {
    let options = &Options { simplify: false, expand: false, verify: true, ..Options::default() };
    let (layouts, states) = (&Layouts::row_major(graph), &StateLayout::of_graph(graph, caps));
    Stage { graph, layouts, states, options, caps }.plan()
}

/// What the later stages read.
struct Stage<'a> {
    graph: &'a Graph,
    layouts: &'a Layouts,
    states: &'a StateLayout,
    options: &'a Options,
    caps: &'a Caps,
}

/// Tensors that every single op's kernel can bind at least: three operands, a key, a result.
const FEWEST_BINDINGS: u32 = 5;

impl Stage<'_> {
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
        let Stage { graph, layouts, states, options, caps } = *self;
        let partition = tracing::info_span!("partition")
            .in_scope(|| fuse::partition(graph, layouts, options.fuse, max_bindings as usize));
        // A device on which not even single ops fit is no defect: planning refuses it.
        let most = max_bindings.max(FEWEST_BINDINGS) as usize;
        check(options, || fuse::verify(graph, &partition, most))?;

        let scheduler = Scheduler { caps, numerics: options.numerics, expand: options.expand };
        let (steps, temporaries) = tracing::info_span!("schedule").in_scope(|| scheduler.schedule(partition));
        check(options, || schedule::verify_steps(&steps, caps))?;

        let _span = tracing::info_span!("place").entered();
        let order = memory::order(graph, steps, temporaries, &|fragment| scheduler.step(fragment));
        let planned = memory::plan(graph, &order, states, caps)?;
        check(options, || memory::verify(graph, &planned, caps))?;
        Ok(planned)
    }
}

fn simplify(graph: &Graph, options: &Options) -> Result<Graph, CompileError> {
    if !options.simplify {
        return Ok(graph.clone());
    }
    let simplified = rewrite::simplify(graph, &options.rules.rules())?;
    check(options, || ir::verify(&simplified))?;
    check(options, || rewrite::verify_clean(&simplified))?;
    check(options, || ir::verify_same_boundary(graph, &simplified))?;
    Ok(simplified)
}

fn check<E: Into<CompileError>>(options: &Options, verify: impl FnOnce() -> Result<(), E>) -> Result<(), CompileError> {
    if options.verify { verify().map_err(Into::into) } else { Ok(()) }
}
