//! Invariants of graphs, checked after each pass over them.

use super::graph::{Graph, NodeId};
use crate::ops::{Op, Operation};
use crate::shape::TensorType;
use std::collections::HashSet;

/// A broken invariant: always a defect of this library, never of a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// G1.
    #[error("G1: {node} uses {operand}, which does not precede it")]
    OperandOrder {
        /// The user.
        node: NodeId,
        /// Its operand.
        operand: NodeId,
    },
    /// G2.
    #[error("G2: {node} is stored as {stored}, but its op gives {inferred}")]
    StoredType {
        /// The node.
        node: NodeId,
        /// The type in the graph.
        stored: TensorType,
        /// The type by inference, or the broken rule.
        inferred: String,
    },
    /// G4: an output, update or state refers to nothing, or to something of another type.
    #[error("G4: {what} `{name}` has {found}, expected {expected}")]
    Boundary {
        /// `update`, `output` or `state`.
        what: &'static str,
        /// Its name.
        name: String,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// G5.
    #[error("G5: two {what}s are named `{name}`")]
    Name {
        /// `input`, `state` or `output`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// G6, after cleaning only.
    #[error("G6: {node} is {what}")]
    Unclean {
        /// The node.
        node: NodeId,
        /// `dead` or `a duplicate`.
        what: &'static str,
    },
}

/// Checks G1, G2, G4 (each boundary refers to a node of its type) and G5.
///
/// # Errors
/// The first broken invariant.
pub fn verify(graph: &Graph) -> Result<(), GraphError> {
    for id in graph.ids() {
        let node = graph.node(id);
        if let Some(&operand) = node.operands.iter().find(|operand| **operand >= id) {
            return Err(GraphError::OperandOrder { node: id, operand });
        }
        let inferred = node.op.infer(&graph.operand_types(node));
        if inferred.as_ref() != Ok(&node.ty) {
            let inferred = inferred.map_or_else(|violation| violation.to_string(), |ty| ty.to_string());
            return Err(GraphError::StoredType { node: id, stored: node.ty.clone(), inferred });
        }
    }
    verify_boundary(graph)?;
    verify_names(graph)
}

/// G4: a pass keeps count, order, names and types of outputs, updates and states.
///
/// # Errors
/// The first difference.
pub fn verify_same_boundary(before: &Graph, after: &Graph) -> Result<(), GraphError> {
    let outputs = |graph: &Graph| {
        let of = |output: &super::Output| (output.name.clone(), graph.node(output.value).ty.to_string());
        graph.outputs.iter().map(of).collect::<Vec<_>>()
    };
    let updates = |graph: &Graph| {
        let of = |update: &super::Update| {
            (graph.state(update.state).name.to_string(), graph.node(update.value).ty.to_string())
        };
        graph.updates.iter().map(of).collect::<Vec<_>>()
    };
    let states = |graph: &Graph| {
        let of = |state: &super::StateDecl| (state.name.to_string(), state.ty.to_string());
        graph.states.iter().map(of).collect::<Vec<_>>()
    };
    same("output", outputs(before), outputs(after))?;
    same("update", updates(before), updates(after))?;
    same("state", states(before), states(after))
}

fn same(what: &'static str, before: Vec<(String, String)>, after: Vec<(String, String)>) -> Result<(), GraphError> {
    let nothing = ("(none)".to_string(), "(none)".to_string());
    for at in 0..before.len().max(after.len()) {
        let [expected, found] = [&before, &after].map(|side| side.get(at).unwrap_or(&nothing));
        if expected != found {
            let (name, found, expected) = (expected.0.clone(), format!("{} {}", found.0, found.1), expected.1.clone());
            return Err(GraphError::Boundary { what, name, found, expected });
        }
    }
    Ok(())
}

fn verify_boundary(graph: &Graph) -> Result<(), GraphError> {
    let in_range = |id: NodeId| id.index() < graph.nodes.len();
    let boundary = |what, name: &str, found: String, expected: String| GraphError::Boundary {
        what,
        name: name.to_string(),
        found,
        expected,
    };
    for output in &graph.outputs {
        if !in_range(output.value) {
            return Err(boundary("output", &output.name, output.value.to_string(), "a node of the graph".into()));
        }
    }
    for update in &graph.updates {
        let Some(state) = graph.states.get(update.state.index()) else {
            return Err(boundary("update", "?", format!("state @{}", update.state.0), "a declared state".into()));
        };
        let found =
            if in_range(update.value) { graph.node(update.value).ty.to_string() } else { update.value.to_string() };
        if found != state.ty.to_string() {
            return Err(boundary("update", &state.name, found, state.ty.to_string()));
        }
    }
    for node in &graph.nodes {
        if let Op::State(leaf) = &node.op {
            let declared = graph.states.get(leaf.id.index()).map(|state| state.ty.to_string()).unwrap_or_default();
            if declared != node.ty.to_string() {
                return Err(boundary("state", &format!("@{}", leaf.id.0), node.ty.to_string(), declared));
            }
        }
    }
    Ok(())
}

fn verify_names(graph: &Graph) -> Result<(), GraphError> {
    let mut seen: HashSet<(&'static str, &str)> = HashSet::new();
    let inputs = graph.nodes.iter().filter_map(|node| match &node.op {
        Op::Input(input) => Some(("input", &*input.name)),
        _ => None,
    });
    let states = graph.states.iter().map(|state| ("state", &*state.name));
    let outputs = graph.outputs.iter().map(|output| ("output", output.name.as_str()));
    for (what, name) in inputs.chain(states).chain(outputs) {
        if !seen.insert((what, name)) {
            return Err(GraphError::Name { what, name: name.to_string() });
        }
    }
    Ok(())
}
