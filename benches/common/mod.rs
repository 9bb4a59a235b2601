//! What the benchmarks share: random operands, a spun-up device, medians, and the JSON file.

use meganeura::DeviceKind;
use meganeura::prelude::*;
use serde_json::Value as Json;
use std::error::Error as StdError;
use std::path::Path;
use std::time::{Duration, Instant};

/// The device that `--device` names, else the best one.
pub fn device(selector: Option<&str>) -> Result<Device, Error> {
    // What is measured shall not depend on what was kept.
    Ok(selector.map_or_else(|| Ok(Device::best()), Device::from_selector)?.with_cache(None))
}

/// Whether there is a GPU whose clock falls while it idles.
pub fn clocks_down(device: &Device) -> bool {
    !matches!(device.info().kind, DeviceKind::Cpu | DeviceKind::SoftwareGpu)
}

/// Runs steps for at least `duration`, so that what follows is timed at the full clock: an idle GPU lowers it.
pub fn spin(session: &mut Session, duration: Duration) -> Result<(), Error> {
    let start = Instant::now();
    while start.elapsed() < duration {
        session.step()?;
    }
    Ok(())
}

/// Seconds of each dispatch of a step by the device's timestamps, the median over `repeats` steps; `None` on devices
/// that have none.
pub fn dispatch_seconds(session: &mut Session, repeats: usize) -> Result<Option<Vec<f64>>, Error> {
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); session.plan().dispatches.len()];
    let times = match session.time(repeats) {
        Err(meganeura::DeviceError::Unsupported { .. }) => return Ok(None),
        times => times?,
    };
    for step in times {
        samples.iter_mut().zip(step.seconds()).for_each(|(samples, seconds)| samples.push(seconds));
    }
    Ok(Some(samples.into_iter().map(median).collect()))
}

/// The middle one of some numbers, the upper one of two; NaN of none.
pub fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A sequence of 64-bit random numbers: SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
/// 2014).
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in (−½, ½), a multiple of 2⁻²⁴.
    pub fn uniform(&mut self) -> f32 {
        ((self.bits() >> 41) as f32 + 0.5) / (1 << 23) as f32 - 0.5
    }

    /// Uniform below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit.max(1) as u64) as usize
    }
}

/// Writes what was measured.
pub fn write_json(path: Option<&Path>, json: &Json) -> Result<(), Box<dyn StdError>> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(json)?;
    std::fs::write(path, text + "\n").map_err(|error| format!("{}: cannot be written: {error}", path.display()).into())
}
