//! Every scalar function of every type on an adapter, against the tables' own meaning.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use meganeura_core::dtype::DType;
use meganeura_core::index::Index;
use meganeura_core::kernel::Access;
use meganeura_core::scalar::{Binary, Compare, Unary};
use meganeura_core::schedule::Spec;
use support::{Build, EXACT, Tolerance, check, noise, tolerance};

const MAP: Spec = Spec::Map { threads: 64, per_thread: 1 };

/// Values that are likely to go wrong, and noise of several magnitudes.
fn samples(dtype: DType) -> Vec<f64> {
    match dtype {
        DType::Bool => vec![0.0, 1.0],
        DType::U32 => {
            let mut values = vec![0.0, 1.0, 2.0, 3.0, 31.0, 32.0, 33.0, 2147483647.0, 2147483648.0, 4294967295.0];
            values.extend(noise(40, 1, 2147483647.0).iter().map(|x| (x + 2147483647.0).floor()));
            values
        }
        DType::I32 => {
            let mut values = vec![0.0, 1.0, -1.0, 2.0, -3.0, 33.0, 2147483647.0, -2147483647.0, -2147483648.0];
            values.extend(noise(40, 2, 2147483647.0).iter().map(|x| x.floor()));
            values
        }
        DType::F32 | DType::F16 => {
            let mut values = vec![0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 0.25, 2.0, -2.0];
            values.extend([f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 65504.0, -65504.0, 1e-3, -1e-3]);
            for (seed, scale) in [(3, 1.0), (4, 10.0), (5, 100.0), (6, 0.01), (7, 30000.0)] {
                values.extend(noise(120, seed, scale));
            }
            if dtype == DType::F32 {
                values.extend([1e30, -1e30, 3e38, 1e-30, 1e9, 4294967296.0, -2147483648.0, 2147483648.0]);
                values.extend(noise(100, 8, 1e10));
            }
            values
        }
    }
}

/// What a helper promises, in f32; f16 results are those of f32, rounded.
fn unary_tolerance(function: Unary, dtype: DType) -> Tolerance {
    let ulp = f64::from(f32::EPSILON) / 2.0;
    let relative = match function {
        Unary::Exp | Unary::Log | Unary::Log1p | Unary::Sin | Unary::Cos => 4.0 * ulp,
        Unary::Expm1 | Unary::Sigmoid | Unary::Tanh | Unary::Erf | Unary::Sqrt | Unary::Rsqrt | Unary::Recip => {
            8.0 * ulp
        }
        _ => return EXACT,
    };
    match dtype {
        DType::F16 => tolerance(1e-3, 1e-7),
        _ => tolerance(relative, 1e-37),
    }
}

#[test]
fn unary_functions() {
    for &function in Unary::ALL {
        for dtype in DType::ALL.into_iter().filter(|&dtype| function.takes(dtype)) {
            let values = samples(dtype);
            let mut b = Build::new(&[values.len()], &[]);
            let a = b.read(dtype, values.len());
            let x = b.load(a, Index::axis(0));
            let y = b.unary(function, x);
            b.store(values.len(), Index::axis(0), y, true);

            let inputs = [values.clone(), vec![0.0; values.len()]];
            check(&b.0, &MAP, &inputs, unary_tolerance(function, dtype));
        }
    }
}

/// All pairs of samples of a type.
fn pairs(dtype: DType, most: usize) -> (Vec<f64>, Vec<f64>) {
    let values = samples(dtype);
    let values = &values[..values.len().min(most)];
    values.iter().flat_map(|&a| values.iter().map(move |&b| (a, b))).unzip()
}

#[test]
fn binary_functions() {
    for &function in Binary::ALL {
        for dtype in DType::ALL.into_iter().filter(|&dtype| function.takes(dtype)) {
            let (left, right) = pairs(dtype, 60);
            let n = left.len();
            let mut b = Build::new(&[n], &[]);
            let (p, q) = (b.read(dtype, n), b.read(dtype, n));
            let (x, y) = (b.load(p, Index::axis(0)), b.load(q, Index::axis(0)));
            let z = b.binary(function, x, y);
            b.store(n, Index::axis(0), z, true);

            let ulp = f64::from(f32::EPSILON) / 2.0;
            let allowed = match (function, dtype) {
                (_, DType::F16) => tolerance(2e-3, 1e-7),
                (Binary::Pow, _) => tolerance(400.0 * ulp, 1e-37),
                (Binary::Div, _) => tolerance(6.0 * ulp, 1e-37),
                (Binary::Add | Binary::Sub | Binary::Mul, _) => tolerance(ulp, 1e-37),
                _ => EXACT,
            };
            check(&b.0, &MAP, &[left, right, vec![0.0; n]], allowed);
        }
    }
}

#[test]
fn relations_and_selection() {
    for &relation in Compare::ALL {
        for dtype in DType::ALL {
            let (left, right) = pairs(dtype, 30);
            let n = left.len();
            let mut b = Build::new(&[n], &[]);
            let (p, q) = (b.read(dtype, n), b.read(dtype, n));
            let (x, y) = (b.load(p, Index::axis(0)), b.load(q, Index::axis(0)));
            let holds = b.compare(relation, x, y);
            let one = b.constant(dtype, 1.0);
            let with_constant = b.compare(relation, x, one);
            let chosen = b.push(meganeura_core::kernel::Expr::Select(with_constant, x, y), dtype);
            b.store(n, Index::axis(0), holds, true);
            b.store(n, Index::axis(0), chosen, true);

            check(&b.0, &MAP, &[left, right, vec![0.0; n], vec![0.0; n]], EXACT);
        }
    }
}

#[test]
fn casts() {
    for from in DType::ALL {
        for to in DType::ALL {
            let values = samples(from);
            let n = values.len();
            let mut b = Build::new(&[n], &[]);
            let a = b.read(from, n);
            let x = b.load(a, Index::axis(0));
            let y = b.cast(x, to);
            b.store(n, Index::axis(0), y, true);

            let allowed = if to.is_float() { tolerance(1e-3, 1e-7) } else { EXACT };
            let allowed = if to == DType::F32 { tolerance(6e-8, 0.0) } else { allowed };
            check(&b.0, &MAP, &[values, vec![0.0; n]], allowed);
        }
    }
}

#[test]
fn bits_seen_as_another_type() {
    let bits: Vec<f64> = noise(64, 9, 1e9).iter().map(|x| (x + 1e9).floor()).collect();
    let mut b = Build::new(&[64], &[]);
    let a = b.read(DType::U32, 64);
    let x = b.load(a, Index::axis(0));
    for to in [DType::F32, DType::I32] {
        let y = b.push(meganeura_core::kernel::Expr::Bitcast(x, to), to);
        b.store(64, Index::axis(0), y, true);
    }
    check(&b.0, &MAP, &[bits, vec![0.0; 64], vec![0.0; 64]], EXACT);
}

#[test]
fn constants_of_every_type() {
    for dtype in DType::ALL {
        let mut values = samples(dtype);
        values.truncate(30);
        let mut b = Build::new(&[1], &[]);
        for &value in &values {
            let constant = b.constant(dtype, value);
            let arg = b.arg(dtype, 1, Access::Write);
            b.store_to(arg, Index::constant(0), constant, true);
        }
        b.0.args.truncate(8);
        b.0.stores.truncate(8);
        check(&b.0, &MAP, &vec![vec![0.0]; 8.min(values.len())], EXACT);
    }
}

#[test]
fn constant_expressions_may_overflow() {
    let mut b = Build::new(&[1], &[]);
    let (zero, most) = (b.constant(DType::U32, 0.0), b.constant(DType::U32, 4294967295.0));
    for function in [Binary::Sub, Binary::Add, Binary::Div, Binary::Rem, Binary::Shl] {
        let value = b.binary(function, if function == Binary::Sub { zero } else { most }, most);
        b.store(1, Index::constant(0), value, true);
    }
    let huge = b.constant(DType::F32, 1e38);
    let product = b.binary(Binary::Mul, huge, huge);
    b.store(1, Index::constant(0), product, true);
    check(&b.0, &MAP, &vec![vec![0.0]; 6], EXACT);
}
