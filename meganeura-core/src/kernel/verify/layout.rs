//! K4: types, roles, order.

use super::super::{Access, Body, Bound, Expr, ExprId, Kernel, Role, Stream};
use super::{Invariant, Part, Problem, VerifyError, fail, own_axes, stream, variation};
use crate::dtype::DType;
use crate::index::{Atom, Index};

pub(super) fn verify(kernel: &Kernel) -> Result<(), VerifyError> {
    axes(kernel)?;
    if kernel.exprs.len() != kernel.dtypes.len() {
        let number = kernel.exprs.len().min(kernel.dtypes.len());
        return wrong(Part::Expr(ExprId(number as u32)), Problem::Missing { what: "type", number: number as i64 });
    }
    for (at, expr) in kernel.exprs.iter().enumerate() {
        let id = ExprId(at as u32);
        exists(kernel, expr, id)?;
        typed(kernel, expr, id)?;
    }
    body(kernel)?;
    (0..kernel.stores.len()).try_for_each(|store| store_fits(kernel, store))
}

pub(super) fn wrong(part: Part, problem: Problem) -> Result<(), VerifyError> {
    fail(Invariant::K4, part, problem)
}

pub(super) fn expect(part: Part, expected: DType, found: DType) -> Result<(), VerifyError> {
    if expected == found { Ok(()) } else { wrong(part, Problem::Type { expected, found }) }
}

/// Roles ascend, and only contractions and streams have rows and columns.
fn axes(kernel: &Kernel) -> Result<(), VerifyError> {
    let order = |role: Role| match role {
        Role::Parallel => 0,
        Role::Row => 1,
        Role::Col => 2,
        Role::Reduce => 3,
        Role::Depth => 4,
    };
    for (at, axis) in kernel.axes.iter().enumerate() {
        let before = at.checked_sub(1).map_or(0, |before| order(kernel.axes[before].role));
        let useless = match axis.role {
            Role::Row | Role::Col => matches!(kernel.body, Body::Loop),
            Role::Depth => kernel.stream().is_none(),
            Role::Parallel | Role::Reduce => false,
        };
        if order(axis.role) < before || useless || at >= 63 {
            return wrong(Part::Axis(at), Problem::Role { role: axis.role });
        }
    }
    Ok(())
}

/// Everything that an expression refers to exists, operands before it.
fn exists(kernel: &Kernel, expr: &Expr, id: ExprId) -> Result<(), VerifyError> {
    let part = Part::Expr(id);
    if let Some(late) = expr.operands().into_iter().find(|operand| *operand >= id) {
        return wrong(part, Problem::Missing { what: "expression", number: i64::from(late.0) });
    }
    let mask = |mask: &[Bound]| mask.iter().try_for_each(|bound| index(kernel, part, &bound.index));
    match expr {
        Expr::Load { arg, index: at, mask: bounds } => {
            argument(kernel, part, *arg, Access::Write)?;
            index(kernel, part, at)?;
            mask(bounds)
        }
        Expr::Index(at) | Expr::Random { counter: at, .. } => index(kernel, part, at),
        Expr::Within(bounds) => mask(bounds),
        _ => Ok(()),
    }
}

fn argument(kernel: &Kernel, part: Part, arg: usize, forbidden: Access) -> Result<(), VerifyError> {
    match kernel.args.get(arg) {
        None => wrong(part, Problem::Missing { what: "argument", number: arg as i64 }),
        Some(given) if given.access == forbidden => wrong(part, Problem::Access { arg }),
        Some(_) => Ok(()),
    }
}

fn index(kernel: &Kernel, part: Part, index: &Index) -> Result<(), VerifyError> {
    for term in &index.terms {
        match &term.atom {
            Atom::Axis(axis) if *axis >= kernel.axes.len() => {
                return wrong(part, Problem::Missing { what: "axis", number: *axis as i64 });
            }
            Atom::Axis(_) => {}
            Atom::Div(_, divisor) | Atom::Mod(_, divisor) if *divisor <= 0 => {
                return wrong(part, Problem::Missing { what: "divisor", number: *divisor });
            }
            Atom::Div(inner, _) | Atom::Mod(inner, _) => self::index(kernel, part, inner)?,
            Atom::Value(id, _) => match kernel.dtypes.get(id.0 as usize) {
                Some(found) => expect(part, DType::U32, *found)?,
                None => return wrong(part, Problem::Missing { what: "expression", number: i64::from(id.0) }),
            },
        }
    }
    Ok(())
}

/// Operands and result have the types that the expression wants.
fn typed(kernel: &Kernel, expr: &Expr, id: ExprId) -> Result<(), VerifyError> {
    let (part, own) = (Part::Expr(id), kernel.dtype(id));
    let of = |id: &ExprId| kernel.dtype(*id);
    let taken = |takes: bool, dtype| if takes { Ok(()) } else { wrong(part, Problem::Untaken { dtype }) };
    match expr {
        Expr::Const(scalar) => expect(part, scalar.dtype(), own),
        Expr::Load { arg, .. } => expect(part, kernel.args[*arg].dtype, own),
        Expr::Index(_) => expect(part, DType::U32, own),
        Expr::Within(_) => expect(part, DType::Bool, own),
        Expr::Unary(function, a) => {
            taken(function.takes(of(a)), of(a))?;
            expect(part, of(a), own)
        }
        Expr::Binary(function, a, b) => {
            taken(function.takes(of(a)), of(a))?;
            expect(part, of(a), of(b))?;
            expect(part, of(a), own)
        }
        Expr::Compare(_, a, b) => {
            expect(part, of(a), of(b))?;
            expect(part, DType::Bool, own)
        }
        Expr::Select(condition, a, b) => {
            expect(part, DType::Bool, of(condition))?;
            expect(part, of(a), of(b))?;
            expect(part, of(a), own)
        }
        Expr::Cast(_, into) => expect(part, *into, own),
        Expr::Bitcast(a, into) => {
            let word = |dtype| matches!(dtype, DType::F32 | DType::U32 | DType::I32);
            taken(word(of(a)), of(a))?;
            taken(word(*into), *into)?;
            expect(part, *into, own)
        }
        Expr::Random { key, .. } => {
            key.iter().try_for_each(|word| expect(part, DType::U32, of(word)))?;
            expect(part, DType::U32, own)
        }
        Expr::Reduce(monoid, a) => {
            if kernel.body != Body::Loop || kernel.axes_of(Role::Reduce).is_empty() {
                return wrong(part, Problem::Misplaced);
            }
            taken(monoid.takes(of(a)), of(a))?;
            expect(part, of(a), own)
        }
        Expr::Acc => match kernel.body {
            Body::Contract { accumulate, .. } => expect(part, accumulate, own),
            Body::Loop | Body::Stream(_) => wrong(part, Problem::Misplaced),
        },
        Expr::Score(at) => streamed(kernel, part, own, |stream| *at < stream.scores.len()),
        Expr::Peak => streamed(kernel, part, own, |stream| stream.peak.is_some()),
        Expr::Total(at) => streamed(kernel, part, own, |stream| *at < stream.totals.len()),
    }
}

/// What the body of a stream computes, in `f32`, if it does.
fn streamed(kernel: &Kernel, part: Part, own: DType, has: impl Fn(&Stream) -> bool) -> Result<(), VerifyError> {
    match kernel.stream() {
        Some(stream) if has(stream) => expect(part, DType::F32, own),
        _ => wrong(part, Problem::Misplaced),
    }
}

/// The operands of a contraction vary with their own axes only, and do not contain the sum.
fn body(kernel: &Kernel) -> Result<(), VerifyError> {
    let (lhs, rhs, accumulate) = match &kernel.body {
        Body::Loop => return Ok(()),
        Body::Stream(body) => return stream::verify(kernel, body),
        Body::Contract { lhs, rhs, accumulate } => (*lhs, *rhs, *accumulate),
    };
    for operand in [lhs, rhs] {
        let Some(found) = kernel.dtypes.get(operand.0 as usize) else {
            return wrong(Part::Body, Problem::Missing { what: "expression", number: i64::from(operand.0) });
        };
        expect(Part::Body, if found.is_float() { DType::F32 } else { *found }, accumulate)?;
    }
    let needed = kernel.needed_for(&[lhs, rhs], true);
    if let Some(&acc) = needed.iter().find(|id| matches!(kernel.expr(**id), Expr::Acc)) {
        return wrong(Part::Expr(acc), Problem::Misplaced);
    }
    let varies = variation(kernel);
    fixed(kernel, Part::Expr(lhs), varies[lhs.0 as usize], Role::Col)?;
    fixed(kernel, Part::Expr(rhs), varies[rhs.0 as usize], Role::Row)
}

/// No axis of that role is among `varies`.
fn fixed(kernel: &Kernel, part: Part, varies: u64, role: Role) -> Result<(), VerifyError> {
    match kernel.axes_of(role).into_iter().find(|axis| varies & (1 << axis) != 0) {
        Some(axis) => wrong(part, Problem::Varies { axis, role }),
        None => Ok(()),
    }
}

fn store_fits(kernel: &Kernel, at: usize) -> Result<(), VerifyError> {
    let (part, store) = (Part::Store(at), &kernel.stores[at]);
    argument(kernel, part, store.arg, Access::Read)?;
    index(kernel, part, &store.index)?;
    let Some(&found) = kernel.dtypes.get(store.value.0 as usize) else {
        return wrong(part, Problem::Missing { what: "expression", number: i64::from(store.value.0) });
    };
    expect(part, kernel.args[store.arg].dtype, found)?;
    if kernel.body != Body::Loop && store.per_element {
        return wrong(part, Problem::Misplaced);
    }
    if !store.per_element {
        // Stored once a row: neither the value nor its place may vary along the row.
        let varies = variation(kernel);
        let of_index =
            store.index.values().iter().fold(own_axes(kernel, &store.index), |bits, id| bits | varies[id.0 as usize]);
        fixed(kernel, part, of_index | varies[store.value.0 as usize], Role::Reduce)?;
        fixed(kernel, part, of_index | varies[store.value.0 as usize], Role::Depth)?;
        if kernel.stream().is_some() {
            // Stored once a row and column that the place varies with.
            fixed(kernel, part, varies[store.value.0 as usize] & !of_index, Role::Col)?;
        }
    }
    Ok(())
}
