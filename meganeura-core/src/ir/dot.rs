//! A graph as a drawing in Graphviz' language.

use super::graph::Graph;
use crate::ops::Operation;
use std::fmt::Write;

/// The graph in DOT: one box a node, one arrow an operand.
pub fn dot(graph: &Graph) -> String {
    let mut text = String::from("digraph program {\n  node [shape=box, fontname=monospace];\n");
    // Writing into a String cannot fail.
    for id in graph.ids() {
        let node = graph.node(id);
        let label = format!("{id} {} {}\\n{}", node.op.name(), node.op.attributes(), node.ty).replace('"', "'");
        let _ = writeln!(text, "  n{} [label=\"{label}\"];", id.0);
        for operand in &node.operands {
            let _ = writeln!(text, "  n{} -> n{};", operand.0, id.0);
        }
    }
    for output in &graph.outputs {
        let _ = writeln!(text, "  n{} -> \"{}\" [style=bold];", output.value.0, output.name);
    }
    for update in &graph.updates {
        let _ = writeln!(text, "  n{} -> \"{}\" [style=dashed];", update.value.0, graph.state(update.state).name);
    }
    text.push_str("}\n");
    text
}
