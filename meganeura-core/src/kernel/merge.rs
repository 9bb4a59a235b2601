//! Fewer axes: neighbouring axes of one role that every access walks as one become one.

use crate::index::{Atom, Index, Term};
use crate::kernel::{Bound, Expr, Kernel, Role};

/// The same kernel with neighbouring axes of one role merged wherever all indices allow it, and axes of extent 1
/// dropped. Rows become contiguous runs that vector loads can take, and index arithmetic disappears.
pub fn merge_axes(mut kernel: Kernel) -> Kernel {
    if kernel.stream().is_some() {
        // A stream's body names axes, and each of its roles has few.
        return kernel;
    }
    let mut axis = 0;
    while axis < kernel.axes.len() {
        // A fold over one element is still a fold, so one folded axis stays.
        let last_fold = kernel.axes[axis].role == Role::Reduce && kernel.axes_of(Role::Reduce).len() == 1;
        if kernel.axes[axis].extent == 1 && !last_fold {
            kernel = map_indices(kernel, &|index| drop_axis(index, axis));
            kernel.axes.remove(axis);
            continue;
        }
        let next = kernel.axes.get(axis + 1).filter(|next| next.role == kernel.axes[axis].role);
        let inner = next.map_or(0, |next| next.extent);
        if inner > 1 && all_indices(&kernel).iter().all(|index| is_contiguous(index, axis, inner as i64)) {
            kernel = map_indices(kernel, &|index| drop_axis(index, axis));
            kernel.axes[axis].extent *= inner;
            kernel.axes.remove(axis + 1);
            continue;
        }
        axis += 1;
    }
    kernel
}

/// Whether the coordinates of `axis` and the next one only occur as `axis · inner + next`.
fn is_contiguous(index: &Index, axis: usize, inner: i64) -> bool {
    let stride =
        |wanted: usize| index.terms.iter().find(|term| term.atom == Atom::Axis(wanted)).map_or(0, |term| term.stride);
    let nested = |term: &Term| match &term.atom {
        Atom::Div(index, _) | Atom::Mod(index, _) => is_contiguous(index, axis, inner),
        Atom::Axis(_) | Atom::Value(..) => true,
    };
    stride(axis) == stride(axis + 1) * inner && index.terms.iter().all(nested)
}

/// The index without the terms of `axis`, later axes renumbered. The next axis, if it is merged, takes its place.
fn drop_axis(index: &Index, axis: usize) -> Index {
    let keep = |term: &Term| {
        let atom = match &term.atom {
            Atom::Axis(own) if *own == axis => return None,
            Atom::Axis(own) => Atom::Axis(if *own > axis { own - 1 } else { *own }),
            Atom::Div(inner, divisor) => Atom::Div(Box::new(drop_axis(inner, axis)), *divisor),
            Atom::Mod(inner, divisor) => Atom::Mod(Box::new(drop_axis(inner, axis)), *divisor),
            Atom::Value(id, bound) => Atom::Value(*id, *bound),
        };
        Some(Term { atom, stride: term.stride })
    };
    let mut terms: Vec<Term> = index.terms.iter().filter_map(keep).collect();
    terms.sort();
    Index { offset: index.offset, terms }
}

fn all_indices(kernel: &Kernel) -> Vec<&Index> {
    let mut indices: Vec<&Index> = kernel.stores.iter().map(|store| &store.index).collect();
    for expr in &kernel.exprs {
        match expr {
            Expr::Load { index, mask, .. } => {
                indices.push(index);
                indices.extend(mask.iter().map(|bound| &bound.index));
            }
            Expr::Index(index) | Expr::Random { counter: index, .. } => indices.push(index),
            Expr::Within(bounds) => indices.extend(bounds.iter().map(|bound| &bound.index)),
            _ => {}
        }
    }
    indices
}

/// The kernel with every index replaced.
pub fn map_indices(mut kernel: Kernel, map: &dyn Fn(&Index) -> Index) -> Kernel {
    let bounds = |bounds: &mut [Bound]| bounds.iter_mut().for_each(|bound| bound.index = map(&bound.index));
    for expr in &mut kernel.exprs {
        match expr {
            Expr::Load { index, mask, .. } => {
                *index = map(index);
                bounds(mask);
            }
            Expr::Index(index) | Expr::Random { counter: index, .. } => *index = map(index),
            Expr::Within(within) => bounds(within),
            _ => {}
        }
    }
    kernel.stores.iter_mut().for_each(|store| store.index = map(&store.index));
    kernel
}
