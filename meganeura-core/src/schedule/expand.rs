//! Expansion: one kernel becomes several with temporaries between them, where one alone would leave a device idle.

use crate::dtype::DType;
use crate::index::{Index, flatten, unflatten};
use crate::kernel::{Access, Arg, Axis, Body, Bound, Expr, ExprId, Kernel, Role, Store, Transplant};
use crate::scalar::{Monoid, Scalar};
use crate::shape::Shape;

/// Kernels that together do what one did, in execution order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expansion {
    /// Tensors that live from the kernel that writes them to the last that reads them.
    pub temporaries: Vec<Temporary>,
    /// The kernels.
    pub steps: Vec<Step>,
}

/// A tensor that an expansion needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Temporary {
    /// Element type.
    pub dtype: DType,
    /// Number of elements.
    pub elements: usize,
}

/// One kernel of an expansion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it computes.
    pub kernel: Kernel,
    /// What each of its arguments is.
    pub args: Vec<Source>,
}

/// What an argument of an expansion's kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// That argument of the kernel that was expanded.
    Arg(usize),
    /// That temporary.
    Temporary(usize),
}

/// Splits a contraction's sum into `parts`: a contraction with one more parallel axis, the slowest, writes partial sums
/// into planes `[parts, parallel.., row.., col..]`, and a row program adds the planes and runs the epilogue.
///
/// Depth that the parts do not divide is dealt in parts of equal size, a multiple of 16, the last one shorter; there may
/// then be fewer parts. `None` if the kernel is no contraction or there is nothing to split.
pub fn split_contraction(kernel: &Kernel, parts: usize) -> Option<Expansion> {
    let Body::Contract { lhs, rhs, accumulate } = kernel.body else { return None };
    let deal = Deal::new(kernel, parts, 16)?;
    let (mut partial, mut transplant) = deal.kernel(kernel, &[Role::Row, Role::Col]);
    let operands = [lhs, rhs].map(|operand| {
        let zero = Scalar::zero(kernel.dtype(operand));
        let copied = transplant.copy(operand, &mut partial);
        deal.guarded(&mut partial, copied, zero)
    });
    partial.body = Body::Contract { lhs: operands[0], rhs: operands[1], accumulate };
    let acc = push(&mut partial, Expr::Acc, accumulate);
    let planes = Temporary { dtype: accumulate, elements: deal.parts * results(kernel).elements() };
    let steps = vec![
        finish_partial(kernel, partial, transplant, &[(acc, planes)]),
        combine(kernel, deal.parts, &[(Monoid::Sum, planes)], &folded_by_acc(kernel)),
    ];
    Some(Expansion { temporaries: vec![planes], steps })
}

/// Folds a row program's long rows in two stages: `parts` chunks of each row, then the chunks' folds.
///
/// `None` unless every store happens once a row and no fold needs the result of another.
pub fn split_rows(kernel: &Kernel, parts: usize) -> Option<Expansion> {
    let folds: Vec<ExprId> = (0..kernel.exprs.len() as u32).map(ExprId).collect();
    let folds: Vec<ExprId> = folds.into_iter().filter(|&id| matches!(kernel.expr(id), Expr::Reduce(..))).collect();
    let single_pass = kernel.passes().iter().all(|&pass| pass <= 1) && !kernel.stores.iter().any(|s| s.per_element);
    if kernel.is_contraction() || folds.is_empty() || !single_pass {
        return None;
    }
    let deal = Deal::new(kernel, parts, 1)?;
    let (mut partial, mut transplant) = deal.kernel(kernel, &[]);
    let rows = results(kernel).elements();
    let (mut stored, mut combined) = (Vec::new(), Vec::new());
    for &fold in &folds {
        let Expr::Reduce(monoid, operand) = *kernel.expr(fold) else { continue };
        let dtype = kernel.dtype(fold);
        let copied = transplant.copy(operand, &mut partial);
        let copied = deal.guarded(&mut partial, copied, monoid.identity(dtype));
        let partial_fold = push(&mut partial, Expr::Reduce(monoid, copied), dtype);
        let temporary = Temporary { dtype, elements: deal.parts * rows };
        stored.push((partial_fold, temporary));
        combined.push((monoid, temporary));
    }
    let temporaries = combined.iter().map(|&(_, temporary)| temporary).collect();
    let replaced: Vec<(ExprId, usize)> = folds.iter().enumerate().map(|(n, &fold)| (fold, n)).collect();
    let steps =
        vec![finish_partial(kernel, partial, transplant, &stored), combine(kernel, deal.parts, &combined, &replaced)];
    Some(Expansion { temporaries, steps })
}

/// Extents of the results: all axes that are not folded.
fn results(kernel: &Kernel) -> Shape {
    kernel.axes.iter().filter(|axis| axis.role != Role::Reduce).map(|axis| axis.extent).collect()
}

/// Every [`Expr::Acc`] is the first (and only) combined plane.
fn folded_by_acc(kernel: &Kernel) -> Vec<(ExprId, usize)> {
    let ids = (0..kernel.exprs.len() as u32).map(ExprId);
    ids.filter(|&id| matches!(kernel.expr(id), Expr::Acc)).map(|id| (id, 0)).collect()
}

fn push(kernel: &mut Kernel, expr: Expr, dtype: DType) -> ExprId {
    kernel.exprs.push(expr);
    kernel.dtypes.push(dtype);
    ExprId(kernel.exprs.len() as u32 - 1)
}

/// How the folded points are dealt to parts.
struct Deal {
    parts: usize,
    /// Folded axes of one part.
    axes: Vec<usize>,
    /// For each folded axis of the old kernel its coordinate; axis 0 is the part, the folded ones follow `kept` others.
    coords: Vec<Index>,
    /// The point's number must be below the number of points, where parts may run past the end.
    guard: Vec<Bound>,
}

impl Deal {
    fn new(kernel: &Kernel, parts: usize, multiple: usize) -> Option<Deal> {
        let folded = kernel.axes_of(Role::Reduce);
        let extents: Vec<usize> = folded.iter().map(|&axis| kernel.axes[axis].extent).collect();
        let points: usize = extents.iter().product();
        let first = kernel.axes.len() - folded.len() + 1;
        if parts < 2 || points < 2 {
            return None;
        }
        // The slowest axis alone where that comes out even: no divisions, no mask.
        if let Some(slowest) = extents.iter().position(|&extent| extent != 1)
            && extents[slowest].is_multiple_of(parts)
            && (slowest + 1 < extents.len() || (points / parts).is_multiple_of(multiple))
        {
            let mut axes = extents;
            axes[slowest] /= parts;
            let mut coords: Vec<Index> = (first..first + axes.len()).map(Index::axis).collect();
            coords[slowest] = Index::axis(0).times(axes[slowest] as i64).plus(&coords[slowest]);
            return Some(Deal { parts, axes, coords, guard: Vec::new() });
        }
        let chunk = points.div_ceil(parts).next_multiple_of(multiple);
        let parts = points.div_ceil(chunk);
        if parts < 2 {
            return None;
        }
        let number = Index::axis(0).times(chunk as i64).plus(&Index::axis(first));
        let mut space: Vec<usize> = vec![1; first + 1];
        (space[0], space[first]) = (parts, chunk);
        let coords = unflatten(&number, &Shape::new(extents), &space);
        let ragged = parts * chunk != points;
        let guard = if ragged { vec![Bound { index: number, extent: points }] } else { Vec::new() };
        Some(Deal { parts, axes: vec![chunk], coords, guard })
    }

    /// The kernel of one part without stores: the axes of `kernel` that are not folded, those with `roles` as they were.
    fn kernel<'k>(&self, kernel: &'k Kernel, roles: &[Role]) -> (Kernel, Transplant<'k>) {
        let part = Axis { extent: self.parts, role: Role::Parallel };
        let kept = kernel.axes.iter().filter(|axis| axis.role != Role::Reduce).copied();
        let role =
            |axis: Axis| Axis { role: if roles.contains(&axis.role) { axis.role } else { Role::Parallel }, ..axis };
        let folded = self.axes.iter().map(|&extent| Axis { extent, role: Role::Reduce });
        let axes: Vec<Axis> = std::iter::once(part).chain(kept.map(role)).chain(folded).collect();
        let mut next = 0;
        let coords = kernel.axes.iter().enumerate().map(|(at, axis)| match axis.role {
            Role::Reduce => {
                next += 1;
                self.coords[next - 1].clone()
            }
            _ => Index::axis(at + 1),
        });
        let coords = coords.collect();
        let extents = axes.iter().map(|axis| axis.extent).collect();
        let transplant = Transplant::new(kernel, coords, extents, self.guard.clone());
        (Kernel { axes, args: vec![], exprs: vec![], dtypes: vec![], body: Body::Loop, stores: vec![] }, transplant)
    }

    /// `value` where the part has points, else `neutral`.
    fn guarded(&self, kernel: &mut Kernel, value: ExprId, neutral: Scalar) -> ExprId {
        // A load has the guard in its mask already and is 0 outside.
        let zero = neutral.value() == 0.0;
        if self.guard.is_empty() || zero && matches!(kernel.expr(value), Expr::Load { .. }) {
            return value;
        }
        let inside = push(kernel, Expr::Within(self.guard.clone()), DType::Bool);
        let neutral = push(kernel, Expr::Const(neutral), kernel.dtype(value));
        push(kernel, Expr::Select(inside, value, neutral), kernel.dtype(value))
    }
}

/// Declares the arguments of a part's kernel and stores its folds into planes `[parts, results..]`.
fn finish_partial(
    whole: &Kernel,
    mut kernel: Kernel,
    transplant: Transplant<'_>,
    folds: &[(ExprId, Temporary)],
) -> Step {
    let mut args: Vec<Source> = transplant.args().iter().map(|&arg| Source::Arg(arg)).collect();
    for &arg in transplant.args() {
        kernel.args.push(Arg { access: Access::Read, ..whole.args[arg].clone() });
    }
    let kept = results(whole).rank() + 1;
    let shape: Shape = kernel.axes[..kept].iter().map(|axis| axis.extent).collect();
    let coords: Vec<Index> = (0..kept).map(Index::axis).collect();
    for (n, &(value, temporary)) in folds.iter().enumerate() {
        args.push(Source::Temporary(n));
        kernel.args.push(Arg { dtype: temporary.dtype, elements: temporary.elements, access: Access::Write });
        let arg = kernel.args.len() - 1;
        kernel.stores.push(Store { arg, index: flatten(&coords, &shape), value, per_element: false });
    }
    Step { kernel, args }
}

/// The row program that folds planes over the parts and then does what `whole` did with the results of its folds:
/// `replaced` tells which of the planes stands for which expression.
fn combine(whole: &Kernel, parts: usize, planes: &[(Monoid, Temporary)], replaced: &[(ExprId, usize)]) -> Step {
    let shape = results(whole);
    let mut axes: Vec<Axis> = shape.iter().map(|&extent| Axis { extent, role: Role::Parallel }).collect();
    axes.push(Axis { extent: parts, role: Role::Reduce });
    let extents = axes.iter().map(|axis| axis.extent).collect();
    // Folded coordinates do not occur after the folds.
    let coords: Vec<Index> =
        (0..whole.axes.len()).map(|at| if at < shape.rank() { Index::axis(at) } else { Index::constant(0) }).collect();
    let point = flatten(&coords[..shape.rank()], &shape);
    let mut kernel = Kernel { axes, args: vec![], exprs: vec![], dtypes: vec![], body: Body::Loop, stores: vec![] };
    let (mut sums, mut args) = (Vec::new(), Vec::new());
    for (n, &(monoid, temporary)) in planes.iter().enumerate() {
        let index = Index::axis(shape.rank()).times(shape.elements() as i64).plus(&point);
        let load = push(&mut kernel, Expr::Load { arg: n, index, mask: vec![] }, temporary.dtype);
        sums.push(push(&mut kernel, Expr::Reduce(monoid, load), temporary.dtype));
        args.push((
            Source::Temporary(n),
            Arg { dtype: temporary.dtype, elements: temporary.elements, access: Access::Read },
        ));
    }
    let mut transplant = Transplant::new(whole, coords, extents, vec![]);
    transplant.shift_args(planes.len());
    replaced.iter().for_each(|&(id, plane)| transplant.place(id, sums[plane]));
    for store in &whole.stores {
        let value = transplant.copy(store.value, &mut kernel);
        for id in store.index.values() {
            transplant.copy(id, &mut kernel);
        }
        let (arg, index) = (transplant.arg(store.arg), transplant.index(&store.index));
        kernel.stores.push(Store { arg, index, value, per_element: false });
    }
    args.extend(transplant.args().iter().map(|&arg| (Source::Arg(arg), whole.args[arg].clone())));
    kernel.args = args.iter().map(|(_, arg)| arg.clone()).collect();
    Step { kernel, args: args.into_iter().map(|(source, _)| source).collect() }
}
