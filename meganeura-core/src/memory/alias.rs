//! When a kernel may write a tensor over one that it reads.

use crate::kernel::{Body, Expr, ExprId, Kernel, Role};

/// Whether the kernel is right when arguments `read` and `written` are the same memory: each element is read by the
/// invocation that writes it, at the same point, and never again after any invocation may have written it.
pub fn may_share(kernel: &Kernel, read: usize, written: usize) -> bool {
    let mut stores = kernel.stores.iter().filter(|store| store.arg == written);
    let (Some(store), None) = (stores.next(), stores.next()) else { return false };
    let same_type = kernel.args[read].dtype == kernel.args[written].dtype
        && kernel.args[read].elements == kernel.args[written].elements;
    let loads: Vec<ExprId> = (0..kernel.exprs.len() as u32)
        .map(ExprId)
        .filter(|&id| matches!(kernel.expr(id), Expr::Load { arg, .. } if *arg == read))
        .collect();
    let at_store = |&id: &ExprId| match kernel.expr(id) {
        Expr::Load { index, mask, .. } => *index == store.index && mask.is_empty(),
        _ => false,
    };
    same_type && loads.iter().all(at_store) && !is_read_early(kernel, &loads, store.per_element)
}

/// Whether any of the loads feeds something that other points or later passes need.
fn is_read_early(kernel: &Kernel, loads: &[ExprId], per_element: bool) -> bool {
    let early: Vec<ExprId> = match &kernel.body {
        // Factors are read by every tile of a row or column.
        Body::Contract { lhs, rhs, .. } => vec![*lhs, *rhs],
        // So are a stream's, and everything else that varies with elements.
        Body::Stream(stream) => stream.roots(),
        Body::Loop if kernel.axes_of(Role::Reduce).is_empty() => return false,
        // A pass that follows a fold reads its tensors again, so what it reads must not be overwritten before. Once a
        // row is the end of all passes only if nothing is stored per element.
        Body::Loop if !per_element && kernel.stores.iter().any(|store| store.per_element) => return true,
        Body::Loop if !per_element => return false,
        Body::Loop => kernel
            .exprs
            .iter()
            .filter_map(|expr| match expr {
                Expr::Reduce(_, element) => Some(*element),
                _ => None,
            })
            .collect(),
    };
    let needed = kernel.needed_for(&early, true);
    loads.iter().any(|load| needed.contains(load)) || (per_element && stores_in_several_passes(kernel))
}

/// Whether some element is stored before the last pass: then a later pass could read it changed.
fn stores_in_several_passes(kernel: &Kernel) -> bool {
    let passes = kernel.passes();
    let last = passes.iter().copied().max().unwrap_or(0);
    kernel.stores.iter().any(|store| store.per_element && passes[store.value.0 as usize] < last)
}
