//! Prints how fast the CPU device is: `cargo test --release -p meganeura-core speed -- --ignored --nocapture`.

use super::testing::{Builder, plan_of};
use super::{Buffer, Executor};
use crate::compose::ConvOptions;
use crate::dtype::DType;
use crate::index::{Index, flatten};
use crate::kernel::{Body, Bound, Expr, Kernel, Role};
use crate::memory::Plan;
use crate::options::Options;
use crate::scalar::{Binary, Monoid, Scalar, Unary};
use crate::schedule::Caps;
use crate::shape::{Shape, TensorType};
use std::sync::Arc;
use web_time::Instant;

/// Seconds of one run, the best of some.
fn seconds(kernel: &Kernel) -> f64 {
    seconds_of_plan(plan_of(kernel))
}

fn seconds_of_plan(plan: Plan) -> f64 {
    let executor = Executor::new(Arc::new(plan));
    let buffers: Vec<Buffer> = executor.plan().buffers.iter().map(|buffer| Buffer::zeroed(buffer.bytes)).collect();
    for buffer in &buffers {
        let values: Vec<f32> = (0..buffer.bytes() / 4).map(|at| (at % 17) as f32 * 0.1).collect();
        buffer.write(0, bytemuck::cast_slice(&values)).unwrap();
    }
    let run = || {
        let start = Instant::now();
        executor.run(&buffers).unwrap();
        start.elapsed().as_secs_f64()
    };
    let (mut best, start) = (f64::INFINITY, Instant::now());
    while start.elapsed().as_secs_f64() < 0.3 {
        best = run().min(best);
    }
    best
}

/// Kernels one after another, on buffers of their own.
fn sequence(kernels: &[Kernel]) -> Plan {
    let mut whole = plan_of(&kernels[0]);
    for kernel in &kernels[1..] {
        let mut plan = plan_of(kernel);
        plan.dispatches[0].kernel = whole.kernels.len();
        plan.dispatches[0].bindings.iter_mut().for_each(|binding| binding.place.buffer += whole.buffers.len());
        whole.kernels.append(&mut plan.kernels);
        whole.buffers.append(&mut plan.buffers);
        whole.dispatches.append(&mut plan.dispatches);
    }
    whole
}

/// The work of a training step of a 784-256-128-10 perceptron on 128 samples: what its kernels do, not their wiring.
fn perceptron_step() -> Plan {
    let (batch, widths) = (128, [784, 256, 128, 10]);
    let mut kernels = Vec::new();
    for layer in widths.windows(2) {
        let (inputs, outputs) = (layer[0], layer[1]);
        kernels.push(product(batch, outputs, inputs, [false, true], true));
        kernels.push(product(outputs, inputs, batch, [true, false], false));
        kernels.push(column_sum(batch, outputs));
        kernels.push(adamw(outputs * inputs));
        kernels.push(adamw(outputs));
        if inputs != widths[0] {
            kernels.push(product(batch, inputs, outputs, [false, false], true));
        }
    }
    kernels.push(softmax(batch, 10));
    kernels.push(softmax(batch, 10));
    sequence(&kernels)
}

fn product(m: usize, n: usize, k: usize, transposed: [bool; 2], epilogue: bool) -> Kernel {
    let mut builder = Builder::new(&[(m, Role::Row), (n, Role::Col), (k, Role::Reduce)]);
    let (i, j, d) = (Index::axis(0), Index::axis(1), Index::axis(2));
    let at = |row: &Index, col: &Index, cols: usize| row.times(cols as i64).plus(col);
    let lhs = builder.load(DType::F32, m * k, if transposed[0] { at(&d, &i, m) } else { at(&i, &d, k) });
    let rhs = builder.load(DType::F32, n * k, if transposed[1] { at(&j, &d, k) } else { at(&d, &j, n) });
    builder.kernel.body = Body::Contract { lhs, rhs, accumulate: DType::F32 };
    let mut value = builder.push(DType::F32, Expr::Acc);
    if epilogue {
        let bias = builder.load(DType::F32, n, j.clone());
        let zero = builder.push(DType::F32, Expr::Const(Scalar::f32(0.0)));
        value = builder.push(DType::F32, Expr::Binary(Binary::Add, value, bias));
        value = builder.push(DType::F32, Expr::Binary(Binary::Max, value, zero));
    }
    builder.store(m * n, at(&i, &j, n), value, false);
    builder.kernel
}

/// `[rows, cols]` softmax.
fn softmax(rows: usize, cols: usize) -> Kernel {
    let mut builder = Builder::new(&[(rows, Role::Parallel), (cols, Role::Reduce)]);
    let here = Index::axis(0).times(cols as i64).plus(&Index::axis(1));
    let x = builder.load(DType::F32, rows * cols, here.clone());
    let largest = builder.push(DType::F32, Expr::Reduce(Monoid::Max, x));
    let shifted = builder.push(DType::F32, Expr::Binary(Binary::Sub, x, largest));
    let power = builder.push(DType::F32, Expr::Unary(Unary::Exp, shifted));
    let sum = builder.push(DType::F32, Expr::Reduce(Monoid::Sum, power));
    let result = builder.push(DType::F32, Expr::Binary(Binary::Div, power, sum));
    builder.store(rows * cols, here, result, true);
    builder.kernel
}

fn column_sum(rows: usize, cols: usize) -> Kernel {
    let mut builder = Builder::new(&[(cols, Role::Parallel), (rows, Role::Reduce)]);
    let here = Index::axis(1).times(cols as i64).plus(&Index::axis(0));
    let x = builder.load(DType::F32, rows * cols, here);
    let sum = builder.push(DType::F32, Expr::Reduce(Monoid::Sum, x));
    builder.store(cols, Index::axis(0), sum, false);
    builder.kernel
}

fn whole(elements: usize, monoid: Monoid) -> Kernel {
    let mut builder = Builder::new(&[(elements, Role::Reduce)]);
    let x = builder.load(DType::F32, elements, Index::axis(0));
    let sum = builder.push(DType::F32, Expr::Reduce(monoid, x));
    builder.store(1, Index::constant(0), sum, false);
    builder.kernel
}

fn whole_sum(elements: usize) -> Kernel {
    let mut builder = Builder::new(&[(elements, Role::Reduce)]);
    let x = builder.load(DType::F32, elements, Index::axis(0));
    let square = builder.push(DType::F32, Expr::Binary(Binary::Mul, x, x));
    let sum = builder.push(DType::F32, Expr::Reduce(Monoid::Sum, square));
    builder.store(1, Index::constant(0), sum, false);
    builder.kernel
}

/// `x ← f(x)` with unary functions, then one store.
fn map(elements: usize, functions: &[Unary]) -> Kernel {
    let mut builder = Builder::new(&[(elements, Role::Parallel)]);
    let mut x = builder.load(DType::F32, elements, Index::axis(0));
    for &function in functions {
        x = builder.push(DType::F32, Expr::Unary(function, x));
    }
    builder.store(elements, Index::axis(0), x, false);
    builder.kernel
}

/// AdamW with its moments and a scalar step, in place of nothing: five tensors in, three out.
fn adamw(elements: usize) -> Kernel {
    let mut builder = Builder::new(&[(elements, Role::Parallel)]);
    let [parameter, gradient, first, second] = [0; 4].map(|_| builder.load(DType::F32, elements, Index::axis(0)));
    let step = builder.load(DType::F32, 1, Index::constant(0));
    let constant = |builder: &mut Builder, x| builder.push(DType::F32, Expr::Const(Scalar::f32(x)));
    let [b1, c1, b2, c2, rate, epsilon, decay] =
        [0.9, 0.1, 0.999, 0.001, 1e-3, 1e-8, 0.999_99].map(|x| constant(&mut builder, x));
    let binary = |builder: &mut Builder, f, a, b| builder.push(DType::F32, Expr::Binary(f, a, b));
    use Binary::{Add, Div, Mul, Pow, Sub};
    let mixed = |builder: &mut Builder, old, keep, new, take| {
        let (old, new) = (binary(builder, Mul, old, keep), binary(builder, Mul, new, take));
        binary(builder, Add, old, new)
    };
    let first = mixed(&mut builder, first, b1, gradient, c1);
    let square = binary(&mut builder, Mul, gradient, gradient);
    let second = mixed(&mut builder, second, b2, square, c2);
    let correction = binary(&mut builder, Pow, b2, step);
    let unbiased = binary(&mut builder, Div, second, correction);
    let root = builder.push(DType::F32, Expr::Unary(Unary::Sqrt, unbiased));
    let divisor = binary(&mut builder, Add, root, epsilon);
    let ratio = binary(&mut builder, Div, first, divisor);
    let moved = binary(&mut builder, Mul, ratio, rate);
    let decayed = binary(&mut builder, Mul, parameter, decay);
    let parameter = binary(&mut builder, Sub, decayed, moved);
    for value in [parameter, first, second] {
        builder.store(elements, Index::axis(0), value, false);
    }
    builder.kernel
}

/// A 3 × 3 convolution of `[count, channels, size, size]`, padded by one.
fn convolution(count: usize, channels: usize, filters: usize, size: usize) -> Kernel {
    let axes = [count, size, size].map(|extent| (extent, Role::Row));
    let depth = [channels, 3, 3].map(|extent| (extent, Role::Reduce));
    let mut builder = Builder::new(&[&axes[..], &[(filters, Role::Col)], &depth].concat());
    let at: Vec<Index> = (0..7).map(Index::axis).collect();
    let (row, col) = (at[1].plus(&at[5]).shifted(-1), at[2].plus(&at[6]).shifted(-1));
    let image = Shape::from([count, channels, size, size]);
    let mask = vec![Bound { index: row.clone(), extent: size }, Bound { index: col.clone(), extent: size }];
    let index = flatten(&[at[0].clone(), at[4].clone(), row, col], &image);
    let lhs = builder.load_where(DType::F32, image.elements(), index, mask);
    let window = Shape::from([filters, channels, 3, 3]);
    let rhs = builder.load(DType::F32, window.elements(), flatten(&[&at[3..4], &at[4..]].concat(), &window));
    builder.kernel.body = Body::Contract { lhs, rhs, accumulate: DType::F32 };
    let acc = builder.push(DType::F32, Expr::Acc);
    let result = Shape::from([count, filters, size, size]);
    let out = flatten(&[at[0].clone(), at[3].clone(), at[1].clone(), at[2].clone()], &result);
    builder.store(result.elements(), out, acc, false);
    builder.kernel
}

/// A convolution of `[4, channels, size, size]` with `taps`² windows, or one of its derivatives, as programs have it.
fn convolution_plan(shape: [usize; 4], options: &ConvOptions, what: usize) -> Plan {
    let [channels, filters, size, taps] = shape;
    let builder = crate::ir::Builder::new();
    let input = |name: &str, shape: [usize; 4]| builder.input(name, TensorType::new(DType::F32, shape));
    let x = input("x", [4, channels, size, size]);
    let w = input("w", [filters, channels / options.groups, taps, taps]);
    let y = x.conv(w, options);
    let r = builder.input("r", y.ty());
    builder.output("y", if what == 0 { y } else { builder.gradients((y * r).sum_all(), &[[x, w][what - 1]])[0] });
    let graph = builder.finish().unwrap();
    let program = crate::pipeline::compile(&graph, &Options::default(), &Caps::cpu(2), None).unwrap();
    Plan::clone(&program.plan)
}

#[test]
#[ignore = "prints measurements"]
#[allow(clippy::print_stdout)]
fn speed_of_convolutions() {
    for [m, n, k] in [[12_544, 64, 576], [64, 12_544, 576], [576, 64, 12_544]] {
        let time = seconds(&product(m, n, k, [false, false], false));
        println!("product {m} × {n} × {k}: {:.1} GFLOP/s, {:.0} us", 2e-9 * (m * n * k) as f64 / time, 1e6 * time);
    }
    for (shape, options) in [
        ([64, 64, 56, 3], ConvOptions::default().padding(1)),
        ([256, 256, 14, 3], ConvOptions::default().padding(1)),
        ([512, 512, 7, 3], ConvOptions::default().padding(1)),
        ([128, 128, 56, 3], ConvOptions::default().padding(1).stride(2)),
        ([64, 256, 56, 1], ConvOptions::default()),
        ([3, 64, 224, 7], ConvOptions::default().padding(3).stride(2)),
        ([64, 64, 56, 3], ConvOptions::default().padding(1).groups(64)),
    ] {
        let [channels, filters, size, taps] = shape;
        let out = (size + 2 * options.padding[0][0] - taps) / options.stride[0] + 1;
        let products = 4 * out * out * filters * channels / options.groups * taps * taps;
        for (what, name) in ["forward", "of the image", "of the weight"].into_iter().enumerate() {
            let time = seconds_of_plan(convolution_plan(shape, &options, what));
            let rate = 2e-9 * products as f64 / time;
            println!("{shape:?} stride {} {name}: {rate:.1} GFLOP/s, {:.0} us", options.stride[0], 1e6 * time);
        }
    }
}

#[test]
#[ignore = "prints measurements"]
#[allow(clippy::print_stdout)]
fn speed() {
    for (name, [m, n, k], transposed, epilogue) in [
        ("square", [512, 512, 512], [false, false], false),
        ("square 1024", [1024, 1024, 1024], [false, false], false),
        ("lhs transposed", [512, 512, 512], [true, false], false),
        ("rhs transposed", [512, 512, 512], [false, true], false),
        ("mnist forward", [128, 256, 784], [false, true], true),
        ("mnist weights", [784, 256, 128], [true, false], false),
        ("mnist 2", [128, 128, 256], [false, true], true),
        ("mnist 3", [128, 10, 128], [false, true], true),
        ("gemv", [1, 4096, 4096], [false, true], false),
        ("gemv transposed", [1, 4096, 4096], [false, false], false),
    ] {
        let time = seconds(&product(m, n, k, transposed, epilogue));
        println!("{name}: {:.1} GFLOP/s, {:.1} us", 2e-9 * (m * n * k) as f64 / time, 1e6 * time);
    }
    let time = seconds(&convolution(16, 32, 32, 28));
    println!("convolution: {:.1} GFLOP/s, {:.1} us", 2e-9 * (16 * 28 * 28 * 32 * 32 * 9) as f64 / time, 1e6 * time);
    let time = seconds_of_plan(perceptron_step());
    println!("perceptron step: {:.1} us, 60,000 samples in {:.2} s", 1e6 * time, 60_000.0 / 128.0 * time);
    let report = |name: &str, bytes: f64, kernel: &Kernel| {
        let time = seconds(kernel);
        println!("{name}: {:.1} GB/s, {:.1} us", 1e-9 * bytes / time, 1e6 * time);
    };
    report("whole max 1e6", 4e6, &whole(1_000_000, Monoid::Max));
    report("whole sum 1e6", 4e6, &whole(1_000_000, Monoid::Sum));
    report("map copy 1e7", 8e7, &map(10_000_000, &[]));
    report("map neg abs 1e7", 8e7, &map(10_000_000, &[Unary::Neg, Unary::Abs]));
    report("map exp 1e6", 8e6, &map(1_000_000, &[Unary::Exp]));
    report("map tanh 1e6", 8e6, &map(1_000_000, &[Unary::Tanh]));
    report("map erf 1e6", 8e6, &map(1_000_000, &[Unary::Erf]));
    report("adamw 235146", 7.0 * 4.0 * 235_146.0, &adamw(235_146));
    report("softmax 1000x1000", 8e6, &softmax(1000, 1000));
    report("softmax 128x10", 10_240.0, &softmax(128, 10));
    report("column sum 4096x1024", 4.0 * 4096.0 * 1024.0, &column_sum(4096, 1024));
    report("column sum 128x256", 4.0 * 128.0 * 256.0, &column_sum(128, 256));
    report("column sum 100000x16", 6.4e6, &column_sum(100_000, 16));
    report("sum of squares 1e7", 4e7, &whole_sum(10_000_000));
}
