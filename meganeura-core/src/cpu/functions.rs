//! Transcendental functions of `f32` without branches and calls, so that loops over lanes become vector code.
//! `NaN` is carried through all of them; bounds on errors are tested below.

/// `(n, eʳ − 1)` with `x = n ln 2 + r`, `|r| ≤ ln 2 / 2`, for `|x|` below 128.
///
/// ln 2 is split into a part of few bits, whose multiples are exact, and the rest (Cody and Waite, "Software Manual for
/// the Elementary Functions", 1980). The Taylor series up to r⁷ is good to 5e-9 there.
#[inline(always)]
fn reduce(x: f32) -> (i32, f32) {
    /// Adding it rounds to an integer, which the low bits of the sum then hold.
    const ROUND: f32 = 12_582_912.0;
    const HIGH: f32 = 355.0 / 512.0;
    const LOW: f32 = -2.121_944_4e-4;
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = (x - n * HIGH) - n * LOW;
    let series = 1.0 / 720.0 + r * (1.0 / 5040.0);
    let series = 1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * series));
    let power = r + r * r * (0.5 + r * series);
    (rounded.to_bits().wrapping_sub(ROUND.to_bits()) as i32, power)
}

/// `2ⁿ` for n from −126 to 127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// `x` between two limits; unlike `clamp`, without a panic, and `NaN` stays.
#[inline(always)]
fn between(low: f32, x: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// `eˣ` to 1.5 units in the last place, subnormal results too.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    let (n, power) = reduce(between(-104.0, x, 89.0));
    // In two steps, as 2ⁿ alone may be out of range.
    let half = n >> 1;
    (power + 1.0) * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// `eˣ − 1` for x from −60 to 0, to 3 units.
#[inline(always)]
fn expm1_of_negative(x: f32) -> f32 {
    let (n, power) = reduce(x);
    let scale = power_of_two(n);
    scale * power + (scale - 1.0)
}

/// Hyperbolic tangent, to 4 units: `−e / (e + 2)` of `e = exp(−2|x|) − 1`.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let e = expm1_of_negative(-2.0 * between(0.0, x.abs(), 20.0));
    (-e / (e + 2.0)).copysign(x)
}

/// Logistic function, to 4 units.
#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Error function, to 3e-7 absolutely, and below 1 to 4 units.
///
/// Below 1 the Maclaurin series; above, Abramowitz and Stegun 7.1.26, whose own error is below 1.5e-7.
#[inline(always)]
pub(super) fn erf(x: f32) -> f32 {
    let magnitude = between(0.0, x.abs(), 6.0);
    let square = magnitude * magnitude;
    // 7.1.5: 2/√π Σ (−1)ⁿ x^(2n+1) / (n! (2n+1)).
    let mut series = 0.0;
    for term in SERIES.iter().rev() {
        series = series * square + term;
    }
    let t = 1.0 / (1.0 + 0.327_591_1 * magnitude);
    let tail = t * (0.254_829_6 + t * (-0.284_496_74 + t * (1.421_413_7 + t * (-1.453_152 + t * 1.061_405_4))));
    let far = 1.0 - tail * exp(-square);
    (if magnitude < 1.0 { series * magnitude } else { far }).copysign(x) + if x.is_nan() { x } else { 0.0 }
}

/// `2/√π (−1)ⁿ / (n! (2n+1))`.
const SERIES: [f32; 12] = {
    let mut terms = [0.0; 12];
    let (mut n, mut factor) = (0, std::f64::consts::FRAC_2_SQRT_PI);
    while n < 12 {
        terms[n] = (factor / (2 * n + 1) as f64) as f32;
        n += 1;
        factor = -factor / n as f64;
    }
    terms
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest error in units of the last place over an even sample of `from..to`.
    fn units(f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64, from: f32, to: f32) -> f64 {
        let steps = 200_000;
        let errors = (0..=steps).map(|step| {
            let x = from + (to - from) * (step as f32 / steps as f32);
            let (found, expected) = (f64::from(f(x)), exact(f64::from(x)));
            let below = (expected as f32).abs().max(f32::MIN_POSITIVE);
            let unit = f32::from_bits(below.to_bits() + 1) - below;
            (found - expected).abs() / f64::from(unit)
        });
        errors.fold(0.0, f64::max)
    }

    #[test]
    fn errors_are_bounded() {
        for (name, found, bound) in [
            ("exp", units(exp, f64::exp, -87.0, 88.7), 1.5),
            ("tanh", units(tanh, f64::tanh, -12.0, 12.0), 4.0),
            ("tanh near 0", units(tanh, f64::tanh, -0.01, 0.01), 4.0),
            ("sigmoid", units(sigmoid, |x| 1.0 / (1.0 + (-x).exp()), -80.0, 80.0), 4.0),
            ("erf", units(erf, crate::scalar::erf, -5.0, 5.0), 5.0),
            ("erf below 1", units(erf, crate::scalar::erf, -1.0, 1.0), 4.0),
        ] {
            assert!(found <= bound, "{name}: {found} units");
        }
    }

    #[test]
    fn extremes() {
        assert_eq!((exp(f32::INFINITY), exp(89.0), exp(f32::NEG_INFINITY)), (f32::INFINITY, f32::INFINITY, 0.0));
        assert_eq!((exp(0.0), exp(-100.0)), (1.0, (-100.0_f64).exp() as f32));
        assert_eq!((tanh(f32::INFINITY), tanh(f32::NEG_INFINITY), tanh(1e-30)), (1.0, -1.0, 1e-30));
        assert_eq!((sigmoid(f32::NEG_INFINITY), sigmoid(f32::INFINITY)), (0.0, 1.0));
        assert_eq!((erf(f32::INFINITY), erf(-9.0), erf(0.0)), (1.0, -1.0, 0.0));
        assert!(tanh(-0.0).is_sign_negative());
        assert!([exp, tanh, sigmoid, erf].iter().all(|f| f(f32::NAN).is_nan()));
    }
}
