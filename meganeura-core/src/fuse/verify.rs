//! Invariants of partitions.

use super::cluster::state_of;
use super::fragment::{Fragment, Partition, Source};
use crate::ir::{Graph, NodeId, StateId};
use crate::kernel::Expr;
use crate::ops::Op;
use std::collections::{HashMap, HashSet};

/// A broken invariant: always a defect of this library, never of a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// P1: a value is stored by two kernels.
    #[error("P1: {0:?} is stored twice")]
    StoredTwice(Source),
    /// P2 or P1: a kernel reads what no earlier kernel stores.
    #[error("P2: kernel {kernel} reads {missing:?}, which nothing before it stores")]
    NotStored {
        /// Position of the reader.
        kernel: usize,
        /// What it reads.
        missing: Source,
    },
    /// P3: a kernel stores what nothing uses.
    #[error("P3: {0:?} is stored, but neither read by another kernel nor a result")]
    Unused(Source),
    /// P3: a result is stored by no kernel.
    #[error("P3: {0} leaves the program, but no kernel stores it")]
    Lost(NodeId),
    /// P4: a kernel uses a contraction's sum without being one, or folds besides it.
    #[error("P4: kernel {kernel} mixes a contraction with folds, or has a sum without one")]
    Contractions {
        /// Position of the kernel.
        kernel: usize,
    },
    /// P5: a kernel binds more tensors than the device allows.
    #[error("P5: kernel {kernel} binds {found} tensors, the device allows {limit}")]
    Bindings {
        /// Position of the kernel.
        kernel: usize,
        /// What it binds.
        found: usize,
        /// The limit.
        limit: usize,
    },
}

/// Tensors that a kernel binds, if each new value of a state takes the place of the old one. `updates` has the state of
/// each new value.
fn bindings(graph: &Graph, updates: &HashMap<NodeId, StateId>, fragment: &Fragment) -> usize {
    let value = |source: &Source| match source {
        Source::Value(id) => Some(*id),
        _ => None,
    };
    let distinct: HashSet<&Source> = fragment.args.iter().collect();
    let old: Vec<StateId> = distinct.iter().filter_map(|source| state_of(graph, value(source)?)).collect();
    let replaces_operand = |source: &&&Source| {
        let new = value(source).filter(|&id| state_of(graph, id).is_none());
        new.and_then(|id| updates.get(&id)).is_some_and(|state| old.contains(state))
    };
    distinct.len() - distinct.iter().filter(replaces_operand).count()
}

/// Checks P1 to P5.
///
/// # Errors
/// The first broken invariant.
pub fn verify(graph: &Graph, partition: &Partition, max_bindings: usize) -> Result<(), PartitionError> {
    let is_leaf = |source: &Source| match source {
        Source::Value(id) => matches!(graph.node(*id).op, Op::Input(_) | Op::State(_)),
        _ => false,
    };
    // The first update of a value is the one in place; others are copies.
    let updates = graph.updates().iter().rev().map(|update| (update.value, update.state)).collect();
    let mut stored: HashSet<Source> = HashSet::new();
    for (at, fragment) in partition.fragments.iter().enumerate() {
        if let Some(source) = fragment.reads().find(|source| !is_leaf(source) && !stored.contains(source)) {
            return Err(PartitionError::NotStored { kernel: at, missing: source });
        }
        if let Some(source) = fragment.writes().find(|source| is_leaf(source) || !stored.insert(*source)) {
            return Err(PartitionError::StoredTwice(source));
        }
        let (sums, folds) = fragment.kernel.exprs.iter().fold((false, false), |(sums, folds), expr| {
            (sums || matches!(expr, Expr::Acc), folds || matches!(expr, Expr::Reduce(..)))
        });
        if sums != fragment.kernel.is_contraction() || (sums && folds) {
            return Err(PartitionError::Contractions { kernel: at });
        }
        let found = bindings(graph, &updates, fragment);
        if found > max_bindings {
            return Err(PartitionError::Bindings { kernel: at, found, limit: max_bindings });
        }
    }
    let roots: HashSet<NodeId> = graph.roots().collect();
    let read: HashSet<Source> = partition.fragments.iter().flat_map(|fragment| fragment.reads()).collect();
    for &source in &stored {
        let leaves = match source {
            Source::Value(id) => roots.contains(&id),
            Source::State(_) | Source::Output(_) => true,
            Source::Temporary(_) => false,
        };
        if !leaves && !read.contains(&source) {
            return Err(PartitionError::Unused(source));
        }
    }
    let lost = |id: &&NodeId| !is_leaf(&Source::Value(**id)) && !stored.contains(&Source::Value(**id));
    match roots.iter().filter(lost).min() {
        Some(&id) => Err(PartitionError::Lost(id)),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
