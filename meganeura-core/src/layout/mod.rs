//! Physical dimension order of what is stored.
//!
//! Views never move data by themselves: they become access maps of the kernels that read. What this stage decides is in
//! which order a stored value's dimensions lie in memory, so that those who read it through a permutation find
//! neighbouring elements side by side.

use crate::index::{Index, flatten};
use crate::ir::{Graph, NodeId};
use crate::ops::{Lowering, Op, Operation};
use crate::shape::Shape;

/// For each node the order in which its dimensions lie in memory, slowest first. Row-major is `0, 1, 2, …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layouts {
    orders: Vec<Option<Vec<usize>>>,
}

/// A broken invariant: always a defect of this library, never of a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// L1.
    #[error("L1: the dimension order {order:?} of {node} is no permutation of its {rank} dimensions")]
    NoPermutation {
        /// The node.
        node: NodeId,
        /// Its order.
        order: Vec<usize>,
        /// Its rank.
        rank: usize,
    },
    /// L2.
    #[error("L2: {node} is visible outside of the program, but is not row-major")]
    VisibleOrder {
        /// The node.
        node: NodeId,
    },
}

impl Layouts {
    /// Everything row-major.
    pub fn row_major(graph: &Graph) -> Layouts {
        Layouts { orders: vec![None; graph.nodes().len()] }
    }

    /// Orders by what readers want: a contraction's or a stream's result that every reader sees through one permutation is stored in
    /// that order.
    pub fn choose(graph: &Graph) -> Layouts {
        let visible = visible(graph);
        let mut wanted: Vec<Wanted<'_>> = vec![Wanted::Nothing; graph.nodes().len()];
        for node in graph.nodes() {
            for operand in &node.operands {
                let order = match &node.op {
                    Op::Permute(permute) => Some(&permute.order),
                    _ => None,
                };
                wanted[operand.index()] = wanted[operand.index()].and(order);
            }
        }
        let choose = |id: NodeId| {
            let node = graph.node(id);
            let lowering = node.op.lower(&graph.operand_types(node), &node.ty);
            let contraction = matches!(lowering, Lowering::Contract { .. } | Lowering::Stream { .. });
            match wanted[id.index()] {
                Wanted::Order(order) if contraction && !visible[id.index()] => Some(order.clone()),
                _ => None,
            }
        };
        Layouts { orders: graph.ids().map(choose).collect() }
    }

    /// The dimension order of a value that is not row-major.
    pub(crate) fn order(&self, id: NodeId) -> Option<&[usize]> {
        self.orders[id.index()].as_deref()
    }

    /// The linear element index, in memory, of a node's element.
    pub fn linear(&self, id: NodeId, coords: &[Index], shape: &Shape) -> Index {
        match &self.orders[id.index()] {
            None => flatten(coords, shape),
            Some(order) => {
                let stored: Shape = order.iter().map(|&dim| shape[dim]).collect();
                let coords: Vec<Index> = order.iter().map(|&dim| coords[dim].clone()).collect();
                flatten(&coords, &stored)
            }
        }
    }

    /// Checks L1 (orders are permutations) and L2 (inputs, states, outputs and updates are row-major).
    ///
    /// # Errors
    /// The first broken invariant.
    pub fn verify(&self, graph: &Graph) -> Result<(), LayoutError> {
        let visible = visible(graph);
        for (id, order) in graph.ids().zip(&self.orders) {
            let Some(order) = order else { continue };
            let mut sorted = order.clone();
            sorted.sort_unstable();
            let rank = graph.node(id).ty.shape.rank();
            if !sorted.into_iter().eq(0..rank) {
                return Err(LayoutError::NoPermutation { node: id, order: order.clone(), rank });
            }
            if visible[id.index()] {
                return Err(LayoutError::VisibleOrder { node: id });
            }
        }
        Ok(())
    }
}

/// What the readers of a value seen so far want.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    Nothing,
    Order(&'a Vec<usize>),
    Different,
}

impl<'a> Wanted<'a> {
    fn and(self, order: Option<&'a Vec<usize>>) -> Wanted<'a> {
        match (self, order) {
            (Wanted::Nothing, Some(order)) => Wanted::Order(order),
            (Wanted::Order(known), Some(order)) if known == order => Wanted::Order(known),
            _ => Wanted::Different,
        }
    }
}

/// For each node whether the host or a state store sees it.
fn visible(graph: &Graph) -> Vec<bool> {
    let mut visible: Vec<bool> =
        graph.nodes().iter().map(|node| matches!(node.op, Op::Input(_) | Op::State(_))).collect();
    graph.roots().for_each(|root| visible[root.index()] = true);
    visible
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::ir::Builder;
    use crate::shape::TensorType;

    fn two_products() -> Graph {
        let g = Builder::new();
        let input = |name: &str| g.input(name, TensorType::new(DType::F32, [3, 3]));
        let (a, b, c) = (input("a"), input("b"), input("c"));
        let product = a.matmul(b);
        g.output("permuted", product.transpose().matmul(c));
        g.finish().expect("a graph")
    }

    #[test]
    fn a_product_read_through_a_permutation_is_stored_in_its_order() {
        let graph = two_products();
        let layouts = Layouts::choose(&graph);
        layouts.verify(&graph).expect("valid");
        assert_eq!(layouts.orders.iter().flatten().count(), 1);
    }

    #[test]
    fn bad_orders_are_refused() {
        let graph = two_products();
        let mut layouts = Layouts::row_major(&graph);
        layouts.orders[3] = Some(vec![0, 0]);
        assert!(matches!(layouts.verify(&graph), Err(LayoutError::NoPermutation { .. })));
        layouts.orders[3] = None;
        layouts.orders[0] = Some(vec![1, 0]);
        assert!(matches!(layouts.verify(&graph), Err(LayoutError::VisibleOrder { .. })));
    }
}
