//! Row programs on an adapter: folds of every type, several passes, rows of awkward lengths, columns.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use meganeura_core::dtype::DType;
use meganeura_core::index::{Index, flatten};
use meganeura_core::kernel::{Access, Bound};
use meganeura_core::scalar::{Binary, Monoid, Unary};
use meganeura_core::schedule::{Adjacent, Caps, Numerics, RowSpec, Spec, choose};
use support::{Build, EXACT, Tolerance, check, check_with, noise, print_plain, tolerance};

fn row(lanes: u32, rows: u32) -> Spec {
    Spec::Row(RowSpec { lanes, rows, adjacent: Adjacent::Elements })
}

fn columns(lanes: u32, rows: u32) -> Spec {
    Spec::Row(RowSpec { lanes, rows, adjacent: Adjacent::Rows })
}

const LENGTHS: [usize; 8] = [1, 2, 7, 16, 31, 64, 127, 300];

#[test]
fn folds_of_every_monoid_and_type() {
    for &monoid in Monoid::ALL {
        for dtype in DType::ALL.into_iter().filter(|&dtype| monoid.takes(dtype)) {
            for (length, spec) in
                [(1, row(4, 2)), (37, row(1, 8)), (37, row(16, 2)), (64, row(8, 4)), (64, columns(8, 4))]
            {
                let rows = 5;
                let mut b = Build::new(&[rows], &[length]);
                let a = b.read(dtype, rows * length);
                let n = b.linear();
                let x = b.load(a, n);
                let folded = b.reduce(monoid, x);
                b.store(rows, Index::axis(0), folded, false);
                let values = match dtype {
                    DType::F32 | DType::F16 => noise(rows * length, 1, 1.0).iter().map(|x| x + 1.0).collect(),
                    DType::U32 => noise(rows * length, 2, 2e9).iter().map(|x| (x + 2e9).floor()).collect(),
                    _ => noise(rows * length, 3, 2e9).iter().map(|x| x.floor()).collect::<Vec<_>>(),
                };
                let allowed = if dtype == DType::F16 { tolerance(2e-3, 1e-6) } else { tolerance(1e-5, 1e-30) };
                check(&b.0, &spec, &[values, vec![0.0; rows]], allowed);
            }
        }
    }
}

#[test]
fn extrema_carry_nan_and_infinities() {
    let mut b = Build::new(&[4], &[9]);
    let a = b.read(DType::F32, 36);
    let n = b.linear();
    let x = b.load(a, n);
    for monoid in [Monoid::Max, Monoid::Min, Monoid::Sum] {
        let folded = b.reduce(monoid, x);
        b.store(4, Index::axis(0), folded, false);
    }
    let mut values = noise(36, 1, 1.0);
    values[4] = f64::NAN;
    values[9..18].fill(f64::NEG_INFINITY);
    values[20] = f64::INFINITY;
    for spec in [row(1, 4), row(4, 2), columns(4, 4)] {
        check(&b.0, &spec, &[values.clone(), vec![0.0; 4], vec![0.0; 4], vec![0.0; 4]], tolerance(1e-6, 1e-6));
    }
}

/// Softmax over the last axis: passes for the maximum, the sum, and the quotient.
fn softmax(rows: usize, length: usize, dtype: DType) -> Build {
    let mut b = Build::new(&[rows], &[length]);
    let a = b.read(dtype, rows * length);
    let n = b.linear();
    let x = b.load(a, n.clone());
    let most = b.reduce(Monoid::Max, x);
    let below = b.binary(Binary::Sub, x, most);
    let power = b.unary(Unary::Exp, below);
    let sum = b.reduce(Monoid::Sum, power);
    let quotient = b.binary(Binary::Div, power, sum);
    let log = b.unary(Unary::Log, sum);
    let total = b.binary(Binary::Add, log, most);
    b.store(rows * length, n, quotient, true);
    b.store(rows, Index::axis(0), total, false);
    b
}

#[test]
fn softmax_of_every_length_and_schedule() {
    for length in LENGTHS {
        let rows = 11;
        let b = softmax(rows, length, DType::F32);
        for spec in [row(1, 4), row(2, 8), row(8, 3), row(64, 1), row(256, 1), columns(1, 16), columns(4, 8)] {
            let inputs = [noise(rows * length, 5, 4.0), vec![0.0; rows * length], vec![0.0; rows]];
            check(&b.0, &spec, &inputs, tolerance(1e-5, 1e-6));
        }
    }
    let b = softmax(3, 40, DType::F16);
    let inputs = [noise(120, 5, 4.0), vec![0.0; 120], vec![0.0; 3]];
    check(&b.0, &row(8, 2), &inputs, tolerance(1e-2, 1e-4));
}

#[test]
fn one_lane_needs_no_workgroup_memory() {
    let b = softmax(11, 7, DType::F32);
    let text = print_plain(&b.0, &row(1, 64), &Caps::base()).source;
    assert!(!text.contains("workgroup>") && !text.contains("Barrier"), "{text}");
}

#[test]
fn long_contiguous_rows_are_read_as_vectors() {
    let b = softmax(3, 64, DType::F32);
    assert!(print_plain(&b.0, &row(16, 1), &Caps::base()).source.contains("vec4<f32>"));
    assert!(!print_plain(&b.0, &row(32, 1), &Caps::base()).source.contains("vec4<f32>"));
    assert!(!print_plain(&b.0, &columns(4, 4), &Caps::base()).source.contains("vec4<f32>"));
}

/// Layer norm with scale and shift over the last two axes, statistics stored.
fn layer_norm(rows: usize, [outer, inner]: [usize; 2]) -> Build {
    let length = outer * inner;
    let mut b = Build::new(&[rows], &[outer, inner]);
    let (a, scale) = (b.read(DType::F32, rows * length), b.read(DType::F32, length));
    let n = b.linear();
    let x = b.load(a, n.clone());
    let g = b.load(scale, Index::axis(1).times(inner as i64).plus(&Index::axis(2)));
    let count = b.constant(DType::F32, length as f64);
    let epsilon = b.constant(DType::F32, 1e-5);
    let sum = b.reduce(Monoid::Sum, x);
    let mean = b.binary(Binary::Div, sum, count);
    let centred = b.binary(Binary::Sub, x, mean);
    let square = b.binary(Binary::Mul, centred, centred);
    let squares = b.reduce(Monoid::Sum, square);
    let variance = b.binary(Binary::Div, squares, count);
    let safe = b.binary(Binary::Add, variance, epsilon);
    let inverse = b.unary(Unary::Rsqrt, safe);
    let normal = b.binary(Binary::Mul, centred, inverse);
    let scaled = b.binary(Binary::Mul, normal, g);
    b.store(rows * length, n, scaled, true);
    b.store(rows, Index::axis(0), mean, false);
    b
}

#[test]
fn norms_over_two_axes() {
    for (rows, inner) in [(6, [3, 5]), (2, [4, 8]), (9, [1, 12]), (5, [7, 1])] {
        let b = layer_norm(rows, inner);
        let length = inner[0] * inner[1];
        for spec in [row(1, 8), row(4, 4), row(8, 1)] {
            let inputs =
                [noise(rows * length, 1, 2.0), noise(length, 2, 1.0), vec![0.0; rows * length], vec![0.0; rows]];
            check(&b.0, &spec, &inputs, tolerance(1e-5, 1e-5));
        }
    }
}

#[test]
fn sums_of_columns_between_other_axes() {
    // [4, 30, 6] folded over the middle axis.
    let mut b = Build::new(&[4, 6], &[30]);
    let a = b.read(DType::F32, 720);
    let at = flatten(&[Index::axis(0), Index::axis(2), Index::axis(1)], &[4, 30, 6].into());
    let x = b.load(a, at);
    let sum = b.reduce(Monoid::Sum, x);
    b.store(24, Index::axis(0).times(6).plus(&Index::axis(1)), sum, false);
    for spec in [columns(1, 64), columns(8, 8), columns(16, 3), row(8, 2)] {
        check(&b.0, &spec, &[noise(720, 1, 1.0), vec![0.0; 24]], tolerance(1e-5, 1e-5));
    }
}

#[test]
fn masked_windows() {
    // Sums over windows of 3 with padding 1: a mask that varies with row and element.
    let mut b = Build::new(&[10], &[3]);
    let a = b.read(DType::F32, 10);
    let at = Index::axis(0).plus(&Index::axis(1)).shifted(-1);
    let x = b.load_masked(a, at.clone(), vec![Bound { index: at, extent: 10 }]);
    let sum = b.reduce(Monoid::Sum, x);
    b.store(10, Index::axis(0), sum, false);
    for spec in [row(1, 16), row(2, 4)] {
        check(&b.0, &spec, &[noise(10, 1, 1.0), vec![0.0; 10]], tolerance(1e-6, 1e-6));
    }
}

#[test]
fn gathered_logarithm_of_a_class() {
    // Cross entropy: the logit of the row's class, once a row.
    let mut b = Build::new(&[8], &[10]);
    let (a, classes) = (b.read(DType::F32, 80), b.read(DType::U32, 8));
    let n = b.linear();
    let x = b.load(a, n);
    let most = b.reduce(Monoid::Max, x);
    let below = b.binary(Binary::Sub, x, most);
    let power = b.unary(Unary::Exp, below);
    let sum = b.reduce(Monoid::Sum, power);
    let log = b.unary(Unary::Log, sum);
    let class = b.load(classes, Index::axis(0));
    let own = b.load(a, Index::axis(0).times(10).plus(&Index::value(class, 10)));
    let margin = b.binary(Binary::Sub, own, most);
    let loss = b.binary(Binary::Sub, log, margin);
    b.store(8, Index::axis(0), loss, false);
    let labels: Vec<f64> = (0..8).map(|i| f64::from(i * 3 % 10)).collect();
    for spec in [row(1, 8), row(4, 2), row(8, 3)] {
        check(&b.0, &spec, &[noise(80, 1, 5.0), labels.clone(), vec![0.0; 8]], tolerance(1e-5, 1e-6));
    }
}

#[test]
fn statistics_updated_in_place() {
    // running += 0.1 · (mean − running), read by all lanes and written by one.
    let mut b = Build::new(&[6], &[32]);
    let (a, running) = (b.read(DType::F32, 192), b.arg(DType::F32, 6, Access::ReadWrite));
    let n = b.linear();
    let x = b.load(a, n.clone());
    let old = b.load(running, Index::axis(0));
    let rate = b.constant(DType::F32, 0.1);
    let sum = b.reduce(Monoid::Sum, x);
    let moved = b.binary(Binary::Sub, sum, old);
    let step = b.binary(Binary::Mul, moved, rate);
    let next = b.binary(Binary::Add, old, step);
    let shifted = b.binary(Binary::Sub, x, old);
    b.store(192, n, shifted, true);
    b.store_to(running, Index::axis(0), next, false);
    for spec in [row(1, 8), row(8, 4), row(32, 1)] {
        check(&b.0, &spec, &[noise(192, 1, 1.0), noise(6, 2, 1.0), vec![0.0; 192]], tolerance(1e-5, 1e-6));
    }
}

#[test]
fn everything_folded_to_one_value_and_nothing_folded() {
    for length in [0, 1, 1000] {
        let mut b = Build::new(&[], &[length]);
        let a = b.read(DType::F32, length);
        let x = b.load(a, Index::axis(0));
        let sum = b.reduce(Monoid::Sum, x);
        let most = b.reduce(Monoid::Max, x);
        b.store(1, Index::constant(0), sum, false);
        b.store(1, Index::constant(0), most, false);
        for spec in [row(1, 1), row(256, 1)] {
            check(&b.0, &spec, &[noise(length, 1, 1.0), vec![5.0], vec![5.0]], tolerance(1e-5, 1e-5));
        }
    }
}

#[test]
fn rows_over_several_dimensions_of_workgroups() {
    let b = softmax(50, 6, DType::F32);
    let caps = Caps { max_workgroups: 3, ..Caps::base() };
    let inputs = [noise(300, 5, 4.0), vec![0.0; 300], vec![0.0; 50]];
    let close: Tolerance = tolerance(1e-5, 1e-6);
    check_with(&b.0, &row(2, 4), &caps, &inputs, close);
    check_with(&b.0, &row(1, 4), &caps, &inputs, close);
}

#[test]
fn same_for_all_elements_of_a_row() {
    // A fold of a constant counts the elements; a store per element of a value that is the same for all.
    let mut b = Build::new(&[3], &[10]);
    let one = b.constant(DType::U32, 1.0);
    let count = b.reduce(Monoid::Sum, one);
    let n = b.linear();
    b.store(30, n, count, true);
    for spec in [row(1, 4), row(4, 2)] {
        check(&b.0, &spec, &[vec![0.0; 30]], EXACT);
    }
}

#[test]
fn chosen_schedules() {
    let small = Caps { max_invocations: 64, workgroup_bytes: 1024, multiprocessors: 2, ..Caps::base() };
    for caps in [Caps::base(), small] {
        for (rows, length) in [(1, 2000), (3, 257), (300, 12), (40, 128), (1, 1)] {
            let b = softmax(rows, length, DType::F32);
            let inputs = [noise(rows * length, 5, 4.0), vec![0.0; rows * length], vec![0.0; rows]];
            check_with(&b.0, &choose(&b.0, &caps, Numerics::Strict).spec, &caps, &inputs, tolerance(1e-5, 1e-6));
        }
        for (rows, length) in [(7, 500), (100, 40), (1, 30)] {
            let mut b = Build::new(&[rows], &[length]);
            let a = b.read(DType::F32, rows * length);
            let x = b.load(a, Index::axis(1).times(rows as i64).plus(&Index::axis(0)));
            let sum = b.reduce(Monoid::Sum, x);
            b.store(rows, Index::axis(0), sum, false);
            let inputs = [noise(rows * length, 6, 1.0), vec![0.0; rows]];
            check_with(&b.0, &choose(&b.0, &caps, Numerics::Strict).spec, &caps, &inputs, tolerance(1e-5, 1e-5));
        }
    }
}

#[test]
fn lanes_combine_by_shuffles() {
    // Translated for subgroups of 32 everywhere, run where the adapter's size is known.
    let b = softmax(11, 300, DType::F32);
    for spec in [row(2, 16), row(32, 2), row(256, 1)] {
        let module = print_plain(&b.0, &spec, &Caps { subgroup: Some(32), ..Caps::base() });
        assert!(module.needs.subgroup && module.source.contains("subgroupShuffleXor"));
        assert_eq!(module.source.contains("Barrier"), spec == row(256, 1), "{}", module.source);
    }
    assert!(!print_plain(&b.0, &row(2, 3), &Caps { subgroup: Some(32), ..Caps::base() }).needs.subgroup);
    let Some(size) = support::gpu::device().and_then(|gpu| gpu.subgroup) else {
        return support::skip("subgroups of a fixed size");
    };
    let caps = Caps { subgroup: Some(size), ..Caps::base() };
    for length in LENGTHS {
        let b = softmax(11, length, DType::F32);
        let inputs = [noise(11 * length, 5, 4.0), vec![0.0; 11 * length], vec![0.0; 11]];
        for spec in [row(2, size), row(size, 3), row(4 * size, 2), row(128, 1)] {
            check_with(&b.0, &spec, &caps, &inputs, tolerance(1e-5, 1e-6));
        }
    }
}

#[test]
fn schedules_that_do_not_fit_are_errors() {
    use meganeura_wgpu::wgsl::{PrintError, print};
    let b = softmax(4, 8, DType::F32);
    for spec in [row(3, 8), row(8, 0), row(64, 8), Spec::Map { threads: 64, per_thread: 1 }] {
        let result = print(&b.0, &spec, &[false, true, true], &[0, 1, 2], &Caps::base());
        assert!(matches!(result, Err(PrintError::Schedule(_))), "{spec:?}: {result:?}");
    }
}
