//! The text form of a graph, one node a line.

use super::graph::{Graph, NodeId};
use crate::ops::Operation;
use std::fmt;

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, state) in self.states.iter().enumerate() {
            writeln!(f, "state @{at} {} : {} in {} = {}", state.name, state.ty, state.group, state.init)?;
        }
        for id in self.ids() {
            let node = self.node(id);
            write!(f, "{id} = {}", node.op.name())?;
            let attributes = node.op.attributes();
            if !attributes.is_empty() {
                write!(f, "[{attributes}]")?;
            }
            let operands: Vec<String> = node.operands.iter().map(ToString::to_string).collect();
            write!(f, "({}) : {}", operands.join(", "), node.ty)?;
            match (&*node.origin.scope, node.origin.phase) {
                ("", super::Phase::Forward) => writeln!(f)?,
                (scope, phase) => writeln!(f, "  // {scope} {}", format!("{phase:?}").to_lowercase())?,
            }
        }
        self.updates.iter().try_for_each(|update| writeln!(f, "update @{} = {}", update.state.0, update.value))?;
        self.outputs.iter().try_for_each(|output| writeln!(f, "output {} = {}", output.name, output.value))
    }
}
