//! Where kernels come from, for people and profiles. Nothing here decides what is computed or how.

use super::classify::Class;
use super::cluster::Cluster;
use crate::ir::{Graph, NodeId, Origin};
use crate::kernel::Role;
use crate::ops::{Lowering, Operation};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a kernel comes from; has no part in any decision, and equal programs of other origins have equal plans but for
/// this and their labels.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Provenance {
    /// Origins of what the kernel computes, each once. The first is that of the member with the most work: a profile
    /// charges the time to it.
    pub origins: Vec<Origin>,
    /// Which of the kernels it is that one kernel was split into; `None` for one that does all the work itself.
    pub part: Option<Part>,
}

/// One of several kernels that do the work of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Part {
    /// Its number, from 0.
    pub at: usize,
    /// How many there are.
    pub of: usize,
}

impl Provenance {
    /// The origins of some nodes, that of `nodes` with the most work first.
    pub(crate) fn of(graph: &Graph, nodes: &[NodeId]) -> Provenance {
        // A stable sort: of equal ones the first in the graph counts.
        let mut nodes = nodes.to_vec();
        nodes.sort_by_key(|&id| std::cmp::Reverse(work(graph, id)));
        let mut origins: Vec<Origin> = Vec::new();
        for id in nodes {
            let origin = &graph.node(id).origin;
            if !origins.contains(origin) {
                origins.push(origin.clone());
            }
        }
        Provenance { origins, part: None }
    }
}

/// Points at which a node's op is evaluated: elements of the result, times what is folded or contracted for each.
fn work(graph: &Graph, id: NodeId) -> usize {
    let node = graph.node(id);
    let results = node.ty.elements();
    let each: usize = match node.op.lower(&graph.operand_types(node), &node.ty) {
        Lowering::Fold { extents, .. } => extents.iter().product(),
        Lowering::Contract { depth, .. } => depth.iter().product(),
        Lowering::Stream { axes, .. } => {
            let inner = axes.iter().filter(|axis| matches!(axis.role, Role::Reduce | Role::Depth));
            inner.map(|axis| axis.extent).product()
        }
        Lowering::Point | Lowering::Leaf => 1,
    };
    results.saturating_mul(each)
}

/// Members that name a kernel: what it stores, and the folds and contractions in it.
pub(super) fn named(classes: &[Class], cluster: &Cluster, stored: &[NodeId]) -> Vec<NodeId> {
    let names = |id: &NodeId| stored.contains(id) || classes[id.index()] == Class::Anchor;
    cluster.members.iter().copied().filter(names).collect()
}

/// The scopes and ops of some nodes, each once.
pub(super) fn label(graph: &Graph, nodes: &[NodeId]) -> String {
    let mut parts: BTreeMap<(&'static str, &str), Vec<&'static str>> = BTreeMap::new();
    for &id in nodes {
        let node = graph.node(id);
        let ops = parts.entry((node.origin.phase.name(), &node.origin.scope)).or_default();
        if !ops.contains(&node.op.name()) {
            ops.push(node.op.name());
        }
    }
    let part = |((phase, scope), ops): (&(&str, &str), &Vec<&str>)| format!("{phase} {scope} {}", ops.join("+"));
    parts.iter().map(part).collect::<Vec<_>>().join(", ").replace("  ", " ")
}
