//! The WGSL of the helpers listed in [`super::math`], with the source of each formula and its accuracy.

pub const INFINITY: &str = "
// A variable, as constant expressions must be finite.
var<private> infinity_bits: u32 = 0x7f800000u;
fn infinity() -> f32 { return bitcast<f32>(infinity_bits); }
";

pub const NOT_A_NUMBER: &str = "
var<private> not_a_number_bits: u32 = 0x7fc00000u;
fn not_a_number() -> f32 { return bitcast<f32>(not_a_number_bits); }
";

pub const IS_NAN: &str = "
fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
";

pub const MAX: &str = "
fn max_f32(a: f32, b: f32) -> f32 { return select(select(max(a, b), b, is_nan(b)), a, is_nan(a)); }
";

pub const MIN: &str = "
fn min_f32(a: f32, b: f32) -> f32 { return select(select(min(a, b), b, is_nan(b)), a, is_nan(a)); }
";

pub const SIGN: &str = "
fn sign_f32(x: f32) -> f32 {
    if is_nan(x) || x == 0.0 { return x; }
    return select(-1.0, 1.0, x > 0.0);
}
";

pub const DIV_U32: &str = "
fn div_u32(a: u32, b: u32) -> u32 { return select(a / max(b, 1u), 0u, b == 0u); }
";

pub const REM_U32: &str = "
fn rem_u32(a: u32, b: u32) -> u32 { return select(a % max(b, 1u), 0u, b == 0u); }
";

pub const DIV_I32: &str = "
fn div_i32(a: i32, b: i32) -> i32 {
    // The least integer by -1 wraps to itself.
    let one = b == 0i || (b == -1i && bitcast<u32>(a) == 0x80000000u);
    return select(a / select(b, 1i, one), 0i, b == 0i);
}
";

pub const REM_I32: &str = "
fn rem_i32(a: i32, b: i32) -> i32 {
    // Nothing remains of a division by 1 or -1; by 0 it is 0 by definition.
    let one = b == 0i || b == -1i;
    return select(a % select(b, 1i, one), 0i, one);
}
";

pub const TO_U32: &str = "
fn to_u32(x: f32) -> u32 {
    if is_nan(x) || x <= 0.0 { return 0u; }
    if x >= 4294967296.0 { return 0xffffffffu; }
    return u32(x);
}
";

pub const TO_I32: &str = "
fn to_i32(x: f32) -> i32 {
    if is_nan(x) { return 0i; }
    if x >= 2147483648.0 { return 0x7fffffffi; }
    if x <= -2147483648.0 { return bitcast<i32>(0x80000000u); }
    return i32(x);
}
";

/// Exact: long division of the significands, one bit of the quotient a step.
pub const REMAINDER: &str = "
fn remainder(a: f32, b: f32) -> f32 {
    let x = bitcast<u32>(a) & 0x7fffffffu;
    let y = bitcast<u32>(b) & 0x7fffffffu;
    if x >= 0x7f800000u || y > 0x7f800000u || y == 0u { return not_a_number(); }
    if x < y { return a; }
    var exponent = max(x >> 23u, 1u);
    let lowest = max(y >> 23u, 1u);
    // A significand without its implicit bit belongs to a subnormal.
    var rest = (x & 0x7fffffu) | select(0u, 0x800000u, (x >> 23u) > 0u);
    let divisor = (y & 0x7fffffu) | select(0u, 0x800000u, (y >> 23u) > 0u);
    while exponent > lowest {
        rest = select(rest, rest - divisor, rest >= divisor) << 1u;
        exponent -= 1u;
    }
    rest = select(rest, rest - divisor, rest >= divisor);
    let sign = bitcast<u32>(a) & 0x80000000u;
    if rest == 0u { return bitcast<f32>(sign); }
    let shift = min(countLeadingZeros(rest) - 8u, exponent - 1u);
    rest = rest << shift;
    exponent -= shift;
    let bits = select(rest, (rest & 0x7fffffu) | (exponent << 23u), rest >= 0x800000u);
    return bitcast<f32>(bits | sign);
}
";

/// Error at most 1 ulp. Coefficients: S. Moshier, Cephes Mathematical Library 2.2 (1992), `logf`.
pub const LOG_NEAR_ONE: &str = "
fn log_near_one(x: f32) -> f32 {
    var p = 7.0376836292e-2;
    p = p * x - 1.1514610310e-1;
    p = p * x + 1.1676998740e-1;
    p = p * x - 1.2420140846e-1;
    p = p * x + 1.4249322787e-1;
    p = p * x - 1.6668057665e-1;
    p = p * x + 2.0000714765e-1;
    p = p * x - 2.4999993993e-1;
    p = p * x + 3.3333331174e-1;
    let square = x * x;
    return x + (p * x * square - 0.5 * square);
}
";

/// Error at most 2 ulp, near 1 too, where the builtin may be wrong by 2^-21. The exponent is split off by bits;
/// ln 2 is the sum of a part of few bits and a small rest, so that its multiple is exact to the last place.
pub const LOG: &str = "
fn log_f32(x: f32) -> f32 {
    if is_nan(x) { return x; }
    let bits = bitcast<u32>(x);
    if (bits & 0x7fffffffu) == 0u { return -infinity(); }
    if bits >= 0x80000000u { return not_a_number(); }
    if bits == 0x7f800000u { return x; }
    var scaled = bits;
    var exponent = 0i;
    if bits < 0x00800000u {
        // Subnormal: its significand as an integer is exact.
        scaled = bitcast<u32>(f32(bits));
        exponent = -149i;
    }
    // The fraction lies in [sqrt(1/2), sqrt(2)).
    let offset = scaled - 0x3f3504f3u;
    exponent += bitcast<i32>(offset) >> 23u;
    let fraction = bitcast<f32>((offset & 0x007fffffu) + 0x3f3504f3u);
    let multiple = f32(exponent);
    return 0.693359375 * multiple + (log_near_one(fraction - 1.0) - 2.12194440e-4 * multiple);
}
";

/// Error at most 3 ulp: outside the interval of the polynomial, rounding `1 + x` costs up to one more than `log`'s.
pub const LOG1P: &str = "
fn log1p(x: f32) -> f32 {
    if x > -0.2928 && x < 0.4142 { return log_near_one(x); }
    return log_f32(1.0 + x);
}
";

/// Error at most 2 ulp, where Vulkan allows the builtin 3 + 2 |x|. The argument less the nearest multiple of ln 2, which is
/// split into a part of few bits, whose multiples are exact, and a rest (W. Cody and W. Waite, Software Manual for the
/// Elementary Functions, 1980); then the Taylor series up to the 7th power, good to 5e-9 there.
pub const EXP: &str = "
fn exp_f32(x: f32) -> f32 {
    // Beyond these bounds the result is 0 or infinity.
    let bounded = clamp(select(x, 0.0, is_nan(x)), -104.0, 89.0);
    let multiple = round(bounded * 1.44269504);
    let rest = (bounded - multiple * 0.693359375) + multiple * 2.12194440e-4;
    var p = 1.98412698e-4;
    p = p * rest + 1.38888889e-3;
    p = p * rest + 8.33333333e-3;
    p = p * rest + 4.16666667e-2;
    p = p * rest + 1.66666667e-1;
    p = p * rest + 0.5;
    let fraction = 1.0 + (rest + p * (rest * rest));
    // The power of two in two steps: alone it may be out of range.
    let exponent = i32(multiple);
    let half = exponent >> 1u;
    let power = fraction * bitcast<f32>((half + 127i) << 23u) * bitcast<f32>((exponent - half + 127i) << 23u);
    return select(power, x, is_nan(x));
}
";

/// Error at most 2 ulp below one half in magnitude, by the Taylor series to the 9th power (the rest is under 1e-8); above
/// it at most 4: subtracting 1 magnifies the error of `exp` for negative arguments near one half.
pub const EXPM1: &str = "
fn expm1(x: f32) -> f32 {
    if abs(x) < 0.5 {
        var p = 2.75573192e-6;
        p = p * x + 2.48015873e-5;
        p = p * x + 1.98412698e-4;
        p = p * x + 1.38888889e-3;
        p = p * x + 8.33333333e-3;
        p = p * x + 4.16666667e-2;
        p = p * x + 1.66666667e-1;
        p = p * x + 0.5;
        return x + p * (x * x);
    }
    return exp_f32(x) - 1.0;
}
";

/// Error at most 3 ulp. Coefficients below 0.625: S. Moshier, Cephes Mathematical Library 2.2 (1992), `tanhf`; above:
/// `1 − 2 / (e^(2|x|) + 1)`, which overflows to the right limit.
pub const TANH: &str = "
fn tanh_f32(x: f32) -> f32 {
    let magnitude = abs(x);
    if magnitude < 0.625 {
        let square = x * x;
        var p = -5.70498872745e-3;
        p = p * square + 2.06390887954e-2;
        p = p * square - 5.37397155531e-2;
        p = p * square + 1.33314422036e-1;
        p = p * square - 3.33332819422e-1;
        return x + x * (square * p);
    }
    // Beyond 10 the result is 1; a NaN is not above 10 and stays.
    let grown = exp_f32(2.0 * select(magnitude, 10.0, magnitude > 10.0));
    let result = 1.0 - 2.0 / (grown + 1.0);
    return select(result, -result, x < 0.0);
}
";

/// Error at most 4 ulp; the exponential never overflows.
pub const SIGMOID: &str = "
fn sigmoid(x: f32) -> f32 {
    let decay = exp_f32(-abs(x));
    return select(decay, 1.0, x >= 0.0) / (1.0 + decay);
}
";

/// Error at most 4 ulp. Abramowitz and Stegun, Handbook of Mathematical Functions: below 1 the Maclaurin series 7.1.5 to
/// the 21st power (the rest is under 1e-8), above it 7.1.26, whose absolute error of 1.5e-7 is 2.5 ulp there.
pub const ERF: &str = "
fn erf(x: f32) -> f32 {
    let magnitude = abs(x);
    let square = x * x;
    if magnitude < 1.0 {
        var p = 1.4807192815e-8;
        p = p * square - 1.6365844691e-7;
        p = p * square + 1.6462114365e-6;
        p = p * square - 1.4925650358e-5;
        p = p * square + 1.2055332981e-4;
        p = p * square - 8.5483270234e-4;
        p = p * square + 5.2239776254e-3;
        p = p * square - 2.6866170645e-2;
        p = p * square + 1.1283791670e-1;
        p = p * square - 3.7612638903e-1;
        return x * 1.1283791671 + x * (square * p);
    }
    let t = 1.0 / (1.0 + 0.3275911 * magnitude);
    var p = 1.061405429;
    p = p * t - 1.453152027;
    p = p * t + 1.421413741;
    p = p * t - 0.284496736;
    p = p * t + 0.254829592;
    let result = 1.0 - p * t * exp_f32(-square);
    return select(result, -result, x < 0.0);
}
";

/// Relative error at most `(4 + 4 |b ln a|) · 2^-24`: that of the logarithm and of its multiple, which the exponential
/// magnifies, and that of `exp`. The special cases of IEEE 754.
pub const POW: &str = "
fn pow_f32(a: f32, b: f32) -> f32 {
    if b == 0.0 || a == 1.0 { return 1.0; }
    if is_nan(a) { return a; }
    if is_nan(b) { return b; }
    let magnitude = abs(a);
    let infinite = (bitcast<u32>(b) & 0x7fffffffu) == 0x7f800000u;
    if infinite && magnitude == 1.0 { return 1.0; }
    var power = exp_f32(b * log_f32(magnitude));
    if b == 1.0 { power = magnitude; }
    if b == 2.0 { power = magnitude * magnitude; }
    if bitcast<u32>(a) < 0x80000000u { return power; }
    // Negative: a real power needs an integer exponent; all floats from 2^24 on are even.
    let whole = infinite || floor(b) == b;
    // By bits: a device that flushes subnormals compares them as 0.
    let bits = bitcast<u32>(a) & 0x7fffffffu;
    if !whole && bits != 0u && bits != 0x7f800000u { return not_a_number(); }
    let odd = whole && abs(b) < 16777216.0 && (i32(clamp(b, -16777216.0, 16777216.0)) & 1i) == 1i;
    return select(power, -power, odd);
}
";

pub const MUL_HIGH: &str = "
fn mul_high(a: u32, b: u32) -> u32 {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let first = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let second = (a & 0xffffu) * (b >> 16u) + (first & 0xffffu);
    return (a >> 16u) * (b >> 16u) + (first >> 16u) + (second >> 16u);
}
";

/// The angle less the nearest multiple of π/2, relative error under 2^-23, and that multiple modulo 4; for any finite
/// angle. Integer arithmetic with 96 bits of 2/π from where they matter: M. Payne and R. Hanek, "Radian reduction for
/// trigonometric functions", SIGNUM Newsletter 18 (1983).
pub const QUARTER_TURNS: &str = "
struct Turns { angle: f32, quarters: u32 }

fn quarter_turns(x: f32) -> Turns {
    let bits = bitcast<u32>(x) & 0x7fffffffu;
    if bits >= 0x7f800000u { return Turns(not_a_number(), 0u); }
    // Below pi/4 nothing is to be done.
    if bits < 0x3f490fdbu { return Turns(x, 0u); }
    // The fraction of 2/pi after 32 zero bits.
    var digits = array<u32, 8>(
        0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu);
    let significand = (bits & 0x7fffffu) | 0x800000u;
    // |x| = significand * 2^(exponent - 150): digits that only add whole turns are skipped.
    let skip = (bits >> 23u) - 120u;
    let word = skip >> 5u;
    let shift = skip & 31u;
    var window = vec3<u32>(digits[word], digits[word + 1u], digits[word + 2u]);
    if shift > 0u {
        let next = vec3<u32>(window.y, window.z, digits[word + 3u]);
        window = (window << vec3<u32>(shift)) | (next >> vec3<u32>(32u - shift));
    }
    // The product modulo 2^96, whose two highest bits count quarter turns.
    let low = significand * window.z;
    let carried = mul_high(significand, window.z);
    let middle = significand * window.y + carried;
    let carry = select(0u, 1u, middle < carried);
    let high = significand * window.x + mul_high(significand, window.y) + carry;
    var quarters = high >> 30u;
    var fraction = vec2<u32>((high << 2u) | (middle >> 30u), (middle << 2u) | (low >> 30u));
    // To the nearest multiple.
    let above = fraction.x >= 0x80000000u;
    if above {
        quarters += 1u;
        fraction = ~fraction;
    }
    let zeros = min(countLeadingZeros(fraction.x), 31u);
    let leading = (fraction.x << zeros) | select(0u, fraction.y >> (32u - max(zeros, 1u)), zeros > 0u);
    // Times pi/2 * 2^31, so that only the conversion to float rounds.
    let angle = f32(mul_high(leading, 0xc90fdaa2u)) * bitcast<f32>((96u - zeros) << 23u);
    let negative = bitcast<u32>(x) >= 0x80000000u;
    return Turns(select(angle, -angle, above != negative), select(quarters, 0u - quarters, negative) & 3u);
}
";

/// Coefficients: S. Moshier, Cephes Mathematical Library 2.2 (1992), `sinf`.
pub const SIN_OF: &str = "
fn sin_of(x: f32, quarters: u32) -> f32 {
    let square = x * x;
    let odd_powers = x + x * (square * ((-1.9515295891e-4 * square + 8.3321608736e-3) * square - 1.6666654611e-1));
    let even_powers = 1.0 - 0.5 * square
        + square * square * ((2.443315711809948e-5 * square - 1.388731625493765e-3) * square + 4.166664568298827e-2);
    let result = select(odd_powers, even_powers, (quarters & 1u) == 1u);
    return select(result, -result, (quarters & 2u) == 2u);
}
";

/// Error at most 2 ulp for every finite angle.
pub const SIN: &str = "
fn sin_f32(x: f32) -> f32 {
    let turns = quarter_turns(x);
    return sin_of(turns.angle, turns.quarters);
}
";

/// Error at most 2 ulp for every finite angle.
pub const COS: &str = "
fn cos_f32(x: f32) -> f32 {
    let turns = quarter_turns(x);
    return sin_of(turns.angle, turns.quarters + 1u);
}
";
