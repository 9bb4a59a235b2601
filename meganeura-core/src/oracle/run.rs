//! The graph interpreter.

use super::Array;
use crate::ir::{Graph, NodeId};
use crate::ops::{Op, Operation};
use crate::shape::TensorType;
use std::collections::HashMap;

/// What the interpreter cannot do without.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OracleError {
    /// An input or state was not given, or has another type.
    #[error("the graph needs {what} `{name}` of type {expected}, found {found}")]
    Missing {
        /// `input` or `state`.
        what: &'static str,
        /// Its name.
        name: String,
        /// Its type.
        expected: TensorType,
        /// The type given, or `nothing`.
        found: String,
    },
}

/// The result of interpreting a graph once.
#[derive(Clone, Debug)]
pub struct Run {
    /// The value of every node.
    pub values: Vec<Array>,
    /// Outputs by name.
    pub outputs: HashMap<String, Array>,
    /// New values of the states that the graph updates, by name.
    pub states: HashMap<String, Array>,
}

/// Interprets a graph on inputs and states, both by name.
///
/// # Errors
/// [`OracleError::Missing`] for an input or state that is absent or has another type.
pub fn run(
    graph: &Graph,
    inputs: &HashMap<String, Array>,
    states: &HashMap<String, Array>,
) -> Result<Run, OracleError> {
    let mut values: Vec<Array> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let value = match &node.op {
            Op::Input(input) => leaf("input", &input.name, &node.ty, inputs)?,
            Op::State(state) => leaf("state", &graph.state(state.id).name, &node.ty, states)?,
            op => {
                let operands: Vec<&Array> = node.operands.iter().map(|operand| &values[operand.index()]).collect();
                op.eval(&operands, &node.ty)
            }
        };
        values.push(value);
    }
    let value = |id: NodeId| values[id.index()].clone();
    let outputs = graph.outputs().iter().map(|output| (output.name.clone(), value(output.value))).collect();
    let states = graph.updates().iter().map(|update| (graph.state(update.state).name.to_string(), value(update.value)));
    let states = states.collect();
    Ok(Run { values, outputs, states })
}

fn leaf(
    what: &'static str,
    name: &str,
    expected: &TensorType,
    given: &HashMap<String, Array>,
) -> Result<Array, OracleError> {
    match given.get(name) {
        Some(array) if array.ty == *expected => Ok(array.clone()),
        other => Err(OracleError::Missing {
            what,
            name: name.to_string(),
            expected: expected.clone(),
            found: other.map_or("nothing".to_string(), |array| array.ty.to_string()),
        }),
    }
}
