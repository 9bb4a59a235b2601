//! Recording a step: through wgpu's own passes everywhere ([`safe`]), or through its Vulkan layer ([`native`]).

#[cfg_attr(
    not(any(windows, target_os = "linux", target_os = "android", target_os = "freebsd")),
    path = "native/absent.rs"
)]
mod native;
pub(crate) mod safe;

pub(crate) use native::Objects as NativeObjects;

use crate::device::Gpu;
use crate::error::DeviceError;
use crate::pipelines::PipelineKey;
use meganeura_core::debug;
use meganeura_core::memory::{Binding, Dispatch};
use std::sync::Arc;
use wgpu::{Backend, SubmissionIndex};

/// How the commands of a step reach the driver. What is computed does not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Recording {
    /// What `MEGANEURA_RECORDING` says, else [`Recording::Native`] on Vulkan and [`Recording::Safe`] elsewhere.
    #[default]
    Auto,
    /// wgpu's compute passes: wgpu validates each dispatch and places barriers by whole buffers.
    Safe,
    /// Vulkan commands inside a wgpu encoder, with one barrier between groups of independent dispatches.
    Native,
}

/// A decided [`Recording`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Route {
    Safe,
    Native,
}

impl Recording {
    /// The route on a device.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the native one is demanded where there is none.
    pub(crate) fn route(self, gpu: &Gpu) -> Result<Route, DeviceError> {
        let vulkan = native::EXISTS && gpu.device.adapter_info().backend == Backend::Vulkan;
        let demanded = match (self, debug::recording()) {
            (Recording::Safe, _) => return Ok(Route::Safe),
            (Recording::Native, _) => true,
            (Recording::Auto, None) => false,
            (Recording::Auto, Some(named)) => match named.as_str() {
                "safe" => return Ok(Route::Safe),
                "native" => true,
                _ => {
                    tracing::warn!("MEGANEURA_RECORDING is {named:?}, which is neither `safe` nor `native`");
                    false
                }
            },
        };
        match vulkan {
            true => Ok(Route::Native),
            false if demanded => Err(Recording::unsupported()),
            false => Ok(Route::Safe),
        }
    }

    /// The error of a demand that cannot be met.
    pub(crate) fn unsupported() -> DeviceError {
        DeviceError::Unsupported { action: "record natively", feature: "a Vulkan driver" }
    }
}

/// One dispatch of a recorded step.
pub(crate) struct Recorded {
    /// Position among the pipelines.
    pub pipeline: usize,
    /// Position among the bind groups.
    pub group: usize,
    /// Workgroups along each dimension.
    pub grid: [u32; 3],
    /// Whether it must see what earlier dispatches wrote: the first of each of the plan's groups but the first.
    #[allow(dead_code, reason = "wgpu places its own; nobody reads it where there is no Vulkan")]
    pub barrier: bool,
}

/// The distinct pipelines of a plan.
pub(crate) enum Pipelines {
    Safe(Vec<wgpu::ComputePipeline>),
    Native(Vec<Arc<native::Pipeline>>),
}

impl Pipelines {
    /// The pipelines of `keys` in their order. The text beside a key is its name in errors.
    pub fn compile(gpu: &Gpu, route: Route, keys: &[(Arc<PipelineKey>, &str)]) -> Result<Pipelines, DeviceError> {
        match route {
            Route::Safe => gpu.pipelines(keys).map(Pipelines::Safe),
            Route::Native => native::pipelines(gpu, keys).map(Pipelines::Native),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Pipelines::Safe(pipelines) => pipelines.len(),
            Pipelines::Native(pipelines) => pipelines.len(),
        }
    }

    /// Binds buffers: one group for each of `examples`, by its bindings.
    pub fn bind(
        self,
        gpu: &Gpu,
        buffers: &[wgpu::Buffer],
        examples: &[&Dispatch],
        dispatches: Vec<Recorded>,
    ) -> Result<Commands, DeviceError> {
        Ok(match self {
            Pipelines::Safe(pipelines) => {
                Commands::Safe(safe::Commands::new(gpu, pipelines, buffers, examples, dispatches)?)
            }
            Pipelines::Native(pipelines) => {
                Commands::Native(native::Commands::new(gpu, pipelines, buffers, examples, dispatches)?)
            }
        })
    }
}

/// All that a step dispatches, ready to be submitted again and again.
pub(crate) enum Commands {
    Safe(safe::Commands),
    Native(native::Commands),
}

impl Commands {
    /// Submits one step; does not wait.
    pub fn submit(&self, gpu: &Gpu) -> Result<SubmissionIndex, DeviceError> {
        gpu.check()?;
        let submitted = gpu.call(|| match self {
            Commands::Safe(commands) => Ok(commands.submit(gpu)),
            Commands::Native(commands) => commands.submit(gpu, None),
        });
        submitted.map_err(|error| error.during("run a step"))?
    }

    /// Dispatches of a step.
    pub fn len(&self) -> usize {
        match self {
            Commands::Safe(commands) => commands.dispatches.len(),
            Commands::Native(commands) => commands.len(),
        }
    }
}

/// Bytes that a binding covers: a tensor without elements still binds a word.
fn bound_bytes(binding: &Binding) -> u64 {
    binding.place.bytes.max(4) as u64
}
