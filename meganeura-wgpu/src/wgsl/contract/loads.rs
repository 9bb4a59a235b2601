//! Which loads an operand consists of, and which of them can be vectors.

use super::context::Context;
use super::quad::{common_bound, fixed, quartered};
use super::space::{Coords, Group};
use crate::wgsl::bindings::value_type;
use crate::wgsl::writer::Writer;
use meganeura_core::index::Index;
use meganeura_core::kernel::{Bound, Expr, ExprId, Kernel};

/// How the quads of a tile are dealt to threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// A quad lies along the free axes, neighbouring threads too.
    Across,
    /// A quad lies along the contracted axes, neighbouring threads too.
    Along,
    /// A quad lies along the contracted axes, neighbouring threads along the free axes: scalar loads are coalesced.
    Columns,
}

/// How a load of the prologue gets the four values of a quad.
#[derive(Clone, Debug)]
pub enum Form {
    /// One vector load at this index over quad coordinates, where these bounds hold.
    Vector {
        /// Number of the vector.
        index: Index,
        /// Conditions.
        mask: Vec<Bound>,
    },
    /// One scalar, the same for the quad.
    Common,
    /// Four scalar loads.
    Scalars,
}

/// What is held in registers between load and store.
#[derive(Clone, Debug)]
pub struct Register {
    /// A load of the prologue; `None` for the whole operand, evaluated as it is loaded.
    pub load: Option<ExprId>,
    /// How it is loaded.
    pub form: Form,
}

/// The vector form of a load along the quads of `axis`, if it has one and its binding is one of vectors.
pub fn vector_load(context: &Context<'_>, id: ExprId, axis: usize) -> Option<(usize, Index, Vec<Bound>)> {
    quad_load(context.kernel, id, axis).filter(|(arg, ..)| context.vectors[*arg])
}

/// The vector form of a load along the quads of `axis`: argument, vector number over quad coordinates, bounds.
pub fn quad_load(kernel: &Kernel, id: ExprId, axis: usize) -> Option<(usize, Index, Vec<Bound>)> {
    let Expr::Load { arg, index, mask } = kernel.expr(id) else { return None };
    let mask = mask.iter().map(|bound| common_bound(bound, axis)).collect::<Option<Vec<_>>>()?;
    Some((*arg, quartered(index, axis)?, mask))
}

/// Names the vector that a load gets at a quad, zero where its bounds do not hold.
pub fn load_vector(
    context: &Context<'_>,
    w: &mut Writer,
    name: &str,
    coords: &Coords,
    (arg, index, mask): (usize, &Index, &[Bound]),
) {
    let mut exprs = context.exprs(coords.clone());
    let at = exprs.index_text(index);
    match exprs.mask_text(mask) {
        None => w.bind(name, context.vector(arg, &at)),
        Some(inside) => {
            w.bind(&format!("{name}ok"), inside);
            let zero = format!("vec4<{}>()", value_type(context.kernel.args[arg].dtype));
            let element = context.vector(arg, &format!("select(0u, {at}, {name}ok)"));
            w.bind(name, format!("select({zero}, {element}, {name}ok)"));
        }
    }
}

/// All loads that an expression needs.
pub fn loads(kernel: &Kernel, root: ExprId) -> Vec<ExprId> {
    let needed = kernel.needed_for(&[root], true);
    needed.into_iter().filter(|&id| matches!(kernel.expr(id), Expr::Load { .. })).collect()
}

/// The order in which an operand's quads are dealt: along whatever more loads can be vectors, else so that neighbouring
/// threads load neighbouring elements.
pub fn choose_fill(context: &Context<'_>, root: ExprId, free: &Group, depth: &Group) -> Fill {
    let vectors = |group: &Group| {
        let Some(axis) = group.quad_axis() else { return 0 };
        loads(context.kernel, root).into_iter().filter(|&id| vector_load(context, id, axis).is_some()).count()
    };
    let unit_stride = |group: &Group| {
        let Some(&axis) = group.axes.last() else { return false };
        loads(context.kernel, root).iter().any(|&id| match context.kernel.expr(id) {
            Expr::Load { index, .. } => index.stride(axis) == Some(1),
            _ => false,
        })
    };
    match (vectors(free), vectors(depth)) {
        (across, along) if across > along => Fill::Across,
        (_, along) if along > 0 => Fill::Along,
        _ if unit_stride(free) && !unit_stride(depth) => Fill::Columns,
        _ => Fill::Along,
    }
}

/// What an operand holds in registers, if its quads lie along `axis`.
pub fn registers(context: &Context<'_>, root: ExprId, axis: Option<usize>) -> Vec<Register> {
    let loads = loads(context.kernel, root);
    // A gather's index is computed from other loads: evaluate the operand as it is loaded.
    if loads.iter().any(|&id| !context.kernel.expr(id).operands().is_empty()) {
        return vec![Register { load: None, form: Form::Scalars }];
    }
    let form = |id: ExprId| {
        let Some(axis) = axis else { return Form::Scalars };
        if let Some((_, index, mask)) = vector_load(context, id, axis) {
            return Form::Vector { index, mask };
        }
        match context.kernel.expr(id) {
            Expr::Load { index, mask, .. }
                if fixed(index, axis).is_some() && mask.iter().all(|bound| fixed(&bound.index, axis).is_some()) =>
            {
                Form::Common
            }
            _ => Form::Scalars,
        }
    };
    loads.into_iter().map(|id| Register { load: Some(id), form: form(id) }).collect()
}
