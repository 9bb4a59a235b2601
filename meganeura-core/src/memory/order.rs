//! Order of execution: groups of kernels that do not depend on each other.

use super::alias::may_share;
use crate::dtype::DType;
use crate::fuse::{Fragment, Provenance, Source};
use crate::index::Index;
use crate::ir::{Graph, NodeId, Origin, Phase, StateId};
use crate::kernel::{Access, Arg, Axis, Body, Expr, ExprId, Kernel, Role, Store};
use crate::ops::Op;
use crate::schedule::Step;
use std::collections::{HashMap, HashSet};

/// Scheduled kernels in groups, and the updates that happen in place.
#[derive(Clone, Debug)]
pub struct Order {
    /// Kernels in execution order.
    pub steps: Vec<Step>,
    /// The group of each; ascending.
    pub groups: Vec<usize>,
    /// Values that are computed into their state's storage.
    pub in_place: HashMap<NodeId, StateId>,
    /// Element type and number of elements of each temporary.
    pub temporaries: Vec<(DType, usize)>,
}

/// Orders kernels. A state's new value is computed into its storage where every read of the old value can come first
/// (M7); elsewhere it is computed aside and copied, by a kernel that `schedule` turns into a step.
pub fn order(
    graph: &Graph,
    mut steps: Vec<Step>,
    mut temporaries: Vec<(DType, usize)>,
    schedule: &dyn Fn(Fragment) -> Step,
) -> Order {
    let mut in_place = updates_in_place(graph, &steps);
    copy_the_others(graph, &mut steps, &in_place, schedule);
    loop {
        match levels(graph, &steps, &in_place) {
            Ok(levels) => {
                let mut by_level: Vec<usize> = (0..steps.len()).collect();
                by_level.sort_by_key(|&at| levels[at]);
                let groups = by_level.iter().map(|&at| levels[at]).collect();
                let steps = by_level.iter().map(|&at| steps[at].clone()).collect();
                return Order { steps, groups, in_place, temporaries };
            }
            Err(stuck) => compute_aside(graph, &mut steps, &mut in_place, &mut temporaries, &stuck, schedule),
        }
    }
}

/// Updates whose kernel may write the state while reading it.
fn updates_in_place(graph: &Graph, steps: &[Step]) -> HashMap<NodeId, StateId> {
    let mut writer: HashMap<NodeId, usize> = HashMap::new();
    for (at, step) in steps.iter().enumerate() {
        for source in step.writes() {
            if let Source::Value(id) = source {
                writer.insert(id, at);
            }
        }
    }
    let copied: HashSet<StateId> = steps
        .iter()
        .flat_map(|step| step.writes())
        .filter_map(|source| match source {
            Source::State(id) => Some(id),
            _ => None,
        })
        .collect();
    let updates = graph.updates().iter().filter(|update| !copied.contains(&update.state));
    updates
        .filter_map(|update| {
            let step = &steps[*writer.get(&update.value)?];
            let written = step.position(Source::Value(update.value), Access::Write)?;
            let reads = step.args.iter().zip(&step.kernel.args).enumerate().filter(|(_, (source, arg))| {
                arg.access == Access::Read && state_read_by(graph, **source) == Some(update.state)
            });
            let safe = reads.map(|(at, _)| at).all(|read| may_share(&step.kernel, read, written));
            safe.then_some((update.value, update.state))
        })
        .collect()
}

/// Adds a copy for each update whose kernel may not write the state: it reads the old value elsewhere or too late.
fn copy_the_others(
    graph: &Graph,
    steps: &mut Vec<Step>,
    in_place: &HashMap<NodeId, StateId>,
    schedule: &dyn Fn(Fragment) -> Step,
) {
    let written: HashSet<Source> = steps.iter().flat_map(|step| step.writes()).collect();
    for update in graph.updates() {
        let done = in_place.get(&update.value) == Some(&update.state)
            || written.contains(&Source::State(update.state))
            || state_read_by(graph, Source::Value(update.value)) == Some(update.state);
        if !done {
            steps.push(schedule(copy_to_state(graph, Source::Value(update.value), update.state)));
        }
    }
}

/// A kernel that copies a source to a state's storage.
fn copy_to_state(graph: &Graph, from: Source, to: StateId) -> Fragment {
    let state = graph.state(to);
    let copied = match from {
        Source::Value(id) => graph.node(id).origin.clone(),
        _ => Origin { phase: Phase::Update, ..Origin::default() },
    };
    Fragment {
        kernel: copy_kernel(state.ty.dtype, state.ty.elements()),
        args: vec![from, Source::State(to)],
        label: format!("copy to {}", state.name),
        provenance: Provenance { origins: vec![copied], part: None },
    }
}

/// The state whose old value a source is.
fn state_read_by(graph: &Graph, source: Source) -> Option<StateId> {
    match source {
        Source::Value(id) => match &graph.node(id).op {
            Op::State(state) => Some(state.id),
            _ => None,
        },
        _ => None,
    }
}

/// The state that a source's storage is, if a step that writes it overwrites a state.
fn overwrites(source: Source, in_place: &HashMap<NodeId, StateId>) -> Option<StateId> {
    match source {
        Source::State(id) => Some(id),
        Source::Value(id) => in_place.get(&id).copied(),
        _ => None,
    }
}

/// The earliest group of each step, or the steps that wait for each other.
fn levels(graph: &Graph, steps: &[Step], in_place: &HashMap<NodeId, StateId>) -> Result<Vec<usize>, Vec<usize>> {
    let mut writers: HashMap<Source, usize> = HashMap::new();
    let mut readers: HashMap<StateId, Vec<usize>> = HashMap::new();
    for (at, step) in steps.iter().enumerate() {
        writers.extend(step.writes().map(|source| (source, at)));
        for state in step.reads().filter_map(|source| state_read_by(graph, source)) {
            readers.entry(state).or_default().push(at);
        }
    }
    let mut before: Vec<Vec<usize>> =
        steps.iter().map(|step| step.reads().filter_map(|source| writers.get(&source).copied()).collect()).collect();
    for (at, step) in steps.iter().enumerate() {
        for state in step.writes().filter_map(|source| overwrites(source, in_place)) {
            let others = readers.get(&state).into_iter().flatten().copied().filter(|&reader| reader != at);
            before[at].extend(others);
        }
    }
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    for (at, before) in before.iter_mut().enumerate() {
        before.sort_unstable();
        before.dedup();
        before.iter().for_each(|&earlier| after[earlier].push(at));
    }
    let mut waiting: Vec<usize> = before.iter().map(Vec::len).collect();
    let mut levels = vec![0; steps.len()];
    let mut ready: Vec<usize> = (0..steps.len()).filter(|&at| waiting[at] == 0).collect();
    let mut done = 0;
    while let Some(at) = ready.pop() {
        done += 1;
        for &later in &after[at] {
            levels[later] = levels[later].max(levels[at] + 1);
            waiting[later] -= 1;
            if waiting[later] == 0 {
                ready.push(later);
            }
        }
    }
    match done == steps.len() {
        true => Ok(levels),
        false => Err((0..steps.len()).filter(|&at| waiting[at] > 0).collect()),
    }
}

/// Breaks a circle of steps: one of them, which overwrites a state, computes into storage of its own, and a copy that
/// may run later overwrites the state.
fn compute_aside(
    graph: &Graph,
    steps: &mut Vec<Step>,
    in_place: &mut HashMap<NodeId, StateId>,
    temporaries: &mut Vec<(DType, usize)>,
    stuck: &[usize],
    schedule: &dyn Fn(Fragment) -> Step,
) {
    let overwriting = stuck.iter().find_map(|&at| {
        let states = steps[at].writes().filter_map(|source| Some((at, source, overwrites(source, in_place)?)));
        // A copy from a temporary only waits for readers; it is never what a circle hangs on.
        states.into_iter().find(|_| !steps[at].reads().any(|read| matches!(read, Source::Temporary(_))))
    });
    // Data alone is acyclic (P2), so every circle holds a step that overwrites a state.
    let Some((at, source, state)) = overwriting else { return };
    let ty = &graph.state(state).ty;
    let aside = match source {
        Source::Value(id) => {
            in_place.remove(&id);
            source
        }
        _ => {
            temporaries.push((ty.dtype, ty.elements()));
            Source::Temporary(temporaries.len() - 1)
        }
    };
    if let Some(arg) = steps[at].position(source, Access::Write) {
        steps[at].args[arg] = aside;
    }
    steps.push(schedule(copy_to_state(graph, aside, state)));
}

/// A kernel that copies `elements` contiguous elements from its first argument to its second.
fn copy_kernel(dtype: DType, elements: usize) -> Kernel {
    let arg = |access| Arg { dtype, elements, access };
    Kernel {
        axes: vec![Axis { extent: elements, role: Role::Parallel }],
        args: vec![arg(Access::Read), arg(Access::Write)],
        exprs: vec![Expr::Load { arg: 0, index: Index::axis(0), mask: Vec::new() }],
        dtypes: vec![dtype],
        body: Body::Loop,
        stores: vec![Store { arg: 1, index: Index::axis(0), value: ExprId(0), per_element: false }],
    }
}
