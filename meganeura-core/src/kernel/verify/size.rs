//! K4: numbers are so small that the other checks, and whoever executes the kernel, compute with them without overflow. The
//! compiler's own kernels are far below; those that were read from a file can hold anything.

use super::super::{Bound, Expr, ExprId, Kernel, Role};
use super::{Invariant, Part, Problem, VerifyError, fail};
use crate::index::{Atom, Index};

/// No index, nor any part of one, exceeds this: 16 times what the largest tensor's elements need.
const LARGEST: i64 = 1 << 36;

/// A space has at most so many points.
const MOST_POINTS: u64 = 1 << 62;

pub(super) fn verify(kernel: &Kernel) -> Result<(), VerifyError> {
    let mut points = 1_u64;
    // Points along the axes of each role are counted in this system's own width, which may be 32 bits.
    let mut of_role: Vec<(Role, u64)> = Vec::new();
    for (at, axis) in kernel.axes.iter().enumerate() {
        // Counted without empty axes, as if each had a point.
        let extent = axis.extent.max(1) as u64;
        points = points.saturating_mul(extent);
        let before = of_role.iter().rev().find(|(role, _)| *role == axis.role).map_or(1, |(_, points)| *points);
        let along = before.saturating_mul(extent);
        of_role.push((axis.role, along));
        if points > MOST_POINTS || usize::try_from(along).is_err() || axis.extent as u64 > LARGEST as u64 {
            return large(Part::Axis(at), "extent", axis.extent as i64);
        }
    }
    let extents = kernel.extents();
    let index = |part: Part, index: &Index| match magnitude(index, &extents) {
        Ok(_) => Ok(()),
        Err(number) => large(part, "part of an index", number),
    };
    let bound = |part: Part, bound: &Bound| match bound.extent as u64 > LARGEST as u64 {
        true => large(part, "extent", bound.extent as i64),
        false => index(part, &bound.index),
    };
    for (at, expr) in kernel.exprs.iter().enumerate() {
        let part = Part::Expr(ExprId(at as u32));
        match expr {
            Expr::Load { arg, index: place, mask } => {
                elements(kernel, part, *arg)?;
                index(part, place)?;
                mask.iter().try_for_each(|test| bound(part, test))?;
            }
            Expr::Within(mask) => mask.iter().try_for_each(|test| bound(part, test))?,
            Expr::Index(value) | Expr::Random { counter: value, .. } => index(part, value)?,
            _ => {}
        }
    }
    kernel.stores.iter().enumerate().try_for_each(|(at, store)| {
        elements(kernel, Part::Store(at), store.arg)?;
        index(Part::Store(at), &store.index)
    })
}

fn large(part: Part, what: &'static str, number: i64) -> Result<(), VerifyError> {
    fail(Invariant::K4, part, Problem::Number { what, number })
}

fn elements(kernel: &Kernel, part: Part, arg: usize) -> Result<(), VerifyError> {
    let elements = kernel.args[arg].elements;
    if elements as u64 > LARGEST as u64 { large(part, "number of elements", elements as i64) } else { Ok(()) }
}

/// What no value of an index exceeds, its sign aside; else the number that is 0 or too large.
fn magnitude(index: &Index, extents: &[usize]) -> Result<i64, i64> {
    let small = |number: i64| if number.unsigned_abs() <= LARGEST as u64 { Ok(number.abs()) } else { Err(number) };
    let mut sum = small(index.offset)?;
    for term in &index.terms {
        let atom = match &term.atom {
            Atom::Axis(axis) => extents[*axis] as i64,
            Atom::Div(inner, divisor) => {
                small(*divisor)?;
                magnitude(inner, extents)?
            }
            Atom::Mod(inner, divisor) => magnitude(inner, extents).and(small(*divisor))?,
            Atom::Value(_, bound) => small(*bound)?,
        };
        let nonzero = if term.stride == 0 { Err(0) } else { small(term.stride) };
        let product = nonzero?.checked_mul(atom).filter(|product| *product <= LARGEST).ok_or(term.stride)?;
        sum = small(sum + product)?;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::super::super::{Access, Arg, Axis, Body, Role, Store};
    use super::*;
    use crate::dtype::DType;
    use crate::index::Term;

    fn copy(extent: usize, terms: Vec<Term>) -> Kernel {
        let arg = |access| Arg { dtype: DType::F32, elements: extent, access };
        Kernel {
            axes: vec![Axis { extent, role: Role::Parallel }],
            args: vec![arg(Access::Read), arg(Access::Write)],
            exprs: vec![Expr::Load { arg: 0, index: Index { offset: 0, terms }, mask: vec![] }],
            dtypes: vec![DType::F32],
            body: Body::Loop,
            stores: vec![Store { arg: 1, index: Index::axis(0), value: ExprId(0), per_element: false }],
        }
    }

    #[test]
    fn k4_numbers_are_small() {
        let term = |stride| Term { atom: Atom::Axis(0), stride };
        let broken = |kernel: &Kernel| match super::super::verify(kernel) {
            Err(VerifyError { problem: Problem::Number { what, number }, .. }) => (what, number),
            other => panic!("{other:?}"),
        };
        assert_eq!(super::super::verify(&copy(9, vec![term(1)])), Ok(()));
        assert_eq!(broken(&copy(9, vec![term(0)])), ("part of an index", 0));
        assert_eq!(broken(&copy(9, vec![term(i64::MIN)])), ("part of an index", i64::MIN));
        assert_eq!(broken(&copy(9, vec![term(1 << 33)])), ("part of an index", 1 << 33));
        assert_eq!(broken(&copy(1 << 40, vec![term(1)])), ("extent", 1 << 40));
        let mut wide = copy(9, vec![term(1)]);
        wide.axes.extend([Axis { extent: 1 << 30, role: Role::Parallel }; 2]);
        assert_eq!(broken(&wide), ("extent", 1 << 30));
        let mut long = copy(9, vec![term(1)]);
        long.args[0].elements = usize::MAX;
        assert_eq!(broken(&long).0, "number of elements");
    }
}
