//! The result of partitioning: kernels with their tensors, in an order in which they can run.

use super::classify::{FuseOptions, classify};
use super::cluster::Clustering;
use super::lower::{KernelBuilder, Surroundings};
use super::provenance::{Provenance, label, named};
use crate::ir::{Graph, NodeId, StateId};
use crate::kernel::{Access, Axis, Kernel, Role};
use crate::layout::Layouts;
use crate::ops::Op;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// What a kernel's argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Source {
    /// A node's value.
    Value(NodeId),
    /// The new value of a state whose update could not be computed in place.
    State(StateId),
    /// An output (by position) that is another node's value, copied.
    Output(usize),
    /// A temporary of an expanded kernel.
    Temporary(usize),
}

/// One kernel of a program, not yet scheduled.
#[derive(Clone, Debug, PartialEq)]
pub struct Fragment {
    /// What is computed.
    pub kernel: Kernel,
    /// What each of the kernel's arguments is.
    pub args: Vec<Source>,
    /// For people: where its members come from and what they are.
    pub label: String,
    /// For profiles.
    pub provenance: Provenance,
}

/// A graph as kernels.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// Kernels in a valid order.
    pub fragments: Vec<Fragment>,
    /// Element type and number of elements of each [`Source::Temporary`].
    pub temporaries: Vec<(crate::dtype::DType, usize)>,
}

/// Partitions a graph into kernels that bind at most `max_bindings` tensors each.
pub fn partition(graph: &Graph, layouts: &Layouts, options: FuseOptions, max_bindings: usize) -> Partition {
    let classes = classify(graph, options);
    let mut clustering = Clustering::new(graph, &classes, layouts, options, max_bindings);
    clustering.run();
    let mut needed: HashSet<NodeId> = graph.roots().collect();
    let mut fragments: Vec<Fragment> = Vec::new();
    for cluster in clustering.clusters.iter().rev() {
        let stored: Vec<NodeId> = cluster.members.iter().copied().filter(|member| needed.contains(member)).collect();
        if stored.is_empty() {
            continue;
        }
        let around = Surroundings { graph, classes: &classes, layouts, members: &cluster.positions };
        let mut builder = KernelBuilder::new(cluster.axes.clone());
        for &member in &stored {
            // Clustering has lowered each member once already; P1 reports a member that is lost here.
            let _ = builder.store(around, member, Source::Value(member));
        }
        needed.extend(builder.loaded());
        let (kernel, args) = builder.finish();
        let named = named(&classes, cluster, &stored);
        fragments.push(Fragment {
            kernel: crate::kernel::merge_axes(kernel),
            args,
            label: label(graph, &named),
            provenance: Provenance::of(graph, &named),
        });
    }
    fragments.reverse();
    fragments.extend(copies(graph, layouts));
    Partition { fragments, temporaries: Vec::new() }
}

/// Kernels for outputs and updates that are values which live elsewhere already.
fn copies(graph: &Graph, layouts: &Layouts) -> Vec<Fragment> {
    let leaf = |id: NodeId| match &graph.node(id).op {
        Op::Input(_) => Some(None),
        Op::State(state) => Some(Some(state.id)),
        _ => None,
    };
    let mut copies = Vec::new();
    let mut homes: HashMap<NodeId, StateId> = HashMap::new();
    for update in &graph.updates {
        let is_leaf = leaf(update.value).is_some();
        // Writing a state to itself is nothing; a value that is two states' is computed into one and copied.
        let itself = leaf(update.value) == Some(Some(update.state));
        if !itself && (is_leaf || homes.contains_key(&update.value)) {
            copies.push(copy(graph, layouts, update.value, Source::State(update.state)));
        } else {
            homes.insert(update.value, update.state);
        }
    }
    for (at, output) in graph.outputs.iter().enumerate() {
        // The old value of a state is gone after the step.
        if matches!(leaf(output.value), Some(Some(_))) {
            copies.push(copy(graph, layouts, output.value, Source::Output(at)));
        }
    }
    copies
}

/// A kernel that copies a value.
fn copy(graph: &Graph, layouts: &Layouts, from: NodeId, to: Source) -> Fragment {
    let shape = &graph.node(from).ty.shape;
    let axes = shape.iter().map(|&extent| Axis { extent, role: Role::Parallel }).collect();
    let mut builder = KernelBuilder::new(axes);
    builder.copy(graph, layouts, from, to);
    let (kernel, args) = builder.finish();
    let label = format!("copy {}", label(graph, &[from]));
    Fragment { kernel: crate::kernel::merge_axes(kernel), args, label, provenance: Provenance::of(graph, &[from]) }
}

impl Fragment {
    /// Sources that the kernel reads.
    pub fn reads(&self) -> impl Iterator<Item = Source> + '_ {
        self.with_access(Access::Read)
    }

    /// Sources that the kernel writes.
    pub fn writes(&self) -> impl Iterator<Item = Source> + '_ {
        self.with_access(Access::Write)
    }

    fn with_access(&self, access: Access) -> impl Iterator<Item = Source> + '_ {
        self.args.iter().zip(&self.kernel.args).filter(move |(_, arg)| arg.access == access).map(|(source, _)| *source)
    }
}
