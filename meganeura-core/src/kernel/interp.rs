//! What a kernel means: a slow, obvious evaluation in f64, point by point. Every executor is tested against it.

mod stream;

use super::{Body, Bound, Expr, ExprId, Kernel, Role, Store, threefry};
use crate::dtype::DType;
use crate::index::Index;
use crate::scalar::{Binary, Monoid};

/// Why a kernel cannot be evaluated; always a mistake of whoever made the kernel or the arguments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InterpError {
    /// Another number of tensors than the kernel has arguments.
    #[error("the kernel has {expected} arguments but {found} tensors were given")]
    ArgCount {
        /// Arguments of the kernel.
        expected: usize,
        /// Tensors given.
        found: usize,
    },
    /// A tensor of another size than its argument.
    #[error("argument {arg} has {expected} elements but the tensor given has {found}")]
    ArgSize {
        /// Position in [`Kernel::args`].
        arg: usize,
        /// Elements of the argument.
        expected: usize,
        /// Elements given.
        found: usize,
    },
    /// An access outside a tensor where no mask forbids it: K1, checked as it happens.
    #[error("K1: element {index} of argument {arg}, which has {elements}, is accessed at {point:?}")]
    OutOfBounds {
        /// Position in [`Kernel::args`].
        arg: usize,
        /// The element asked for.
        index: i64,
        /// Elements of the argument.
        elements: usize,
        /// Coordinates along [`Kernel::axes`].
        point: Vec<usize>,
    },
    /// A computed value in an index is not below the bound that the index states for it.
    #[error("K1: the value {found} of %{id} at {point:?} is not below the bound {bound} that an index states", id = .value.0)]
    ValueBound {
        /// The expression.
        value: ExprId,
        /// The stated bound.
        bound: i64,
        /// What was computed.
        found: i64,
        /// Coordinates along [`Kernel::axes`].
        point: Vec<usize>,
    },
}

/// Evaluates a kernel in f64: `args` are the tensors of [`Kernel::args`], each element as an f64.
///
/// Integers and truth values are exact; floats are never rounded to their storage type, so the result is the real-number
/// meaning up to f64 rounding. Folds run in row-major order.
///
/// # Errors
/// If `args` do not fit the kernel, or an access is out of bounds (K1).
pub fn interp(kernel: &Kernel, args: &mut [Vec<f64>]) -> Result<(), InterpError> {
    if args.len() != kernel.args.len() {
        return Err(InterpError::ArgCount { expected: kernel.args.len(), found: args.len() });
    }
    for (arg, (expected, given)) in kernel.args.iter().zip(args.iter()).enumerate() {
        if expected.elements != given.len() {
            return Err(InterpError::ArgSize { arg, expected: expected.elements, found: given.len() });
        }
    }
    let rows = kernel.axes.iter().take_while(|axis| axis.role != Role::Reduce).count();
    let extents = kernel.extents();
    let mut machine = Machine {
        kernel,
        passes: kernel.passes(),
        values: vec![0.0; kernel.exprs.len()],
        acc: 0.0,
        scores: Vec::new(),
        peak: 0.0,
        totals: Vec::new(),
        row: Vec::new(),
    };
    if let Some(stream) = kernel.stream() {
        return machine.stream(stream, args);
    }
    for row in points(&extents[..rows]) {
        machine.row = row;
        machine.fold_row(&extents[rows..], args)?;
        machine.store_row(&extents[rows..], args)?;
    }
    Ok(())
}

/// Every point of a space, in row-major order; one empty point if there are no axes.
pub(super) fn points(extents: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    (0..extents.iter().product()).map(move |linear: usize| {
        let mut point = vec![0; extents.len()];
        let mut rest = linear;
        for (coordinate, extent) in point.iter_mut().zip(extents).rev() {
            *coordinate = rest % extent;
            rest /= extent;
        }
        point
    })
}

/// The state of an evaluation.
struct Machine<'k> {
    kernel: &'k Kernel,
    /// See [`Kernel::passes`].
    passes: Vec<usize>,
    /// What each expression was last evaluated to; folds keep theirs for the rest of the row.
    values: Vec<f64>,
    /// The value of [`Expr::Acc`].
    acc: f64,
    /// Values of [`Expr::Score`], [`Expr::Peak`] and [`Expr::Total`].
    scores: Vec<f64>,
    peak: f64,
    totals: Vec<f64>,
    /// Coordinates along all but the reduce axes.
    row: Vec<usize>,
}

impl Machine<'_> {
    /// Computes the contraction's sum, or the folds of a row program pass by pass.
    fn fold_row(&mut self, reduce: &[usize], args: &[Vec<f64>]) -> Result<(), InterpError> {
        if let Body::Contract { lhs, rhs, accumulate } = self.kernel.body {
            let needed = self.kernel.needed_for(&[lhs, rhs], false);
            self.acc = 0.0;
            for element in points(reduce) {
                self.evaluate(&needed, &element, args)?;
                let product = Binary::Mul.eval(accumulate, self.value(lhs), self.value(rhs));
                self.acc = Binary::Add.eval(accumulate, self.acc, product);
            }
            return Ok(());
        }
        for pass in 1..=self.passes.iter().copied().max().unwrap_or(0) {
            let folds = self.folds_of(pass);
            let operands: Vec<ExprId> = folds.iter().map(|&(_, _, operand)| operand).collect();
            let needed = self.kernel.needed_for(&operands, false);
            for &(id, monoid, _) in &folds {
                self.values[id.0 as usize] = monoid.identity(self.kernel.dtype(id)).value();
            }
            for element in points(reduce) {
                self.evaluate(&needed, &element, args)?;
                for &(id, monoid, operand) in &folds {
                    let folded = monoid.combine().eval(self.kernel.dtype(id), self.value(id), self.value(operand));
                    self.values[id.0 as usize] = folded;
                }
            }
        }
        Ok(())
    }

    fn folds_of(&self, pass: usize) -> Vec<(ExprId, Monoid, ExprId)> {
        let folds = self.kernel.exprs.iter().enumerate().filter_map(|(at, expr)| match expr {
            Expr::Reduce(monoid, operand) if self.passes[at] == pass => Some((ExprId(at as u32), *monoid, *operand)),
            _ => None,
        });
        folds.collect()
    }

    /// Performs the stores of one row: those per element at each of its elements, then the others.
    fn store_row(&mut self, reduce: &[usize], args: &mut [Vec<f64>]) -> Result<(), InterpError> {
        let (per_element, per_row): (Vec<&Store>, Vec<&Store>) =
            self.kernel.stores.iter().partition(|store| store.per_element);
        if !per_element.is_empty() {
            for element in points(reduce) {
                self.store(&per_element, &element, args)?;
            }
        }
        // What is stored once a row does not vary along it, so any coordinates will do for the reduce axes.
        self.store(&per_row, &vec![0; reduce.len()], args)
    }

    /// Evaluates what `stores` need, all of it before the first of them writes.
    fn store(&mut self, stores: &[&Store], element: &[usize], args: &mut [Vec<f64>]) -> Result<(), InterpError> {
        let roots: Vec<ExprId> =
            stores.iter().flat_map(|store| [store.index.values(), vec![store.value]].concat()).collect();
        self.evaluate(&self.kernel.needed_for(&roots, false), element, args)?;
        let point = [&self.row, element].concat();
        for store in stores {
            let at = self.element(store.arg, &store.index, &point)?;
            args[store.arg][at] = exact(self.kernel.args[store.arg].dtype, self.value(store.value));
        }
        Ok(())
    }

    /// Evaluates expressions in order at one element of the row; folds are left as they are.
    fn evaluate(&mut self, ids: &[ExprId], element: &[usize], args: &[Vec<f64>]) -> Result<(), InterpError> {
        let point = [&self.row, element].concat();
        for &id in ids {
            if !matches!(self.kernel.expr(id), Expr::Reduce(..)) {
                self.values[id.0 as usize] = self.evaluate_one(id, &point, args)?;
            }
        }
        Ok(())
    }

    fn evaluate_one(&self, id: ExprId, point: &[usize], args: &[Vec<f64>]) -> Result<f64, InterpError> {
        let dtype_of = |id: ExprId| self.kernel.dtype(id);
        Ok(match self.kernel.expr(id) {
            Expr::Const(scalar) => scalar.value(),
            Expr::Load { arg, index, mask } if self.within(mask, point) => {
                exact(self.kernel.args[*arg].dtype, args[*arg][self.element(*arg, index, point)?])
            }
            Expr::Load { .. } => 0.0,
            Expr::Index(index) => f64::from(self.index(index, point) as u32),
            Expr::Within(mask) => f64::from(u8::from(self.within(mask, point))),
            Expr::Unary(function, a) => function.eval(dtype_of(*a), self.value(*a)),
            Expr::Binary(function, a, b) => function.eval(dtype_of(*a), self.value(*a), self.value(*b)),
            Expr::Compare(relation, a, b) => f64::from(u8::from(relation.eval(self.value(*a), self.value(*b)))),
            Expr::Select(condition, a, b) => self.value(if self.value(*condition) != 0.0 { *a } else { *b }),
            Expr::Cast(a, dtype) => exact(*dtype, self.value(*a)),
            Expr::Bitcast(a, dtype) => from_bits(*dtype, to_bits(dtype_of(*a), self.value(*a))),
            Expr::Random { key, stream, counter } => {
                let key = key.map(|id| self.value(id) as u32);
                f64::from(threefry(key, [self.index(counter, point) as u32, *stream])[0])
            }
            Expr::Reduce(..) => self.value(id),
            Expr::Acc => self.acc,
            Expr::Score(at) => self.scores[*at],
            Expr::Peak => self.peak,
            Expr::Total(at) => self.totals[*at],
        })
    }

    fn value(&self, id: ExprId) -> f64 {
        self.values[id.0 as usize]
    }

    fn index(&self, index: &Index, point: &[usize]) -> i64 {
        index.eval(point, &|id| self.value(id) as i64)
    }

    fn within(&self, mask: &[Bound], point: &[usize]) -> bool {
        mask.iter().all(|bound| (0..bound.extent as i64).contains(&self.index(&bound.index, point)))
    }

    /// The element of `arg` that an index means, if there is one.
    fn element(&self, arg: usize, index: &Index, point: &[usize]) -> Result<usize, InterpError> {
        for (value, bound) in index.stated_bounds() {
            let found = self.value(value) as i64;
            if found >= bound {
                return Err(InterpError::ValueBound { value, bound, found, point: point.to_vec() });
            }
        }
        let (at, elements) = (self.index(index, point), self.kernel.args[arg].elements);
        match usize::try_from(at) {
            Ok(at) if at < elements => Ok(at),
            _ => Err(InterpError::OutOfBounds { arg, index: at, elements, point: point.to_vec() }),
        }
    }
}

/// Rounds to integer types and truth values; floats stay as they are.
fn exact(dtype: DType, value: f64) -> f64 {
    if dtype.is_float() { value } else { dtype.round(value) }
}

fn to_bits(dtype: DType, value: f64) -> u32 {
    match dtype {
        DType::F32 | DType::F16 => (value as f32).to_bits(),
        DType::U32 | DType::Bool => value as u32,
        DType::I32 => value as i32 as u32,
    }
}

fn from_bits(dtype: DType, bits: u32) -> f64 {
    match dtype {
        DType::F32 | DType::F16 => f64::from(f32::from_bits(bits)),
        DType::U32 | DType::Bool => f64::from(bits),
        DType::I32 => f64::from(bits as i32),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Access, Arg, Axis};
    use super::*;
    use crate::scalar::{Scalar, Unary};

    fn arg(dtype: DType, elements: usize, access: Access) -> Arg {
        Arg { dtype, elements, access }
    }

    fn axes<const N: usize>(axes: [(usize, Role); N]) -> Vec<Axis> {
        axes.into_iter().map(|(extent, role)| Axis { extent, role }).collect()
    }

    fn load(arg: usize, index: Index) -> Expr {
        Expr::Load { arg, index, mask: Vec::new() }
    }

    fn row_major(cols: i64) -> Index {
        Index::axis(0).times(cols).plus(&Index::axis(1))
    }

    #[test]
    fn softmax_rows_sum_to_one() {
        let element = row_major(3);
        let kernel = Kernel {
            axes: axes([(2, Role::Parallel), (3, Role::Reduce)]),
            args: vec![arg(DType::F32, 6, Access::Read), arg(DType::F32, 6, Access::Write)],
            exprs: vec![
                load(0, element.clone()),
                Expr::Reduce(Monoid::Max, ExprId(0)),
                Expr::Binary(Binary::Sub, ExprId(0), ExprId(1)),
                Expr::Unary(Unary::Exp, ExprId(2)),
                Expr::Reduce(Monoid::Sum, ExprId(3)),
                Expr::Binary(Binary::Div, ExprId(3), ExprId(4)),
            ],
            dtypes: vec![DType::F32; 6],
            body: Body::Loop,
            stores: vec![Store { arg: 1, index: element, value: ExprId(5), per_element: true }],
        };
        let mut args = vec![vec![0.0, 1.0, 2.0, 5.0, 5.0, 5.0], vec![0.0; 6]];
        interp(&kernel, &mut args).unwrap();
        let sum = 1.0 + (-1.0f64).exp() + (-2.0f64).exp();
        assert!((args[1][2] - 1.0 / sum).abs() < 1e-15 && (args[1][4] - 1.0 / 3.0).abs() < 1e-15, "{args:?}");
    }

    #[test]
    fn contraction_with_bias_and_padded_operand() {
        // out[i, j] = Σ_k a[i, k] b[k, j] + bias[j], where b has only 2 of the 3 depths.
        let (i, j, k) = (Index::axis(0), Index::axis(1), Index::axis(2));
        let kernel = Kernel {
            axes: axes([(2, Role::Row), (2, Role::Col), (3, Role::Reduce)]),
            args: vec![
                arg(DType::F32, 6, Access::Read),
                arg(DType::F32, 4, Access::Read),
                arg(DType::F32, 2, Access::Read),
                arg(DType::F32, 4, Access::Write),
            ],
            exprs: vec![
                load(0, i.times(3).plus(&k)),
                Expr::Load { arg: 1, index: k.times(2).plus(&j), mask: vec![Bound { index: k, extent: 2 }] },
                Expr::Acc,
                load(2, j.clone()),
                Expr::Binary(Binary::Add, ExprId(2), ExprId(3)),
            ],
            dtypes: vec![DType::F32; 5],
            body: Body::Contract { lhs: ExprId(0), rhs: ExprId(1), accumulate: DType::F32 },
            stores: vec![Store { arg: 3, index: i.times(2).plus(&j), value: ExprId(4), per_element: false }],
        };
        let mut args =
            vec![vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], vec![1.0, 2.0, 3.0, 4.0], vec![10.0, 20.0], vec![0.0; 4]];
        interp(&kernel, &mut args).unwrap();
        assert_eq!(args[3], [17.0, 30.0, 29.0, 48.0]);
    }

    #[test]
    fn accesses_out_of_bounds_are_named() {
        let kernel = Kernel {
            axes: axes([(4, Role::Parallel)]),
            args: vec![arg(DType::U32, 3, Access::Read), arg(DType::U32, 4, Access::Write)],
            exprs: vec![load(0, Index::axis(0)), Expr::Const(Scalar::u32(1))],
            dtypes: vec![DType::U32; 2],
            body: Body::Loop,
            stores: vec![Store { arg: 1, index: Index::axis(0), value: ExprId(0), per_element: false }],
        };
        let mut args = vec![vec![7.0; 3], vec![0.0; 4]];
        let error = interp(&kernel, &mut args).unwrap_err();
        assert_eq!(error, InterpError::OutOfBounds { arg: 0, index: 3, elements: 3, point: vec![3] });
        assert!(matches!(interp(&kernel, &mut args[..1]), Err(InterpError::ArgCount { expected: 2, found: 1 })));
        let mut gather = kernel.clone();
        gather.exprs = vec![load(0, Index::constant(1)), load(0, Index::value(ExprId(0), 3))];
        gather.stores[0].value = ExprId(1);
        let error = interp(&gather, &mut args).unwrap_err();
        assert_eq!(error, InterpError::ValueBound { value: ExprId(0), bound: 3, found: 7, point: vec![0] });
    }
}
