//! Which tensors a kernel could access as vectors of four elements.

use crate::dtype::DType;
use crate::index::{Atom, Index};
use crate::kernel::{Bound, Expr, Kernel};

/// Elements of a vector.
pub const VECTOR: usize = 4;

/// For each argument whether all accesses to it are whole vectors when `axis` is walked by fours: of unit stride along
/// the axis, aligned to four elements at every other coordinate, and masked or not for all four alike.
///
/// All are `false` if the axis' extent is not a multiple of four.
pub fn wide_arguments(kernel: &Kernel, axis: usize) -> Vec<bool> {
    let extent = kernel.axes[axis].extent;
    let mut wide = vec![false; kernel.args.len()];
    if extent == 0 || !extent.is_multiple_of(VECTOR) {
        return wide;
    }
    let varies = kernel.varies_with(&[axis]);
    let same = |index: &Index| index.values().iter().all(|id| !varies[id.0 as usize]);
    let fits = |arg: usize, index: &Index, mask: &[Bound]| {
        let declared = &kernel.args[arg];
        let whole = declared.dtype != DType::Bool && declared.elements.is_multiple_of(VECTOR);
        let uniform = mask.iter().all(|bound| !bound.index.uses_axis(axis) && same(&bound.index));
        whole && uniform && same(index) && is_aligned(index, axis)
    };
    let loads = kernel.exprs.iter().filter_map(|expr| match expr {
        Expr::Load { arg, index, mask } => Some((*arg, fits(*arg, index, mask))),
        _ => None,
    });
    let stores = kernel.stores.iter().map(|store| (store.arg, fits(store.arg, &store.index, &[])));
    let accesses: Vec<(usize, bool)> = loads.chain(stores).collect();
    for (arg, wide) in wide.iter_mut().enumerate() {
        let mut own = accesses.iter().filter(|access| access.0 == arg).peekable();
        *wide = own.peek().is_some() && own.all(|access| access.1);
    }
    wide
}

/// Unit stride along the axis, and a multiple of four where its coordinate is.
fn is_aligned(index: &Index, axis: usize) -> bool {
    let whole = |stride: i64| stride % VECTOR as i64 == 0;
    let terms = index.terms.iter().all(|term| term.atom == Atom::Axis(axis) || whole(term.stride));
    index.stride(axis) == Some(1) && whole(index.offset) && terms
}
