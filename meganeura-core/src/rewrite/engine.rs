//! The engine: rebuilds a graph, trying rules at each node.

use crate::ir::{Graph, GraphError, Node, NodeId, Output, Update};
use crate::ops::Op;
use crate::scalar::{Binary, Compare, Scalar};
use crate::shape::TensorType;
use std::collections::HashMap;

/// A directed rule. The result has the node's type (R1), and either removes the node or makes its op or its operands
/// simpler (R2), so that rewriting ends.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Unique name, for dumps and for switching it off.
    pub name: &'static str,
    /// What takes the place of the node, if the rule fires.
    pub apply: fn(&Site<'_>) -> Option<Rewrite>,
}

/// What takes the place of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Rewrite {
    /// A value that exists already.
    Value(NodeId),
    /// Another op over values that exist already.
    Node(Op, Vec<NodeId>),
}

/// A node that rules look at; the nodes below it are already simplified.
pub struct Site<'a> {
    /// Its op.
    pub op: &'a Op,
    /// Its operands.
    pub operands: &'a [NodeId],
    /// Its type.
    pub ty: &'a TensorType,
    nodes: &'a [Node],
}

impl<'a> Site<'a> {
    /// The node that is operand `at`.
    pub fn operand(&self, at: usize) -> &'a Node {
        &self.nodes[self.operands[at].index()]
    }

    /// The scalar that operand `at` has everywhere, if it is a constant.
    pub fn constant(&self, at: usize) -> Option<Scalar> {
        match &self.operand(at).op {
            Op::Constant(constant) => Some(constant.value),
            _ => None,
        }
    }

    /// The type of any value below.
    pub fn ty_of(&self, id: NodeId) -> &'a TensorType {
        &self.nodes[id.index()].ty
    }
}

/// The graph rewritten by `rules`, without dead or duplicate nodes. Inputs, outputs, updates and states stay as they are.
///
/// # Errors
/// [`GraphError::EndlessRewrite`] if the rules do not let their measure fall (R2): a defect of a rule.
pub fn simplify(graph: &Graph, rules: &[Rule]) -> Result<Graph, GraphError> {
    let live = graph.live();
    let mut rebuild = Rebuild { rules, nodes: Vec::new(), known: HashMap::new() };
    let mut renamed: Vec<NodeId> = Vec::with_capacity(graph.nodes().len());
    for id in graph.ids() {
        // A dead node's entry is never read.
        let node = graph.node(id);
        renamed.push(match live[id.index()] || matches!(node.op, Op::Input(_)) {
            true => rebuild.add(id, node, node.operands.iter().map(|operand| renamed[operand.index()]).collect())?,
            false => NodeId(u32::MAX),
        });
    }
    let rename = |id: NodeId| renamed[id.index()];
    let outputs = graph.outputs.iter().map(|output| Output { name: output.name.clone(), value: rename(output.value) });
    let updates = graph.updates.iter().map(|update| Update { state: update.state, value: rename(update.value) });
    let rewritten = Graph {
        outputs: outputs.collect(),
        updates: updates.collect(),
        nodes: rebuild.nodes,
        states: graph.states.clone(),
        time: graph.time,
    };
    Ok(without_dead(&rewritten))
}

struct Rebuild<'r> {
    rules: &'r [Rule],
    nodes: Vec<Node>,
    known: HashMap<(Op, Vec<NodeId>), NodeId>,
}

/// More rewrites of one node than any chain of rules that each make it simpler can need: every rule removes a view, a
/// sign or a constant below the node, of which the rules see two levels.
const MOST_REWRITES: usize = 64;

impl Rebuild<'_> {
    fn add(&mut self, id: NodeId, node: &Node, operands: Vec<NodeId>) -> Result<NodeId, GraphError> {
        let (mut op, mut operands) = (node.op.clone(), operands);
        for rewrites in 1.. {
            let site = Site { op: &op, operands: &operands, ty: &node.ty, nodes: &self.nodes };
            let fired = self.rules.iter().find_map(|rule| (rule.apply)(&site).map(|rewrite| (rule.name, rewrite)));
            match fired {
                Some((rule, _)) if rewrites > MOST_REWRITES => {
                    return Err(GraphError::EndlessRewrite { node: id, rewrites: MOST_REWRITES, rule });
                }
                Some((_, Rewrite::Value(id))) => return Ok(id),
                Some((_, Rewrite::Node(simpler, over))) => (op, operands) = (simpler, over),
                None => break,
            }
        }
        Ok(self.share(node, op, operands))
    }

    /// The node equal to this one, or a new one with the type and origin of `node`.
    fn share(&mut self, node: &Node, op: Op, mut operands: Vec<NodeId>) -> NodeId {
        sort_commutative(&op, &mut operands);
        let key = (op, operands);
        if let Some(&id) = self.known.get(&key) {
            return id;
        }
        let id = NodeId(self.nodes.len() as u32);
        let (op, operands) = key.clone();
        self.nodes.push(Node { op, operands, ty: node.ty.clone(), origin: node.origin.clone() });
        self.known.insert(key, id);
        id
    }
}

/// Gives `a + b` and `b + a` one form, so that they are found equal.
fn sort_commutative(op: &Op, operands: &mut [NodeId]) {
    let commutes = match op {
        Op::Binary(binary) => matches!(
            binary.0,
            Binary::Add | Binary::Mul | Binary::Max | Binary::Min | Binary::And | Binary::Or | Binary::Xor
        ),
        Op::Compare(compare) => matches!(compare.0, Compare::Eq | Compare::Ne),
        _ => false,
    };
    if commutes {
        operands.sort_unstable();
    }
}

/// The graph without nodes that no root depends on.
fn without_dead(graph: &Graph) -> Graph {
    let live = graph.live();
    let mut renamed = vec![NodeId(u32::MAX); graph.nodes().len()];
    let mut nodes: Vec<Node> = Vec::new();
    for id in graph.ids() {
        let node = graph.node(id);
        // Unused inputs stay: they are part of the program's interface.
        if !live[id.index()] && !matches!(node.op, Op::Input(_)) {
            continue;
        }
        let operands = node.operands.iter().map(|operand| renamed[operand.index()]).collect();
        renamed[id.index()] = NodeId(nodes.len() as u32);
        nodes.push(Node { operands, ..node.clone() });
    }
    let rename = |id: NodeId| renamed[id.index()];
    let outputs = graph.outputs.iter().map(|output| Output { name: output.name.clone(), value: rename(output.value) });
    let updates = graph.updates.iter().map(|update| Update { state: update.state, value: rename(update.value) });
    let (states, time) = (graph.states.clone(), graph.time);
    Graph { outputs: outputs.collect(), updates: updates.collect(), nodes, states, time }
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// G6: no node is dead, and no two pure nodes are equal.
///
/// # Errors
/// The first node that is.
pub fn verify_clean(graph: &Graph) -> Result<(), GraphError> {
    let live = graph.live();
    let mut seen: HashMap<(&Op, &[NodeId]), NodeId> = HashMap::new();
    for id in graph.ids() {
        let node = graph.node(id);
        if !live[id.index()] && !matches!(node.op, Op::Input(_)) {
            return Err(GraphError::Unclean { node: id, what: "dead" });
        }
        if seen.insert((&node.op, &node.operands), id).is_some() {
            return Err(GraphError::Unclean { node: id, what: "a duplicate" });
        }
    }
    Ok(())
}
