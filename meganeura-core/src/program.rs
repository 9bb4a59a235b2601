//! A compiled program, and whether one that comes from elsewhere than the compiler may run.

use crate::ir::Graph;
use crate::kernel::{self, VerifyError};
use crate::memory::{self, Evidence, MemoryError, Plan, Port, StateLayout};
use crate::ops::Op;
use crate::report::{Report, Stage, StageTime};
use crate::scalar::Scalar;
use crate::schedule::{self, Caps, SpecError, Target};
use crate::shape::TensorType;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

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
    /// What its verifier needs besides.
    pub evidence: Arc<Evidence>,
}

/// Version and fingerprint of this compiler's sources: programs of other compilers are not these.
pub const COMPILER: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("MEGANEURA_CORE_SOURCES"));

/// Why a program that was read from somewhere is not that of a graph, or may not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// A kernel breaks an invariant.
    #[error("kernel {kernel}: {error}")]
    Kernel {
        /// Position in [`Plan::kernels`].
        kernel: usize,
        /// The invariant.
        error: VerifyError,
    },
    /// A schedule breaks an invariant.
    #[error("the schedule of dispatch {dispatch}: {error}")]
    Schedule {
        /// Position in [`Plan::dispatches`].
        dispatch: usize,
        /// The invariant.
        error: SpecError,
    },
    /// The memory plan breaks an invariant.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Inputs, outputs, states, updates, initial values or the states' layout are not the graph's.
    #[error("the program's {what} are not those of the graph")]
    Boundary {
        /// What differs.
        what: &'static str,
    },
}

impl Program {
    /// Checks a program that was not just compiled: that it is one for this graph, device and layout of states (none: that
    /// of the graph's own states), and that its kernels, schedules and places keep their invariants. Whether it computes
    /// what the graph says cannot be told by it, only that it is safe to run.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn verify(&self, graph: &Graph, caps: &Caps, layout: Option<&StateLayout>) -> Result<(), ProgramError> {
        self.verify_boundary(graph, caps, layout)?;
        let kernel = |(at, kernel): (usize, &kernel::Kernel)| {
            kernel::verify(kernel).map_err(|error| ProgramError::Kernel { kernel: at, error })
        };
        self.plan.kernels.par_iter().enumerate().try_for_each(kernel)?;
        memory::verify_plan(&self.plan, &self.evidence, caps)?;
        if caps.target == Target::Cpu {
            return Ok(());
        }
        self.plan.dispatches.iter().enumerate().try_for_each(|(at, dispatch)| {
            schedule::verify(&self.plan.kernels[dispatch.kernel], &dispatch.spec, caps)
                .map_err(|error| ProgramError::Schedule { dispatch: at, error })
        })
    }

    /// Marks a program as read from a cache for this graph, which took `load`.
    #[must_use]
    pub fn from_cache(mut self, graph: &Graph, load: Duration) -> Program {
        self.report.cached = true;
        self.report.stages = vec![
            StageTime { stage: Stage::Build, time: graph.time.build },
            StageTime { stage: Stage::Differentiate, time: graph.time.differentiate },
        ];
        self.report.elapsed = Duration::ZERO;
        self.report.add(Stage::Load, load);
        self
    }

    fn verify_boundary(&self, graph: &Graph, caps: &Caps, layout: Option<&StateLayout>) -> Result<(), ProgramError> {
        let same = |what, same: bool| if same { Ok(()) } else { Err(ProgramError::Boundary { what }) };
        let ports = |ports: &[Port], expected: Vec<(&str, &TensorType)>| {
            ports.iter().map(|port| (port.name.as_str(), &port.ty)).eq(expected)
        };
        let inputs = graph.nodes().iter().filter_map(|node| match &node.op {
            Op::Input(input) => Some((&*input.name, &node.ty)),
            _ => None,
        });
        let outputs = graph.outputs().iter().map(|output| (output.name.as_str(), &graph.node(output.value).ty));
        let states = graph.states().iter().map(|state| (&*state.name, &state.ty));
        same("inputs", ports(&self.plan.inputs, inputs.collect()))?;
        same("outputs", ports(&self.plan.outputs, outputs.collect()))?;
        same("states", ports(&self.plan.states, states.collect()))?;
        let updates = graph.updates().iter().map(|update| update.state.index());
        same("updates", self.evidence.updates.iter().map(|update| update.state).eq(updates))?;
        let initial = graph.states().iter().map(|state| (&*state.name, state.init));
        same("initial values", self.initial.iter().map(|(name, value)| (name.as_str(), *value)).eq(initial))?;
        let own = || StateLayout::of_graph(graph, caps);
        same("places of states", layout.map_or_else(|| self.layout == own(), |layout| self.layout == *layout))
    }
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
