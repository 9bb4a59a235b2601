//! Greedy clustering in topological order.

use super::classify::{Class, FuseOptions};
use super::lower::{KernelBuilder, Surroundings};
use crate::index::{Index, flatten, unflatten};
use crate::ir::{Graph, NodeId, StateId};
use crate::kernel::{Axis, Role};
use crate::layout::Layouts;
use crate::ops::{Lowering, Op, Operation};
use crate::shape::Shape;
use std::collections::{HashMap, HashSet};

/// Nodes that one kernel computes.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    /// The kernel's space.
    pub(super) axes: Vec<Axis>,
    /// Members in order.
    pub(super) members: Vec<NodeId>,
    /// Coordinates of each member's element at a point of the space.
    pub(super) positions: HashMap<NodeId, Vec<Index>>,
    /// Shapes whose elements are known to lie at a position; candidates for nodes that have them.
    shapes: Vec<(Shape, Vec<Index>)>,
    /// Validates candidates; rebuilt when an attempt left rubbish in it.
    builder: Option<KernelBuilder>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Map,
    Row,
    Contract,
    Stream,
}

/// Where a node's element lies in the space of a cluster.
type Located = Option<(usize, Vec<Index>)>;

/// The state of clustering.
pub(super) struct Clustering<'a> {
    graph: &'a Graph,
    classes: &'a [Class],
    layouts: &'a Layouts,
    options: FuseOptions,
    max_bindings: usize,
    pub(super) clusters: Vec<Cluster>,
    /// The cluster of each member.
    pub(super) home: Vec<Option<usize>>,
    /// The latest cluster that each node depends on.
    latest: Vec<Option<usize>>,
    located: Vec<Located>,
    readers: Readers,
    /// The youngest map cluster of each shape and row cluster of each space.
    young: HashMap<(Shape, Shape), usize>,
    /// The stream cluster of each list of operands.
    streams: HashMap<Vec<NodeId>, usize>,
}

/// Rows of a fold below which joining the producer's kernel would leave the device idle.
const FEWEST_ROWS: usize = 32;

impl<'a> Clustering<'a> {
    pub(super) fn new(
        graph: &'a Graph,
        classes: &'a [Class],
        layouts: &'a Layouts,
        options: FuseOptions,
        max_bindings: usize,
    ) -> Clustering<'a> {
        let nodes = graph.nodes().len();
        Clustering {
            graph,
            classes,
            layouts,
            options,
            max_bindings,
            clusters: Vec::new(),
            home: vec![None; nodes],
            latest: vec![None; nodes],
            located: vec![None; nodes],
            readers: Readers::new(graph, classes),
            young: HashMap::new(),
            streams: HashMap::new(),
        }
    }

    /// Assigns every root and anchor to a cluster.
    pub(super) fn run(&mut self) {
        for id in by_depth(self.graph, self.classes) {
            let operands = &self.graph.node(id).operands;
            self.latest[id.index()] = operands.iter().filter_map(|operand| self.latest[operand.index()]).max();
            match self.classes[id.index()] {
                Class::Leaf => {}
                Class::Inline => self.located[id.index()] = self.carried(id),
                Class::Root | Class::Anchor => self.place(id),
            }
        }
    }

    fn place(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let cluster = match node.op.lower(&self.graph.operand_types(node), &node.ty) {
            Lowering::Fold { extents, .. } => self.place_fold(id, &extents),
            Lowering::Contract { depth, .. } if depth.contains(&0) => self.place_point(id),
            Lowering::Contract { batch, rows, cols, depth, position } => {
                self.open_contract(id, [&batch, &rows, &cols, &depth], position)
            }
            Lowering::Stream { axes, position } => self.place_stream(id, axes, position),
            Lowering::Point | Lowering::Leaf => self.place_point(id),
        };
        self.home[id.index()] = Some(cluster);
        self.latest[id.index()] = Some(cluster);
        self.located[id.index()] = Some((cluster, self.clusters[cluster].positions[&id].clone()));
    }

    /// Where the node's element lies in its latest cluster, carried over from an operand's.
    fn carried(&self, id: NodeId) -> Located {
        let node = self.graph.node(id);
        let latest = self.latest[id.index()]?;
        let axes = self.clusters[latest].extents();
        node.operands.iter().find_map(|&operand| {
            let (cluster, position) = self.located[operand.index()].as_ref()?;
            let operand_ty = &self.graph.node(operand).ty;
            let carried = (*cluster == latest).then(|| node.op.carry(operand_ty, &node.ty, position, &axes));
            let spread = || self.spread_over_row(latest, operand, &node.op, position);
            carried?.or_else(spread).map(|position| (latest, position))
        })
    }

    /// A value per row, broadcast along the row: its repeated dimensions are the folded axes.
    fn spread_over_row(&self, cluster: usize, operand: NodeId, op: &Op, position: &[Index]) -> Option<Vec<Index>> {
        let Op::Broadcast(broadcast) = op else { return None };
        let operand = &self.graph.node(operand).ty.shape;
        let repeated = broadcast.repeated(operand);
        let folded = self.clusters[cluster].axes_of(Role::Reduce);
        let extents =
            |axes: &[usize]| axes.iter().map(|&axis| self.clusters[cluster].axes[axis].extent).collect::<Vec<_>>();
        let along: Vec<usize> = repeated.iter().map(|&dim| broadcast.shape[dim]).collect();
        if folded.is_empty()
            || along != extents(&folded)
            || position.iter().any(|at| folded.iter().any(|&axis| at.uses_axis(axis)))
        {
            return None;
        }
        let missing = broadcast.shape.rank() - operand.rank();
        let coordinate = |dim: usize| match repeated.iter().position(|&own| own == dim) {
            Some(at) => Index::axis(folded[at]),
            None => position[dim - missing].clone(),
        };
        Some((0..broadcast.shape.rank()).map(coordinate).collect())
    }

    fn place_point(&mut self, id: NodeId) -> usize {
        let shape = self.graph.node(id).ty.shape.clone();
        if let Some(latest) = self.latest[id.index()].filter(|&latest| self.may_join(latest)) {
            let carried = self.carried(id).map(|(_, position)| position);
            let known = self.clusters[latest].shapes.iter().filter(|(known, _)| *known == shape);
            let candidates: Vec<Vec<Index>> = carried.into_iter().chain(known.map(|(_, at)| at.clone())).collect();
            if candidates.into_iter().any(|position| self.try_join(latest, id, position, false)) {
                return latest;
            }
        }
        let key = (shape.clone(), Shape::scalar());
        let identity: Vec<Index> = (0..shape.rank()).map(Index::axis).collect();
        if let Some(&young) = self.young.get(&key).filter(|_| self.options.elementwise)
            && Some(young) >= self.latest[id.index()]
            && self.try_join(young, id, identity.clone(), true)
        {
            return young;
        }
        let axes = shape.iter().map(|&extent| Axis { extent, role: Role::Parallel }).collect();
        let cluster = self.open(id, Kind::Map, axes, identity);
        self.young.insert(key, cluster);
        cluster
    }

    fn may_join(&self, cluster: usize) -> bool {
        match self.clusters[cluster].kind {
            Kind::Map => self.options.elementwise,
            Kind::Row => self.options.rows,
            Kind::Contract => self.options.epilogues,
            Kind::Stream => false,
        }
    }

    fn place_fold(&mut self, id: NodeId, folded: &[usize]) -> usize {
        let outer = self.graph.node(id).ty.shape.clone();
        let key = (outer.clone(), Shape::from(folded));
        let row: Vec<Index> = (0..outer.rank()).map(Index::axis).collect();
        if let Some(latest) = self.latest[id.index()].filter(|_| self.options.rows) {
            let flat = self.row_position(latest, &key.1, &outer);
            if flat.is_some_and(|position| self.try_join(latest, id, position, false)) {
                return latest;
            }
            if let Some(cluster) = self.turn_into_rows(latest, id, folded) {
                self.young.insert(key, cluster);
                return cluster;
            }
        }
        if let Some(&young) = self.young.get(&key).filter(|_| self.options.rows && !folded.is_empty())
            && Some(young) >= self.latest[id.index()]
            && self.try_join(young, id, row.clone(), true)
        {
            return young;
        }
        let axes = row_axes(&outer, folded);
        let cluster = self.open(id, Kind::Row, axes, row);
        self.remember_row_shapes(cluster, id, &outer);
        self.young.insert(key, cluster);
        cluster
    }

    /// The position of a fold of this shape in a row cluster whose rows are as long.
    fn row_position(&self, cluster: usize, folded: &Shape, outer: &Shape) -> Option<Vec<Index>> {
        let cluster = &self.clusters[cluster];
        let extents =
            |role| cluster.axes.iter().filter(|axis| axis.role == role).map(|axis| axis.extent).collect::<Shape>();
        let rows = extents(Role::Parallel);
        let fits = cluster.kind == Kind::Row && extents(Role::Reduce) == *folded && rows.elements() == outer.elements();
        fits.then(|| {
            let coords: Vec<Index> = (0..rows.rank()).map(Index::axis).collect();
            unflatten(&flatten(&coords, &rows), outer, &cluster.extents())
        })
    }

    /// Gives a map cluster that computes a fold's operand the fold's space, so that one kernel does both.
    fn turn_into_rows(&mut self, cluster: usize, id: NodeId, folded: &[usize]) -> Option<usize> {
        let node = self.graph.node(id);
        let Op::Reduce(reduce) = &node.op else { return None };
        let operand = &self.graph.node(node.operands[0]).ty.shape;
        let trailing = reduce.axes.iter().copied().eq(operand.rank() - folded.len()..operand.rank());
        let (located, position) = self.located[node.operands[0].index()].as_ref()?;
        let axes = self.clusters[cluster].extents();
        let own = |dim: usize| Index::axis(dim).without_unit_axes(&axes);
        let identity = position.iter().enumerate().all(|(dim, at)| at.without_unit_axes(&axes) == own(dim));
        let fits = self.clusters[cluster].kind == Kind::Map
            && *located == cluster
            && identity
            && trailing
            && !folded.is_empty()
            && node.ty.elements() >= FEWEST_ROWS
            && position.len() == self.clusters[cluster].axes.len();
        if !fits {
            return None;
        }
        let map = self.clusters[cluster].clone();
        let target = &mut self.clusters[cluster];
        for axis in operand.rank() - folded.len()..operand.rank() {
            target.axes[axis].role = Role::Reduce;
        }
        target.kind = Kind::Row;
        target.builder = None;
        let outer = node.ty.shape.clone();
        let row = (0..outer.rank()).map(Index::axis).collect();
        if self.try_join(cluster, id, row, false) {
            self.remember_row_shapes(cluster, id, &outer);
            self.young.retain(|_, young| *young != cluster);
            return Some(cluster);
        }
        self.clusters[cluster] = map;
        None
    }

    fn remember_row_shapes(&mut self, cluster: usize, id: NodeId, outer: &Shape) {
        let node = self.graph.node(id);
        if let Op::Reduce(reduce) = &node.op {
            let operand = self.graph.node(node.operands[0]).ty.shape.clone();
            let (mut row, mut element) = (0..outer.rank(), outer.rank()..operand.rank());
            let coordinate = |dim: usize| if reduce.axes.contains(&dim) { element.next() } else { row.next() };
            let position: Vec<Index> = (0..operand.rank()).filter_map(coordinate).map(Index::axis).collect();
            self.clusters[cluster].shapes.push((operand, position));
        }
    }

    fn open_contract(&mut self, id: NodeId, extents: [&[usize]; 4], position: Vec<Index>) -> usize {
        let roles = [Role::Parallel, Role::Row, Role::Col, Role::Reduce];
        let axes = |(extents, role): (&[usize], Role)| {
            extents.iter().map(move |&extent| Axis { extent, role }).collect::<Vec<_>>()
        };
        let axes = extents.into_iter().zip(roles).flat_map(axes).collect();
        self.open(id, Kind::Contract, axes, position)
    }

    /// Joins the stream of the same operands if it is the same stream: several results of one algorithm.
    fn place_stream(&mut self, id: NodeId, axes: Vec<Axis>, position: Vec<Index>) -> usize {
        let operands = self.graph.node(id).operands.clone();
        if let Some(&cluster) = self.streams.get(&operands).filter(|_| self.options.rows)
            && self.clusters[cluster].axes == axes
            && self.try_join(cluster, id, position.clone(), false)
        {
            return cluster;
        }
        let cluster = self.open(id, Kind::Stream, axes, position);
        self.streams.insert(operands, cluster);
        cluster
    }

    fn open(&mut self, id: NodeId, kind: Kind, axes: Vec<Axis>, position: Vec<Index>) -> usize {
        let shape = self.graph.node(id).ty.shape.clone();
        self.clusters.push(Cluster {
            axes,
            members: vec![id],
            positions: HashMap::from([(id, position.clone())]),
            shapes: vec![(shape, position)],
            builder: None,
            kind,
        });
        self.clusters.len() - 1
    }

    /// Makes `id` a member of a cluster at `position` if the cluster's kernel can compute it there.
    fn try_join(&mut self, cluster: usize, id: NodeId, position: Vec<Index>, must_share: bool) -> bool {
        let elements = self.graph.node(id).ty.elements();
        let Some(candidate) = self.clusters.get_mut(cluster) else { return false };
        if !candidate.is_complete(elements, &position) {
            return false;
        }
        let mut builder = match candidate.builder.take() {
            Some(builder) => builder,
            None => match candidate.rebuilt(self.graph, self.classes, self.layouts) {
                Some(builder) => builder,
                None => return false,
            },
        };
        let before = builder.loaded().count();
        let shape = self.graph.node(id).ty.shape.clone();
        candidate.positions.insert(id, position.clone());
        let around = Surroundings {
            graph: self.graph,
            classes: self.classes,
            layouts: self.layouts,
            members: &candidate.positions,
        };
        let made = builder.member(around, id).is_ok();
        let asked = loads_of(self.graph, self.classes, id);
        let shares = !must_share || builder.loaded().take(before).any(|load| asked.contains(&load));
        let bindings = made.then(|| self.readers.bindings(self.graph, candidate, &builder, id));
        if shares && bindings.is_some_and(|bindings| bindings <= self.max_bindings) {
            candidate.members.push(id);
            candidate.builder = Some(builder);
            if !candidate.shapes.iter().any(|(known, _)| *known == shape) {
                candidate.shapes.push((shape, position));
            }
            return true;
        }
        candidate.positions.remove(&id);
        false
    }
}

impl Cluster {
    fn extents(&self) -> Vec<usize> {
        self.axes.iter().map(|axis| axis.extent).collect()
    }

    fn axes_of(&self, role: Role) -> Vec<usize> {
        (0..self.axes.len()).filter(|&axis| self.axes[axis].role == role).collect()
    }

    /// Whether a node of that many elements at `position` has one element at each point of the space, or of its rows.
    fn is_complete(&self, elements: usize, position: &[Index]) -> bool {
        if self.kind == Kind::Stream {
            // Each member's op says where it lies; columns differ.
            return true;
        }
        let folded = self.axes_of(Role::Reduce);
        let per_element = position.iter().any(|at| folded.iter().any(|&axis| at.uses_axis(axis)));
        let counted = |axis: &&Axis| axis.role != Role::Reduce || (per_element && self.kind == Kind::Row);
        self.axes.iter().filter(counted).map(|axis| axis.extent).product::<usize>() == elements
            && !(per_element && self.kind == Kind::Contract)
    }

    fn rebuilt(&self, graph: &Graph, classes: &[Class], layouts: &Layouts) -> Option<KernelBuilder> {
        let mut builder = KernelBuilder::new(self.axes.clone());
        let around = Surroundings { graph, classes, layouts, members: &self.positions };
        self.members.iter().all(|&member| builder.member(around, member).is_ok()).then_some(builder)
    }
}

fn row_axes(outer: &Shape, folded: &[usize]) -> Vec<Axis> {
    let axis = |role| move |&extent: &usize| Axis { extent, role };
    outer.iter().map(axis(Role::Parallel)).chain(folded.iter().map(axis(Role::Reduce))).collect()
}

/// Who reads what, beyond the kernel at hand.
struct Readers {
    /// For each root and anchor the roots and anchors that read it, directly or through inlined nodes.
    users: Vec<Vec<NodeId>>,
    /// The state that each value updates.
    updates: HashMap<NodeId, StateId>,
    /// Values that leave the program.
    leaving: HashSet<NodeId>,
}

impl Readers {
    fn new(graph: &Graph, classes: &[Class]) -> Readers {
        Readers {
            users: users_through_inlined(graph, classes),
            updates: graph.updates().iter().map(|update| (update.value, update.state)).collect(),
            leaving: graph.roots().collect(),
        }
    }

    /// The most tensors that the cluster's kernel may bind, with `id` as a member: what it loads, and each member that
    /// something outside may read. A state's new value is expected to take the place of the old one.
    fn bindings(&self, graph: &Graph, cluster: &Cluster, builder: &KernelBuilder, id: NodeId) -> usize {
        let old: Vec<StateId> = builder.loaded().filter_map(|load| state_of(graph, load)).collect();
        let inside = |user: &NodeId| *user == id || cluster.positions.contains_key(user);
        let over_state = |member: &NodeId| self.updates.get(member).is_some_and(|state| old.contains(state));
        let stored = |member: &&NodeId| match self.leaving.contains(*member) {
            true => !over_state(member),
            false => !self.users[member.index()].iter().all(inside),
        };
        builder.loaded().count() + cluster.members.iter().chain([&id]).filter(stored).count()
    }
}

/// The state whose old value a node is.
pub(super) fn state_of(graph: &Graph, id: NodeId) -> Option<StateId> {
    match &graph.node(id).op {
        Op::State(state) => Some(state.id),
        _ => None,
    }
}

fn users_through_inlined(graph: &Graph, classes: &[Class]) -> Vec<Vec<NodeId>> {
    let mut users: Vec<Vec<NodeId>> = vec![Vec::new(); graph.nodes().len()];
    for id in graph.ids().rev() {
        // All users of a node follow it, so its list is complete here; sorting at each addition would be quadratic in it.
        let known = &mut users[id.index()];
        known.sort_unstable();
        known.dedup();
        let reached = match classes[id.index()] {
            Class::Inline => known.clone(),
            _ => vec![id],
        };
        for operand in &graph.node(id).operands {
            users[operand.index()].extend(&reached);
        }
    }
    users
}

/// The nodes by the folds and contractions that they wait for, then by position. Still operands first; what waits for
/// less comes earlier, so that an optimiser's counters lie in an older cluster than every gradient and do not keep an
/// update from joining its gradient's kernel.
fn by_depth(graph: &Graph, classes: &[Class]) -> Vec<NodeId> {
    let mut depths: Vec<usize> = Vec::with_capacity(classes.len());
    for id in graph.ids() {
        let below = graph.node(id).operands.iter().map(|operand| depths[operand.index()]).max().unwrap_or(0);
        depths.push(below + usize::from(classes[id.index()] == Class::Anchor));
    }
    let mut ids: Vec<NodeId> = graph.ids().collect();
    ids.sort_by_key(|id| depths[id.index()]);
    ids
}

/// What an expression reads through the nodes inlined into it.
fn loads_of(graph: &Graph, classes: &[Class], id: NodeId) -> Vec<NodeId> {
    let (mut loads, mut stack) = (Vec::new(), graph.node(id).operands.clone());
    while let Some(id) = stack.pop() {
        match classes[id.index()] {
            Class::Inline => stack.extend(&graph.node(id).operands),
            _ => loads.push(id),
        }
    }
    loads
}
