//! What every part of a contraction's printer knows.

use super::operand;
use super::quad::quartered;
use super::space::{Coords, Flat, Group, origin};
use crate::wgsl::bindings::{Bindings, value_type};
use crate::wgsl::expr::Exprs;
use crate::wgsl::writer::Writer;
use meganeura_core::dtype::DType;
use meganeura_core::kernel::{Body, Expr, ExprId, Kernel, Role};

/// A contraction kernel, its axes in groups, and its bindings.
pub struct Context<'c> {
    /// The kernel.
    pub kernel: &'c Kernel,
    /// Left operand.
    pub lhs: ExprId,
    /// Right operand.
    pub rhs: ExprId,
    /// Parallel axes.
    pub batch: Group,
    /// Row axes.
    pub rows: Group,
    /// Column axes.
    pub cols: Group,
    /// Reduce axes.
    pub depth: Group,
    /// For each argument whether its binding is an array of vectors.
    pub vectors: Vec<bool>,
    bindings: &'c Bindings,
}

impl<'c> Context<'c> {
    /// The context of a contraction, with bindings widened where quads can be moved, those of arguments
    /// that are `narrow` excepted; `None` for other kernels.
    pub fn new(kernel: &'c Kernel, bindings: &'c mut Bindings, narrow: &[usize]) -> Option<Context<'c>> {
        let Body::Contract { lhs, rhs, .. } = kernel.body else { return None };
        let [batch, rows, cols, depth] =
            [Role::Parallel, Role::Row, Role::Col, Role::Reduce].map(|role| Group::of(kernel, role));
        let mut vectors = vectors(kernel, bindings, [(lhs, [&rows, &depth]), (rhs, [&cols, &depth])], &cols);
        for arg in 0..vectors.len() {
            vectors[arg] &= !narrow.iter().any(|&narrow| bindings.share(arg, narrow));
        }
        for arg in (0..vectors.len()).filter(|&arg| vectors[arg]) {
            bindings.widen(arg);
        }
        Some(Context { kernel, lhs, rhs, batch, rows, cols, depth, vectors, bindings })
    }

    /// Coordinates with the batch axes named as [`Self::declare_batch`] names them.
    pub fn batch_coords(&self) -> Coords {
        let mut coords = origin(self.kernel);
        self.batch.decode(&mut Writer::new(), &Flat::any("z"), "z", &mut coords);
        coords
    }

    /// Declares the batch coordinates of the batch point `z`.
    pub fn declare_batch(&self, w: &mut Writer) {
        self.batch.decode(w, &Flat::any("z"), "z", &mut origin(self.kernel));
    }

    /// Expressions at a point.
    pub fn exprs(&self, coords: Coords) -> Exprs<'c> {
        Exprs::new(self.kernel, self.bindings, coords)
    }

    /// The type of an expression's value.
    pub fn scalar_type(&self, id: ExprId) -> &'static str {
        value_type(self.kernel.dtype(id))
    }

    /// The reference to the vector number `at` of an argument in [`Self::vectors`].
    pub fn vector(&self, arg: usize, at: &str) -> String {
        format!("b{}[{at}]", self.bindings.of(arg))
    }

    /// The reference to one element of an argument whose binding is not one of vectors.
    pub fn scalar_element(&self, arg: usize, at: &str) -> String {
        self.bindings.element(arg, at)
    }

    /// The statement that stores one element.
    pub fn store(&self, arg: usize, at: &str, value: &str) -> String {
        self.bindings.store(arg, at, value)
    }
}

/// For each argument whether its binding is best an array of vectors: some operand or the epilogue can move quads of it,
/// and no store to it would have to write single components.
fn vectors(kernel: &Kernel, bindings: &Bindings, operands: [(ExprId, [&Group; 2]); 2], cols: &Group) -> Vec<bool> {
    let mut quads = vec![false; kernel.args.len()];
    let mut note = |root: ExprId, axis: Option<usize>| {
        for id in operand::loads(kernel, root) {
            if let (Some(axis), Expr::Load { arg, .. }) = (axis, kernel.expr(id)) {
                quads[*arg] |= operand::quad_load(kernel, id, axis).is_some();
            }
        }
    };
    for (root, groups) in operands {
        groups.into_iter().for_each(|group| note(root, group.quad_axis()));
    }
    for store in &kernel.stores {
        note(store.value, cols.quad_axis());
    }
    let mut scalar = vec![false; kernel.args.len()];
    for store in &kernel.stores {
        match cols.quad_axis() {
            Some(axis) if quartered(&store.index, axis).is_some() => quads[store.arg] = true,
            _ => scalar[store.arg] = true,
        }
    }
    let refused = |arg: usize| {
        let own = &kernel.args[arg];
        scalar[arg] || own.dtype == DType::Bool || !own.elements.is_multiple_of(4)
    };
    let all = 0..kernel.args.len();
    let any =
        |arg: usize, flag: &dyn Fn(usize) -> bool| all.clone().any(|other| bindings.share(arg, other) && flag(other));
    all.clone().map(|arg| any(arg, &|other| quads[other]) && !any(arg, &refused)).collect()
}
