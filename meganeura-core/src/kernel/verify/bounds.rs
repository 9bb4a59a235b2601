//! K1: accesses in bounds.
//!
//! Three ways, the first that succeeds decides:
//! 1. *Intervals*: the index' range over the whole space lies inside the tensor.
//! 2. *Masks*: the index is written as `Σ cⱼ · maskⱼ + rest`, where `maskⱼ` is the tested index of a mask, known to lie
//!    in `0..extentⱼ` where memory is touched; then intervals again. This proves convolution windows, pads and slices.
//! 3. *Points*: every point if they are few and no values are involved; otherwise corners and a fixed sample, which is a
//!    test and no proof. It is accepted because masks come from a handful of access maps, whose mistakes show at corners.

use super::super::{Bound, Expr, ExprId, Kernel, Role};
use super::{Invariant, Part, Problem, VerifyError, fail};
use crate::dtype::DType;
use crate::index::{Atom, Index, Term};
use crate::scalar::{Binary, Monoid};

/// All points of a space of up to this many are evaluated; of a larger one this many.
const POINTS: u64 = 1 << 14;

pub(super) fn verify(kernel: &Kernel) -> Result<(), VerifyError> {
    let values = ranges(kernel);
    for (at, expr) in kernel.exprs.iter().enumerate() {
        let part = Part::Expr(ExprId(at as u32));
        // Only what touches memory needs its values in bounds: elsewhere a value out of bounds gives a number that the
        // choice which tests it drops.
        if let Expr::Load { arg, index, mask } = expr {
            stated(&values, part, index, mask)?;
            access(kernel, part, *arg, index, mask)?;
        }
    }
    for (at, store) in kernel.stores.iter().enumerate() {
        stated(&values, Part::Store(at), &store.index, &[])?;
        access(kernel, Part::Store(at), store.arg, &store.index, &[])?;
    }
    Ok(())
}

/// The computed values of an index are below the bounds that it states, or a mask lets only those pass that are.
fn stated(values: &[(i64, i64)], part: Part, index: &Index, mask: &[Bound]) -> Result<(), VerifyError> {
    for (value, bound) in index.stated_bounds() {
        let (_, reached) = values[value.0 as usize];
        let passes = |test: &Bound| tested_value(test) == Some(value) && test.extent as i64 <= bound;
        if reached >= bound && !mask.iter().any(passes) {
            return fail(Invariant::K1, part, Problem::ValueBound { value, bound, reached });
        }
    }
    Ok(())
}

/// The computed value that a bound tests, if it tests nothing but one.
fn tested_value(bound: &Bound) -> Option<ExprId> {
    match bound.index.terms.as_slice() {
        [Term { atom: Atom::Value(id, _), stride: 1 }] if bound.index.offset == 0 => Some(*id),
        _ => None,
    }
}

fn access(kernel: &Kernel, part: Part, arg: usize, index: &Index, mask: &[Bound]) -> Result<(), VerifyError> {
    let (extents, elements) = (kernel.extents(), kernel.args[arg].elements);
    let outside = |(low, high): (i64, i64)| {
        if low < 0 { Some(low) } else { (high >= elements as i64).then_some(high) }
    };
    // An empty space accesses nothing.
    let Some(range) = index.range(&extents) else { return Ok(()) };
    let masked = masked_range(index, mask, &extents);
    if outside(range).is_none() || masked.is_none_or(|range| outside(range).is_none()) {
        return Ok(());
    }
    let touched = |point: &[usize], value: &dyn Fn(ExprId) -> i64| {
        let open = mask.iter().all(|bound| (0..bound.extent as i64).contains(&bound.index.eval(point, value)));
        open.then(|| index.eval(point, value)).and_then(|at| outside((at, at)))
    };
    // Intervals of sums of coordinates are exact: only masks, quotients and remainders can keep such an index inside.
    let nested = |term: &Term| matches!(term.atom, Atom::Div(..) | Atom::Mod(..));
    let exact = mask.is_empty() && !index.terms.iter().any(nested);
    let found = if exact { outside(range) } else { search(index, mask, &extents, &touched) };
    match found {
        Some(index) => fail(Invariant::K1, part, Problem::OutOfBounds { arg, index, elements }),
        None => Ok(()),
    }
}

/// The range of an index where all masks hold; `None` if they hold nowhere.
fn masked_range(index: &Index, mask: &[Bound], extents: &[usize]) -> Option<(i64, i64)> {
    let (mut low, mut high, mut rest) = (0, 0, index.clone());
    for bound in mask {
        let range = bound.index.range(extents)?;
        let (first, last) = (range.0.max(0), range.1.min(bound.extent as i64 - 1));
        if first > last {
            return None;
        }
        let small = |factor: &i64| {
            let product = |x: i64| x.checked_mul(*factor).is_some_and(|product| product.abs() < 1 << 60);
            [first, last, bound.index.offset].into_iter().all(product)
        };
        if let Some(factor) = common_factor(&rest, &bound.index).filter(small) {
            rest = rest.plus(&bound.index.times(-factor));
            low += (factor * first).min(factor * last);
            high += (factor * first).max(factor * last);
        }
    }
    let rest = rest.range(extents)?;
    Some((low + rest.0, high + rest.1))
}

/// The factor by which all terms of `part` are contained in `whole`.
fn common_factor(whole: &Index, part: &Index) -> Option<i64> {
    let factor_of = |term: &Term| {
        let own = whole.terms.iter().find(|own| own.atom == term.atom)?;
        (own.stride % term.stride == 0).then(|| own.stride / term.stride)
    };
    let factor = factor_of(part.terms.first()?)?;
    part.terms.iter().all(|term| factor_of(term) == Some(factor)).then_some(factor)
}

/// What an access touches outside its tensor at a point, given the computed values.
type Touched<'a> = &'a dyn Fn(&[usize], &dyn Fn(ExprId) -> i64) -> Option<i64>;

/// Evaluates `touched` at points, with computed values at the ends of their ranges, until it finds something.
fn search(index: &Index, mask: &[Bound], extents: &[usize], touched: Touched<'_>) -> Option<i64> {
    let mut bounds = index.stated_bounds();
    bounds.extend(mask.iter().flat_map(|bound| bound.index.stated_bounds()));
    // Axes that nothing depends on stay at 0.
    let used = |axis| index.uses_axis(axis) || mask.iter().any(|bound| bound.index.uses_axis(axis));
    let extents: Vec<usize> =
        extents.iter().enumerate().map(|(axis, &extent)| if used(axis) { extent } else { 1 }).collect();
    let total: u64 = extents.iter().map(|&extent| extent as u64).product();
    let corners = 1_u64 << extents.len().min(10);
    let point_of = |number: u64| -> Vec<usize> {
        if total > POINTS && number < corners {
            let far = |axis: usize| number >> (axis % 10) & 1 == 1;
            return extents.iter().enumerate().map(|(axis, &e)| if far(axis) { e - 1 } else { 0 }).collect();
        }
        // A multiplicative step that is odd and large spreads the sample over the space.
        let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % total.max(1);
        let mut rest = if total > POINTS { spread } else { number };
        let mut point = vec![0; extents.len()];
        for (coordinate, extent) in point.iter_mut().zip(&extents).rev() {
            *coordinate = (rest % *extent as u64) as usize;
            rest /= *extent as u64;
        }
        point
    };
    let value_at = |largest: bool| {
        let bounds = &bounds;
        move |id: ExprId| {
            let bound = bounds.iter().find(|(value, _)| *value == id).map_or(1, |(_, bound)| *bound);
            if largest { bound - 1 } else { 0 }
        }
    };
    (0..total.min(POINTS)).find_map(|number| {
        let point = point_of(number);
        touched(&point, &value_at(false)).or_else(|| touched(&point, &value_at(true)))
    })
}

/// For each expression the interval that its value, if an integer, is known to lie in.
fn ranges(kernel: &Kernel) -> Vec<(i64, i64)> {
    let mut ranges: Vec<(i64, i64)> = Vec::with_capacity(kernel.exprs.len());
    for (expr, &dtype) in kernel.exprs.iter().zip(&kernel.dtypes) {
        let all = whole(dtype);
        let of = |id: &ExprId| ranges[id.0 as usize];
        let range = match expr {
            Expr::Const(scalar) if !dtype.is_float() => (scalar.value() as i64, scalar.value() as i64),
            Expr::Index(index) => index.range(&kernel.extents()).unwrap_or((0, 0)),
            Expr::Binary(function, a, b) => binary(*function, of(a), of(b)).unwrap_or(all),
            Expr::Select(_, a, b) => (of(a).0.min(of(b).0), of(a).1.max(of(b).1)),
            // Casts between integers saturate; a cast from floats may give anything.
            Expr::Cast(a, _) if !kernel.dtype(*a).is_float() => {
                (of(a).0.clamp(all.0, all.1), of(a).1.clamp(all.0, all.1))
            }
            Expr::Reduce(Monoid::Max | Monoid::Min, a) if kernel.points(Role::Reduce) > 0 => of(a),
            _ => all,
        };
        ranges.push(if range.0 >= all.0 && range.1 <= all.1 { range } else { all });
    }
    ranges
}

/// All values of a type.
fn whole(dtype: DType) -> (i64, i64) {
    match dtype {
        DType::U32 => (0, i64::from(u32::MAX)),
        DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        DType::Bool => (0, 1),
        DType::F32 | DType::F16 => (i64::MIN, i64::MAX),
    }
}

/// The interval of a function of two intervals, if it is simple; what wraps is found by the caller.
fn binary(function: Binary, a: (i64, i64), b: (i64, i64)) -> Option<(i64, i64)> {
    let positive = a.0 >= 0 && b.0 >= 0;
    Some(match function {
        Binary::Add => (a.0.checked_add(b.0)?, a.1.checked_add(b.1)?),
        Binary::Sub => (a.0.checked_sub(b.1)?, a.1.checked_sub(b.0)?),
        Binary::Mul if positive => (a.0.checked_mul(b.0)?, a.1.checked_mul(b.1)?),
        Binary::Div if positive => (0, a.1),
        // x % 0 is 0.
        Binary::Rem if positive => (0, a.1.min((b.1 - 1).max(0))),
        Binary::Max => (a.0.max(b.0), a.1.max(b.1)),
        Binary::Min => (a.0.min(b.0), a.1.min(b.1)),
        Binary::And if positive => (0, a.1.min(b.1)),
        Binary::Shr if a.0 >= 0 && b.0 == b.1 => (a.0 >> (b.0 & 31), a.1 >> (b.0 & 31)),
        _ => return None,
    })
}
