//! Building one kernel: elements are pulled from what is stored back to what is loaded.

use super::classify::Class;
use super::fragment::Source;
use crate::dtype::DType;
use crate::index::{Index, flatten};
use crate::ir::{Graph, NodeId};
use crate::kernel::{
    Access, Arg, Axis, Body, Bound, Expr, ExprId, Kernel, Mismatch, PointContext, Role, Store, Stream,
};
use crate::layout::Layouts;
use crate::ops::{Lowering, Operation};
use crate::scalar::Scalar;
use std::borrow::Cow;
use std::collections::HashMap;

/// A kernel under construction over a space of axes.
#[derive(Clone, Debug)]
pub(super) struct KernelBuilder {
    pub(super) axes: Vec<Axis>,
    extents: Vec<usize>,
    exprs: Vec<Expr>,
    dtypes: Vec<DType>,
    known: HashMap<Expr, ExprId>,
    pulled: HashMap<(NodeId, Vec<Index>, Vec<Bound>), ExprId>,
    mask: Vec<Bound>,
    sources: Vec<Source>,
    args: Vec<Arg>,
    stores: Vec<Store>,
    factors: Option<[ExprId; 2]>,
    stream: Option<Stream>,
}

/// What a builder must know of the partition while it pulls.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) graph: &'a Graph,
    pub(super) classes: &'a [Class],
    pub(super) layouts: &'a Layouts,
    /// Positions of the cluster's own members.
    pub(super) members: &'a HashMap<NodeId, Vec<Index>>,
}

impl KernelBuilder {
    pub(super) fn new(axes: Vec<Axis>) -> KernelBuilder {
        KernelBuilder {
            extents: axes.iter().map(|axis| axis.extent).collect(),
            axes,
            exprs: Vec::new(),
            dtypes: Vec::new(),
            known: HashMap::new(),
            pulled: HashMap::new(),
            mask: Vec::new(),
            sources: Vec::new(),
            args: Vec::new(),
            stores: Vec::new(),
            factors: None,
            stream: None,
        }
    }

    /// Tensors loaded so far.
    pub(super) fn loaded(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.sources.iter().zip(&self.args).filter(|(_, arg)| arg.access == Access::Read).filter_map(|(source, _)| {
            match source {
                Source::Value(id) => Some(*id),
                _ => None,
            }
        })
    }

    /// The scalar of a node at `coords`.
    pub(super) fn pull(&mut self, around: Surroundings<'_>, id: NodeId, coords: &[Index]) -> Result<ExprId, Mismatch> {
        let coords = &*self.settled(coords);
        if let Some(position) = around.members.get(&id) {
            // A member lies in this kernel at one point only; elsewhere it would have to be in memory already.
            return if *self.settled(position) == *coords { self.member(around, id) } else { Err(Mismatch) };
        }
        if around.classes[id.index()] != Class::Inline {
            return Ok(self.load(around.graph, around.layouts, id, coords));
        }
        let key = (id, coords.to_vec(), self.mask.clone());
        if let Some(&known) = self.pulled.get(&key) {
            return Ok(known);
        }
        let made = self.point(around, id, coords)?;
        self.pulled.insert(key, made);
        Ok(made)
    }

    /// The same coordinates with 0 for the coordinate of an axis of one element: reshapes simplify it so, and an element is at
    /// its place however the place was found.
    fn settled<'i>(&self, coords: &'i [Index]) -> Cow<'i, [Index]> {
        match self.extents.contains(&1) {
            true => coords.iter().map(|coord| coord.without_unit_axes(&self.extents)).collect(),
            false => Cow::Borrowed(coords),
        }
    }

    /// The scalar of a member of the kernel at its own position: computed, not loaded.
    pub(super) fn member(&mut self, around: Surroundings<'_>, id: NodeId) -> Result<ExprId, Mismatch> {
        let position = around.members.get(&id).ok_or(Mismatch)?.clone();
        let key = (id, position.clone(), Vec::new());
        if let Some(&known) = self.pulled.get(&key) {
            return Ok(known);
        }
        let node = around.graph.node(id);
        // A member's value does not depend on the mask under which it is asked for.
        let mask = std::mem::take(&mut self.mask);
        let made = match node.op.lower(&around.graph.operand_types(node), &node.ty) {
            Lowering::Leaf => Err(Mismatch),
            Lowering::Point => self.point(around, id, &position),
            Lowering::Fold { monoid, .. } => {
                let folded = (0..self.axes.len()).filter(|&axis| self.axes[axis].role == Role::Reduce).map(Index::axis);
                let coords: Vec<Index> = position.iter().cloned().chain(folded).collect();
                let element = self.point(around, id, &coords);
                // A fold over no axes folds nothing.
                let folds = self.axes.iter().any(|axis| axis.role == Role::Reduce);
                if folds { element.map(|element| self.add(Expr::Reduce(monoid, element))) } else { element }
            }
            // A sum of nothing.
            Lowering::Contract { depth, .. } if depth.contains(&0) => {
                Ok(self.add(Expr::Const(Scalar::zero(DType::F32))))
            }
            Lowering::Contract { .. } => self.contract(around, id).map(|()| self.add(Expr::Acc)),
            Lowering::Stream { .. } => self.streamed(around, id),
        };
        self.mask = mask;
        let mut made = made?;
        if self.dtypes[made.0 as usize] != node.ty.dtype {
            // Sums of products are kept in f32, whatever they are sums for.
            made = self.add(Expr::Cast(made, node.ty.dtype));
        }
        self.pulled.insert(key, made);
        Ok(made)
    }

    /// Pulls both factors of a contraction, once.
    fn contract(&mut self, around: Surroundings<'_>, id: NodeId) -> Result<(), Mismatch> {
        if self.factors.is_some() {
            return Ok(());
        }
        let axes: Vec<Index> = (0..self.axes.len()).map(Index::axis).collect();
        let mut factor = |side: i64| {
            let coords: Vec<Index> = axes.iter().cloned().chain([Index::constant(side)]).collect();
            self.point(around, id, &coords)
        };
        let factors = [factor(0)?, factor(1)?];
        self.factors = Some(factors);
        Ok(())
    }

    /// A result of a stream; all members of a kernel are of one.
    fn streamed(&mut self, around: Surroundings<'_>, id: NodeId) -> Result<ExprId, Mismatch> {
        let node = around.graph.node(id);
        let operands = around.graph.operand_types(node);
        let streamed = node.op.stream(&operands, &mut Context { builder: self, around, id })?;
        match self.stream.get_or_insert_with(|| streamed.stream.clone()) {
            own if *own == streamed.stream => Ok(streamed.result),
            _ => Err(Mismatch),
        }
    }

    fn point(&mut self, around: Surroundings<'_>, id: NodeId, coords: &[Index]) -> Result<ExprId, Mismatch> {
        let node = around.graph.node(id);
        let operands = around.graph.operand_types(node);
        let mut context = Context { builder: self, around, id };
        node.op.point(&operands, &node.ty, &mut context, coords)
    }

    fn load(&mut self, graph: &Graph, layouts: &Layouts, id: NodeId, coords: &[Index]) -> ExprId {
        let ty = &graph.node(id).ty;
        let arg = self.arg(Source::Value(id), ty.dtype, ty.elements(), Access::Read);
        let mask = self.mask.clone();
        self.add(Expr::Load { arg, index: layouts.linear(id, coords, &ty.shape), mask })
    }

    fn arg(&mut self, source: Source, dtype: DType, elements: usize, access: Access) -> usize {
        let same = |(at, known): (usize, &Source)| (*known == source && self.args[at].access == access).then_some(at);
        if let Some(at) = self.sources.iter().enumerate().find_map(same) {
            return at;
        }
        self.sources.push(source);
        self.args.push(Arg { dtype, elements, access });
        self.args.len() - 1
    }

    /// Adds an expression, or finds the equal one.
    fn add(&mut self, expr: Expr) -> ExprId {
        let expr = self.without_sure_bounds(expr);
        if let Expr::Select(condition, yes, _) = expr {
            let sure = Scalar::one(DType::Bool);
            if self.exprs[condition.0 as usize] == Expr::Const(sure) {
                return yes;
            }
        }
        if let Some(&known) = self.known.get(&expr) {
            return known;
        }
        let id = ExprId(self.exprs.len() as u32);
        self.dtypes.push(self.dtype_of(&expr));
        self.exprs.push(expr.clone());
        self.known.insert(expr, id);
        id
    }

    /// Drops bounds that hold at every point; bounds on computed values always stay.
    fn without_sure_bounds(&self, expr: Expr) -> Expr {
        let unsure = |bound: &Bound| !bound.always_holds(&self.extents);
        match expr {
            Expr::Load { arg, index, mask } => {
                let mut mask: Vec<Bound> = mask.into_iter().filter(unsure).collect();
                mask.dedup();
                Expr::Load { arg, index, mask }
            }
            Expr::Within(bounds) => {
                let bounds: Vec<Bound> = bounds.into_iter().filter(unsure).collect();
                if bounds.is_empty() { Expr::Const(Scalar::one(DType::Bool)) } else { Expr::Within(bounds) }
            }
            other => other,
        }
    }

    fn dtype_of(&self, expr: &Expr) -> DType {
        let of = |id: &ExprId| self.dtypes[id.0 as usize];
        match expr {
            Expr::Const(scalar) => scalar.dtype(),
            Expr::Load { arg, .. } => self.args[*arg].dtype,
            Expr::Index(_) | Expr::Random { .. } => DType::U32,
            Expr::Within(_) | Expr::Compare(..) => DType::Bool,
            Expr::Unary(_, a) | Expr::Binary(_, a, _) | Expr::Select(_, a, _) | Expr::Reduce(_, a) => of(a),
            Expr::Cast(_, dtype) | Expr::Bitcast(_, dtype) => *dtype,
            // Sums of products of any float type are kept in f32.
            Expr::Acc | Expr::Score(_) | Expr::Peak | Expr::Total(_) => DType::F32,
        }
    }

    /// Stores a member in a tensor of its own.
    pub(super) fn store(&mut self, around: Surroundings<'_>, id: NodeId, to: Source) -> Result<(), Mismatch> {
        let ty = around.graph.node(id).ty.clone();
        let value = match around.members.contains_key(&id) {
            true => self.member(around, id)?,
            false => return Err(Mismatch),
        };
        let index = around.layouts.linear(id, &around.members[&id], &ty.shape);
        let per_element =
            (0..self.axes.len()).any(|axis| self.axes[axis].role == Role::Reduce && index.uses_axis(axis));
        let arg = self.arg(to, ty.dtype, ty.elements(), Access::Write);
        self.stores.push(Store { arg, index, value, per_element });
        Ok(())
    }

    /// Stores what is loaded from `from`: a copy over the whole tensor. The space is the tensor's shape.
    pub(super) fn copy(&mut self, graph: &Graph, layouts: &Layouts, from: NodeId, to: Source) {
        let ty = graph.node(from).ty.clone();
        let coords: Vec<Index> = (0..ty.shape.rank()).map(Index::axis).collect();
        let value = self.load(graph, layouts, from, &coords);
        let arg = self.arg(to, ty.dtype, ty.elements(), Access::Write);
        self.stores.push(Store { arg, index: flatten(&coords, &ty.shape), value, per_element: false });
    }

    /// The kernel, and what each of its arguments is.
    pub(super) fn finish(self) -> (Kernel, Vec<Source>) {
        let body = match (self.factors, self.stream) {
            (Some([lhs, rhs]), _) => Body::Contract { lhs, rhs, accumulate: DType::F32 },
            (None, Some(stream)) => Body::Stream(Box::new(stream)),
            (None, None) => Body::Loop,
        };
        let kernel = Kernel {
            axes: self.axes,
            args: self.args,
            exprs: self.exprs,
            dtypes: self.dtypes,
            body,
            stores: self.stores,
        };
        (kernel, self.sources)
    }
}

/// A node's view of the kernel that it is lowered into.
struct Context<'b, 'a> {
    builder: &'b mut KernelBuilder,
    around: Surroundings<'a>,
    id: NodeId,
}

impl PointContext for Context<'_, '_> {
    fn axes(&self) -> &[usize] {
        &self.builder.extents
    }

    fn operand(&mut self, operand: usize, coords: &[Index]) -> Result<ExprId, Mismatch> {
        let id = self.around.graph.node(self.id).operands[operand];
        self.builder.pull(self.around, id, coords)
    }

    fn push(&mut self, expr: Expr) -> ExprId {
        self.builder.add(expr)
    }

    fn masked(
        &mut self,
        bounds: &[Bound],
        inside: &mut dyn FnMut(&mut dyn PointContext) -> Result<ExprId, Mismatch>,
    ) -> Result<ExprId, Mismatch> {
        let outer = self.builder.mask.len();
        self.builder.mask.extend_from_slice(bounds);
        let result = inside(self);
        self.builder.mask.truncate(outer);
        result
    }

    fn filled(&mut self, bounds: Vec<Bound>, value: ExprId, fill: Scalar) -> ExprId {
        let builder = &mut *self.builder;
        let zero = fill.value().to_bits() == 0;
        if let Expr::Load { mask, .. } = &builder.exprs[value.0 as usize]
            && zero
            && bounds.iter().all(|bound| mask.contains(bound) || bound.always_holds(&builder.extents))
        {
            return value;
        }
        let within = builder.add(Expr::Within(bounds));
        let fill = builder.add(Expr::Const(fill));
        builder.add(Expr::Select(within, value, fill))
    }
}
