//! The little that a training loop needs beside a session.

use crate::layers::Randomness;
use crate::params::ParameterSpec;
use meganeura_core::tensor::{Tensor, TensorError};
use meganeura_wgpu::{DeviceError, StateStore};

/// The initial values could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// The device refused a state.
    #[error("{name:?} cannot be initialised: {source}")]
    Device {
        /// The parameter.
        name: String,
        /// The reason.
        source: DeviceError,
    },
    /// A parameter's shape is too large for its values.
    #[error("{name:?} cannot be initialised: {source}")]
    Tensor {
        /// The parameter.
        name: String,
        /// The reason.
        source: TensorError,
    },
}

/// Fills the parameters of a model, and seeds its [`Randomness`] if it has one. Optimiser states keep their zeros.
///
/// The values depend on the seed and each parameter's name and shape alone.
///
/// # Errors
/// [`InitError`] if a state is not in the store or the device is gone.
pub fn initialize(store: &StateStore, parameters: &[ParameterSpec], seed: u64) -> Result<(), InitError> {
    for spec in parameters {
        let values = spec.init.values(&spec.ty.shape, seed, &spec.name);
        let tensor = Tensor::from_f32(&spec.ty.shape, values)
            .map_err(|source| InitError::Tensor { name: spec.name.clone(), source })?;
        write(store, &spec.name, &tensor)?;
    }
    if store.names().any(|name| name == Randomness::STATE) {
        // Both halves of the seed count: seeds that differ only above 2³² differ.
        let folded = (seed ^ (seed >> 32)) as u32;
        let key = Tensor::from_u32([2], vec![folded, 0])
            .map_err(|source| InitError::Tensor { name: Randomness::STATE.to_owned(), source })?;
        write(store, Randomness::STATE, &key)?;
    }
    Ok(())
}

fn write(store: &StateStore, name: &str, tensor: &Tensor) -> Result<(), InitError> {
    store.write(name, tensor).map_err(|source| InitError::Device { name: name.to_owned(), source })
}

/// The learning rate at `step` of `steps`, from 0: a linear rise over the first `warmup` steps, then half a cosine from
/// `peak` down to 0 (Loshchilov and Hutter, SGDR, ICLR 2017, eq. 5, without restarts).
pub fn cosine_rate(peak: f32, step: usize, steps: usize, warmup: usize) -> f32 {
    if step < warmup {
        return peak * (step + 1) as f32 / warmup as f32;
    }
    let done = (step - warmup) as f64 / (steps.saturating_sub(warmup)).max(1) as f64;
    (f64::from(peak) * 0.5 * (1.0 + (std::f64::consts::PI * done.min(1.0)).cos())) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cosine_rises_peaks_and_falls_to_zero() {
        let rates: Vec<f32> = (0..=14).map(|step| cosine_rate(1.0, step, 14, 4)).collect();
        assert_eq!(rates[..5], [0.25, 0.5, 0.75, 1.0, 1.0]);
        assert!((rates[9] - 0.5).abs() < 1e-6 && rates[14].abs() < 1e-6);
        assert!(rates[4..].windows(2).all(|pair| pair[0] > pair[1]));
        assert_eq!(cosine_rate(1.0, 99, 14, 4), 0.0);
        assert!(cosine_rate(1.0, 0, 0, 0).is_finite());
    }
}
