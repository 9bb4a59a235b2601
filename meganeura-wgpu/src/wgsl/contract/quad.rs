//! Which loads and stores can move four elements at once.
//!
//! A *quad* is four consecutive coordinates `4q … 4q + 3` along one axis whose extent 4 divides. An index is *quartered*
//! if along the quad it runs over four consecutive, aligned elements; it is *fixed* if it is the same for all four.

use meganeura_core::index::{Atom, Index, Term};
use meganeura_core::kernel::Bound;

/// The index `i'` over quad coordinates with `index(4q + c) = 4·i'(q) + c`, if there is one: then the four elements are
/// one aligned vector. In `i'` the coordinate of `axis` counts quads.
pub fn quartered(index: &Index, axis: usize) -> Option<Index> {
    if index.offset % 4 != 0 {
        return None;
    }
    let mut units = 0;
    let mut quads = Index::constant(index.offset / 4);
    for Term { atom, stride } in &index.terms {
        let term = match (unit_atom(atom, axis), fixed_atom(atom, axis)) {
            (Some(unit), _) if *stride == 1 => {
                units += 1;
                unit
            }
            (_, Some(fixed)) if stride % 4 == 0 => fixed.times(stride / 4),
            _ => return None,
        };
        quads = quads.plus(&term);
    }
    (units == 1).then_some(quads)
}

/// The index over quad coordinates, if all four coordinates of a quad give it the same value.
pub fn fixed(index: &Index, axis: usize) -> Option<Index> {
    let mut sum = Index::constant(index.offset);
    for Term { atom, stride } in &index.terms {
        sum = sum.plus(&fixed_atom(atom, axis)?.times(*stride));
    }
    Some(sum)
}

/// The bound over quad coordinates, if it holds for all four coordinates of a quad or for none.
pub fn common_bound(bound: &Bound, axis: usize) -> Option<Bound> {
    if let Some(index) = fixed(&bound.index, axis) {
        return Some(Bound { index, extent: bound.extent });
    }
    let index = quartered(&bound.index, axis).filter(|_| bound.extent.is_multiple_of(4))?;
    Some(Bound { index, extent: bound.extent / 4 })
}

/// An atom that counts along the quad from a multiple of four.
fn unit_atom(atom: &Atom, axis: usize) -> Option<Index> {
    match atom {
        Atom::Axis(own) if *own == axis => Some(Index::axis(axis)),
        Atom::Mod(inner, divisor) if divisor % 4 == 0 => {
            quartered(inner, axis).map(|inner| wrap(Atom::Mod(Box::new(inner), divisor / 4)))
        }
        _ => None,
    }
}

/// An atom that is the same along the quad.
fn fixed_atom(atom: &Atom, axis: usize) -> Option<Index> {
    match atom {
        Atom::Axis(own) => (*own != axis).then(|| Index::axis(*own)),
        // A computed value may vary along the quad.
        Atom::Value(..) => None,
        Atom::Div(inner, divisor) => match fixed(inner, axis) {
            Some(inner) => Some(wrap(Atom::Div(Box::new(inner), *divisor))),
            None if divisor % 4 == 0 => {
                quartered(inner, axis).map(|inner| wrap(Atom::Div(Box::new(inner), divisor / 4)))
            }
            None => None,
        },
        Atom::Mod(inner, divisor) => fixed(inner, axis).map(|inner| wrap(Atom::Mod(Box::new(inner), *divisor))),
    }
}

fn wrap(atom: Atom) -> Index {
    Index { offset: 0, terms: vec![Term { atom, stride: 1 }] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eval(index: &Index, point: &[usize]) -> i64 {
        index.eval(point, &|_| 0)
    }

    #[test]
    fn quartered_indices_name_aligned_vectors() {
        let axes = [3, 16];
        let (row, col) = (Index::axis(0), Index::axis(1));
        let heads = row.times(16).plus(&col.div(8, &axes).times(64)).plus(&col.rem(8, &axes));
        for index in [row.times(16).plus(&col).shifted(8), heads] {
            let quads = quartered(&index, 1).unwrap();
            for (r, c) in (0..3).flat_map(|r| (0..16).map(move |c| (r, c))) {
                assert_eq!(eval(&index, &[r, c]), 4 * eval(&quads, &[r, c / 4]) + (c % 4) as i64);
            }
        }
    }

    #[test]
    fn misaligned_indices_are_refused() {
        let (row, col) = (Index::axis(0), Index::axis(1));
        assert_eq!(quartered(&row.times(15).plus(&col), 1), None);
        assert_eq!(quartered(&row.times(16).plus(&col).shifted(1), 1), None);
        assert_eq!(quartered(&col.times(2), 1), None);
        assert_eq!(quartered(&row.times(16), 1), None);
        assert_eq!(fixed(&row.plus(&col), 1), None);
    }

    #[test]
    fn a_bound_holds_for_whole_quads_only_where_it_is_aligned() {
        let along = Index::axis(0).times(12).plus(&Index::axis(1));
        assert!(common_bound(&Bound { index: along.clone(), extent: 32 }, 1).is_some());
        assert!(common_bound(&Bound { index: along, extent: 30 }, 1).is_none());
        assert!(common_bound(&Bound { index: Index::axis(0).shifted(-1), extent: 5 }, 1).is_some());
    }
}
