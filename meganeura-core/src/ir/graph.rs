//! The data structure.

use crate::ops::Op;
use crate::report::MakingTime;
use crate::scalar::Scalar;
use crate::shape::TensorType;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Position of a node in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// The position as a number.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Position of a state in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StateId(pub(crate) u32);

impl StateId {
    /// The position as a number.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Which part of a step a node belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Phase {
    /// The model and its loss.
    #[default]
    Forward,
    /// What differentiation added.
    Backward,
    /// State updates: the optimiser.
    Update,
}

impl Phase {
    /// Every phase.
    pub const ALL: [Phase; 3] = [Phase::Forward, Phase::Backward, Phase::Update];

    /// The name in text forms.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Forward => "forward",
            Phase::Backward => "backward",
            Phase::Update => "update",
        }
    }

    /// The phase of that name, if there is one.
    pub fn from_name(name: &str) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| phase.name() == name)
    }
}

/// Where a node comes from, for people and profiles; has no part in what is computed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Origin {
    /// Path of the layer, such as `encoder.layers.0.fc1`; empty at the top.
    pub scope: Arc<str>,
    /// Part of the step.
    pub phase: Phase,
}

/// One computed (or read) tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What is computed.
    pub op: Op,
    /// From what; all precede this node.
    pub operands: Vec<NodeId>,
    /// Type of the result, as [`Operation::infer`](crate::ops::Operation::infer) gives it.
    pub ty: TensorType,
    /// Where it comes from.
    pub origin: Origin,
}

/// A value that outlives a step: parameter, moment, counter, statistics, cache.
#[derive(Clone, Debug, PartialEq)]
pub struct StateDecl {
    /// Unique name.
    pub name: Arc<str>,
    /// Its type.
    pub ty: TensorType,
    /// States of one group lie side by side in one arena of a store: `parameters`, `moments` and so on.
    pub group: Arc<str>,
    /// What a new store fills it with.
    pub init: Scalar,
}

/// A result that the host reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Unique name.
    pub name: String,
    /// Its value.
    pub value: NodeId,
}

/// `state := value`, after every read of the old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// What is written.
    pub state: StateId,
    /// The new value; has the state's type.
    pub value: NodeId,
}

/// A program: nodes, states, what the host reads, and what is kept for the next step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) states: Vec<StateDecl>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) updates: Vec<Update>,
    pub(crate) time: MakingTime,
}

impl Graph {
    /// All nodes, operands first.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node of that id.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Ids of all nodes, operands first.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// All states.
    pub fn states(&self) -> &[StateDecl] {
        &self.states
    }

    /// The state of that id.
    pub fn state(&self, id: StateId) -> &StateDecl {
        &self.states[id.index()]
    }

    /// What the host reads.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// State updates, at most one a state.
    pub fn updates(&self) -> &[Update] {
        &self.updates
    }

    /// Nodes whose values leave the program: outputs, then updates.
    pub fn roots(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.outputs.iter().map(|output| output.value).chain(self.updates.iter().map(|update| update.value))
    }

    /// For each node whether a root depends on it.
    pub fn live(&self) -> Vec<bool> {
        let mut live = vec![false; self.nodes.len()];
        self.roots().for_each(|root| live[root.index()] = true);
        for at in (0..self.nodes.len()).rev() {
            if live[at] {
                self.nodes[at].operands.iter().for_each(|operand| live[operand.index()] = true);
            }
        }
        live
    }

    /// For each node how many operand positions, outputs and updates refer to it.
    pub fn use_counts(&self) -> Vec<usize> {
        let mut uses = vec![0; self.nodes.len()];
        let operands = self.nodes.iter().flat_map(|node| node.operands.iter().copied());
        operands.chain(self.roots()).for_each(|id| uses[id.index()] += 1);
        uses
    }

    /// Types of a node's operands.
    pub fn operand_types(&self, node: &Node) -> Vec<TensorType> {
        node.operands.iter().map(|&operand| self.node(operand).ty.clone()).collect()
    }
}
