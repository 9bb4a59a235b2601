//! Kernels executed through one-dispatch plans, against their meaning in f64.

use super::testing::{Builder, Numbers, check, execute, plan_of};
use super::{Buffer, Executor, RunError};
use crate::dtype::DType;
use crate::index::{Index, flatten, unflatten};
use crate::kernel::{Access, Body, Bound, Expr, Kernel, Role, Store};
use crate::memory::{Binding, Place, Plan};
use crate::scalar::{Binary, Compare, Monoid, Scalar, Unary};
use crate::shape::Shape;
use std::sync::Arc;

fn axis_indices(count: usize) -> Vec<Index> {
    (0..count).map(Index::axis).collect()
}

#[test]
fn maps_of_every_function_and_type() {
    let mut numbers = Numbers(1);
    for dtype in DType::ALL {
        let mut builder = Builder::new(&[(7, Role::Parallel), (61, Role::Parallel)]);
        let (i, j) = (Index::axis(0), Index::axis(1));
        let a = builder.load(dtype, 7 * 61, i.times(61).plus(&j));
        let b = builder.load(dtype, 61 * 7, j.times(7).plus(&i));
        let mut results = vec![builder.push(DType::Bool, Expr::Within(vec![Bound { index: j.clone(), extent: 40 }]))];
        for &f in Unary::ALL.iter().filter(|f| f.takes(dtype)) {
            results.push(builder.push(dtype, Expr::Unary(f, a)));
        }
        for &f in Binary::ALL.iter().filter(|f| f.takes(dtype) && **f != Binary::Rem) {
            results.push(builder.push(dtype, Expr::Binary(f, a, b)));
        }
        for &relation in Compare::ALL {
            let holds = builder.push(DType::Bool, Expr::Compare(relation, a, b));
            results.push(builder.push(dtype, Expr::Select(holds, b, a)));
        }
        for into in DType::ALL {
            results.push(builder.push(into, Expr::Cast(a, into)));
        }
        for value in results {
            builder.store(7 * 61, i.times(61).plus(&j), value, true);
        }
        // Each store in a kernel of its own, so that large values of one function do not hide errors of another.
        for store in builder.kernel.stores.clone() {
            let kernel = Kernel { stores: vec![store], ..builder.kernel.clone() };
            check(&kernel, &mut numbers, if dtype == DType::F16 { 2e-3 } else { 2e-6 });
        }
    }
}

#[test]
fn random_access_maps() {
    let mut numbers = Numbers(2);
    for _ in 0..60 {
        let extents: Vec<usize> =
            (0..1 + numbers.below(4)).map(|_| [1, 2, 3, 5, 17, 31, 64][numbers.below(7)]).collect();
        let shape = Shape::from(extents.as_slice());
        let axes: Vec<(usize, Role)> = extents.iter().map(|&extent| (extent, Role::Parallel)).collect();
        let mut builder = Builder::new(&axes);
        let coords = axis_indices(extents.len());
        let here = flatten(&coords, &shape);
        let plain = builder.load(DType::F32, shape.elements(), here.clone());
        // Broadcast along some axes.
        let kept: Vec<usize> = (0..extents.len()).filter(|_| numbers.below(2) == 0).collect();
        let small = Shape::new(kept.iter().map(|&axis| extents[axis]).collect::<Vec<_>>());
        let kept_coords: Vec<Index> = kept.iter().map(|&axis| coords[axis].clone()).collect();
        let broadcast = builder.load(DType::F32, small.elements(), flatten(&kept_coords, &small));
        // The axes in reverse order, seen through a reshape to other divisors.
        let reversed_shape = Shape::new(extents.iter().rev().copied().collect::<Vec<_>>());
        let reversed = flatten(&coords.iter().rev().cloned().collect::<Vec<_>>(), &reversed_shape);
        let split = unflatten(&reversed, &Shape::from([shape.elements().div_ceil(3), 3]), &extents);
        let remixed = split[1].times(shape.elements().div_ceil(3) as i64).plus(&split[0]);
        let permuted = builder.load(DType::F32, shape.elements().div_ceil(3) * 3, remixed);
        // A window that reaches over the edges of the last axis.
        let last = coords[extents.len() - 1].clone().shifted(numbers.below(5) as i64 - 2);
        let mut moved = coords.clone();
        moved[extents.len() - 1] = last.clone();
        let mask = vec![Bound { index: last, extent: extents[extents.len() - 1] }];
        let windowed = builder.load_where(DType::F32, shape.elements(), flatten(&moved, &shape), mask);
        let [a, b] = [(plain, broadcast), (permuted, windowed)]
            .map(|(a, b)| builder.push(DType::F32, Expr::Binary(Binary::Add, a, b)));
        let sum = builder.push(DType::F32, Expr::Binary(Binary::Mul, a, b));
        builder.store(shape.elements(), here, sum, numbers.below(2) == 0);
        check(&builder.kernel, &mut numbers, 1e-6);
    }
}

#[test]
fn gathers_and_random_bits() {
    let mut numbers = Numbers(3);
    for (rows, width) in [(13, 5), (13, 64), (40, 1)] {
        let mut builder = Builder::new(&[(rows, Role::Parallel), (width, Role::Parallel)]);
        let (i, j) = (Index::axis(0), Index::axis(1));
        let label = builder.load(DType::U32, rows, i.clone());
        let last = builder.push(DType::U32, Expr::Const(Scalar::u32(49)));
        let token = builder.push(DType::U32, Expr::Binary(Binary::Min, label, last));
        let table = Index::value(token, 50).times(width as i64).plus(&j);
        let gathered = builder.load(DType::F32, 50 * width, table);
        let seed = builder.push(DType::U32, Expr::Const(Scalar::u32(7)));
        let counter = i.times(width as i64).plus(&j);
        let random = builder.push(DType::U32, Expr::Random { key: [seed, token], stream: 3, counter: counter.clone() });
        let twelve = builder.push(DType::U32, Expr::Const(Scalar::u32(9)));
        let mantissa = builder.push(DType::U32, Expr::Binary(Binary::Shr, random, twelve));
        let one = builder.push(DType::U32, Expr::Const(Scalar::u32(0x3f80_0000)));
        let bits = builder.push(DType::U32, Expr::Binary(Binary::Or, mantissa, one));
        let uniform = builder.push(DType::F32, Expr::Bitcast(bits, DType::F32));
        let product = builder.push(DType::F32, Expr::Binary(Binary::Mul, gathered, uniform));
        builder.store(rows * width, counter, product, false);
        check(&builder.kernel, &mut numbers, 1e-6);
    }
}

/// Softmax with a second result per row, over the given parallel and reduce extents; `transposed` folds columns.
fn softmax(rows: &[usize], elements: &[usize], transposed: bool) -> Kernel {
    let extents = [rows, elements].concat();
    let role = |axis| if axis < rows.len() { Role::Parallel } else { Role::Reduce };
    let axes: Vec<_> = extents.iter().enumerate().map(|(axis, &extent)| (extent, role(axis))).collect();
    let mut builder = Builder::new(&axes);
    let (row_shape, shape) = (Shape::from(rows), Shape::from(extents.as_slice()));
    let coords = axis_indices(extents.len());
    let here = if transposed {
        let split = rows.len();
        let swapped = Shape::new([elements, rows].concat());
        flatten(&[&coords[split..], &coords[..split]].concat(), &swapped)
    } else {
        flatten(&coords, &shape)
    };
    let x = builder.load(DType::F32, shape.elements(), here.clone());
    let largest = builder.push(DType::F32, Expr::Reduce(Monoid::Max, x));
    let shifted = builder.push(DType::F32, Expr::Binary(Binary::Sub, x, largest));
    let power = builder.push(DType::F32, Expr::Unary(Unary::Exp, shifted));
    let sum = builder.push(DType::F32, Expr::Reduce(Monoid::Sum, power));
    let result = builder.push(DType::F32, Expr::Binary(Binary::Div, power, sum));
    let log = builder.push(DType::F32, Expr::Unary(Unary::Log, sum));
    builder.store(shape.elements(), here, result, true);
    builder.store(row_shape.elements(), flatten(&coords[..rows.len()], &row_shape), log, false);
    builder.kernel
}

#[test]
fn rows_short_long_and_transposed() {
    let mut numbers = Numbers(4);
    let shapes: [(&[usize], &[usize]); 8] = [
        (&[3], &[7]),
        (&[129], &[10]),
        (&[5], &[1000]),
        (&[2, 3], &[17, 61]),
        (&[1], &[300_000]),
        (&[], &[4097]),
        (&[300], &[1]),
        (&[2], &[60_000]),
    ];
    for (rows, elements) in shapes {
        for transposed in [false, true] {
            check(&softmax(rows, elements, transposed), &mut numbers, 1e-6);
        }
    }
}

#[test]
fn pooling_over_masked_windows() {
    // out[n, y, x] = max over p, q of in[n, 2 y + p − 1, 2 x + q − 1], and how many elements of the window are inside.
    let (count, height, width) = (3, 13_usize, 41_usize);
    let mut builder = Builder::new(&[
        (count, Role::Parallel),
        (height.div_ceil(2), Role::Parallel),
        (width.div_ceil(2), Role::Parallel),
        (3, Role::Reduce),
        (3, Role::Reduce),
    ]);
    let at = axis_indices(5);
    let (row, col) = (at[1].times(2).plus(&at[3]).shifted(-1), at[2].times(2).plus(&at[4]).shifted(-1));
    let image = Shape::from([count, height, width]);
    let mask = vec![Bound { index: row.clone(), extent: height }, Bound { index: col.clone(), extent: width }];
    let here = flatten(&[at[0].clone(), row, col], &image);
    let x = builder.load_where(DType::F32, image.elements(), here, mask.clone());
    let inside = builder.push(DType::Bool, Expr::Within(mask));
    let one = builder.push(DType::U32, Expr::Cast(inside, DType::U32));
    let largest = builder.push(DType::F32, Expr::Reduce(Monoid::Max, x));
    let counted = builder.push(DType::U32, Expr::Reduce(Monoid::Sum, one));
    let pooled = Shape::from([count, height.div_ceil(2), width.div_ceil(2)]);
    builder.store(pooled.elements(), flatten(&at[..3], &pooled), largest, false);
    builder.store(pooled.elements(), flatten(&at[..3], &pooled), counted, false);
    check(&builder.kernel, &mut Numbers(11), 0.0);
}

#[test]
fn cross_entropy_gathers_the_label() {
    // loss[i] = log Σ_j exp x[i, j] − x[i, label[i]], for rows walked along and across.
    for (rows, classes) in [(40, 10), (7, 600)] {
        let mut builder = Builder::new(&[(rows, Role::Parallel), (classes, Role::Reduce)]);
        let (i, j) = (Index::axis(0), Index::axis(1));
        let label = builder.load(DType::U32, rows, i.clone());
        let last = builder.push(DType::U32, Expr::Const(Scalar::u32(classes as u32 - 1)));
        let label = builder.push(DType::U32, Expr::Binary(Binary::Min, label, last));
        let x = builder.load(DType::F32, rows * classes, i.times(classes as i64).plus(&j));
        let Expr::Load { arg, .. } = *builder.kernel.expr(x) else { panic!() };
        let index = i.times(classes as i64).plus(&Index::value(label, classes));
        let own = builder.push(DType::F32, Expr::Load { arg, index, mask: Vec::new() });
        let power = builder.push(DType::F32, Expr::Unary(Unary::Exp, x));
        let sum = builder.push(DType::F32, Expr::Reduce(Monoid::Sum, power));
        let log = builder.push(DType::F32, Expr::Unary(Unary::Log, sum));
        let loss = builder.push(DType::F32, Expr::Binary(Binary::Sub, log, own));
        builder.store(rows, i, loss, false);
        check(&builder.kernel, &mut Numbers(12), 1e-6);
    }
}

#[test]
fn dispatches_follow_one_another_in_shared_buffers() {
    // y = −x from byte 0 to byte 256 of one buffer, then y = −y in place through one binding for both arguments.
    let mut builder = Builder::new(&[(50, Role::Parallel)]);
    let x = builder.load(DType::F32, 50, Index::axis(0));
    let negative = builder.push(DType::F32, Expr::Unary(Unary::Neg, x));
    builder.store(50, Index::axis(0), negative, false);
    let mut plan = plan_of(&builder.kernel);
    plan.buffers.truncate(1);
    plan.buffers[0].bytes = 512;
    let place = |offset| Place { buffer: 0, offset, bytes: 200 };
    plan.dispatches[0].bindings = [0, 256].map(|offset| Binding { place: place(offset), writable: true }).to_vec();
    plan.dispatches.push(plan.dispatches[0].clone());
    plan.dispatches[1].bindings.remove(0);
    plan.dispatches[1].arg_binding = vec![0, 0];
    let buffer = Buffer::zeroed(512);
    let values: Vec<f32> = (0..50).map(|at| at as f32).collect();
    buffer.write(0, bytemuck::cast_slice(&values)).unwrap();
    let run = |plan: &Plan| Executor::new(Arc::new(plan.clone())).run(std::slice::from_ref(&buffer));
    run(&plan).unwrap();
    let mut result = vec![0.0_f32; 50];
    buffer.read(256, bytemuck::cast_slice_mut(&mut result)).unwrap();
    assert_eq!(result, values);
    plan.dispatches[1].bindings[0].place.bytes = 196;
    assert_eq!(run(&plan), Err(RunError::Unbound { dispatch: 1, label: "test".into(), arg: 0 }));
}

#[test]
fn every_monoid_and_type() {
    let mut numbers = Numbers(5);
    for dtype in DType::ALL {
        for &monoid in Monoid::ALL.iter().filter(|monoid| monoid.takes(dtype)) {
            for (rows, elements) in [(3, 37), (150, 6), (70, 37)] {
                let mut builder = Builder::new(&[(rows, Role::Parallel), (elements, Role::Reduce)]);
                let here = Index::axis(1).times(rows as i64).plus(&Index::axis(0));
                let x = builder.load(dtype, rows * elements, here);
                let folded = builder.push(dtype, Expr::Reduce(monoid, x));
                builder.store(rows, Index::axis(0), folded, false);
                check(&builder.kernel, &mut numbers, 3e-6);
            }
        }
    }
}

/// `out[b, i, j] = act(Σ_k a · b)`; what each operand and result looks like is drawn at random.
fn contraction(numbers: &mut Numbers, extents: [usize; 4], dtype: DType) -> Kernel {
    let [batch, m, n, k] = extents;
    let mut builder = Builder::new(&[(batch, Role::Parallel), (m, Role::Row), (n, Role::Col), (k, Role::Reduce)]);
    let (b, i, j, d) = (Index::axis(0), Index::axis(1), Index::axis(2), Index::axis(3));
    let mut operand = |builder: &mut Builder, free: &Index, extent: usize| {
        let (rows, cols) = (extent as i64, k as i64);
        let index = match numbers.below(2) {
            0 => b.times(rows * cols).plus(&free.times(cols)).plus(&d),
            _ => b.times(rows * cols).plus(&d.times(rows)).plus(free),
        };
        let elements = batch * extent * k;
        match numbers.below(4) {
            0 => {
                let x = builder.load(dtype, elements, index);
                let scale = builder.load(dtype, extent, free.clone());
                builder.push(dtype, Expr::Binary(Binary::Mul, x, scale))
            }
            1 => {
                let mask = vec![Bound { index: free.clone().shifted(-1), extent: extent.saturating_sub(2) }];
                builder.load_where(dtype, elements, index, mask)
            }
            _ => builder.load(dtype, elements, index),
        }
    };
    let lhs = operand(&mut builder, &i, m);
    let rhs = operand(&mut builder, &j, n);
    builder.kernel.body = Body::Contract { lhs, rhs, accumulate: if dtype.is_float() { DType::F32 } else { dtype } };
    let acc = builder.push(if dtype.is_float() { DType::F32 } else { dtype }, Expr::Acc);
    let out = match numbers.below(3) {
        0 => b.times((m * n) as i64).plus(&j.times(m as i64)).plus(&i),
        _ => b.times((m * n) as i64).plus(&i.times(n as i64)).plus(&j),
    };
    let mut value = acc;
    if dtype.is_float() && numbers.below(2) == 0 {
        let bias = builder.load(DType::F32, n, j);
        let sum = builder.push(DType::F32, Expr::Binary(Binary::Add, acc, bias));
        let zero = builder.push(DType::F32, Expr::Const(Scalar::f32(0.0)));
        value = builder.push(DType::F32, Expr::Binary(Binary::Max, sum, zero));
    }
    builder.store(batch * m * n, out, value, false);
    builder.kernel
}

#[test]
fn random_contractions() {
    let mut numbers = Numbers(6);
    for dtype in [DType::F32, DType::F16, DType::U32, DType::I32] {
        for _ in 0..24 {
            let extents = [[1, 1, 3, 10], [1, 5, 17, 40], [1, 5, 37, 70], [1, 3, 31, 64]];
            let extents = extents.map(|choices| choices[numbers.below(4)]);
            let kernel = contraction(&mut numbers, extents, dtype);
            // Prologues of f16 operands round each product to f16, as a GPU does: by up to 2⁻¹¹ of its value.
            check(&kernel, &mut numbers, if dtype == DType::F16 { 2e-3 } else { 1e-6 });
        }
    }
    for extents in [[1, 300, 130, 67], [1, 130, 300, 67], [2, 300, 70, 31], [1, 1, 700, 300], [1, 700, 1, 300]] {
        for _ in 0..4 {
            let kernel = contraction(&mut numbers, extents, DType::F32);
            check(&kernel, &mut numbers, 1e-6);
        }
    }
}

#[test]
fn convolution_by_access_maps() {
    // out[n, o, y, x] = Σ_(c, p, q) in[n, c, y + p − 1, x + q − 1] w[o, c, p, q] on an 11 × 9 image, padded by one.
    let (count, channels, filters, height, width) = (2, 3, 5, 11, 9);
    let mut builder = Builder::new(&[
        (count, Role::Row),
        (height, Role::Row),
        (width, Role::Row),
        (filters, Role::Col),
        (channels, Role::Reduce),
        (3, Role::Reduce),
        (3, Role::Reduce),
    ]);
    let at = axis_indices(7);
    let (row, col) = (at[1].plus(&at[5]).shifted(-1), at[2].plus(&at[6]).shifted(-1));
    let image = Shape::from([count, channels, height, width]);
    let mask = vec![Bound { index: row.clone(), extent: height }, Bound { index: col.clone(), extent: width }];
    let index = flatten(&[at[0].clone(), at[4].clone(), row, col], &image);
    let lhs = builder.load_where(DType::F32, image.elements(), index, mask);
    let window = Shape::from([filters, channels, 3, 3]);
    let rhs = builder.load(DType::F32, window.elements(), flatten(&[&at[3..4], &at[4..]].concat(), &window));
    builder.kernel.body = Body::Contract { lhs, rhs, accumulate: DType::F32 };
    let acc = builder.push(DType::F32, Expr::Acc);
    let result = Shape::from([count, filters, height, width]);
    let out = flatten(&[at[0].clone(), at[3].clone(), at[1].clone(), at[2].clone()], &result);
    builder.store(result.elements(), out, acc, false);
    check(&builder.kernel, &mut Numbers(7), 1e-6);
}

#[test]
fn in_place_updates_read_before_they_write() {
    let mut builder = Builder::new(&[(3000, Role::Parallel)]);
    let arg = builder.arg(DType::F32, 3000, Access::ReadWrite);
    let old = builder.push(DType::F32, Expr::Load { arg, index: Index::axis(0), mask: Vec::new() });
    let step = builder.load(DType::F32, 3000, Index::axis(0));
    let new = builder.push(DType::F32, Expr::Binary(Binary::Sub, old, step));
    builder.kernel.stores.push(Store { arg, index: Index::axis(0), value: new, per_element: false });
    builder.store(3000, Index::axis(0), old, false);
    check(&builder.kernel, &mut Numbers(8), 1e-6);
}

#[test]
fn empty_spaces() {
    for (rows, elements) in [(&[0][..], &[5][..]), (&[4], &[0]), (&[0], &[0]), (&[], &[0])] {
        for transposed in [false, true] {
            check(&softmax(rows, elements, transposed), &mut Numbers(9), 0.0);
        }
    }
    for extents in [[0, 2, 3, 4], [2, 0, 3, 4], [2, 3, 0, 4], [2, 3, 4, 0]] {
        for _ in 0..8 {
            let kernel = contraction(&mut Numbers(extents[3] as u64), extents, DType::F32);
            check(&kernel, &mut Numbers(10), 0.0);
        }
    }
}

#[test]
fn nan_is_carried_through_folds_and_products() {
    let kernel = softmax(&[2], &[40], false);
    let mut values = vec![1.0; 80];
    values[5] = f64::NAN;
    let results = execute(&kernel, &[values.clone(), vec![0.0; 80], vec![0.0; 2]]).unwrap();
    assert!(results[1][..40].iter().all(|x| x.is_nan()) && results[1][40..].iter().all(|x| !x.is_nan()));
    assert!(results[2][0].is_nan() && !results[2][1].is_nan());
}

#[test]
fn labels_out_of_range_are_errors() {
    let mut builder = Builder::new(&[(4, Role::Parallel)]);
    let token = builder.load(DType::U32, 4, Index::axis(0));
    let gathered = builder.load(DType::F32, 10, Index::value(token, 10));
    builder.store(4, Index::axis(0), gathered, false);
    let args = [vec![1.0, 9.0, 10.0, 0.0], vec![0.0; 10], vec![0.0; 4]];
    let error = execute(&builder.kernel, &args).unwrap_err();
    let expected = RunError::OutOfBounds { dispatch: 0, label: "test".into(), arg: 1, index: 10, elements: 10 };
    assert_eq!(error, expected);
}

#[test]
fn buffers_must_fit_the_plan() {
    let executor = Executor::new(Arc::new(plan_of(&softmax(&[2], &[3], false))));
    let buffers = [Buffer::zeroed(24), Buffer::zeroed(20), Buffer::zeroed(8)];
    assert_eq!(executor.run(&buffers[..2]), Err(RunError::BufferCount { expected: 3, found: 2 }));
    assert_eq!(executor.run(&buffers), Err(RunError::BufferSize { buffer: 1, expected: 24, found: 20 }));
    assert!(buffers[0].write(20, &[0; 8]).is_err() && buffers[0].read(25, &mut []).is_err());
}
