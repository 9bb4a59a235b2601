//! What a step spends its time on: seconds, arithmetic and traffic of each dispatch, by kernel family and by origin in the
//! graph, beside what the device can do.
//!
//! ```no_run
//! # fn profile(session: &mut meganeura_wgpu::Session) -> Result<(), Box<dyn std::error::Error>> {
//! let profile = session.profile(20)?;
//! println!("{profile}");
//! std::fs::write("trace.json", profile.trace(&[]).to_string())?;
//! # Ok(())
//! # }
//! ```

mod ceilings;
mod groups;
mod json;
mod spans;
mod table;
pub(crate) mod timestamps;
mod trace;

pub use ceilings::Ceilings;
pub use groups::{Bucket, Key};
pub use spans::{HostSpan, HostSpans};

use crate::device::DeviceKind;
use crate::error::DeviceError;
use crate::session::Session;
use meganeura_core::cost::Cost;
use meganeura_core::ir::{BuildErrors, Origin};
use meganeura_core::memory::{Dispatch, Plan};
use meganeura_core::pipeline::CompileError;
use web_time::Instant;

/// Why a profile could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// A step failed, or the device has no timestamps.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A program that measures the device could not be built.
    #[error("to measure the device: {0}")]
    Build(#[from] BuildErrors),
    /// A program that measures the device could not be compiled.
    #[error("to measure the device: {0}")]
    Compile(#[from] CompileError),
}

/// When the dispatches of one step ran.
#[derive(Clone, Debug, PartialEq)]
pub struct StepTimes {
    /// When the host submitted the step.
    pub submitted: Instant,
    /// Start and end of each dispatch in seconds, after the start of the first; in the order of [`Plan::dispatches`].
    pub dispatches: Vec<[f64; 2]>,
}

impl StepTimes {
    /// Seconds of each dispatch.
    pub fn seconds(&self) -> impl Iterator<Item = f64> + '_ {
        self.dispatches.iter().map(|[start, end]| end - start)
    }
}

/// Whose clock dispatches were timed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The GPU's.
    Device,
    /// The host's: the CPU device.
    Host,
}

/// Where the time of a step goes.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The device, as it prints itself.
    pub device: String,
    /// Whose clock counts.
    pub clock: Clock,
    /// What the device can do, measured in the same run.
    pub ceilings: Ceilings,
    /// Each dispatch of a step, in order.
    pub dispatches: Vec<DispatchProfile>,
    /// Each step that was timed.
    pub steps: Vec<StepTimes>,
}

/// One dispatch of a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct DispatchProfile {
    /// What it computes: phases, layers and ops.
    pub label: String,
    /// The kind of kernel; see [`Dispatch::family`].
    pub family: String,
    /// The layer and phase that its time is charged to.
    pub origin: Origin,
    /// Other layers and phases whose work it does as well.
    pub fused: Vec<Origin>,
    /// Its barrier group.
    pub group: usize,
    /// What it must compute and move at least.
    pub cost: Cost,
    /// Seconds, the median over the steps.
    pub seconds: f64,
    /// Seconds that its arithmetic or its traffic takes at the ceiling, the longer one of both.
    pub least_seconds: f64,
}

impl Profile {
    pub(crate) fn of(session: &mut Session, steps: usize) -> Result<Profile, ProfileError> {
        let device = session.store().device().clone();
        let cooperative = session.plan().dispatches.iter().any(ceilings::uses_matrix_units);
        // The ceilings first: they take the GPU to its full clock.
        let ceilings = Ceilings::measure(&device, cooperative)?;
        let steps = session.time(steps.max(1))?;
        let plan = session.plan();
        let dispatches = plan.dispatches.iter().enumerate().map(|(at, dispatch)| {
            let seconds = median(steps.iter().filter_map(|step| step.seconds().nth(at)).collect());
            DispatchProfile::new(plan, dispatch, seconds, &ceilings)
        });
        let clock = if device.info().kind == DeviceKind::Cpu { Clock::Host } else { Clock::Device };
        Ok(Profile { device: device.info().to_string(), clock, dispatches: dispatches.collect(), ceilings, steps })
    }

    /// Seconds of all dispatches of a step.
    pub fn seconds(&self) -> f64 {
        self.dispatches.iter().map(|dispatch| dispatch.seconds).sum()
    }
}

impl DispatchProfile {
    fn new(plan: &Plan, dispatch: &Dispatch, seconds: f64, ceilings: &Ceilings) -> DispatchProfile {
        let kernel = &plan.kernels[dispatch.kernel];
        let cost = Cost::of(kernel);
        let mut origins = dispatch.provenance.origins.iter().cloned();
        let origin = origins.next().unwrap_or_default();
        let flops = match ceilings.matrix_flops {
            Some(flops) if ceilings::uses_matrix_units(dispatch) => flops,
            _ => ceilings.flops,
        };
        DispatchProfile {
            label: dispatch.label.clone(),
            family: dispatch.family(kernel),
            origin,
            fused: origins.collect(),
            group: dispatch.group,
            cost,
            seconds,
            least_seconds: (cost.flops as f64 / flops).max(cost.bytes() as f64 / ceilings.bytes),
        }
    }
}

/// The middle one of some numbers, the upper one of two; 0 of none.
pub(crate) fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(0.0)
}
