//! Expansions mean what the kernel means (K5).

use super::*;
use crate::kernel::{interp, verify};
use crate::scalar::{Binary, Unary};

struct Build(Kernel);

impl Build {
    fn new(axes: &[(usize, Role)]) -> Build {
        let axes = axes.iter().map(|&(extent, role)| Axis { extent, role }).collect();
        Build(Kernel { axes, args: vec![], exprs: vec![], dtypes: vec![], body: Body::Loop, stores: vec![] })
    }

    fn arg(&mut self, elements: usize, access: Access) -> usize {
        self.0.args.push(Arg { dtype: DType::F32, elements, access });
        self.0.args.len() - 1
    }

    fn push(&mut self, expr: Expr) -> ExprId {
        push(&mut self.0, expr, DType::F32)
    }

    fn load(&mut self, arg: usize, terms: &[(usize, i64)]) -> ExprId {
        self.push(Expr::Load { arg, index: index(terms), mask: vec![] })
    }

    fn store(&mut self, arg: usize, terms: &[(usize, i64)], value: ExprId) {
        self.0.stores.push(Store { arg, index: index(terms), value, per_element: false });
    }
}

fn index(terms: &[(usize, i64)]) -> Index {
    terms.iter().fold(Index::constant(0), |sum, &(axis, stride)| sum.plus(&Index::axis(axis).times(stride)))
}

/// `c[b, m, n] = exp(Σ exp(a[b, m, k1, k2]) · w[k1, k2, n]) + bias[n]`: operands that are not 0 where their loads are.
fn product(batch: usize, rows: usize, cols: usize, depth: [usize; 2]) -> Kernel {
    let [outer, inner] = depth;
    let mut build = Build::new(&[
        (batch, Role::Parallel),
        (rows, Role::Row),
        (cols, Role::Col),
        (outer, Role::Reduce),
        (inner, Role::Reduce),
    ]);
    let points = outer * inner;
    let a = build.arg(batch * rows * points, Access::Read);
    let bias = build.arg(cols, Access::Read);
    let w = build.arg(points * cols, Access::Read);
    let c = build.arg(batch * rows * cols, Access::Write);
    let lhs = build.load(a, &[(0, (rows * points) as i64), (1, points as i64), (3, inner as i64), (4, 1)]);
    let lhs = build.push(Expr::Unary(Unary::Exp, lhs));
    let rhs = build.load(w, &[(3, (inner * cols) as i64), (4, cols as i64), (2, 1)]);
    build.0.body = Body::Contract { lhs, rhs, accumulate: DType::F32 };
    let acc = build.push(Expr::Acc);
    let scaled = build.push(Expr::Unary(Unary::Tanh, acc));
    let bias = build.load(bias, &[(2, 1)]);
    let sum = build.push(Expr::Binary(Binary::Add, scaled, bias));
    build.store(c, &[(0, (rows * cols) as i64), (1, cols as i64), (2, 1)], sum);
    build.0
}

/// Each row's sum of squares' root and its maximum plus a shift.
fn rows(rows: usize, length: usize) -> Kernel {
    let mut build = Build::new(&[(rows, Role::Parallel), (length, Role::Reduce)]);
    let shift = build.arg(rows, Access::ReadWrite);
    let x = build.arg(rows * length, Access::Read);
    let norm = build.arg(rows, Access::Write);
    let x = build.load(x, &[(0, length as i64), (1, 1)]);
    let square = build.push(Expr::Binary(Binary::Mul, x, x));
    let sum = build.push(Expr::Reduce(Monoid::Sum, square));
    let root = build.push(Expr::Unary(Unary::Sqrt, sum));
    let most = build.push(Expr::Reduce(Monoid::Max, x));
    let old = build.load(shift, &[(0, 1)]);
    let new = build.push(Expr::Binary(Binary::Add, old, most));
    build.store(norm, &[(0, 1)], root);
    build.store(shift, &[(0, 1)], new);
    build.0
}

/// Values whose maximum is negative, so that zeros from beyond the end would show.
fn tensors(kernel: &Kernel) -> Vec<Vec<f64>> {
    let value = |at: usize| -0.1 - ((at * 37 + 11) % 101) as f64 / 101.0;
    let tensor = |arg: &Arg| match arg.access {
        Access::Write => vec![f64::NAN; arg.elements],
        _ => (0..arg.elements).map(value).collect(),
    };
    kernel.args.iter().map(tensor).collect()
}

fn run(expansion: &Expansion, tensors: &mut [Vec<f64>]) {
    let mut temporaries: Vec<Vec<f64>> = expansion.temporaries.iter().map(|t| vec![f64::NAN; t.elements]).collect();
    for step in &expansion.steps {
        let take = |source: &Source| match *source {
            Source::Arg(arg) => tensors[arg].clone(),
            Source::Temporary(temporary) => temporaries[temporary].clone(),
        };
        let mut values: Vec<Vec<f64>> = step.args.iter().map(take).collect();
        verify(&step.kernel).unwrap();
        interp(&step.kernel, &mut values).unwrap();
        for (source, values) in step.args.iter().zip(values) {
            match *source {
                Source::Arg(arg) => tensors[arg] = values,
                Source::Temporary(temporary) => temporaries[temporary] = values,
            }
        }
    }
}

fn check(kernel: &Kernel, expansion: &Expansion) {
    let mut expected = tensors(kernel);
    let mut found = expected.clone();
    interp(kernel, &mut expected).unwrap();
    run(expansion, &mut found);
    for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
        assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{found}, expected {expected}");
    }
}

#[test]
fn split_contractions_agree_with_the_whole() {
    for depth in [[1, 64], [1, 67], [3, 20], [5, 7], [9, 16], [35, 8], [1, 130]] {
        let kernel = product(2, 3, 5, depth);
        for parts in [2, 3, 4, 6, 9] {
            if let Some(expansion) = split_contraction(&kernel, parts) {
                assert!(expansion.steps[0].kernel.is_contraction() && !expansion.steps[1].kernel.is_contraction());
                check(&kernel, &expansion);
            }
        }
    }
}

#[test]
fn even_splits_of_the_slowest_axis_need_no_mask() {
    let expansion = split_contraction(&product(1, 3, 5, [9, 16]), 3).unwrap();
    let masked = |expr: &Expr| matches!(expr, Expr::Load { mask, .. } if !mask.is_empty());
    assert!(!expansion.steps[0].kernel.exprs.iter().any(masked));
    assert_eq!(expansion.temporaries[0].elements, 3 * 15);
}

#[test]
fn short_sums_are_not_split() {
    assert_eq!(split_contraction(&product(1, 3, 5, [1, 12]), 4), None);
    assert_eq!(split_contraction(&product(1, 3, 5, [1, 100]), 1), None);
    assert_eq!(split_contraction(&rows(2, 100), 4), None);
}

#[test]
fn long_rows_fold_in_two_stages() {
    for (count, length) in [(1, 100), (3, 37), (2, 64)] {
        for parts in [2, 5, 8] {
            let kernel = rows(count, length);
            let expansion = split_rows(&kernel, parts).unwrap();
            assert_eq!(expansion.temporaries.len(), 2);
            check(&kernel, &expansion);
        }
    }
}

#[test]
fn rows_that_need_their_folds_at_each_element_stay_whole() {
    let mut kernel = rows(2, 50);
    kernel.stores[0].per_element = true;
    assert_eq!(split_rows(&kernel, 4), None);
}
