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

/// What the adapter makes of `f32` samples.
fn evaluate(function: Unary, samples: &[f64]) -> Option<Vec<f64>> {
    let gpu = support::gpu::device()?;
    let n = samples.len();
    let mut b = Build::new(&[n], &[]);
    let a = b.read(DType::F32, n);
    let x = b.load(a, Index::axis(0));
    let y = b.unary(function, x);
    b.store(n, Index::axis(0), y, true);
    let module = print_plain(&b.0, &SPEC, &Caps::base());
    gpu.run(&b.0, &module, &[samples.to_vec(), vec![0.0; n]], false).pop()
}

/// The value and size of the largest error over samples.
fn worst(function: Unary, samples: &[f64]) -> Option<(f64, f64)> {
    let samples: Vec<f64> = samples.iter().map(|x| DType::F32.round(*x)).collect();
    let found = evaluate(function, &samples)?;
    let errors = samples.iter().zip(&found).map(|(&x, &y)| (x, ulps(y, function.eval(DType::F32, x))));
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

/// What functions promise in units in the last place, over all of `f32`; `docs/accuracy.md` has the table.
const PROMISES: [(Unary, f64); 10] = [
    (Unary::Exp, 2.0),
    (Unary::Expm1, 4.0),
    (Unary::Log, 2.0),
    (Unary::Log1p, 3.0),
    (Unary::Sin, 2.0),
    (Unary::Cos, 2.0),
    (Unary::Tanh, 3.0),
    (Unary::Erf, 4.0),
    (Unary::Sigmoid, 4.0),
    // WGSL's own, good to 2.5 units by its standard.
    (Unary::Recip, 2.5),
];

/// Bits of all kinds: every exponent and sign, subnormals, infinities and `NaN`s, and the edges between them.
fn every_kind() -> Vec<f64> {
    let edges = [0_u32, 1, 0x007f_ffff, 0x0080_0000, 0x3f80_0000, 0x7f7f_ffff, 0x7f80_0000, 0x7f80_0001, 0x7fc0_0000];
    let both = edges.iter().flat_map(|&bits| [bits, bits | 0x8000_0000]);
    let spread = (0..131_072_u32).map(|at| at.wrapping_mul(32_768).wrapping_add(at.wrapping_mul(2_654_435_761) >> 17));
    both.chain(spread).map(|bits| f64::from(f32::from_bits(bits))).collect()
}

/// The operand as itself, and as a device that flushes subnormals to zero sees it.
fn seen(x: f64) -> [f64; 2] {
    let flushed = if x.abs() < f64::from(f32::MIN_POSITIVE) { 0.0_f64.copysign(x) } else { x };
    [x, flushed]
}

/// Whether a result is within so many ulps, `NaN` or infinite where the exact one is; of subnormal results, near zero.
fn keeps(found: f64, exact: f64, most: f64) -> bool {
    if exact.is_nan() || found.is_nan() {
        return exact.is_nan() && found.is_nan();
    }
    if exact.abs() < f64::from(f32::MIN_POSITIVE) {
        return (found - exact).abs() <= f64::from(f32::MIN_POSITIVE);
    }
    ulps(found, exact) <= most || found.is_infinite() && exact.abs() >= f64::from(f32::MAX) * (1.0 - most * 2e-7)
}

#[test]
fn what_is_promised_holds_over_all_floats() {
    let samples = every_kind();
    for (function, most) in PROMISES {
        let Some(found) = evaluate(function, &samples) else { return };
        for (&x, &y) in samples.iter().zip(&found) {
            let right = seen(x).iter().any(|&x| keeps(y, function.eval(DType::F32, x), most));
            assert!(right, "{function} of {x:e} ({:08x}): {y:e}", (x as f32).to_bits());
        }
    }
}

/// Powers of pairs, and the largest error of those that are no edge, as a share of what is promised.
fn check_powers(bases: &[f64], exponents: &[f64]) {
    let Some(gpu) = support::gpu::device() else { return };
    let n = bases.len();
    let mut b = Build::new(&[n], &[]);
    let (p, q) = (b.read(DType::F32, n), b.read(DType::F32, n));
    let (x, y) = (b.load(p, Index::axis(0)), b.load(q, Index::axis(0)));
    let z = b.binary(Binary::Pow, x, y);
    b.store(n, Index::axis(0), z, true);
    let module = print_plain(&b.0, &SPEC, &Caps::base());
    let found = gpu.run(&b.0, &module, &[bases.to_vec(), exponents.to_vec(), vec![0.0; n]], false);
    let mut worst = 0.0_f64;
    for ((&a, &b), &found) in bases.iter().zip(exponents).zip(&found[2]) {
        // Relative, in units of 2⁻²⁴: at most two ulps of the result each.
        let promised = |a: f64| 4.0 + if a == 0.0 || b == 0.0 { 0.0 } else { 4.0 * (b * a.abs().ln()).abs() };
        let pairs = seen(a).into_iter().flat_map(|a| seen(b).map(|b| (a, b)));
        let right = pairs.into_iter().any(|(a, b)| keeps(found, a.powf(b), promised(a)));
        assert!(right, "{a:e} ^ {b:e}: {found:e} instead of {:e}", a.powf(b));
        let exact = a.powf(b);
        if exact.is_normal() && found.is_finite() && (exact.abs() as f32).is_normal() {
            worst = worst.max(((found - exact) / exact).abs() / promised(a) * 2.0_f64.powi(24));
        }
    }
    eprintln!("pow: {worst:.2} times what is promised");
    assert!(worst <= 1.0, "{worst} times what is promised");
}

#[test]
fn powers() {
    let bases: Vec<f64> = magnitudes(-20.0, 20.0).iter().map(|x| DType::F32.round(x.abs())).collect();
    let exponents: Vec<f64> = noise(40_000, 7, 4.0).iter().map(|x| DType::F32.round(*x)).collect();
    check_powers(&bases, &exponents);
}

#[test]
fn powers_of_all_floats() {
    // Pairs of all kinds, exponents near 1, and whole exponents of negative numbers.
    let all = every_kind();
    let bases: Vec<f64> = all.iter().chain(&all).copied().collect();
    let exponents = (0..all.len()).map(|at| match at % 3 {
        0 => all[(at * 7919) % all.len()],
        1 => DType::F32.round((at % 2003) as f64 / 1000.0 - 1.0),
        _ => (at % 41) as f64 - 20.0,
    });
    let near = (0..all.len()).map(|at| DType::F32.round(0.5 + (at % 1009) as f64 / 1009.0));
    check_powers(&bases, &exponents.chain(near).collect::<Vec<_>>());
}
