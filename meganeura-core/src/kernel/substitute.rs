//! Rewriting kernels onto another iteration space.

use super::{Body, Bound, Expr, ExprId, Kernel, Role};
use crate::index::{Atom, Index};

impl Index {
    /// This index with each axis' coordinate replaced by an index over a new space, and each computed value renamed.
    ///
    /// `axes[a]` stands for the coordinate of axis `a`; `extents` are those of the new space. Where the replaced
    /// coordinates run beyond the old extents, quotients and remainders stay right, as no range of the old space is used.
    #[must_use]
    pub fn substitute(&self, axes: &[Index], extents: &[usize], rename: &dyn Fn(ExprId) -> ExprId) -> Index {
        self.terms.iter().fold(Index::constant(self.offset), |sum, term| {
            let atom = match &term.atom {
                Atom::Axis(axis) => axes[*axis].clone(),
                Atom::Div(inner, divisor) => inner.substitute(axes, extents, rename).div(*divisor, extents),
                Atom::Mod(inner, divisor) => inner.substitute(axes, extents, rename).rem(*divisor, extents),
                Atom::Value(id, bound) => Index::value(rename(*id), *bound as usize),
            };
            sum.plus(&atom.times(term.stride))
        })
    }
}

impl Kernel {
    /// The same kernel without what its extents make superfluous: coordinates along axes of one point, which are 0, and
    /// bounds that hold everywhere.
    #[must_use]
    pub fn simplified(&self) -> Kernel {
        let extents = self.extents();
        let coords: Vec<Index> = (0..extents.len())
            .map(|axis| if extents[axis] == 1 { Index::constant(0) } else { Index::axis(axis) })
            .collect();
        let index = |index: &Index| index.substitute(&coords, &extents, &|id| id);
        let bounds = |bounds: &[Bound]| {
            let open = bounds.iter().filter(|bound| !bound.always_holds(&extents));
            open.map(|bound| Bound { index: index(&bound.index), extent: bound.extent }).collect()
        };
        let mut kernel = self.clone();
        for expr in &mut kernel.exprs {
            match expr {
                Expr::Load { index: at, mask, .. } => (*at, *mask) = (index(at), bounds(mask)),
                Expr::Index(at) | Expr::Random { counter: at, .. } => *at = index(at),
                Expr::Within(mask) => *mask = bounds(mask),
                _ => {}
            }
        }
        kernel.stores.iter_mut().for_each(|store| store.index = index(&store.index));
        kernel
    }

    /// The same contraction with rows and columns exchanged if more stores run over neighbouring elements along the rows:
    /// results are kept in vectors along the columns. Axes keep their places, so rows may then follow columns.
    #[must_use]
    pub fn oriented(&self) -> Kernel {
        let Body::Contract { lhs, rhs, accumulate } = self.body else { return self.clone() };
        let adjacent = |role: Role| {
            let axis = self.axes_of(role).into_iter().rfind(|&axis| self.axes[axis].extent > 1);
            let Some(axis) = axis else { return 0 };
            self.stores.iter().filter(|store| store.index.stride(axis) == Some(1)).count()
        };
        let mut kernel = self.clone();
        if adjacent(Role::Row) > adjacent(Role::Col) {
            kernel.body = Body::Contract { lhs: rhs, rhs: lhs, accumulate };
            for axis in &mut kernel.axes {
                axis.role = match axis.role {
                    Role::Row => Role::Col,
                    Role::Col => Role::Row,
                    other => other,
                };
            }
        }
        kernel
    }
}

/// Copies expressions of one kernel into another that has other axes, arguments and numbers.
pub struct Transplant<'k> {
    from: &'k Kernel,
    /// For each axis of `from` its coordinate in the new space.
    axes: Vec<Index>,
    /// Extents of the new space.
    extents: Vec<usize>,
    /// Added to every load's mask.
    guard: Vec<Bound>,
    /// Arguments of `from` in the order in which they were met.
    args: Vec<usize>,
    /// New number of the first of them.
    first_arg: usize,
    /// New place of each expression of `from`.
    placed: Vec<Option<ExprId>>,
}

impl<'k> Transplant<'k> {
    /// Nothing copied yet; `guard` holds wherever memory may be touched.
    pub fn new(from: &'k Kernel, axes: Vec<Index>, extents: Vec<usize>, guard: Vec<Bound>) -> Transplant<'k> {
        Transplant { from, axes, extents, guard, args: Vec::new(), first_arg: 0, placed: vec![None; from.exprs.len()] }
    }

    /// Arguments of the old kernel that the new one has, in the new order.
    pub fn args(&self) -> &[usize] {
        &self.args
    }

    /// The new number of an argument.
    pub fn arg(&mut self, old: usize) -> usize {
        let position = self.args.iter().position(|&arg| arg == old).unwrap_or_else(|| {
            self.args.push(old);
            self.args.len() - 1
        });
        self.first_arg + position
    }

    /// Leaves the first `count` arguments of the new kernel to the caller.
    pub fn shift_args(&mut self, count: usize) {
        self.first_arg = count;
    }

    /// Declares that the old expression is `new` in the new kernel.
    pub fn place(&mut self, old: ExprId, new: ExprId) {
        self.placed[old.0 as usize] = Some(new);
    }

    /// An index of the old kernel in the new space.
    pub fn index(&self, index: &Index) -> Index {
        index.substitute(&self.axes, &self.extents, &|id| self.placed[id.0 as usize].unwrap_or(id))
    }

    /// Copies what `root` needs to the end of `to`'s expressions and gives its new place. Loads of arguments get new
    /// argument numbers; the caller declares those arguments in the order of [`Self::args`].
    pub fn copy(&mut self, root: ExprId, to: &mut Kernel) -> ExprId {
        if let Some(placed) = self.placed[root.0 as usize] {
            return placed;
        }
        let from = self.from;
        for operand in from.expr(root).operands() {
            self.copy(operand, to);
        }
        let expr = self.expr(from.expr(root));
        to.exprs.push(expr);
        to.dtypes.push(from.dtype(root));
        let new = ExprId(to.exprs.len() as u32 - 1);
        self.place(root, new);
        new
    }

    fn bounds(&self, bounds: &[Bound]) -> Vec<Bound> {
        bounds.iter().map(|bound| Bound { index: self.index(&bound.index), extent: bound.extent }).collect()
    }

    fn expr(&mut self, expr: &Expr) -> Expr {
        let placed = self.placed.clone();
        let id = |old: &ExprId| placed[old.0 as usize].unwrap_or(*old);
        match expr {
            Expr::Const(_) | Expr::Acc | Expr::Score(_) | Expr::Peak | Expr::Total(_) => expr.clone(),
            Expr::Load { arg, index, mask } => {
                let mask = [self.bounds(mask), self.guard.clone()].concat();
                Expr::Load { arg: self.arg(*arg), index: self.index(index), mask }
            }
            Expr::Index(index) => Expr::Index(self.index(index)),
            Expr::Within(bounds) => Expr::Within(self.bounds(bounds)),
            Expr::Unary(function, a) => Expr::Unary(*function, id(a)),
            Expr::Binary(function, a, b) => Expr::Binary(*function, id(a), id(b)),
            Expr::Compare(relation, a, b) => Expr::Compare(*relation, id(a), id(b)),
            Expr::Select(a, b, c) => Expr::Select(id(a), id(b), id(c)),
            Expr::Cast(a, dtype) => Expr::Cast(id(a), *dtype),
            Expr::Bitcast(a, dtype) => Expr::Bitcast(id(a), *dtype),
            Expr::Random { key, stream, counter } => {
                Expr::Random { key: [id(&key[0]), id(&key[1])], stream: *stream, counter: self.index(counter) }
            }
            Expr::Reduce(monoid, a) => Expr::Reduce(*monoid, id(a)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Axis;
    use super::*;
    use crate::dtype::DType;

    #[test]
    fn simplified_kernels_have_no_coordinates_of_single_points_and_no_idle_bounds() {
        let axis = |extent| Axis { extent, role: Role::Parallel };
        let index = Index::axis(0).times(7).plus(&Index::axis(1)).shifted(-1);
        let bound = |index: Index, extent| Bound { index, extent };
        let mask = vec![bound(index.clone(), 5), bound(Index::axis(1), 6)];
        let kernel = Kernel {
            axes: vec![axis(1), axis(6)],
            args: vec![],
            exprs: vec![Expr::Load { arg: 0, index, mask }],
            dtypes: vec![DType::F32],
            body: Body::Loop,
            stores: vec![],
        };
        let at = Index::axis(1).shifted(-1);
        let expected = Expr::Load { arg: 0, index: at.clone(), mask: vec![bound(at, 5)] };
        assert_eq!(kernel.simplified().exprs, [expected]);
    }

    #[test]
    fn substituted_indices_have_the_values_of_the_old_ones() {
        let old = [6, 10];
        let index = Index::axis(0).times(10).plus(&Index::axis(1)).div(4, &old).times(3).plus(&Index::axis(1));
        // Axis 1 becomes part · 4 + step, which runs to 12, past the old end.
        let new = [6, 3, 4];
        let axes = [Index::axis(0), Index::axis(1).times(4).plus(&Index::axis(2))];
        let substituted = index.substitute(&axes, &new, &|id| id);
        for (a, b, c) in (0..6).flat_map(|a| (0..3).flat_map(move |b| (0..4).map(move |c| (a, b, c)))) {
            let found = substituted.eval(&[a, b, c], &|_| 0);
            assert_eq!(found, index.eval(&[a, 4 * b + c], &|_| 0), "at {a} {b} {c}");
        }
    }
}
