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
/// Tensors that one inlined expression reads: fewer than the storage bindings every device has.
const MOST_LOADS: usize = 5;

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
        let class = match node.op.lower(&graph.operand_types(node), &node.ty) {
            Lowering::Leaf => Class::Leaf,
            Lowering::Fold { .. } | Lowering::Contract { .. } => Class::Anchor,
            Lowering::Point if forced[id.index()] => Class::Root,
            Lowering::Point if node.op.is_view() => Class::Inline,
            Lowering::Point if !options.elementwise => Class::Root,
            Lowering::Point => {
                let large = own.depth > MOST_DEPTH || own.work > MOST_WORK || own.loads.len() > MOST_LOADS;
                let cheap = !own.costly && own.work <= CHEAP_WORK && own.loads.len() <= 1;
                if large || (uses[id.index()] > 1 && !cheap) { Class::Root } else { Class::Inline }
            }
        };
        if class != Class::Inline {
            own = Inlined { depth: 0, work: 0, costly: false, loads: vec![id] };
        }
        classes.push(class);
        inlined.push(own);
    }
    classes
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
        own.loads.extend(below.loads.iter().filter(|load| graph.node(**load).ty.elements() > 1));
    }
    own.loads.sort_unstable();
    own.loads.dedup();
    own
}

/// Elementwise nodes that must be in memory: what leaves the program, and what a contraction reads (its operands are
/// read once a tile, so work on them would be repeated for each).
fn forced_roots(graph: &Graph) -> Vec<bool> {
    let mut forced = vec![false; graph.nodes().len()];
    graph.roots().for_each(|root| forced[root.index()] = true);
    for node in graph.nodes() {
        if matches!(node.op.lower(&graph.operand_types(node), &node.ty), Lowering::Contract { .. }) {
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
