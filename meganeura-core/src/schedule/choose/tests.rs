//! The rules keep S1 and S3 on every device and follow their comments.

use super::{Numerics, choose as choose_with};
use crate::dtype::DType;
use crate::index::{ExprId, Index};
use crate::kernel::{Access, Arg, Axis, Body, Expr, Kernel, Role, Store};
use crate::scalar::Monoid;
use crate::schedule::{Adjacent, Caps, RowSpec, Spec, SpecError, verify};

fn choose(kernel: &Kernel, caps: &Caps) -> Spec {
    choose_with(kernel, caps, Numerics::Strict).spec
}

fn arg(elements: usize, access: Access) -> Arg {
    Arg { dtype: DType::F32, elements, access }
}

/// A copy of `[rows, columns]`.
fn copy(rows: usize, columns: usize) -> Kernel {
    let axes = [rows, columns].map(|extent| Axis { extent, role: Role::Parallel }).to_vec();
    let index = Index::axis(0).times(columns as i64).plus(&Index::axis(1));
    Kernel {
        axes,
        args: vec![arg(rows * columns, Access::Read), arg(rows * columns, Access::Write)],
        exprs: vec![Expr::Load { arg: 0, index: index.clone(), mask: vec![] }],
        dtypes: vec![DType::F32],
        body: Body::Loop,
        stores: vec![Store { arg: 1, index, value: ExprId(0), per_element: true }],
    }
}

/// `folds` sums over the second axis of `[rows, length]`, whose elements are `strides` apart.
fn sum(rows: usize, length: usize, strides: [i64; 2], folds: usize) -> Kernel {
    let index = Index::axis(0).times(strides[0]).plus(&Index::axis(1).times(strides[1]));
    let mut exprs = vec![Expr::Load { arg: 0, index, mask: vec![] }];
    exprs.extend((0..folds).map(|_| Expr::Reduce(Monoid::Sum, ExprId(0))));
    let store = |at: usize| Store {
        arg: 1,
        index: Index::axis(0).shifted((at * rows) as i64),
        value: ExprId(at as u32 + 1),
        per_element: false,
    };
    Kernel {
        axes: vec![Axis { extent: rows, role: Role::Parallel }, Axis { extent: length, role: Role::Reduce }],
        args: vec![arg(rows * length, Access::Read), arg(rows * folds, Access::Write)],
        dtypes: vec![DType::F32; exprs.len()],
        exprs,
        body: Body::Loop,
        stores: (0..folds).map(store).collect(),
    }
}

fn row_of(spec: Spec) -> RowSpec {
    match spec {
        Spec::Row(row) => row,
        other => panic!("{other:?} is not of a row program"),
    }
}

#[test]
fn every_choice_is_valid_and_repeats() {
    let tiny = Caps { max_invocations: 64, workgroup_bytes: 512, multiprocessors: 1, ..Caps::base() };
    for caps in [Caps::base(), Caps::h200(), tiny] {
        for rows in [0, 1, 3, 32, 1000, 100_000] {
            for length in [0, 1, 16, 17, 64, 1000, 65_536] {
                let (plain, turned) = ([length as i64, 1], [1, rows as i64]);
                for kernel in [copy(rows, length), sum(rows, length, plain, 3), sum(rows, length, turned, 1)] {
                    let spec = choose(&kernel, &caps);
                    assert_eq!(verify(&kernel, &spec, &caps), Ok(()), "{rows} × {length}: {spec:?}");
                    assert_eq!(choose(&kernel, &caps), spec);
                }
            }
        }
    }
}

#[test]
fn maps_use_vectors_where_the_device_stays_full() {
    let caps = Caps::h200();
    assert_eq!(choose(&copy(4096, 4096), &caps), Spec::Map { threads: 256, per_thread: 4 });
    assert_eq!(choose(&copy(4096, 4095), &caps), Spec::Map { threads: 256, per_thread: 1 });
    assert_eq!(choose(&copy(10, 100), &caps), Spec::Map { threads: 32, per_thread: 1 });
}

#[test]
fn rows_are_shared_by_as_many_lanes_as_they_deserve() {
    let caps = Caps::h200();
    let lanes = |rows: usize, length: usize| row_of(choose(&sum(rows, length, [length as i64, 1], 1), &caps));
    assert_eq!(lanes(100_000, 10).lanes, 1);
    assert_eq!(lanes(100_000, 1024), RowSpec { lanes: 64, rows: 4, adjacent: Adjacent::Elements });
    assert_eq!(lanes(1, 1 << 20).lanes, 1024);
}

#[test]
fn columns_are_read_side_by_side() {
    let caps = Caps::h200();
    let spec = row_of(choose(&sum(512, 60_000, [1, 512], 1), &caps));
    assert_eq!(spec.adjacent, Adjacent::Rows);
    assert!(spec.rows >= 32 && spec.lanes >= 8, "{spec:?}");
}

#[test]
fn limits_are_checked() {
    let kernel = sum(8, 64, [64, 1], 1);
    let row = |lanes, rows| Spec::Row(RowSpec { lanes, rows, adjacent: Adjacent::Elements });
    let error = |spec: Spec, caps: &Caps| verify(&kernel, &spec, caps).unwrap_err();
    let caps = Caps::base();
    assert!(matches!(error(row(32, 32), &caps), SpecError::Limit { need: 1024, have: 256, .. }));
    assert!(matches!(
        error(row(32, 8), &Caps { workgroup_bytes: 512, ..caps.clone() }),
        SpecError::Limit { need: 1024, .. }
    ));
    assert!(matches!(error(row(12, 8), &caps), SpecError::Field { field: "lanes", value: 12 }));
    assert!(matches!(error(row(1, 0), &caps), SpecError::Field { field: "rows", value: 0 }));
    assert!(matches!(error(Spec::Map { threads: 64, per_thread: 1 }, &caps), SpecError::Family { .. }));
    let mut half = copy(4, 4);
    half.dtypes[0] = DType::F16;
    assert!(matches!(verify(&half, &Spec::Map { threads: 4, per_thread: 1 }, &caps), Err(SpecError::Feature { .. })));
}
