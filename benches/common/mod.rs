//! What the benchmarks share: their common arguments, random numbers, a spun-up device, medians, and the JSON file.
// Each benchmark uses a part of it.
#![allow(dead_code)]

use clap::Args;
use meganeura::prelude::*;
use meganeura::{DeviceKind, Recording, SessionOptions};
use serde_json::Value as Json;
use std::error::Error as StdError;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Why a benchmark stopped.
pub type Failure = Box<dyn StdError>;

/// How a session's commands reach the driver. A path that the device does not have is left out.
pub const PATHS: [Path; 2] = [Path("safe", Recording::Safe), Path("native", Recording::Native)];

/// The name of a path, and what chooses it.
#[derive(Clone, Copy)]
pub struct Path(pub &'static str, Recording);

impl Path {
    /// The options of a session on it.
    pub fn options(self) -> SessionOptions {
        SessionOptions { recording: self.1, ..SessionOptions::default() }
    }
}

/// What every benchmark takes.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// `cpu`, `gpu`, a number in the list of adapters or a part of an adapter's name [default: the best there is]
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Writes what was measured
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Small sizes and few samples, for software GPUs
    #[arg(long)]
    pub quick: bool,
    /// What `cargo bench` passes
    #[arg(long, hide = true)]
    bench: bool,
}

impl Common {
    /// The device that `--device` names, else the best one.
    pub fn device(&self) -> Result<Device, Error> {
        // What is measured shall not depend on what was kept.
        Ok(self.device.as_deref().map_or_else(|| Ok(Device::best()), Device::from_selector)?.with_cache(None))
    }

    /// Writes what was measured, if `--json` asks for it.
    pub fn write(&self, json: &Json) -> Result<(), Failure> {
        let Some(path) = self.json.as_deref() else { return Ok(()) };
        let text = serde_json::to_string_pretty(json)?;
        let named = |error| format!("{}: cannot be written: {error}", path.display());
        Ok(std::fs::write(path, text + "\n").map_err(named)?)
    }
}

/// The exit code of a benchmark that gives whether all it computed was right.
pub fn exit(result: Result<bool, Failure>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
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
    Ok(session.wait()?)
}

/// Seconds of each dispatch of a step, the median over `repeats` steps; `None` on devices that have no timestamps.
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

/// Seconds of a step when `steps` are queued, the final wait included.
pub fn queued_seconds(session: &mut Session, steps: usize) -> Result<f64, Error> {
    let start = Instant::now();
    for _ in 0..steps {
        session.step()?;
    }
    session.wait()?;
    Ok(start.elapsed().as_secs_f64() / steps.max(1) as f64)
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
