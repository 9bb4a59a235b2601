//! Invariants of graphs, checked after each pass over them.

use super::builder::check_limits;
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
    /// R2: rules rewrite one node for ever.
    #[error("R2: {node} was still rewritten after {rewrites} rewrites, last by `{rule}`")]
    EndlessRewrite {
        /// The node, in the graph before rewriting.
        node: NodeId,
        /// How often it was rewritten.
        rewrites: usize,
        /// The rule that fired last.
        rule: &'static str,
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
        let inferred = node.op.infer(&graph.operand_types(node)).and_then(|ty| check_limits(&ty).map(|()| ty));
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
    for (at, update) in graph.updates.iter().enumerate() {
        let Some(state) = graph.states.get(update.state.index()) else {
            return Err(boundary("update", "?", format!("state @{}", update.state.0), "a declared state".into()));
        };
        let found =
            if in_range(update.value) { graph.node(update.value).ty.to_string() } else { update.value.to_string() };
        if found != state.ty.to_string() {
            return Err(boundary("update", &state.name, found, state.ty.to_string()));
        }
        if graph.updates[..at].iter().any(|earlier| earlier.state == update.state) {
            return Err(boundary("update", &state.name, "a second update".into(), "at most one".into()));
        }
    }
    if let Some(state) = graph.states.iter().find(|state| state.init.dtype() != state.ty.dtype) {
        return Err(boundary("state", &state.name, state.init.to_string(), format!("an initial {}", state.ty.dtype)));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::ir::{Builder, Output, StateId, StateSpec, Update};
    use crate::scalar::Scalar;

    /// `%0` a state, `%1` an input, `%2` their sum, `%3 = exp(%2)`; all `f32[3]`.
    fn sound() -> Graph {
        let builder = Builder::new();
        let ty = TensorType::new(DType::F32, [3]);
        let spec = StateSpec { name: "w".into(), ty: ty.clone(), group: "parameters".into(), init: Scalar::f32(0.0) };
        let weight = builder.state(spec);
        let sum = weight + builder.input("x", ty);
        let grown = sum.exp();
        builder.update(weight, grown);
        builder.output("y", sum);
        builder.finish().unwrap()
    }

    #[track_caller]
    fn broken(damage: impl FnOnce(&mut Graph)) -> GraphError {
        let mut graph = sound();
        verify(&graph).unwrap();
        damage(&mut graph);
        verify(&graph).unwrap_err()
    }

    #[test]
    fn g1_operands_precede_users() {
        let itself = broken(|graph| graph.nodes[3].operands[0] = NodeId(3));
        assert_eq!(itself, GraphError::OperandOrder { node: NodeId(3), operand: NodeId(3) });
        let later = broken(|graph| graph.nodes[2].operands[1] = NodeId(3));
        assert_eq!(later, GraphError::OperandOrder { node: NodeId(2), operand: NodeId(3) });
        let outside = broken(|graph| graph.nodes[2].operands[1] = NodeId(u32::MAX));
        assert!(matches!(outside, GraphError::OperandOrder { .. }));
        let swapped = broken(|graph| graph.nodes.swap(2, 3));
        assert!(matches!(swapped, GraphError::OperandOrder { .. }));
    }

    #[test]
    fn g2_stored_types_equal_inferred_ones() {
        let shape = broken(|graph| graph.nodes[3].ty.shape = [1, 3].into());
        let stored = TensorType::new(DType::F32, [1, 3]);
        assert_eq!(shape, GraphError::StoredType { node: NodeId(3), stored, inferred: "f32[3]".into() });
        let dtype = broken(|graph| graph.nodes[2].ty.dtype = DType::F16);
        assert!(matches!(dtype, GraphError::StoredType { node: NodeId(2), .. }));
        let rule = broken(|graph| graph.nodes[2].operands.truncate(1));
        let GraphError::StoredType { node: NodeId(2), inferred, .. } = rule else { panic!("{rule}") };
        assert!(inferred.contains("number of operands"), "{inferred}");
        let limit = broken(|graph| {
            let huge = TensorType::new(DType::F32, [1 << 31, 2]);
            graph.nodes[1].op = Op::Input(crate::ops::Input { name: "x".into(), ty: huge.clone() });
            graph.nodes[1].ty = huge;
        });
        assert!(matches!(limit, GraphError::StoredType { node: NodeId(1), .. }));
    }

    #[test]
    fn g4_boundaries_refer_to_nodes_of_their_type() {
        let boundary = |error: GraphError| match error {
            GraphError::Boundary { what, name, .. } => (what, name),
            other => panic!("{other}"),
        };
        let dangling = Output { name: "z".into(), value: NodeId(9) };
        assert_eq!(boundary(broken(|graph| graph.outputs.push(dangling))), ("output", "z".into()));
        assert_eq!(boundary(broken(|graph| graph.updates[0].value = NodeId(9))), ("update", "w".into()));
        assert_eq!(boundary(broken(|graph| graph.updates[0].state = StateId(1))), ("update", "?".into()));
        assert_eq!(boundary(broken(|graph| graph.updates.push(graph.updates[0]))), ("update", "w".into()));
        assert_eq!(boundary(broken(|graph| drop(graph.states.pop()))), ("update", "?".into()));
        let other_type = |graph: &mut Graph| graph.states[0].ty = TensorType::new(DType::F32, [4]);
        assert_eq!(boundary(broken(other_type)), ("update", "w".into()));
        let unread = |graph: &mut Graph| {
            graph.updates.clear();
            graph.states[0].ty.dtype = DType::U32;
            graph.states[0].init = Scalar::u32(0);
        };
        assert_eq!(boundary(broken(unread)), ("state", "@0".into()));
        assert_eq!(boundary(broken(|graph| graph.states[0].init = Scalar::u32(0))), ("state", "w".into()));
        let update = Update { state: StateId(0), value: NodeId(2) };
        let mut graph = sound();
        graph.updates = vec![update];
        assert_eq!(verify(&graph), Ok(()));
    }

    #[test]
    fn g5_names_are_unique() {
        let twice = broken(|graph| graph.outputs.push(graph.outputs[0].clone()));
        assert_eq!(twice, GraphError::Name { what: "output", name: "y".into() });
        let input = broken(|graph| graph.nodes.push(graph.nodes[1].clone()));
        assert_eq!(input, GraphError::Name { what: "input", name: "x".into() });
        let state = broken(|graph| graph.states.push(graph.states[0].clone()));
        assert_eq!(state, GraphError::Name { what: "state", name: "w".into() });
    }
}
