//! A negative test for each check, and kernels that must pass.

use super::super::{Access, Arg, Axis, Body, Store};
use super::*;
use crate::scalar::{Binary, Compare, Monoid, Scalar, Unary};

fn arg(dtype: DType, elements: usize, access: Access) -> Arg {
    Arg { dtype, elements, access }
}

/// `out[i, j] = exp(a[i, j])` over 4 × 5.
fn map() -> Kernel {
    let here = Index::axis(0).times(5).plus(&Index::axis(1));
    Kernel {
        axes: vec![Axis { extent: 4, role: Role::Parallel }, Axis { extent: 5, role: Role::Parallel }],
        args: vec![arg(DType::F32, 20, Access::Read), arg(DType::F32, 20, Access::Write)],
        exprs: vec![Expr::Load { arg: 0, index: here.clone(), mask: vec![] }, Expr::Unary(Unary::Exp, ExprId(0))],
        dtypes: vec![DType::F32; 2],
        body: Body::Loop,
        stores: vec![Store { arg: 1, index: here, value: ExprId(1), per_element: false }],
    }
}

/// `out[i, j] = Σ_k a[i, k] b[k, j]`, 4 × 6 · 6 × 5.
fn product() -> Kernel {
    let (i, j, k) = (Index::axis(0), Index::axis(1), Index::axis(2));
    let axis = |extent, role| Axis { extent, role };
    Kernel {
        axes: vec![axis(4, Role::Row), axis(5, Role::Col), axis(6, Role::Reduce)],
        args: vec![
            arg(DType::F32, 24, Access::Read),
            arg(DType::F32, 30, Access::Read),
            arg(DType::F32, 20, Access::Write),
        ],
        exprs: vec![
            Expr::Load { arg: 0, index: i.times(6).plus(&k), mask: vec![] },
            Expr::Load { arg: 1, index: k.times(5).plus(&j), mask: vec![] },
            Expr::Acc,
        ],
        dtypes: vec![DType::F32; 3],
        body: Body::Contract { lhs: ExprId(0), rhs: ExprId(1), accumulate: DType::F32 },
        stores: vec![Store { arg: 2, index: i.times(5).plus(&j), value: ExprId(2), per_element: false }],
    }
}

/// The broken invariant, the part and the problem.
#[track_caller]
fn broken(kernel: &Kernel) -> (Invariant, Part, Problem) {
    let VerifyError { invariant, part, problem } = verify(kernel).unwrap_err();
    (invariant, part, problem)
}

fn expr(id: u32) -> Part {
    Part::Expr(ExprId(id))
}

fn append(kernel: &mut Kernel, dtype: DType, expr: Expr) -> ExprId {
    kernel.exprs.push(expr);
    kernel.dtypes.push(dtype);
    ExprId(kernel.exprs.len() as u32 - 1)
}

#[test]
fn sound_kernels_pass() {
    assert_eq!(verify(&map()), Ok(()));
    assert_eq!(verify(&product()), Ok(()));
    let mut empty = map();
    (empty.axes[0].extent, empty.args[0].elements) = (0, 0);
    assert_eq!(verify(&empty), Ok(()));
}

#[test]
fn k1_loads_and_stores_in_bounds() {
    let mut kernel = map();
    kernel.args[0].elements = 19;
    assert_eq!(broken(&kernel), (Invariant::K1, expr(0), Problem::OutOfBounds { arg: 0, index: 19, elements: 19 }));
    let mut kernel = map();
    kernel.stores[0].index = kernel.stores[0].index.clone().shifted(-1);
    let problem = Problem::OutOfBounds { arg: 1, index: -1, elements: 20 };
    assert_eq!(broken(&kernel), (Invariant::K1, Part::Store(0), problem));
}

#[test]
fn k1_masks_prove_windows_of_any_size() {
    // in[y + p − 1, x + q − 1] on a large image, padded by one.
    let (height, width) = (1000, 700);
    let mut kernel = map();
    kernel.axes = [height, width, 3, 3].map(|extent| Axis { extent, role: Role::Parallel }).to_vec();
    let (row, col) =
        (Index::axis(0).plus(&Index::axis(2)).shifted(-1), Index::axis(1).plus(&Index::axis(3)).shifted(-1));
    let bound = |index: &Index, extent| Bound { index: index.clone(), extent };
    let mut mask = vec![bound(&row, height), bound(&col, width)];
    let index = row.times(width as i64).plus(&col);
    kernel.args =
        vec![arg(DType::F32, height * width, Access::Read), arg(DType::F32, height * width * 9, Access::Write)];
    let coords: Vec<Index> = (0..4).map(Index::axis).collect();
    kernel.stores[0].index = crate::index::flatten(&coords, &crate::shape::Shape::from([height, width, 3, 3]));
    kernel.exprs[0] = Expr::Load { arg: 0, index: index.clone(), mask: mask.clone() };
    assert_eq!(verify(&kernel), Ok(()));
    // One row too many, and then no mask on rows at all: the corners show it.
    mask[0].extent = height + 1;
    kernel.exprs[0] = Expr::Load { arg: 0, index: index.clone(), mask: mask.clone() };
    assert!(matches!(broken(&kernel), (Invariant::K1, _, Problem::OutOfBounds { arg: 0, .. })));
    kernel.exprs[0] = Expr::Load { arg: 0, index, mask: mask[1..].to_vec() };
    assert!(matches!(broken(&kernel), (Invariant::K1, _, Problem::OutOfBounds { arg: 0, .. })));
}

#[test]
fn k1_small_masked_spaces_are_enumerated() {
    // The mask (2 i + j) < 10 is no multiple of anything in the index 5 i + j, yet keeps it below 23.
    let mut kernel = map();
    kernel.args[0].elements = 20;
    let mask = vec![Bound { index: Index::axis(0).times(2).plus(&Index::axis(1)), extent: 10 }];
    let Expr::Load { index, .. } = &kernel.exprs[0] else { panic!() };
    kernel.exprs[0] = Expr::Load { arg: 0, index: index.clone().shifted(1), mask };
    assert_eq!(verify(&kernel), Ok(()));
    kernel.args[0].elements = 19;
    assert!(matches!(broken(&kernel), (Invariant::K1, _, Problem::OutOfBounds { index: 19, .. })));
}

#[test]
fn k1_quotient_and_remainder_together_stay_inside() {
    // 3 ⌊j / 3⌋ + j mod 3 is j, though intervals give up to 5 for j < 5.
    let mut kernel = map();
    let (i, j, extents) = (Index::axis(0), Index::axis(1), [4, 5]);
    let index = i.times(5).plus(&j.div(3, &extents).times(3)).plus(&j.rem(3, &extents));
    kernel.exprs[0] = Expr::Load { arg: 0, index: index.clone(), mask: vec![] };
    assert_eq!(verify(&kernel), Ok(()));
    kernel.exprs[0] = Expr::Load { arg: 0, index: index.shifted(1), mask: vec![] };
    assert!(matches!(broken(&kernel), (Invariant::K1, _, Problem::OutOfBounds { index: 20, .. })));
}

#[test]
fn k1_values_stay_below_their_stated_bounds() {
    let mut kernel = map();
    kernel.args.push(arg(DType::U32, 4, Access::Read));
    kernel.exprs = vec![Expr::Load { arg: 2, index: Index::axis(0), mask: vec![] }];
    kernel.dtypes = vec![DType::U32];
    append(&mut kernel, DType::F32, Expr::Load { arg: 0, index: Index::value(ExprId(0), 20), mask: vec![] });
    let problem = Problem::ValueBound { value: ExprId(0), bound: 20, reached: i64::from(u32::MAX) };
    assert_eq!(broken(&kernel), (Invariant::K1, expr(1), problem));
    // Clamped, it passes.
    kernel.exprs.truncate(1);
    kernel.dtypes.truncate(1);
    let last = append(&mut kernel, DType::U32, Expr::Const(Scalar::u32(19)));
    let clamped = append(&mut kernel, DType::U32, Expr::Binary(Binary::Min, ExprId(0), last));
    let gather = Expr::Load { arg: 0, index: Index::value(clamped, 20), mask: vec![] };
    kernel.stores[0].value = append(&mut kernel, DType::F32, gather);
    assert_eq!(verify(&kernel), Ok(()));
}

#[test]
fn k1_a_mask_may_test_a_value() {
    let mut kernel = map();
    kernel.args.push(arg(DType::U32, 4, Access::Read));
    kernel.exprs = vec![Expr::Load { arg: 2, index: Index::axis(0), mask: vec![] }];
    kernel.dtypes = vec![DType::U32];
    let gather = |extent| {
        let index = Index::value(ExprId(0), 20);
        Expr::Load { arg: 0, index: index.clone(), mask: vec![Bound { index, extent }] }
    };
    kernel.stores[0].value = append(&mut kernel, DType::F32, gather(20));
    assert_eq!(verify(&kernel), Ok(()));
    kernel.exprs[1] = gather(21);
    assert!(matches!(broken(&kernel), (Invariant::K1, _, Problem::ValueBound { .. })));
}

#[test]
fn k2_each_element_once() {
    let twice =
        |kernel: &Kernel| assert_eq!(broken(kernel), (Invariant::K2, Part::Store(0), Problem::StoredTwice { arg: 1 }));
    let mut kernel = map();
    kernel.stores[0].index = Index::axis(0).times(4).plus(&Index::axis(1));
    twice(&kernel);
    kernel.stores[0].index = Index::axis(1);
    twice(&kernel);
    // The quotient of a coordinate without its remainder.
    kernel.stores[0].index = Index::axis(0).times(5).plus(&Index::axis(1).div(2, &[4, 5]));
    twice(&kernel);
    // A place that each point computes.
    let mut kernel = map();
    kernel.args.push(arg(DType::U32, 4, Access::Read));
    let load = Expr::Load { arg: 2, index: Index::axis(0), mask: vec![] };
    let place = append(&mut kernel, DType::U32, load);
    let last = append(&mut kernel, DType::U32, Expr::Const(Scalar::u32(19)));
    let clamped = append(&mut kernel, DType::U32, Expr::Binary(Binary::Min, place, last));
    kernel.stores[0].index = Index::value(clamped, 20);
    twice(&kernel);
    // Two stores to one place.
    let mut kernel = map();
    kernel.stores.push(kernel.stores[0].clone());
    assert_eq!(broken(&kernel), (Invariant::K2, Part::Store(1), Problem::StoredTwice { arg: 1 }));
}

#[test]
fn k2_permuted_and_split_stores_pass() {
    let mut kernel = map();
    kernel.stores[0].index = Index::axis(1).times(4).plus(&Index::axis(0));
    assert_eq!(verify(&kernel), Ok(()));
    // 5 = 2 · 2 + 1: the coordinate split by 2, the halves exchanged; by strides where the space is huge.
    for rows in [4, 1 << 24] {
        let (i, j) = (Index::axis(0), Index::axis(1));
        let extents = [rows, 5];
        kernel.axes[0].extent = rows;
        kernel.args = vec![arg(DType::F32, rows * 5, Access::Read), arg(DType::F32, rows * 6, Access::Write)];
        kernel.stores[0].index = i.times(6).plus(&j.rem(2, &extents).times(3)).plus(&j.div(2, &extents));
        assert_eq!(verify(&kernel), Ok(()), "{rows}");
    }
}

#[test]
fn k2_updates_read_what_they_write() {
    let mut kernel = map();
    kernel.args[1].access = Access::ReadWrite;
    let other = Expr::Load { arg: 1, index: Index::axis(1).times(4).plus(&Index::axis(0)), mask: vec![] };
    append(&mut kernel, DType::F32, other);
    assert_eq!(broken(&kernel), (Invariant::K2, expr(2), Problem::ReadElsewhere { arg: 1 }));
}

#[test]
fn k4_roles_ascend_and_fit_the_body() {
    let mut kernel = map();
    kernel.axes[0].role = Role::Reduce;
    assert_eq!(broken(&kernel), (Invariant::K4, Part::Axis(1), Problem::Role { role: Role::Parallel }));
    kernel.axes[0].role = Role::Row;
    assert_eq!(broken(&kernel), (Invariant::K4, Part::Axis(0), Problem::Role { role: Role::Row }));
}

#[test]
fn k4_what_is_named_exists() {
    let missing = |what, number| Problem::Missing { what, number };
    let mut kernel = map();
    kernel.exprs[1] = Expr::Unary(Unary::Exp, ExprId(1));
    assert_eq!(broken(&kernel), (Invariant::K4, expr(1), missing("expression", 1)));
    let mut kernel = map();
    kernel.exprs[0] = Expr::Load { arg: 7, index: Index::axis(0), mask: vec![] };
    assert_eq!(broken(&kernel), (Invariant::K4, expr(0), missing("argument", 7)));
    kernel.exprs[0] = Expr::Load { arg: 0, index: Index::axis(2), mask: vec![] };
    assert_eq!(broken(&kernel), (Invariant::K4, expr(0), missing("axis", 2)));
    let mut kernel = map();
    kernel.dtypes.pop();
    assert_eq!(broken(&kernel), (Invariant::K4, expr(1), missing("type", 1)));
    let mut kernel = map();
    kernel.args[1].access = Access::Read;
    assert_eq!(broken(&kernel), (Invariant::K4, Part::Store(0), Problem::Access { arg: 1 }));
}

#[test]
fn k4_types_agree() {
    let wrong = |dtype, expr: Expr, expected, found| {
        let mut kernel = map();
        append(&mut kernel, DType::U32, Expr::Const(Scalar::u32(1)));
        let id = append(&mut kernel, dtype, expr);
        assert_eq!(broken(&kernel), (Invariant::K4, Part::Expr(id), Problem::Type { expected, found }));
    };
    let (x, n) = (ExprId(1), ExprId(2));
    use DType::{Bool, F32, U32};
    wrong(F32, Expr::Binary(Binary::Add, x, n), F32, U32);
    wrong(F32, Expr::Compare(Compare::Lt, x, x), Bool, F32);
    wrong(F32, Expr::Select(n, x, x), Bool, U32);
    wrong(F32, Expr::Index(Index::axis(0)), U32, F32);
    wrong(F32, Expr::Cast(x, U32), U32, F32);
    wrong(U32, Expr::Random { key: [n, x], stream: 0, counter: Index::axis(0) }, U32, F32);
    wrong(U32, Expr::Index(Index::value(x, 9)), U32, F32);
    let mut kernel = map();
    kernel.exprs[1] = Expr::Unary(Unary::Not, ExprId(0));
    assert_eq!(broken(&kernel), (Invariant::K4, expr(1), Problem::Untaken { dtype: F32 }));
    let mut kernel = map();
    kernel.args[1].dtype = U32;
    assert_eq!(broken(&kernel), (Invariant::K4, Part::Store(0), Problem::Type { expected: U32, found: F32 }));
}

#[test]
fn k4_contractions_have_their_operands_and_sum_in_place() {
    let mut kernel = product();
    kernel.exprs[0] = Expr::Load { arg: 0, index: Index::axis(1), mask: vec![] };
    assert_eq!(broken(&kernel), (Invariant::K4, expr(0), Problem::Varies { axis: 1, role: Role::Col }));
    let mut kernel = product();
    kernel.exprs[1] = Expr::Load { arg: 1, index: Index::axis(0), mask: vec![] };
    assert_eq!(broken(&kernel), (Invariant::K4, expr(1), Problem::Varies { axis: 0, role: Role::Row }));
    let mut kernel = product();
    kernel.body = Body::Contract { lhs: ExprId(2), rhs: ExprId(1), accumulate: DType::F32 };
    assert_eq!(broken(&kernel), (Invariant::K4, expr(2), Problem::Misplaced));
    let mut kernel = product();
    kernel.stores[0].value = ExprId(0);
    assert_eq!(broken(&kernel), (Invariant::K4, Part::Store(0), Problem::Varies { axis: 2, role: Role::Reduce }));
    let mut kernel = product();
    kernel.stores[0].per_element = true;
    assert_eq!(broken(&kernel), (Invariant::K4, Part::Store(0), Problem::Misplaced));
    let mut kernel = product();
    append(&mut kernel, DType::F32, Expr::Reduce(Monoid::Sum, ExprId(0)));
    assert_eq!(broken(&kernel), (Invariant::K4, expr(3), Problem::Misplaced));
    let mut kernel = product();
    kernel.body = Body::Contract { lhs: ExprId(0), rhs: ExprId(1), accumulate: DType::F16 };
    assert!(matches!(broken(&kernel), (Invariant::K4, _, Problem::Type { .. })));
}

#[test]
fn k4_folds_and_sums_need_their_kind_of_kernel() {
    let mut kernel = map();
    kernel.exprs[1] = Expr::Reduce(Monoid::Sum, ExprId(0));
    assert_eq!(broken(&kernel), (Invariant::K4, expr(1), Problem::Misplaced));
    kernel.exprs[1] = Expr::Acc;
    assert_eq!(broken(&kernel), (Invariant::K4, expr(1), Problem::Misplaced));
}

#[test]
fn k4_what_is_stored_once_a_row_does_not_vary_along_it() {
    // The sum of each row, stored once; then an element in its place, and a place that varies.
    let mut kernel = map();
    kernel.axes[1].role = Role::Reduce;
    kernel.exprs[1] = Expr::Reduce(Monoid::Sum, ExprId(0));
    kernel.stores[0].index = Index::axis(0);
    assert_eq!(verify(&kernel), Ok(()));
    let varies = (Invariant::K4, Part::Store(0), Problem::Varies { axis: 1, role: Role::Reduce });
    kernel.stores[0].value = ExprId(0);
    assert_eq!(broken(&kernel), varies);
    kernel.stores[0].value = ExprId(1);
    kernel.stores[0].index = Index::axis(0).plus(&Index::axis(1));
    assert_eq!(broken(&kernel), varies);
}

/// `softmax(q · kᵀ) · v` of 3 rows, 4 elements, depth 2 and 2 columns.
fn attention() -> Kernel {
    use super::super::{Score, Stream, Total};
    let (i, c, j, d) = (Index::axis(0), Index::axis(1), Index::axis(2), Index::axis(3));
    let axis = |extent, role| Axis { extent, role };
    let load = |arg, row: &Index, at: &Index| Expr::Load { arg, index: row.times(2).plus(at), mask: vec![] };
    let exprs = vec![
        load(0, &i, &d),
        load(1, &j, &d),
        Expr::Score(0),
        Expr::Peak,
        Expr::Binary(Binary::Sub, ExprId(2), ExprId(3)),
        Expr::Unary(Unary::Exp, ExprId(4)),
        load(2, &j, &c),
        Expr::Total(0),
        Expr::Total(1),
        Expr::Binary(Binary::Div, ExprId(7), ExprId(8)),
    ];
    let stream = Stream {
        scores: vec![Score { lhs: ExprId(0), rhs: ExprId(1), depth: 3 }],
        peak: Some(ExprId(2)),
        totals: [Some(ExprId(6)), None].map(|value| Total { weight: ExprId(5), value }).to_vec(),
        band: [None, None],
        length: None,
    };
    let read = |elements| arg(DType::F32, elements, Access::Read);
    Kernel {
        axes: vec![axis(3, Role::Row), axis(2, Role::Col), axis(4, Role::Reduce), axis(2, Role::Depth)],
        args: vec![read(6), read(8), read(8), arg(DType::F32, 6, Access::Write)],
        dtypes: vec![DType::F32; exprs.len()],
        exprs,
        body: Body::Stream(Box::new(stream)),
        stores: vec![Store { arg: 3, index: i.times(2).plus(&c), value: ExprId(9), per_element: false }],
    }
}

#[test]
fn k4_what_a_stream_computes_varies_with_its_own_axes_only() {
    assert_eq!(verify(&attention()), Ok(()));
    let with = |damage: &dyn Fn(&mut super::super::Stream)| {
        let mut kernel = attention();
        if let Body::Stream(stream) = &mut kernel.body {
            damage(stream);
        }
        broken(&kernel)
    };
    let varies = |id, axis, role| (Invariant::K4, expr(id), Problem::Varies { axis, role });
    assert_eq!(with(&|stream| stream.scores[0].lhs = ExprId(1)), varies(1, 2, Role::Reduce));
    assert_eq!(with(&|stream| stream.scores[0].rhs = ExprId(0)), varies(0, 0, Role::Row));
    assert_eq!(with(&|stream| stream.totals[0].value = Some(ExprId(1))), varies(1, 3, Role::Depth));
    // Not relative to the peak, which is not known yet; a total inside a weight.
    let misplaced = |id| (Invariant::K4, expr(id), Problem::Misplaced);
    assert_eq!(with(&|stream| stream.totals[1].weight = ExprId(2)), misplaced(2));
    assert_eq!(with(&|stream| stream.scores.clear()), misplaced(2));
    assert_eq!(with(&|stream| stream.peak = None), misplaced(3));
    assert!(matches!(with(&|stream| stream.length = Some(ExprId(2))), (Invariant::K4, _, Problem::Type { .. })));
    // Stored once a row, but one value a column.
    let mut kernel = attention();
    kernel.stores[0].index = Index::axis(0).times(2);
    assert_eq!(broken(&kernel), (Invariant::K4, Part::Store(0), Problem::Varies { axis: 1, role: Role::Col }));
    let mut kernel = map();
    kernel.exprs[1] = Expr::Peak;
    assert_eq!(broken(&kernel), misplaced(1));
}
