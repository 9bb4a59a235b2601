//! Quasi-affine integer expressions over the axes of an iteration space: how a kernel addresses memory.
//!
//! An [`Index`] is `offset + Σ strideᵢ · atomᵢ` in a normal form (atoms sorted, equal atoms merged, no zero strides), so
//! that equal functions built along different ways usually compare equal. An atom is an axis' coordinate, the quotient
//! or remainder of another index by a constant, or a value computed by the kernel (a gather).
//! Reshapes, permutes, broadcasts, slices, pads and convolution windows all become such expressions.

use crate::shape::Shape;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::cell::Cell;
use std::fmt;

/// Position of an expression in a kernel's list; see [`crate::kernel::Expr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExprId(pub u32);

/// A quasi-affine expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Index {
    /// The constant part.
    pub offset: i64,
    /// The variable part, sorted by atom, one term an atom.
    pub terms: Vec<Term>,
}

/// `stride · atom`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Term {
    /// What varies.
    pub atom: Atom,
    /// Its factor, never 0.
    pub stride: i64,
}

/// The part of an index that varies.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Atom {
    /// Coordinate along an axis of the iteration space.
    Axis(usize),
    /// Quotient, rounded down, of a non-negative index by a positive constant.
    Div(#[serde(deserialize_with = "nested")] Box<Index>, i64),
    /// Remainder of a non-negative index by a positive constant.
    Mod(#[serde(deserialize_with = "nested")] Box<Index>, i64),
    /// A `u32` that the kernel computes, known to be less than the second field.
    Value(ExprId, i64),
}

/// Reads an index inside of another one, unless they nest so deeply that reading could exhaust the stack.
fn nested<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<Index>, D::Error> {
    const DEEPEST: u32 = 64;
    thread_local!(static DEPTH: Cell<u32> = const { Cell::new(0) });
    let depth = DEPTH.get();
    if depth == DEEPEST {
        return Err(D::Error::custom("an index nests too deeply"));
    }
    DEPTH.set(depth + 1);
    let index = Index::deserialize(deserializer);
    DEPTH.set(depth);
    index.map(Box::new)
}

impl Index {
    /// The constant `offset`.
    pub fn constant(offset: i64) -> Index {
        Index { offset, terms: Vec::new() }
    }

    /// The coordinate of an axis.
    pub fn axis(axis: usize) -> Index {
        Index::atom(Atom::Axis(axis))
    }

    /// A computed value below `bound`.
    pub fn value(value: ExprId, bound: usize) -> Index {
        Index::atom(Atom::Value(value, bound as i64))
    }

    fn atom(atom: Atom) -> Index {
        Index { offset: 0, terms: vec![Term { atom, stride: 1 }] }
    }

    /// The constant that this index is, if it does not vary.
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.offset)
    }

    /// Sum of two indices.
    #[must_use]
    pub fn plus(&self, other: &Index) -> Index {
        let mut sum = self.clone();
        sum.offset += other.offset;
        for term in &other.terms {
            sum.add_term(term.atom.clone(), term.stride);
        }
        sum
    }

    /// This index plus a constant.
    #[must_use]
    pub fn shifted(mut self, offset: i64) -> Index {
        self.offset += offset;
        self
    }

    /// This index times a constant.
    #[must_use]
    pub fn times(&self, factor: i64) -> Index {
        if factor == 0 {
            return Index::constant(0);
        }
        let terms =
            self.terms.iter().map(|term| Term { atom: term.atom.clone(), stride: term.stride * factor }).collect();
        Index { offset: self.offset * factor, terms }
    }

    /// `⌊self / divisor⌋`, simplified by the ranges of the axes; `self` must not be negative.
    #[must_use]
    pub fn div(&self, divisor: i64, axes: &[usize]) -> Index {
        if divisor == 1 {
            return self.clone();
        }
        let (multiple, rest) = self.split(divisor);
        if multiple.is_empty_sum() || rest.in_range(divisor, axes) || rest.range(axes).is_some_and(|(low, _)| low >= 0)
        {
            let mut quotient = multiple;
            if !rest.in_range(divisor, axes) {
                quotient = quotient.plus(&rest.nested_div(divisor));
            }
            return quotient;
        }
        self.nested_div(divisor)
    }

    /// `self mod divisor`, simplified by the ranges of the axes; `self` must not be negative.
    #[must_use]
    pub fn rem(&self, divisor: i64, axes: &[usize]) -> Index {
        if divisor == 1 {
            return Index::constant(0);
        }
        let (_, rest) = self.split(divisor);
        if rest.in_range(divisor, axes) {
            return rest;
        }
        // A rest that may be negative keeps its multiples, so that the remainder is taken of something non-negative.
        let base = if rest.range(axes).is_some_and(|(low, _)| low >= 0) { rest } else { self.clone() };
        match base.as_constant() {
            Some(constant) => Index::constant(constant.rem_euclid(divisor)),
            None => Index::atom(Atom::Mod(Box::new(base), divisor)),
        }
    }

    fn nested_div(&self, divisor: i64) -> Index {
        match self.terms.as_slice() {
            [] => Index::constant(self.offset.div_euclid(divisor)),
            // ⌊⌊x / a⌋ / b⌋ = ⌊x / ab⌋
            [Term { atom: Atom::Div(inner, first), stride: 1 }] if self.offset == 0 => {
                Index::atom(Atom::Div(inner.clone(), first * divisor))
            }
            _ => Index::atom(Atom::Div(Box::new(self.clone()), divisor)),
        }
    }

    /// The same index with `s · d · ⌊x / d⌋ + s · (x mod d)` written as `s · x`, however deep: what a reshape took apart, the
    /// reshape back puts together, so that it meets the coordinate that it began with.
    fn recombined(mut self) -> Index {
        let together = |index: &Index| {
            index.terms.iter().enumerate().find_map(|(at, term)| {
                let Atom::Mod(inner, divisor) = &term.atom else { return None };
                let quotient = inner.nested_div(*divisor).times(term.stride * divisor);
                let [quotient] = quotient.terms.as_slice() else { return None };
                let other = index.terms.iter().position(|other| other == quotient)?;
                Some((at.min(other), at.max(other), inner.times(term.stride)))
            })
        };
        while let Some((first, second, whole)) = together(&self) {
            self.terms.remove(second);
            self.terms.remove(first);
            self = self.plus(&whole);
        }
        self
    }

    fn is_empty_sum(&self) -> bool {
        self.offset == 0 && self.terms.is_empty()
    }

    /// Writes `self = multiple · divisor + rest`, where `rest` keeps what `divisor` does not divide.
    fn split(&self, divisor: i64) -> (Index, Index) {
        let mut multiple = Index::constant(self.offset.div_euclid(divisor));
        let mut rest = Index::constant(self.offset.rem_euclid(divisor));
        for term in &self.terms {
            let target = if term.stride % divisor == 0 { &mut multiple.terms } else { &mut rest.terms };
            let stride = if term.stride % divisor == 0 { term.stride / divisor } else { term.stride };
            target.push(Term { atom: term.atom.clone(), stride });
        }
        (multiple, rest)
    }

    fn in_range(&self, bound: i64, axes: &[usize]) -> bool {
        self.range(axes).is_some_and(|(low, high)| low >= 0 && high < bound)
    }

    fn add_term(&mut self, atom: Atom, stride: i64) {
        match self.terms.binary_search_by(|term| term.atom.cmp(&atom)) {
            Ok(at) => {
                self.terms[at].stride += stride;
                if self.terms[at].stride == 0 {
                    self.terms.remove(at);
                }
            }
            Err(at) if stride != 0 => self.terms.insert(at, Term { atom, stride }),
            Err(_) => {}
        }
    }

    /// Least and greatest value over the whole space, by interval arithmetic (so possibly wider than attained).
    ///
    /// `None` if the space is empty.
    pub fn range(&self, axes: &[usize]) -> Option<(i64, i64)> {
        let mut range = (self.offset, self.offset);
        for term in &self.terms {
            let (low, high) = term.atom.range(axes)?;
            let (a, b) = (low * term.stride, high * term.stride);
            range = (range.0 + a.min(b), range.1 + a.max(b));
        }
        Some(range)
    }

    /// The value at a point; `value` tells what the kernel computed.
    pub fn eval(&self, point: &[usize], value: &dyn Fn(ExprId) -> i64) -> i64 {
        let atom = |atom: &Atom| match atom {
            Atom::Axis(axis) => point[*axis] as i64,
            Atom::Div(inner, divisor) => inner.eval(point, value).div_euclid(*divisor),
            Atom::Mod(inner, divisor) => inner.eval(point, value).rem_euclid(*divisor),
            Atom::Value(id, _) => value(*id),
        };
        self.terms.iter().fold(self.offset, |sum, term| sum + term.stride * atom(&term.atom))
    }

    /// The same index with 0 for axes of one element, apart from those inside quotients and remainders.
    #[must_use]
    pub fn without_unit_axes(&self, axes: &[usize]) -> Index {
        let varies = |term: &&Term| !matches!(term.atom, Atom::Axis(axis) if axes.get(axis) == Some(&1));
        Index { offset: self.offset, terms: self.terms.iter().filter(varies).cloned().collect() }
    }

    /// Whether the coordinate of `axis` has any part in this index.
    pub fn uses_axis(&self, axis: usize) -> bool {
        self.terms.iter().any(|term| match &term.atom {
            Atom::Axis(own) => *own == axis,
            Atom::Div(inner, _) | Atom::Mod(inner, _) => inner.uses_axis(axis),
            Atom::Value(..) => false,
        })
    }

    /// The stride along `axis` if the index is affine in it (0 if it does not vary with it); `None` if the axis sits
    /// inside a quotient or remainder.
    pub fn stride(&self, axis: usize) -> Option<i64> {
        let mut stride = 0;
        for term in &self.terms {
            match &term.atom {
                Atom::Axis(own) if *own == axis => stride = term.stride,
                Atom::Div(inner, _) | Atom::Mod(inner, _) if inner.uses_axis(axis) => return None,
                _ => {}
            }
        }
        Some(stride)
    }

    /// The kernel values that this index reads, nested ones too.
    pub fn values(&self) -> Vec<ExprId> {
        let mut found = Vec::new();
        self.visit_values(&mut |id, _| found.push(id));
        found
    }

    /// The kernel values that this index reads with the bounds stated for them, nested ones too.
    pub fn stated_bounds(&self) -> Vec<(ExprId, i64)> {
        let mut found = Vec::new();
        self.visit_values(&mut |id, bound| found.push((id, bound)));
        found
    }

    fn visit_values(&self, visit: &mut dyn FnMut(ExprId, i64)) {
        for term in &self.terms {
            match &term.atom {
                Atom::Axis(_) => {}
                Atom::Div(inner, _) | Atom::Mod(inner, _) => inner.visit_values(visit),
                Atom::Value(id, bound) => visit(*id, *bound),
            }
        }
    }
}

impl Atom {
    fn range(&self, axes: &[usize]) -> Option<(i64, i64)> {
        match self {
            Atom::Axis(axis) => (axes[*axis] > 0).then(|| (0, axes[*axis] as i64 - 1)),
            Atom::Div(inner, divisor) => {
                let (low, high) = inner.range(axes)?;
                Some((low.div_euclid(*divisor), high.div_euclid(*divisor)))
            }
            Atom::Mod(inner, divisor) => {
                let (low, high) = inner.range(axes)?;
                Some(if low >= 0 && high < *divisor { (low, high) } else { (0, divisor - 1) })
            }
            Atom::Value(_, bound) => Some((0, (bound - 1).max(0))),
        }
    }
}

/// The row-major linear index of `coords` in `shape`.
pub fn flatten(coords: &[Index], shape: &Shape) -> Index {
    coords
        .iter()
        .zip(shape.strides())
        .fold(Index::constant(0), |sum, (coord, stride)| sum.plus(&coord.times(stride as i64)))
        .recombined()
}

/// The coordinates in `shape` of a row-major linear index; `axes` are the extents of the iteration space.
pub fn unflatten(linear: &Index, shape: &Shape, axes: &[usize]) -> Vec<Index> {
    let strides = shape.strides();
    (0..shape.rank())
        .map(|dim| {
            let quotient = linear.div(strides[dim].max(1) as i64, axes);
            // The slowest dimension needs no remainder: the linear index is in range.
            if dim == 0 { quotient } else { quotient.rem(shape[dim].max(1) as i64, axes) }
        })
        .collect()
}

/// The coordinates in `to` of the element at `coords` in `from`, a shape of as many elements.
///
/// Runs of dimensions that hold the same elements in both are converted on their own: a dimension that stays as it is
/// keeps its coordinate, even one that runs out of bounds under a mask.
pub fn reshape(coords: &[Index], from: &Shape, to: &Shape, axes: &[usize]) -> Vec<Index> {
    let (mut made, mut taken) = (Vec::with_capacity(to.rank()), 0);
    while made.len() < to.rank() {
        let (run, made_run) = common_run(&from[taken..], &to[made.len()..]);
        let (own, target) = (&from[taken..taken + run], &to[made.len()..made.len() + made_run]);
        let coords = &coords[taken..taken + run];
        // Extents of 1 aside, is it one dimension on both sides?
        let long = |extents: &[usize]| {
            let mut long = (0..extents.len()).filter(|&dim| extents[dim] != 1);
            long.next().filter(|_| long.next().is_none())
        };
        match (long(own), long(target)) {
            (Some(dim), Some(into)) if own[dim] == target[into] => {
                let coord = |at: usize| if at == into { coords[dim].clone() } else { Index::constant(0) };
                made.extend((0..made_run).map(coord));
            }
            _ => made.extend(unflatten(&flatten(coords, &Shape::from(own)), &Shape::from(target), axes)),
        }
        taken += run;
    }
    made
}

/// How many leading dimensions of each hold equally many elements: the fewest, or all where nothing fits. Further
/// dimensions of extent 1 go with the run if nothing else follows them.
fn common_run(from: &[usize], to: &[usize]) -> (usize, usize) {
    let (mut run, mut made) = (0, 0);
    let (mut own, mut target) = (1_usize, 1_usize);
    while run < from.len() || made < to.len() {
        if made > 0 && run > 0 && own == target && !from[run..].starts_with(&[1]) {
            return (run, made);
        }
        let next = if own <= target && run < from.len() || made == to.len() { &mut run } else { &mut made };
        *next += 1;
        own = from[..run].iter().fold(1, |product: usize, &extent| product.saturating_mul(extent));
        target = to[..made].iter().fold(1, |product: usize, &extent| product.saturating_mul(extent));
    }
    (run, made)
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for term in &self.terms {
            match term.stride {
                1 => write!(f, "{separator}{}", term.atom)?,
                stride => write!(f, "{separator}{}*{stride}", term.atom)?,
            }
            separator = " + ";
        }
        if self.offset != 0 || self.terms.is_empty() {
            write!(f, "{separator}{}", self.offset)?;
        }
        Ok(())
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Axis(axis) => write!(f, "i{axis}"),
            Atom::Div(inner, divisor) => write!(f, "({inner})/{divisor}"),
            Atom::Mod(inner, divisor) => write!(f, "({inner})%{divisor}"),
            Atom::Value(id, _) => write!(f, "%{}", id.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_values(_: ExprId) -> i64 {
        0
    }

    #[test]
    fn reshape_of_merged_dimensions_needs_no_division() {
        // [2, 3, 5] seen as [6, 5] and back: the coordinates of the merged dimension split again, the last one is kept.
        let axes = [2, 3, 5];
        let coords: Vec<Index> = (0..3).map(Index::axis).collect();
        let linear = flatten(&coords, &Shape::from([2, 3, 5]));
        let merged = unflatten(&linear, &Shape::from([6, 5]), &axes);
        assert_eq!(merged[0].to_string(), "i0*3 + i1");
        assert_eq!(merged[1].to_string(), "i2");
        assert_eq!(unflatten(&flatten(&merged, &Shape::from([6, 5])), &Shape::from([2, 3, 5]), &axes), coords);
    }

    #[test]
    fn reshaped_dimensions_that_stay_keep_their_coordinates() {
        let (from, to) = (Shape::from([2, 6, 1, 5, 4]), Shape::from([2, 3, 2, 5, 1, 4]));
        let axes = [2, 6, 7, 4];
        // The window's coordinate leaves the dimension, which a mask tests.
        let window = Index::axis(2).shifted(-1);
        let coords = [Index::axis(0), Index::axis(1), Index::constant(0), window.clone(), Index::axis(3)];
        let reshaped = reshape(&coords, &from, &to, &axes);
        let split = [Index::axis(1).div(2, &axes), Index::axis(1).rem(2, &axes)];
        let expected = [&[Index::axis(0)], &split[..], &[window], &[Index::constant(0), Index::axis(3)]].concat();
        assert_eq!(reshaped, expected);
        for (from, to) in [(&[][..], &[1][..]), (&[1], &[]), (&[6, 1], &[6]), (&[4, 9], &[6, 6]), (&[0, 3], &[2, 0])] {
            let (from, to) = (Shape::from(from), Shape::from(to));
            let coords: Vec<Index> = (0..from.rank()).map(Index::axis).collect();
            let reshaped = reshape(&coords, &from, &to, &from);
            assert_eq!(reshaped.len(), to.rank());
            crate::oracle::for_each_point(&from, |point| {
                let at = |index: &Index| index.eval(point, &no_values) as usize;
                let coords: Vec<usize> = reshaped.iter().map(at).collect();
                let linear = |shape: &Shape, coords: &[usize]| {
                    coords.iter().zip(shape.strides()).map(|(c, s)| c * s).sum::<usize>()
                };
                assert_eq!(linear(&to, &coords), linear(&from, point), "{from} to {to}");
            });
        }
    }

    #[test]
    fn division_and_remainder_agree_with_arithmetic_everywhere() {
        let axes = [7, 4, 3];
        let index = Index::axis(0).times(12).plus(&Index::axis(1).times(5)).plus(&Index::axis(2)).shifted(2);
        for divisor in 1..30 {
            let (div, rem) = (index.div(divisor, &axes), index.rem(divisor, &axes));
            for point in (0..7).flat_map(|a| (0..4).flat_map(move |b| (0..3).map(move |c| [a, b, c]))) {
                let value = index.eval(&point, &no_values);
                assert_eq!(div.eval(&point, &no_values), value / divisor, "{index} / {divisor} at {point:?}");
                assert_eq!(rem.eval(&point, &no_values), value % divisor, "{index} % {divisor} at {point:?}");
                let (low, high) = div.range(&axes).unwrap_or((1, 0));
                assert!(low <= value / divisor && value / divisor <= high);
            }
        }
    }

    #[test]
    fn reshapes_there_and_back_give_the_same_coordinates() {
        let cases: [(&[usize], &[usize]); 5] = [
            (&[1, 16, 4096], &[1, 64, 32, 32]),
            (&[6, 35], &[7, 3, 10]),
            (&[210], &[2, 3, 5, 7]),
            (&[4, 9], &[6, 6]),
            (&[5, 12], &[60]),
        ];
        for (from, to) in cases {
            let (from, to) = (Shape::from(from), Shape::from(to));
            let coords: Vec<Index> = (0..from.rank()).map(|dim| Index::axis(dim).without_unit_axes(&from)).collect();
            let there = reshape(&coords, &from, &to, &from);
            assert_eq!(flatten(&there, &to), flatten(&coords, &from), "{from} to {to}");
            assert_eq!(reshape(&there, &to, &from, &from), coords, "{from} to {to}");
        }
    }

    #[test]
    fn strides_are_refused_inside_a_quotient() {
        let axes = [6, 4];
        let split = Index::axis(0).div(4, &axes);
        assert_eq!(split.stride(0), None);
        assert_eq!(split.plus(&Index::axis(1).times(3)).stride(1), Some(3));
    }
}
