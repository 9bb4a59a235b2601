//! Random numbers on the host: the same seed gives the same bits on every machine.
//!
//! The words come from ChaCha with 8 rounds; everything made of them uses only IEEE 754's exactly rounded operations
//! (no logarithm or cosine of the platform's library, which differ in the last bit between systems).

use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};

/// A stream of random numbers.
#[derive(Debug)]
pub struct Random {
    words: ChaCha8Rng,
    /// The second value of the last pair of normal deviates.
    spare: Option<f64>,
}

impl Random {
    /// The stream of that name under a seed. Streams of different names are independent, so that adding a parameter to
    /// a model leaves the initial values of the others alone.
    pub fn new(seed: u64, stream: &str) -> Random {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&fnv1a(stream.as_bytes()).to_le_bytes());
        Random { words: ChaCha8Rng::from_seed(key), spare: None }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.words.next_u64()
    }

    /// A number below `bound`, each equally likely; 0 if `bound` is 0.
    ///
    /// Source: Lemire, Fast random integer generation in an interval, ACM TOMACS 29 (2019), algorithm 5.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.bits()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// A number of `[0, 1)`, a multiple of 2⁻⁵³.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A number of the normal distribution of mean 0 and standard deviation 1.
    ///
    /// Source: Marsaglia and Bray, A convenient method for generating normal variables, SIAM Review 6 (1964).
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let factor = (-2.0 * ln(square) / square).sqrt();
                self.spare = Some(y * factor);
                return x * factor;
            }
        }
    }
}

/// The natural logarithm of a positive normal number, good to 1e-15 relative to the larger of 1 and the result.
///
/// `x = m · 2ᵉ` with `m` in `[√½, √2)`, then `ln m = 2 artanh((m − 1) / (m + 1))` by its series, whose argument is at
/// most 0.172 (Abramowitz and Stegun, 4.1.27 and 4.6.33).
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i32 - 1023;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa >= std::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let series = (0..12).rev().fold(0.0, |sum, n| sum * square + 1.0 / f64::from(2 * n + 1));
    f64::from(exponent) * std::f64::consts::LN_2 + 2.0 * ratio * series
}

/// The 64-bit FNV-1a hash (Fowler, Noll, Vo; IETF draft-eastlake-fnv).
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_the_librarys_to_a_few_units_in_the_last_place() {
        for step in 1..20_000 {
            let x = f64::from(step) * 1e-3;
            assert!((ln(x) - x.ln()).abs() <= 1e-15 * x.ln().abs().max(1.0), "ln({x}) = {}, not {}", ln(x), x.ln());
        }
        assert!((ln(1e-300) - 1e-300_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn the_same_seed_and_name_give_the_same_bits_for_ever() {
        let mut random = Random::new(7, "fc1.weight");
        let bits = [random.bits(), random.normal().to_bits(), random.normal().to_bits(), random.uniform().to_bits()];
        assert_eq!(bits, [6442500269166107165, 4601310025213514139, 4598315431273161480, 4578445230614229504]);
        assert_ne!(Random::new(8, "fc1.weight").bits(), bits[0]);
        assert_ne!(Random::new(7, "fc2.weight").bits(), bits[0]);
    }

    #[test]
    fn normal_deviates_have_the_moments_of_their_distribution() {
        let mut random = Random::new(1, "");
        let n = 200_000;
        let values: Vec<f64> = (0..n).map(|_| random.normal()).collect();
        let moment = |power| values.iter().map(|value: &f64| value.powi(power)).sum::<f64>() / f64::from(n);
        // Five standard errors of each moment's estimate: √(1, 2, 15, 96 / n).
        for (power, expected, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
            let error = 5.0 * (variance / f64::from(n)).sqrt();
            assert!((moment(power) - expected).abs() < error, "moment {power}: {}", moment(power));
        }
    }

    #[test]
    fn numbers_below_a_bound_are_equally_likely() {
        let mut random = Random::new(2, "");
        let mut counts = [0_u32; 7];
        (0..70_000).for_each(|_| counts[random.below(7) as usize] += 1);
        assert!(counts.iter().all(|&count| count.abs_diff(10_000) < 500), "{counts:?}");
        assert_eq!(random.below(0), 0);
    }
}
