//! Measured errors of the scalar functions over dense sweeps, against f64, in units in the last place of `f32`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod support;

use meganeura_core::dtype::DType;
use meganeura_core::index::Index;
use meganeura_core::scalar::{Binary, Unary};
use meganeura_core::schedule::{Caps, Spec};
use support::{Build, noise, print_plain};

const SPEC: Spec = Spec::Map { threads: 64, per_thread: 1 };

/// Distance in ulps of the exact value's binade; results that would be subnormal are left out.
fn ulps(found: f64, exact: f64) -> f64 {
    if found == exact || found.is_nan() && exact.is_nan() || exact.abs() < f64::from(f32::MIN_POSITIVE) {
        return 0.0;
    }
    if exact.abs() > f64::from(f32::MAX) {
        return if found.is_infinite() { 0.0 } else { f64::INFINITY };
    }
    let ulp = 2.0_f64.powi(exact.abs().log2().floor() as i32 - 23);
    (found - exact).abs() / ulp
}

/// The value and size of the largest error over samples.
fn worst(function: Unary, samples: &[f64]) -> Option<(f64, f64)> {
    let gpu = support::gpu::device()?;
    let samples: Vec<f64> = samples.iter().map(|x| DType::F32.round(*x)).collect();
    let n = samples.len();
    let mut b = Build::new(&[n], &[]);
    let a = b.read(DType::F32, n);
    let x = b.load(a, Index::axis(0));
    let y = b.unary(function, x);
    b.store(n, Index::axis(0), y, true);
    let module = print_plain(&b.0, &SPEC, &Caps::base());
    let found = gpu.run(&b.0, &module, &[samples.clone(), vec![0.0; n]], false);
    let errors = samples.iter().zip(&found[1]).map(|(&x, &y)| (x, ulps(y, function.eval(DType::F32, x))));
    errors.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Both signs of magnitudes from 2^low to 2^high, evenly in the exponent.
fn magnitudes(low: f64, high: f64) -> Vec<f64> {
    noise(40_000, 1, 1.0).iter().map(|x| (low + (high - low) * x.abs()).exp2().copysign(*x)).collect()
}

fn expect(function: Unary, samples: &[f64], most: f64) {
    if let Some((x, error)) = worst(function, samples) {
        eprintln!("{function}: {error:.2} ulp at {x:e}");
        assert!(error <= most, "{function}: {error} ulp at {x:e}");
    }
}

#[test]
fn logarithms() {
    let positive = |values: Vec<f64>| values.into_iter().map(f64::abs).collect::<Vec<_>>();
    expect(Unary::Log, &positive(magnitudes(-126.0, 127.0)), 2.0);
    expect(Unary::Log, &noise(40_000, 2, 0.5).iter().map(|x| 1.0 + x).collect::<Vec<_>>(), 2.0);
    expect(Unary::Log1p, &magnitudes(-30.0, -0.01), 3.0);
    expect(Unary::Log1p, &positive(magnitudes(-5.0, 100.0)), 3.0);
}

#[test]
fn trigonometry_of_any_angle() {
    for function in [Unary::Sin, Unary::Cos] {
        expect(function, &magnitudes(-20.0, 3.0), 2.0);
        expect(function, &magnitudes(3.0, 127.9), 2.0);
        let near: Vec<f64> = (1..20_000).map(|k| f64::from(k) * std::f64::consts::FRAC_PI_2).collect();
        expect(function, &near, 2.0);
    }
}

#[test]
fn hyperbolic_and_error_functions() {
    expect(Unary::Tanh, &magnitudes(-20.0, 5.0), 3.0);
    expect(Unary::Erf, &magnitudes(-20.0, 3.0), 4.0);
}

#[test]
fn exponentials() {
    expect(Unary::Exp, &noise(40_000, 3, 1.0), 2.0);
    expect(Unary::Exp, &noise(40_000, 3, 87.0), 2.0);
    expect(Unary::Expm1, &magnitudes(-30.0, -1.0), 2.0);
    expect(Unary::Expm1, &magnitudes(-1.0, 6.0), 4.0);
    expect(Unary::Sigmoid, &magnitudes(-10.0, 6.0), 4.0);
}

#[test]
fn powers() {
    let Some(gpu) = support::gpu::device() else { return };
    let n = 40_000;
    let bases: Vec<f64> = magnitudes(-20.0, 20.0).iter().map(|x| DType::F32.round(x.abs())).collect();
    let exponents: Vec<f64> = noise(n, 7, 4.0).iter().map(|x| DType::F32.round(*x)).collect();
    let mut b = Build::new(&[n], &[]);
    let (p, q) = (b.read(DType::F32, n), b.read(DType::F32, n));
    let (x, y) = (b.load(p, Index::axis(0)), b.load(q, Index::axis(0)));
    let z = b.binary(Binary::Pow, x, y);
    b.store(n, Index::axis(0), z, true);
    let module = print_plain(&b.0, &SPEC, &Caps::base());
    let found = gpu.run(&b.0, &module, &[bases.clone(), exponents.clone(), vec![0.0; n]], false);
    let mut worst = 0.0_f64;
    for ((&a, &b), &found) in bases.iter().zip(&exponents).zip(&found[2]) {
        let exact = a.powf(b);
        let promised = 4.0 + 4.0 * (b * a.ln()).abs();
        worst = worst.max((found - exact).abs() / exact / promised * 2.0_f64.powi(24));
    }
    assert!(worst <= 1.0, "{worst} times what is promised");
}
