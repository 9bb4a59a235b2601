//! Maps on an adapter: indices, masks, gathers, random bits, vectors, and large grids.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use meganeura_core::dtype::DType;
use meganeura_core::index::{ExprId, Index, flatten, unflatten};
use meganeura_core::kernel::{Access, Bound, Expr};
use meganeura_core::scalar::{Binary, Unary};
use meganeura_core::schedule::{Caps, Numerics, Spec, choose};
use meganeura_core::shape::Shape;
use support::{Build, EXACT, check, check_with, noise, print_plain, tolerance};

fn map(threads: u32, per_thread: u32) -> Spec {
    Spec::Map { threads, per_thread }
}

#[test]
fn transposed_and_reshaped_indices() {
    // out[i, j, k] of [3, 5, 7] from a [7, 15] tensor seen as [5, 7, 3] and permuted.
    let axes = [3, 5, 7];
    let coords: Vec<Index> = (0..3).map(Index::axis).collect();
    let permuted = flatten(&[coords[1].clone(), coords[2].clone(), coords[0].clone()], &Shape::from([5, 7, 3]));
    let mut b = Build::new(&axes, &[]);
    let a = b.read(DType::F32, 105);
    let x = b.load(a, permuted.clone());
    let tile = unflatten(&permuted, &Shape::from([7, 15]), &axes);
    let seen = b.push(Expr::Index(tile[0].times(100).plus(&tile[1])), DType::U32);
    let n = b.linear();
    b.store(105, n.clone(), x, true);
    b.store(105, n, seen, true);
    check(&b.0, &map(32, 1), &[noise(105, 1, 1.0), vec![0.0; 105], vec![0.0; 105]], EXACT);
}

#[test]
fn masks_touch_no_memory_and_give_zero() {
    // Padding by 2 on the left and 3 on the right of each of 4 rows of 6, and a flag for what is inside.
    for dtype in DType::ALL {
        let mut b = Build::new(&[4, 11], &[]);
        let a = b.read(dtype, 24);
        let column = Index::axis(1).shifted(-2);
        let mask = vec![Bound { index: column.clone(), extent: 6 }];
        let x = b.load_masked(a, Index::axis(0).times(6).plus(&column), mask.clone());
        let inside = b.push(Expr::Within(mask), DType::Bool);
        let always = b.push(Expr::Within(vec![Bound { index: Index::axis(0), extent: 4 }]), DType::Bool);
        let n = b.linear();
        b.store(44, n.clone(), x, true);
        b.store(44, n.clone(), inside, true);
        b.store(44, n, always, true);
        let values: Vec<f64> = (0..24).map(|x| f64::from(x % 7 + 1)).collect();
        check(&b.0, &map(64, 1), &[values, vec![9.0; 44], vec![1.0; 44], vec![0.0; 44]], EXACT);
    }
}

#[test]
fn negative_strides_wrap_back() {
    let mut b = Build::new(&[5, 8], &[]);
    let a = b.read(DType::I32, 40);
    let reversed = Index::axis(0).times(-8).plus(&Index::axis(1).times(-1)).shifted(39);
    let x = b.load(a, reversed);
    let n = b.linear();
    b.store(40, n, x, true);
    check(&b.0, &map(256, 4), &[noise(40, 3, 1e9).iter().map(|x| x.floor()).collect(), vec![0.0; 40]], EXACT);
}

#[test]
fn gathers() {
    let mut b = Build::new(&[13, 6], &[]);
    let (table, ids) = (b.read(DType::F32, 42), b.read(DType::U32, 13));
    let id = b.load(ids, Index::axis(0));
    let x = b.load(table, Index::value(id, 7).times(6).plus(&Index::axis(1)));
    let n = b.linear();
    b.store(78, n, x, true);
    let chosen = (0..13).map(|i| f64::from(i * 5 % 7)).collect();
    check(&b.0, &map(64, 1), &[noise(42, 4, 1.0), chosen, vec![0.0; 78]], EXACT);
}

#[test]
fn random_bits_are_those_of_the_generator() {
    let mut b = Build::new(&[1000], &[]);
    let state = b.read(DType::U32, 2);
    let key = [b.load(state, Index::constant(0)), b.load(state, Index::constant(1))];
    for stream in [0, 7] {
        let bits = b.push(Expr::Random { key, stream, counter: Index::axis(0).shifted(5) }, DType::U32);
        b.store(1000, Index::axis(0), bits, true);
    }
    check(&b.0, &map(128, 1), &[vec![12345.0, 4294967295.0], vec![0.0; 1000], vec![0.0; 1000]], EXACT);
}

/// `out = x · sigmoid(x + bias)` over `[rows, columns]`, the bias along columns, and the row number added.
fn gated(rows: usize, columns: usize, dtype: DType) -> Build {
    let mut b = Build::new(&[rows, columns], &[]);
    let (x, bias, offset) = (b.read(dtype, rows * columns), b.read(dtype, columns), b.read(dtype, rows));
    let n = b.linear();
    let value = b.load(x, n.clone());
    let shift = b.load(bias, Index::axis(1));
    let row = b.load(offset, Index::axis(0));
    let sum = b.binary(Binary::Add, value, shift);
    let gate = b.unary(Unary::Sigmoid, sum);
    let product = b.binary(Binary::Mul, value, gate);
    let total = b.binary(Binary::Add, product, row);
    b.store(rows * columns, n, total, true);
    b
}

#[test]
fn vectors_where_the_last_axis_is_whole() {
    for (rows, columns, dtype, vectors) in
        [(3, 20, DType::F32, true), (7, 64, DType::F32, true), (5, 21, DType::F32, false), (3, 20, DType::F16, true)]
    {
        let b = gated(rows, columns, dtype);
        for spec in [map(64, 4), map(16, 8), map(64, 1), map(8, 3)] {
            let Spec::Map { per_thread, .. } = spec else { unreachable!() };
            let text = print_plain(&b.0, &spec, &Caps { f16: true, ..Caps::base() }).source;
            assert_eq!(text.contains("vec4<"), vectors && per_thread % 4 == 0, "{text}");
            let n = rows * columns;
            let inputs = [noise(n, 1, 3.0), noise(columns, 2, 1.0), noise(rows, 3, 1.0), vec![0.0; n]];
            check(
                &b.0,
                &spec,
                &inputs,
                if dtype == DType::F16 { tolerance(4e-3, 4e-3) } else { tolerance(2e-6, 1e-6) },
            );
        }
    }
}

#[test]
fn updates_in_place() {
    let mut b = Build::new(&[24], &[]);
    let weights = b.arg(DType::F32, 24, Access::ReadWrite);
    let gradient = b.read(DType::F32, 24);
    let (w, g) = (b.load(weights, Index::axis(0)), b.load(gradient, Index::axis(0)));
    let next = b.binary(Binary::Sub, w, g);
    b.store_to(weights, Index::axis(0), next, true);
    for spec in [map(64, 1), map(64, 4)] {
        check(&b.0, &spec, &[noise(24, 1, 1.0), noise(24, 2, 1.0)], tolerance(1e-6, 1e-7));
    }
}

#[test]
fn grids_of_two_and_three_dimensions() {
    let mut b = Build::new(&[1003], &[]);
    let i = b.push(Expr::Index(Index::axis(0)), DType::U32);
    b.store(1003, Index::axis(0), i, true);
    for (most, threads, dimensions) in [(40, 32, 1), (10, 8, 3), (16, 8, 2), (12, 32, 2)] {
        let caps = Caps { max_workgroups: most, ..Caps::base() };
        let module = print_plain(&b.0, &map(threads, 1), &caps);
        assert!(module.grid.iter().all(|&size| size <= most));
        assert_eq!(module.grid.iter().filter(|&&size| size > 1).count(), dimensions, "{:?}", module.grid);
        check_with(&b.0, &map(threads, 1), &caps, &[vec![0.0; 1003]], EXACT);
    }
}

#[test]
fn axes_of_one_point_and_none() {
    let mut b = Build::new(&[1, 6, 1], &[]);
    let a = b.read(DType::F32, 6);
    let x = b.load(a, Index::axis(0).times(6).plus(&Index::axis(1)).plus(&Index::axis(2)));
    let n = b.linear();
    b.store(6, n, x, true);
    check(&b.0, &map(64, 1), &[noise(6, 1, 1.0), vec![0.0; 6]], EXACT);

    let mut b = Build::new(&[], &[]);
    let one = b.constant(DType::F32, 1.0);
    b.store(1, Index::constant(0), one, true);
    check(&b.0, &map(1, 1), &[vec![0.0]], EXACT);
}

#[test]
fn a_fold_without_a_value_is_an_error() {
    let mut b = Build::new(&[4], &[]);
    let acc = b.push(Expr::Acc, DType::F32);
    b.store(4, Index::axis(0), acc, true);
    let result = meganeura_wgpu::wgsl::print(&b.0, &map(64, 1), &[true], &[0], &Caps::base());
    assert_eq!(result, Err(meganeura_wgpu::wgsl::PrintError::NoValueYet { expr: ExprId(0) }));
}

#[test]
fn arguments_share_a_binding() {
    let mut b = Build::new(&[16], &[]);
    let a = b.read(DType::F32, 16);
    let x = b.load(a, Index::axis(0));
    let y = b.unary(Unary::Neg, x);
    b.store(16, Index::axis(0), y, true);
    let module = meganeura_wgpu::wgsl::print(&b.0, &map(16, 1), &[true], &[0, 0], &Caps::base()).unwrap();
    support::translate::check(&module);
    assert_eq!(module.source.matches("var<storage").count(), 1);
    let read_only = meganeura_wgpu::wgsl::print(&b.0, &map(16, 1), &[false], &[0, 0], &Caps::base());
    assert!(read_only.is_err());
}

#[test]
fn chosen_schedules() {
    let small = Caps { multiprocessors: 1, max_workgroups: 3, ..Caps::base() };
    for (rows, columns) in [(40, 64), (3, 5), (1, 1)] {
        let b = gated(rows, columns, DType::F32);
        let n = rows * columns;
        let inputs = [noise(n, 1, 3.0), noise(columns, 2, 1.0), noise(rows, 3, 1.0), vec![0.0; n]];
        check_with(&b.0, &choose(&b.0, &small, Numerics::Strict).spec, &small, &inputs, tolerance(2e-6, 1e-6));
    }
}

#[test]
fn vectors_under_masks_and_gathers() {
    // Rows padded above and below (masked alike for four columns), plus rows of a table by index.
    let mut b = Build::new(&[6, 8], &[]);
    let (a, table, ids) = (b.read(DType::F32, 32), b.read(DType::F32, 40), b.read(DType::U32, 6));
    let row = Index::axis(0).shifted(-1);
    let mask = vec![Bound { index: row.clone(), extent: 4 }];
    let x = b.load_masked(a, row.times(8).plus(&Index::axis(1)), mask);
    let id = b.load(ids, Index::axis(0));
    let y = b.load(table, Index::value(id, 5).times(8).plus(&Index::axis(1)));
    let sum = b.binary(Binary::Add, x, y);
    let n = b.linear();
    b.store(48, n, sum, true);
    let text = print_plain(&b.0, &map(64, 4), &Caps::base()).source;
    assert_eq!(text.matches("array<vec4<f32>>").count(), 3, "{text}");
    let inputs = [noise(32, 1, 1.0), noise(40, 2, 1.0), vec![4.0, 0.0, 3.0, 1.0, 2.0, 2.0], vec![0.0; 48]];
    check(&b.0, &map(64, 4), &inputs, tolerance(1e-6, 1e-7));
}

#[test]
fn unaligned_accesses_stay_scalar() {
    // Offset by 2, rows of 10, and reversed: none of the loads is a vector, the store is.
    let mut b = Build::new(&[3, 8], &[]);
    let (p, q, r) = (b.read(DType::F32, 26), b.read(DType::F32, 28), b.read(DType::F32, 24));
    let n = b.linear();
    let x = b.load(p, n.clone().shifted(2));
    let y = b.load(q, Index::axis(0).times(10).plus(&Index::axis(1)));
    let z = b.load(r, Index::axis(0).times(8).plus(&Index::axis(1).times(-1)).shifted(7));
    let sum = b.binary(Binary::Add, x, y);
    let sum = b.binary(Binary::Add, sum, z);
    b.store(24, n, sum, true);
    let text = print_plain(&b.0, &map(64, 4), &Caps::base()).source;
    assert_eq!(text.matches("array<vec4<f32>>").count(), 1, "{text}");
    let inputs = [noise(26, 1, 1.0), noise(28, 2, 1.0), noise(24, 3, 1.0), vec![0.0; 24]];
    check(&b.0, &map(64, 4), &inputs, tolerance(1e-6, 1e-6));
}
