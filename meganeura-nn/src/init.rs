//! Initial values of parameters, made on the host: a seed and a name give the same bits on every machine.

use crate::random::Random;
use meganeura_core::shape::Shape;

/// How a parameter is filled at first.
///
/// `fan_in` and `fan_out` are a weight's, in the layout `[out, in, window…]` of linear and convolution layers:
/// extent 1 (or 0) times the product of the window's extents.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// 0 everywhere.
    Zeros,
    /// 1 everywhere.
    Ones,
    /// One value everywhere.
    Constant(f32),
    /// Uniform over `[low, high)`.
    Uniform {
        /// Least value.
        low: f64,
        /// Bound of the values.
        high: f64,
    },
    /// Normal.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        std: f64,
    },
    /// Normal of mean 0, drawn again where further than two standard deviations from it.
    TruncatedNormal {
        /// Standard deviation before truncation.
        std: f64,
    },
    /// Uniform of standard deviation `gain / √fan_in` (He et al., Delving Deep into Rectifiers, 2015, eq. 10).
    KaimingUniform {
        /// Scale for the activation that follows: `√2` for ReLU, 1 for none.
        gain: f64,
    },
    /// Normal of standard deviation `gain / √fan_in` (He et al. 2015, eq. 10).
    KaimingNormal {
        /// Scale for the activation that follows: `√2` for ReLU, 1 for none.
        gain: f64,
    },
    /// Uniform of standard deviation `gain · √(2 / (fan_in + fan_out))` (Glorot and Bengio, 2010, eq. 16).
    XavierUniform {
        /// Scale for the activation that follows: 1 for none, 5/3 for tanh.
        gain: f64,
    },
    /// Normal of standard deviation `gain · √(2 / (fan_in + fan_out))` (Glorot and Bengio, 2010, eq. 12).
    XavierNormal {
        /// Scale for the activation that follows: 1 for none, 5/3 for tanh.
        gain: f64,
    },
}

impl Init {
    /// Uniform over `±1 / √fan_in`: what PyTorch fills weights and biases of linear and convolution layers with.
    pub fn fan_in_uniform(fan_in: usize) -> Init {
        let bound = 1.0 / (fan_in.max(1) as f64).sqrt();
        Init::Uniform { low: -bound, high: bound }
    }

    /// The values for a parameter of that name and shape, row-major.
    pub fn values(self, shape: &Shape, seed: u64, name: &str) -> Vec<f32> {
        let mut random = Random::new(seed, name);
        let (fan_in, fan_out) = fans(shape);
        let kaiming = |gain: f64| gain / fan_in.sqrt();
        let xavier = |gain: f64| gain * (2.0 / (fan_in + fan_out)).sqrt();
        let elements = shape.elements();
        match self {
            Init::Zeros => vec![0.0; elements],
            Init::Ones => vec![1.0; elements],
            Init::Constant(value) => vec![value; elements],
            Init::Uniform { low, high } => fill(elements, || low + (high - low) * random.uniform()),
            Init::Normal { mean, std } => fill(elements, || mean + std * random.normal()),
            Init::TruncatedNormal { std } => fill(elements, || std * within_two(&mut random)),
            Init::KaimingUniform { gain } => symmetric(elements, kaiming(gain), &mut random),
            Init::KaimingNormal { gain } => fill(elements, || kaiming(gain) * random.normal()),
            Init::XavierUniform { gain } => symmetric(elements, xavier(gain), &mut random),
            Init::XavierNormal { gain } => fill(elements, || xavier(gain) * random.normal()),
        }
    }
}

fn fill(elements: usize, mut value: impl FnMut() -> f64) -> Vec<f32> {
    (0..elements).map(|_| value() as f32).collect()
}

/// Uniform of mean 0 and that standard deviation: over `±√3 · std`.
fn symmetric(elements: usize, std: f64, random: &mut Random) -> Vec<f32> {
    let bound = 3.0_f64.sqrt() * std;
    fill(elements, || bound * (2.0 * random.uniform() - 1.0))
}

fn within_two(random: &mut Random) -> f64 {
    loop {
        let value = random.normal();
        if value.abs() <= 2.0 {
            return value;
        }
    }
}

/// `fan_in` and `fan_out`, at least 1.
fn fans(shape: &Shape) -> (f64, f64) {
    let window: usize = shape.iter().skip(2).product();
    let extent = |dim: usize| shape.get(dim).copied().unwrap_or(1);
    let fan = |own: usize| (own * window).max(1) as f64;
    (fan(extent(1)), fan(extent(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(init: Init, shape: impl Into<Shape>) -> (f64, f64, f64) {
        let values = init.values(&shape.into(), 5, "w");
        let n = values.len() as f64;
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
        let variance = values.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / n;
        (mean, variance.sqrt(), values.iter().map(|&v| f64::from(v).abs()).fold(0.0, f64::max))
    }

    #[test]
    fn distributions_have_their_deviation_and_bound() {
        // [out, in, 3, 3]: fan_in 180, fan_out 450. Relative error of a deviation of 9,000 values: below 1/√(2·9000).
        let shape = [50, 20, 3, 3];
        let (kaiming, xavier) = (2.0_f64.sqrt() / 180.0_f64.sqrt(), (2.0 / 630.0_f64).sqrt());
        let cases = [
            (Init::Uniform { low: -2.0, high: 2.0 }, 2.0 / 3.0_f64.sqrt(), 2.0),
            (Init::Normal { mean: 0.0, std: 0.5 }, 0.5, 3.0),
            // Deviation of a normal distribution cut at ±2: √(1 − 4φ(2) / (2Φ(2) − 1)) = 0.87963.
            (Init::TruncatedNormal { std: 0.02 }, 0.02 * 0.879_63, 0.04),
            (Init::KaimingUniform { gain: 2.0_f64.sqrt() }, kaiming, kaiming * 3.0_f64.sqrt()),
            (Init::KaimingNormal { gain: 2.0_f64.sqrt() }, kaiming, kaiming * 5.0),
            (Init::XavierUniform { gain: 1.0 }, xavier, xavier * 3.0_f64.sqrt()),
            (Init::XavierNormal { gain: 1.0 }, xavier, xavier * 5.0),
            (Init::fan_in_uniform(180), 1.0 / 540.0_f64.sqrt(), 1.0 / 180.0_f64.sqrt()),
        ];
        for (init, deviation, bound) in cases {
            let (mean, found, largest) = moments(init, shape);
            assert!(mean.abs() < 5.0 * deviation / 9000.0_f64.sqrt(), "{init:?}: mean {mean}");
            assert!((found / deviation - 1.0).abs() < 0.03, "{init:?}: deviation {found}, not {deviation}");
            assert!(largest <= bound * (1.0 + 1e-6), "{init:?}: {largest} is beyond {bound}");
        }
    }

    #[test]
    fn values_depend_on_seed_and_name_alone() {
        let values = |seed, name| Init::Normal { mean: 0.0, std: 1.0 }.values(&Shape::from([8]), seed, name);
        assert_eq!(values(1, "a"), values(1, "a"));
        assert_ne!(values(1, "a"), values(2, "a"));
        assert_ne!(values(1, "a"), values(1, "b"));
        assert_eq!(Init::Constant(3.0).values(&Shape::scalar(), 0, ""), [3.0]);
        assert!(Init::XavierNormal { gain: 1.0 }.values(&Shape::from([0, 0]), 0, "").is_empty());
    }
}
