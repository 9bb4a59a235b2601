//! K4 of streams: what varies with what.

use super::super::{Expr, ExprId, Kernel, Role, Stream};
use super::layout::{expect, wrong};
use super::{Part, Problem, VerifyError};
use crate::dtype::DType;

pub(super) fn verify(kernel: &Kernel, stream: &Stream) -> Result<(), VerifyError> {
    if kernel.axes_of(Role::Row).len() != 1 || kernel.axes_of(Role::Reduce).is_empty() {
        return wrong(Part::Body, Problem::Misplaced);
    }
    for id in stream.roots() {
        if id.0 as usize >= kernel.exprs.len() {
            return wrong(Part::Body, Problem::Missing { what: "expression", number: i64::from(id.0) });
        }
        let wanted = if Some(id) == stream.length { DType::U32 } else { DType::F32 };
        expect(Part::Expr(id), wanted, kernel.dtype(id))?;
    }
    let check = Check { kernel, varies: kernel.variation() };
    for score in &stream.scores {
        if kernel.axes.get(score.depth).is_none_or(|axis| axis.role != Role::Depth) {
            return wrong(Part::Body, Problem::Missing { what: "axis", number: score.depth as i64 });
        }
        for (side, own) in [(score.lhs, Role::Row), (score.rhs, Role::Reduce)] {
            check.varies_only(side, &[own], Some(score.depth))?;
            check.without(side, is_streamed)?;
        }
    }
    if let Some(peak) = stream.peak {
        check.varies_only(peak, &[Role::Row, Role::Reduce], None)?;
        check.without(peak, |expr| matches!(expr, Expr::Peak | Expr::Total(_)))?;
    }
    for total in &stream.totals {
        check.varies_only(total.weight, &[Role::Row, Role::Reduce], None)?;
        check.without(total.weight, |expr| {
            matches!(expr, Expr::Total(_)) || stream.peak.is_none() && matches!(expr, Expr::Peak)
        })?;
        if stream.peak.is_some() && !kernel.is_relative(total.weight) {
            return wrong(Part::Expr(total.weight), Problem::Misplaced);
        }
        if let Some(value) = total.value {
            let column = kernel.axes_of(Role::Col).into_iter().find(|&axis| check.bits(value) & (1 << axis) != 0);
            check.varies_only(value, &[Role::Reduce], column)?;
            check.without(value, is_streamed)?;
        }
    }
    stream.length.map_or(Ok(()), |length| {
        check.varies_only(length, &[], None)?;
        check.without(length, is_streamed)
    })
}

/// Whether the body computes it.
fn is_streamed(expr: &Expr) -> bool {
    matches!(expr, Expr::Score(_) | Expr::Peak | Expr::Total(_))
}

struct Check<'k> {
    kernel: &'k Kernel,
    varies: Vec<u64>,
}

impl Check<'_> {
    fn bits(&self, id: ExprId) -> u64 {
        self.varies[id.0 as usize]
    }

    /// It varies with parallel axes, axes of these roles and one more axis, but with no other.
    fn varies_only(&self, id: ExprId, roles: &[Role], and: Option<usize>) -> Result<(), VerifyError> {
        let allowed = |axis: usize, role: Role| role == Role::Parallel || roles.contains(&role) || and == Some(axis);
        let axes = self.kernel.axes.iter().enumerate();
        let wrongly = axes.filter(|(axis, own)| self.bits(id) & (1 << axis) != 0 && !allowed(*axis, own.role));
        match wrongly.map(|(axis, own)| (axis, own.role)).next() {
            Some((axis, role)) => wrong(Part::Expr(id), Problem::Varies { axis, role }),
            None => Ok(()),
        }
    }

    /// Nothing that it needs is of that kind.
    fn without(&self, id: ExprId, kind: impl Fn(&Expr) -> bool) -> Result<(), VerifyError> {
        match self.kernel.needed_for(&[id], true).into_iter().find(|id| kind(self.kernel.expr(*id))) {
            Some(found) => wrong(Part::Expr(found), Problem::Misplaced),
            None => Ok(()),
        }
    }
}
