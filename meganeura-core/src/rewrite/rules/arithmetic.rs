//! Rules of arithmetic that hold for every float, `NaN` and infinities included (so not `0 · x = 0`).

use crate::ops::{BinaryOp, Op, UnaryOp};
use crate::rewrite::engine::{Rewrite, Site};
use crate::scalar::{Binary, Unary};

/// `x + 0`, `x − 0`, `x · 1`, `x / 1`, `x¹` are `x` (but for the sign of a zero).
pub(super) fn neutral_element(site: &Site<'_>) -> Option<Rewrite> {
    let Op::Binary(BinaryOp(function)) = site.op else { return None };
    let is = |at: usize, value: f64| site.constant(at).is_some_and(|constant| constant.value() == value);
    let kept = match function {
        Binary::Add if is(1, 0.0) => 0,
        Binary::Add if is(0, 0.0) => 1,
        Binary::Sub if is(1, 0.0) => 0,
        Binary::Mul if is(1, 1.0) => 0,
        Binary::Mul if is(0, 1.0) => 1,
        Binary::Div | Binary::Pow if is(1, 1.0) => 0,
        _ => return None,
    };
    Some(Rewrite::Value(site.operands[kept]))
}

/// `−(−x)` and `¬¬x` are `x`.
pub(super) fn double_negation(site: &Site<'_>) -> Option<Rewrite> {
    let Op::Unary(UnaryOp(outer @ (Unary::Neg | Unary::Not))) = site.op else { return None };
    match &site.operand(0).op {
        Op::Unary(UnaryOp(inner)) if inner == outer => Some(Rewrite::Value(site.operand(0).operands[0])),
        _ => None,
    }
}

/// `a + (−b)` is `a − b`, `a − (−b)` is `a + b`.
pub(super) fn negated_summand(site: &Site<'_>) -> Option<Rewrite> {
    let Op::Binary(BinaryOp(function)) = site.op else { return None };
    let negated = |at: usize| match &site.operand(at).op {
        Op::Unary(UnaryOp(Unary::Neg)) => Some(site.operand(at).operands[0]),
        _ => None,
    };
    let (inverse, a, b) = match function {
        Binary::Add => match (negated(1), negated(0)) {
            (Some(b), _) => (Binary::Sub, site.operands[0], b),
            (None, Some(b)) => (Binary::Sub, site.operands[1], b),
            (None, None) => return None,
        },
        Binary::Sub => (Binary::Add, site.operands[0], negated(1)?),
        _ => return None,
    };
    Some(Rewrite::Node(Op::Binary(BinaryOp(inverse)), vec![a, b]))
}

/// `x · (−1)` is `−x`.
pub(super) fn minus_one(site: &Site<'_>) -> Option<Rewrite> {
    let Op::Binary(BinaryOp(Binary::Mul)) = site.op else { return None };
    let at = (0..2).find(|&at| site.constant(at).is_some_and(|constant| constant.value() == -1.0))?;
    Some(Rewrite::Node(Op::Unary(UnaryOp(Unary::Neg)), vec![site.operands[1 - at]]))
}

/// `select(c, x, x)` is `x`; `select(¬c, a, b)` is `select(c, b, a)`.
pub(super) fn needless_choice(site: &Site<'_>) -> Option<Rewrite> {
    let Op::Select(select) = site.op else { return None };
    let [_, yes, no] = site.operands else { return None };
    if yes == no {
        return Some(Rewrite::Value(*yes));
    }
    match (&site.operand(0).op, site.constant(0)) {
        (_, Some(constant)) => Some(Rewrite::Value(if constant.value() != 0.0 { *yes } else { *no })),
        (Op::Unary(UnaryOp(Unary::Not)), _) => {
            Some(Rewrite::Node(Op::Select(*select), vec![site.operand(0).operands[0], *no, *yes]))
        }
        _ => None,
    }
}
