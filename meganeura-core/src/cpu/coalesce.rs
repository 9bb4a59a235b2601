//! Merging of neighbouring axes that every index walks as one: fewer, longer loops.

use crate::index::{Atom, Index, Term};
use crate::kernel::{Expr, Kernel, Role};

/// The same kernel without axes of extent 1, and with neighbouring axes of one role merged wherever all indices see
/// only their combined row-major coordinate. Points keep their order.
pub(super) fn coalesce(kernel: &Kernel) -> Kernel {
    let mut kernel = kernel.clone();
    if kernel.stream().is_some() || kernel.axes.iter().any(|axis| axis.extent == 0) {
        return kernel;
    }
    let mut at = 0;
    while at < kernel.axes.len() {
        let merges = at + 1 < kernel.axes.len() && {
            let (outer, inner) = (kernel.axes[at], kernel.axes[at + 1]);
            outer.role == inner.role && indices(&mut kernel).iter().all(|index| walked_as_one(index, at, inner.extent))
        };
        // Folds keep an axis to run over.
        let sole_reduce = kernel.axes[at].role == Role::Reduce && kernel.axes_of(Role::Reduce).len() == 1;
        if kernel.axes[at].extent == 1 && !sole_reduce {
            indices(&mut kernel).into_iter().for_each(|index| remove_axis(index, at));
            kernel.axes.remove(at);
        } else if merges {
            indices(&mut kernel).into_iter().for_each(|index| remove_axis(index, at));
            kernel.axes[at].extent *= kernel.axes[at + 1].extent;
            kernel.axes.remove(at + 1);
        } else {
            at += 1;
        }
    }
    kernel
}

/// Every index of a kernel, those of masks too.
fn indices(kernel: &mut Kernel) -> Vec<&mut Index> {
    let mut found = Vec::new();
    for expr in &mut kernel.exprs {
        match expr {
            Expr::Load { index, mask, .. } => {
                found.push(index);
                found.extend(mask.iter_mut().map(|bound| &mut bound.index));
            }
            Expr::Index(index) | Expr::Random { counter: index, .. } => found.push(index),
            Expr::Within(mask) => found.extend(mask.iter_mut().map(|bound| &mut bound.index)),
            _ => {}
        }
    }
    found.extend(kernel.stores.iter_mut().map(|store| &mut store.index));
    found
}

/// Whether axes `outer` and `outer + 1` appear in every sum as `stride · (outer · extent + inner)` only.
fn walked_as_one(index: &Index, outer: usize, extent: usize) -> bool {
    let own = |axis: usize| {
        let term = index.terms.iter().find(|term| term.atom == Atom::Axis(axis));
        term.map_or(0, |term| term.stride)
    };
    own(outer) == own(outer + 1) * extent as i64
        && index.terms.iter().all(|term| match &term.atom {
            Atom::Div(inner, _) | Atom::Mod(inner, _) => walked_as_one(inner, outer, extent),
            Atom::Axis(_) | Atom::Value(..) => true,
        })
}

/// Drops the terms of an axis and renumbers those after it.
fn remove_axis(index: &mut Index, axis: usize) {
    index.terms.retain(|term| term.atom != Atom::Axis(axis));
    for Term { atom, .. } in &mut index.terms {
        match atom {
            Atom::Axis(other) if *other > axis => *other -= 1,
            Atom::Div(inner, _) | Atom::Mod(inner, _) => remove_axis(inner, axis),
            _ => {}
        }
    }
}
