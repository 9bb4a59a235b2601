//! Devices: the CPU device and GPUs behind wgpu, found by a [`Selector`] or shared with the caller.

mod adapters;
mod caps;
mod gpu;
#[cfg(target_arch = "wasm32")]
mod web;

pub use adapters::{AdapterSummary, Selector, adapters};
pub(crate) use gpu::{CallError, Gpu, MAY_WAIT};

use crate::cache::Cache;
use crate::error::DeviceError;
use meganeura_core::debug::{self, Log};
use meganeura_core::ir::Graph;
use meganeura_core::memory::StateLayout;
use meganeura_core::options::Options;
use meganeura_core::pipeline::{self, CompileError, Program};
use meganeura_core::schedule::{Caps, Cooperative};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Something that runs programs. Clones are handles of one device.
#[derive(Clone)]
pub struct Device {
    executor: Executor,
    info: Arc<DeviceInfo>,
    caps: Arc<Caps>,
    notice: Option<Arc<str>>,
    cache: Option<Cache>,
}

#[derive(Clone)]
pub(crate) enum Executor {
    Cpu,
    Gpu(Arc<Gpu>),
}

/// What a device is, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The name that the driver gives.
    pub name: String,
    /// `vulkan`, `metal`, `dx12`, or `cpu`.
    pub backend: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// The driver's name and version.
    pub driver: String,
}

/// Kinds of devices, the preferred ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceKind {
    /// A graphics card with its own memory.
    DiscreteGpu,
    /// A GPU that shares the CPU's memory.
    IntegratedGpu,
    /// The driver does not say.
    OtherGpu,
    /// A GPU seen through a virtual machine.
    VirtualGpu,
    /// A graphics driver that computes on the CPU, far slower than [`DeviceKind::Cpu`]; good for tests of shaders.
    SoftwareGpu,
    /// The CPU device of this library.
    Cpu,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceKind::DiscreteGpu => "discrete GPU",
            DeviceKind::IntegratedGpu => "integrated GPU",
            DeviceKind::OtherGpu => "GPU",
            DeviceKind::VirtualGpu => "virtual GPU",
            DeviceKind::SoftwareGpu => "software GPU",
            DeviceKind::Cpu => "CPU",
        })
    }
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            DeviceKind::Cpu => write!(f, "the CPU device ({})", self.driver),
            kind => write!(f, "{} ({kind}, {})", self.name, self.backend),
        }
    }
}

impl Device {
    /// The device to use when nobody says otherwise: the one that `MEGANEURA_DEVICE` selects, else a GPU (the kinds in
    /// the order of [`DeviceKind`], never a software one), else the CPU device. [`notice`](Device::notice) says which
    /// and why.
    ///
    /// A selection that fails falls back to the CPU device with the reason in the notice; [`Device::from_env`] fails.
    pub fn best() -> Device {
        let (device, why) = match (Device::from_env(), debug::device_selector()) {
            (Ok(device), Some(selector)) => (device, format!("MEGANEURA_DEVICE is {selector:?}")),
            (Ok(device), None) => (device, "the best adapter found".to_owned()),
            (Err(error), _) => (Device::cpu().with_cache(Cache::from_env()), error.to_string()),
        };
        let notice = format!("using {}: {why}", device.info);
        tracing::info!("{notice}");
        Device { notice: Some(notice.into()), ..device }
    }

    /// The device that `MEGANEURA_DEVICE` selects (see [`Device::from_selector`]), or the best GPU if it is not set.
    ///
    /// # Errors
    /// Those of [`Device::gpu`].
    pub fn from_env() -> Result<Device, DeviceError> {
        match debug::device_selector() {
            Some(selector) => Device::from_selector(&selector),
            None => Ok(Device::gpu(&Selector::Best)?.with_cache(Cache::from_env())),
        }
    }

    /// The CPU device, on all threads that the process may use.
    pub fn cpu() -> Device {
        let threads = rayon::current_num_threads();
        let info = DeviceInfo {
            name: "CPU".to_owned(),
            backend: "cpu".to_owned(),
            kind: DeviceKind::Cpu,
            driver: format!("{threads} threads"),
        };
        Device {
            executor: Executor::Cpu,
            info: info.into(),
            caps: Caps::cpu(threads).into(),
            notice: None,
            cache: None,
        }
    }

    /// A GPU through wgpu, with all its limits and every optional feature that kernels can use.
    ///
    /// # Errors
    /// [`DeviceError::NoAdapter`], [`DeviceError::AmbiguousAdapter`] or [`DeviceError::Open`].
    pub fn gpu(selector: &Selector) -> Result<Device, DeviceError> {
        let adapter = adapters::find(selector)?;
        // One at a time: NVIDIA's driver 580 hung now and then when 16 threads opened devices together.
        static OPENING: Mutex<()> = Mutex::new(());
        let _opening = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        let (device, queue) = pollster::block_on(gpu::open(&adapter))?;
        Ok(Device::on(device, queue, caps::cooperative(&adapter), Gpu::keep_uncaptured_errors))
    }

    /// The device that a text names: `cpu`, or what [`Selector::parse`] makes of it.
    ///
    /// # Errors
    /// Those of [`Device::gpu`].
    pub fn from_selector(text: &str) -> Result<Device, DeviceError> {
        let device = match text.trim() {
            cpu if cpu.eq_ignore_ascii_case("cpu") => Device::cpu(),
            other => Device::gpu(&Selector::parse(other))?,
        };
        Ok(device.with_cache(Cache::from_env()))
    }

    /// A device that the caller owns and goes on using, so that an application computes and renders on one queue.
    ///
    /// Only the features and limits that it was opened with are used; cooperative matrices are not, as their sizes are
    /// an adapter's property. Its device-lost callback is replaced: ask [`Device::is_lost`]. Its handler of uncaptured
    /// errors stays the caller's, as calls made here report their errors here.
    pub fn from_wgpu(device: wgpu::Device, queue: wgpu::Queue) -> Device {
        Device::on(device, queue, Vec::new(), |_| {})
    }

    fn on(
        device: wgpu::Device,
        queue: wgpu::Queue,
        cooperative: Vec<Cooperative>,
        prepare: impl FnOnce(&Gpu),
    ) -> Device {
        let adapter_info = device.adapter_info();
        let mut caps = caps::caps(&adapter_info, &device.limits(), device.features());
        if device.features().contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX) {
            caps.cooperative = cooperative;
        }
        let info = Arc::new(adapters::info(&adapter_info));
        let caps = Arc::new(caps);
        let gpu = Arc::new(Gpu::new(device, queue, Arc::clone(&caps)));
        prepare(&gpu);
        Device { executor: Executor::Gpu(gpu), info, caps, notice: None, cache: None }
    }

    /// What it is.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// What it can do: all that a program's schedule depends on.
    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    /// Which device [`Device::best`] took and why; `None` for devices made otherwise.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// The device with a cache of compiled programs and pipelines, or without one. Devices of [`Device::best`],
    /// [`Device::from_env`] and [`Device::from_selector`] have that of [`Cache::from_env`], others none. Pipelines are
    /// kept for all handles of a device, where its driver can (Vulkan).
    #[must_use]
    pub fn with_cache(self, cache: impl Into<Option<Cache>>) -> Device {
        let cache = cache.into();
        if let Executor::Gpu(gpu) = &self.executor {
            gpu.keep_pipelines_in(cache.as_ref());
        }
        Device { cache, ..self }
    }

    /// Where compiled programs are kept.
    pub fn cache(&self) -> Option<&Cache> {
        self.cache.as_ref()
    }

    /// Compiles a graph for this device, or takes its program from the device's cache. `layout` is that of the state store
    /// which the program will share; without one the program's own states make a new layout.
    ///
    /// # Errors
    /// Those of [`pipeline::compile`].
    pub fn compile(
        &self,
        graph: &Graph,
        options: &Options,
        layout: Option<&StateLayout>,
    ) -> Result<Program, CompileError> {
        match &self.cache {
            // Stages that people want to see must run.
            Some(cache) if !debug::wants_stages() => {
                let program = cache.compile(graph, options, &self.caps, layout)?;
                if program.report.cached {
                    program.report.tell(&Log::new("program"));
                }
                Ok(program)
            }
            _ => pipeline::compile(graph, options, &self.caps, layout),
        }
    }

    /// Whether the device is gone; see [`DeviceError::Lost`].
    pub fn is_lost(&self) -> bool {
        match &self.executor {
            Executor::Cpu => false,
            Executor::Gpu(gpu) => gpu.is_lost(),
        }
    }

    pub(crate) fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Whether both are handles of one device; all CPU devices are one.
    pub fn is_same(&self, other: &Device) -> bool {
        match (&self.executor, &other.executor) {
            (Executor::Cpu, Executor::Cpu) => true,
            (Executor::Gpu(one), Executor::Gpu(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("info", &self.info).finish_non_exhaustive()
    }
}
