//! K2: each element of a result is written once.

use super::super::{Access, Expr, ExprId, Kernel, Role, Store};
use super::{Invariant, Part, Problem, VerifyError, fail, variation};
use crate::index::{Atom, Index};

/// Spaces of up to this many points are enumerated where strides prove nothing.
const POINTS: u64 = 1 << 22;

pub(super) fn verify(kernel: &Kernel) -> Result<(), VerifyError> {
    let (varies, extents) = (variation(kernel), kernel.extents());
    for (at, store) in kernel.stores.iter().enumerate() {
        let twice = fail(Invariant::K2, Part::Store(at), Problem::StoredTwice { arg: store.arg });
        // A scatter: two points may compute the same place.
        if store.index.values().iter().any(|id| varies[id.0 as usize] != 0) || !injective(kernel, store) {
            return twice;
        }
        for other in kernel.stores[..at].iter().filter(|other| other.arg == store.arg) {
            if let (Some(one), Some(two)) = (store.index.range(&extents), other.index.range(&extents))
                && one.0 <= two.1
                && two.0 <= one.1
            {
                return twice;
            }
        }
    }
    updates(kernel)
}

/// An element updated in place is read only by the point that writes it.
fn updates(kernel: &Kernel) -> Result<(), VerifyError> {
    for (at, expr) in kernel.exprs.iter().enumerate() {
        let Expr::Load { arg, index, .. } = expr else { continue };
        let elsewhere = kernel.stores.iter().any(|store| store.arg == *arg && store.index != *index);
        if kernel.args[*arg].access == Access::ReadWrite && elsewhere {
            return fail(Invariant::K2, Part::Expr(ExprId(at as u32)), Problem::ReadElsewhere { arg: *arg });
        }
    }
    Ok(())
}

/// Whether distinct points of the axes over which a store is repeated have distinct places.
fn injective(kernel: &Kernel, store: &Store) -> bool {
    let repeated = |axis: &usize| match kernel.axes[*axis].role {
        Role::Parallel | Role::Row => true,
        // A stream stores once for each point of the columns that the place varies with.
        Role::Col => kernel.stream().is_none() || store.index.uses_axis(*axis),
        Role::Reduce => store.per_element,
        Role::Depth => false,
    };
    let axes: Vec<usize> = (0..kernel.axes.len()).filter(repeated).collect();
    let extents = kernel.extents();
    let total: u64 = axes.iter().map(|&axis| extents[axis] as u64).product();
    total <= 1 || separated(&store.index, &axes, &extents) || enumerated(kernel, &store.index, &axes, total)
}

/// The mixed-radix test: sorted by stride, each digit steps over everything that the smaller ones span. An axis that is
/// split into the quotient and the remainder by one divisor counts as two digits.
fn separated(index: &Index, axes: &[usize], extents: &[usize]) -> bool {
    let mut digits: Vec<(i64, i64)> = Vec::new();
    for &axis in axes.iter().filter(|&&axis| extents[axis] > 1) {
        let Some(own) = digits_of(index, axis, extents[axis] as i64) else { return false };
        digits.extend(own);
    }
    digits.sort_unstable();
    let mut span = 0;
    digits.into_iter().all(|(stride, extent)| {
        let fits = stride > span;
        span += stride * (extent - 1);
        fits
    })
}

/// `(|stride|, extent)` of the digits that determine an axis' coordinate, if the index has it plain or split once.
fn digits_of(index: &Index, axis: usize, extent: i64) -> Option<Vec<(i64, i64)>> {
    let of_axis = |atom: &Atom| {
        Index { offset: 0, terms: vec![crate::index::Term { atom: atom.clone(), stride: 1 }] }.uses_axis(axis)
    };
    let terms: Vec<_> = index.terms.iter().filter(|term| of_axis(&term.atom)).collect();
    let itself = Index::axis(axis);
    match terms.as_slice() {
        [term] if term.atom == Atom::Axis(axis) => Some(vec![(term.stride.abs(), extent)]),
        [one, two] => {
            let (quotient, remainder) = match (&one.atom, &two.atom) {
                (Atom::Div(a, d), Atom::Mod(b, e)) if d == e && **a == itself && **b == itself => (one, two),
                (Atom::Mod(a, d), Atom::Div(b, e)) if d == e && **a == itself && **b == itself => (two, one),
                _ => return None,
            };
            let Atom::Mod(_, divisor) = remainder.atom else { return None };
            let high = (extent - 1) / divisor + 1;
            Some(vec![(quotient.stride.abs(), high), (remainder.stride.abs(), divisor.min(extent))])
        }
        _ => None,
    }
}

/// Marks every place; false if one is marked twice, or there are too many points to try.
fn enumerated(kernel: &Kernel, index: &Index, axes: &[usize], total: u64) -> bool {
    let Some((low, high)) = index.range(&kernel.extents()) else { return true };
    if total > POINTS || high - low >= 64 * POINTS as i64 {
        return false;
    }
    let mut marked = vec![0_u64; (high - low) as usize / 64 + 1];
    let mut point = vec![0; kernel.axes.len()];
    (0..total).all(|number| {
        let mut rest = number;
        for &axis in axes.iter().rev() {
            let extent = kernel.axes[axis].extent as u64;
            point[axis] = (rest % extent) as usize;
            rest /= extent;
        }
        // Values in the index are the same for all points, as was checked before.
        let at = (index.eval(&point, &|_| 0) - low) as usize;
        let fresh = marked.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) == 0);
        if let Some(word) = marked.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
        fresh
    })
}
