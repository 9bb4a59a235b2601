//! Which nodes are computed where they are used, and which are candidates for storing.

use crate::ir::{Graph, NodeId};
use crate::ops::{Lowering, Operation};

/// What partitioning does with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// In memory before the program runs.
    Leaf,
    /// Computed wherever it is used (P1: marked recompute).
    Inline,
    /// An elementwise value that a cluster computes.
    Root,
    /// A fold or contraction that a cluster computes.
    Anchor,
}

/// Fusion settings; each can be switched off for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FuseOptions {
    /// Elementwise work joins the kernels of its operands and users; off: one kernel an op.
    pub elementwise: bool,
    /// Folds join each other and elementwise work: whole softmaxes and norms in one kernel.
    pub rows: bool,
    /// Elementwise work on a contraction's result happens before it is stored.
    pub epilogues: bool,
}

impl Default for FuseOptions {
    fn default() -> FuseOptions {
        FuseOptions { elementwise: true, rows: true, epilogues: true }
    }
}

/// Depth of inlined expressions: bounds the recursion of lowering.
const MOST_DEPTH: usize = 40;
/// Operations of an inlined expression, to bound the text of a kernel.
const MOST_WORK: usize = 160;
/// Operations that are rather repeated than stored, if they read one tensor.
const CHEAP_WORK: usize = 3;
/// Tensors that one inlined expression reads, scalars aside.
const MOST_LOADS: usize = 5;
/// Tensors that a kernel of one node reads, scalars too: with its result the eight storage bindings that every device has.
const MOST_BOUND: usize = 7;

struct Inlined {
    depth: usize,
    work: usize,
    costly: bool,
    loads: Vec<NodeId>,
}

/// The class of each node.
pub(super) fn classify(graph: &Graph, options: FuseOptions) -> Vec<Class> {
    let forced = forced_roots(graph);
    let uses = uses_through_views(graph);
    let mut classes: Vec<Class> = Vec::with_capacity(graph.nodes().len());
    let mut inlined: Vec<Inlined> = Vec::with_capacity(graph.nodes().len());
    for id in graph.ids() {
        let node = graph.node(id);
        let mut own = combine(graph, id, &classes, &inlined);
        while own.loads.len() > MOST_BOUND && store_an_operand(graph, id, &mut classes, &mut inlined) {
            own = combine(graph, id, &classes, &inlined);
        }
        let wide = own.loads.iter().filter(|load| graph.node(**load).ty.elements() > 1).count();
        let class = match node.op.lower(&graph.operand_types(node), &node.ty) {
            Lowering::Leaf => Class::Leaf,
            Lowering::Fold { .. } | Lowering::Contract { .. } | Lowering::Stream { .. } => Class::Anchor,
            Lowering::Point if forced[id.index()] => Class::Root,
            Lowering::Point if node.op.is_view() => Class::Inline,
            Lowering::Point if !options.elementwise => Class::Root,
            Lowering::Point => {
                let large = own.depth > MOST_DEPTH || own.work > MOST_WORK || wide > MOST_LOADS;
                let cheap = !own.costly && own.work <= CHEAP_WORK && wide <= 1;
                if large || (uses[id.index()] > 1 && !cheap) { Class::Root } else { Class::Inline }
            }
        };
        if class != Class::Inline {
            own = Inlined::stored(id);
        }
        classes.push(class);
        inlined.push(own);
    }
    classes
}

impl Inlined {
    /// What is left of the expression of a node that is in memory: one load.
    fn stored(id: NodeId) -> Inlined {
        Inlined { depth: 0, work: 0, costly: false, loads: vec![id] }
    }
}

/// Makes a root of the operand that reads the most tensors, seen through views; false if none reads several.
fn store_an_operand(graph: &Graph, id: NodeId, classes: &mut [Class], inlined: &mut [Inlined]) -> bool {
    let source = |operand: &NodeId| through_views(graph, *operand);
    let of_several =
        |source: &NodeId| classes[source.index()] == Class::Inline && inlined[source.index()].loads.len() > 1;
    let operands = graph.node(id).operands.iter();
    let found = operands
        .filter(|operand| of_several(&source(operand)))
        .max_by_key(|operand| inlined[source(operand).index()].loads.len());
    let Some(&operand) = found else { return false };
    let source = source(&operand);
    classes[source.index()] = Class::Root;
    inlined[source.index()] = Inlined::stored(source);
    let (mut views, mut at) = (Vec::new(), operand);
    while at != source {
        views.push(at);
        at = graph.node(at).operands[0];
    }
    for view in views.into_iter().rev() {
        inlined[view.index()] = combine(graph, view, classes, inlined);
    }
    true
}

/// The expression that `id` would be, inlined over its operands.
fn combine(graph: &Graph, id: NodeId, classes: &[Class], inlined: &[Inlined]) -> Inlined {
    let node = graph.node(id);
    let view = node.op.is_view();
    let mut own = Inlined { depth: 1, work: usize::from(!view), costly: node.op.is_costly(), loads: Vec::new() };
    for &operand in &node.operands {
        let below = &inlined[operand.index()];
        debug_assert!(classes[operand.index()] == Class::Inline || below.loads == [operand]);
        own.depth = own.depth.max(below.depth + 1);
        own.work += below.work;
        own.costly |= below.costly;
        own.loads.extend(&below.loads);
    }
    own.loads.sort_unstable();
    own.loads.dedup();
    own
}

/// Elementwise nodes that must be in memory: what leaves the program, and what a contraction, a stream or a fold of
/// several operands reads (elements are read once a tile, or by many results, so work on them would be repeated for each).
fn forced_roots(graph: &Graph) -> Vec<bool> {
    let mut forced = vec![false; graph.nodes().len()];
    graph.roots().for_each(|root| forced[root.index()] = true);
    for node in graph.nodes() {
        let repeats = match node.op.lower(&graph.operand_types(node), &node.ty) {
            Lowering::Contract { .. } | Lowering::Stream { .. } => true,
            Lowering::Fold { .. } => node.operands.len() > 1,
            Lowering::Point | Lowering::Leaf => false,
        };
        if repeats {
            for &operand in &node.operands {
                let source = through_views(graph, operand);
                forced[source.index()] |= !graph.node(source).op.is_view();
            }
        }
    }
    forced
}

/// The value that a chain of views looks at.
fn through_views(graph: &Graph, mut id: NodeId) -> NodeId {
    while let (true, Some(&operand)) = (graph.node(id).op.is_view(), graph.node(id).operands.first()) {
        id = operand;
    }
    id
}

/// For each node how many computed nodes read it, directly or through views.
fn uses_through_views(graph: &Graph) -> Vec<usize> {
    let mut uses = vec![0; graph.nodes().len()];
    graph.roots().for_each(|root| uses[root.index()] += 1);
    for id in graph.ids().rev() {
        let node = graph.node(id);
        let passed = if node.op.is_view() { uses[id.index()] } else { 1 };
        let mut operands = node.operands.clone();
        operands.sort_unstable();
        operands.dedup();
        operands.iter().for_each(|operand| uses[operand.index()] += passed);
    }
    uses
}
