//! Vulkan objects that this crate makes itself; each destroys itself when dropped.
//!
//! Whoever drops one has seen to it that no unfinished commands name it.

use super::kept::NativeCache;
use super::lost;
use crate::cache::Cache;
use crate::device::Gpu;
use crate::error::DeviceError;
use crate::pipelines::kept::Keeper;
use crate::pipelines::{PipelineKey, ShaderChecks, cached};
use crate::record::bound_bytes;
use meganeura_core::memory::{Binding, Dispatch};
use naga::valid::{Capabilities, ShaderStages as NagaStages, SubgroupOperationSet, ValidationFlags, Validator};
use std::borrow::Cow;
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use wgpu::hal::{self, Device as _, vulkan};
use wgpu::{
    BindGroupLayoutEntry, BindingType, BufferBindingType, BufferSize, QuerySetDescriptor, QueryType, ShaderStages,
};

/// Pipelines and layouts of one device.
#[derive(Default)]
pub(crate) struct Objects {
    pipelines: Mutex<HashMap<Arc<PipelineKey>, Arc<Pipeline>>>,
    /// By number of bindings: Vulkan's layouts do not tell read-only buffers from others.
    layouts: Mutex<HashMap<usize, Arc<Layout>>>,
    kept: Keeper<NativeCache>,
}

impl Objects {
    /// Keeps pipelines that are made from now on in a cache.
    pub fn keep_in(&self, cache: Option<&Cache>) {
        self.kept.keep_in(cache);
    }
}

/// Calls with the Vulkan device behind wgpu's.
pub(super) fn on_device<R>(device: &wgpu::Device, call: impl FnOnce(&vulkan::Device) -> R) -> Result<R, DeviceError> {
    // SAFETY: no callee destroys the device.
    let guard = unsafe { device.as_hal::<hal::api::Vulkan>() };
    guard.map(|device| call(&device)).ok_or_else(lost)
}

/// A second handle of a buffer's Vulkan object; the buffer must outlive it. wgpu's own access holds a lock that one thread may take
/// once only.
pub(super) fn hal_buffer(buffer: &wgpu::Buffer) -> Option<vulkan::Buffer> {
    // SAFETY: the raw handle is not destroyed here, and callers keep the buffer alive beside this handle.
    unsafe {
        let raw = buffer.as_hal::<hal::api::Vulkan>()?.raw_handle();
        Some(vulkan::Buffer::from_raw_externally_owned(raw, Box::new(|| {})))
    }
}

fn refused(action: &'static str, error: hal::DeviceError) -> DeviceError {
    match error {
        hal::DeviceError::OutOfMemory => DeviceError::OutOfMemory { item: action.to_owned(), bytes: 0 },
        hal::DeviceError::Lost => DeviceError::Lost { message: format!("while trying to {action}") },
        other => DeviceError::Refused { action, message: other.to_string() },
    }
}

/// A Vulkan object, and how it is destroyed.
pub(super) struct Owned<T> {
    device: wgpu::Device,
    raw: ManuallyDrop<T>,
    destroy: unsafe fn(&vulkan::Device, T),
}

impl<T> Owned<T> {
    /// Makes an object that `destroy` destroys.
    pub fn make<E>(
        gpu: &Gpu,
        create: impl FnOnce(&vulkan::Device) -> Result<T, E>,
        destroy: unsafe fn(&vulkan::Device, T),
    ) -> Result<Result<Owned<T>, E>, DeviceError> {
        let own = |raw| Owned { device: gpu.device.clone(), raw: ManuallyDrop::new(raw), destroy };
        on_device(&gpu.device, create).map(|created| created.map(own))
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.raw
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: nothing uses the object after this.
        let raw = unsafe { ManuallyDrop::take(&mut self.raw) };
        let destroy = self.destroy;
        // SAFETY: it was made on this device, and no unfinished commands name it.
        let destroyed = on_device(&self.device, |device| unsafe { destroy(device, raw) });
        if let Err(error) = destroyed {
            tracing::warn!("a Vulkan object is left behind: {error}");
        }
    }
}

/// How group 0 is bound.
type Layout = Owned<(vulkan::PipelineLayout, vulkan::BindGroupLayout)>;

/// The layout of groups of so many storage buffers.
fn layout(gpu: &Gpu, bindings: usize) -> Result<Arc<Layout>, DeviceError> {
    let mut layouts = gpu.pipelines.native.layouts.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(layout) = layouts.get(&bindings) {
        return Ok(Arc::clone(layout));
    }
    let made = Owned::make(gpu, |device| create_layout(device, bindings), destroy_layout)?;
    let layout = Arc::new(made.map_err(|error| refused("create a pipeline layout", error))?);
    layouts.insert(bindings, Arc::clone(&layout));
    Ok(layout)
}

fn create_layout(
    device: &vulkan::Device,
    bindings: usize,
) -> Result<(vulkan::PipelineLayout, vulkan::BindGroupLayout), hal::DeviceError> {
    let entry = |binding: usize| BindGroupLayoutEntry {
        binding: binding as u32,
        visibility: ShaderStages::COMPUTE,
        ty: BindingType::Buffer {
            ty: BufferBindingType::Storage { read_only: false },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    };
    let entries: Vec<_> = (0..bindings).map(entry).collect();
    let flags = hal::BindGroupLayoutFlags::empty();
    let descriptor = hal::BindGroupLayoutDescriptor { label: None, flags, entries: &entries };
    // SAFETY: the entries are sorted, and a session checked their number against the device's limit.
    let group = unsafe { device.create_bind_group_layout(&descriptor) }?;
    let descriptor = hal::PipelineLayoutDescriptor {
        label: None,
        flags: hal::PipelineLayoutFlags::empty(),
        bind_group_layouts: &[Some(&group)],
        immediate_size: 0,
    };
    // SAFETY: the group's layout was made on this device.
    match unsafe { device.create_pipeline_layout(&descriptor) } {
        Ok(pipeline) => Ok((pipeline, group)),
        Err(error) => {
            // SAFETY: it was just made, and nothing names it.
            unsafe { device.destroy_bind_group_layout(group) };
            Err(error)
        }
    }
}

unsafe fn destroy_layout(
    device: &vulkan::Device,
    (pipeline, group): (vulkan::PipelineLayout, vulkan::BindGroupLayout),
) {
    // SAFETY: as this function's caller says: made on this device, and no longer used.
    unsafe {
        device.destroy_pipeline_layout(pipeline);
        device.destroy_bind_group_layout(group);
    }
}

/// A compute pipeline with its layout.
pub(crate) struct Pipeline {
    raw: Owned<vulkan::ComputePipeline>,
    layout: Arc<Layout>,
}

impl Pipeline {
    pub(super) fn raw(&self) -> &vulkan::ComputePipeline {
        &self.raw
    }

    pub(super) fn layout(&self) -> &vulkan::PipelineLayout {
        &self.layout.0
    }
}

/// The pipelines of `keys` in their order; those that the device has not are compiled in parallel. The text beside a key
/// is its name in errors.
pub(crate) fn pipelines(gpu: &Gpu, keys: &[(Arc<PipelineKey>, &str)]) -> Result<Vec<Arc<Pipeline>>, DeviceError> {
    let Objects { pipelines, kept, .. } = &gpu.pipelines.native;
    cached(gpu, pipelines, kept, keys, |key, label, kept| {
        let compiled = gpu.call(|| compile(gpu, key, label, kept));
        compiled.map_err(|error| error.during("create a pipeline"))?.map(Arc::new)
    })
}

fn compile(gpu: &Gpu, key: &PipelineKey, label: &str, kept: Option<&NativeCache>) -> Result<Pipeline, DeviceError> {
    let refuse =
        |message: String| DeviceError::Shader { label: label.to_owned(), message, source_text: key.source.clone() };
    let module =
        naga::front::wgsl::parse_str(&key.source).map_err(|error| refuse(error.emit_to_string(&key.source)))?;
    // The printer keeps to what the device can do; the driver would refuse the rest.
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    let validator = validator.subgroup_stages(NagaStages::all()).subgroup_operations(SubgroupOperationSet::all());
    let info = validator.validate(&module).map_err(|error| refuse(error.emit_to_string(&key.source)))?;
    let entry_point = module.entry_points.first().map(|entry| entry.name.clone()).unwrap_or_default();
    let shader = hal::NagaShader { module: Cow::Owned(module), info, debug_source: None };
    let layout = layout(gpu, key.writable.len())?;
    let cache = kept.map(NativeCache::raw);
    let create =
        |device: &vulkan::Device| create_pipeline(device, key.checks, &layout.0, shader, &entry_point, label, cache);
    let raw = Owned::make(gpu, create, destroy_pipeline)?.map_err(|error| match error {
        hal::PipelineError::Device(error) => refused("create a pipeline", error),
        other => refuse(other.to_string()),
    })?;
    Ok(Pipeline { raw, layout })
}

fn create_pipeline(
    device: &vulkan::Device,
    checks: ShaderChecks,
    layout: &vulkan::PipelineLayout,
    shader: hal::NagaShader,
    entry_point: &str,
    label: &str,
    cache: Option<&vulkan::PipelineCache>,
) -> Result<vulkan::ComputePipeline, hal::PipelineError> {
    let descriptor = hal::ShaderModuleDescriptor { label: Some(label), runtime_checks: checks.of_wgpu() };
    // SAFETY: the module was validated. Without checks the shader itself must stay in bounds and end: see
    // `Gpu::compile`, which makes the same pipelines through wgpu.
    let module = unsafe { device.create_shader_module(&descriptor, hal::ShaderInput::Naga(shader)) };
    let module = module.map_err(|error| match error {
        hal::ShaderError::Compilation(message) => hal::PipelineError::Linkage(ShaderStages::COMPUTE, message),
        hal::ShaderError::Device(error) => hal::PipelineError::Device(error),
    })?;
    let stage = hal::ProgrammableStage {
        module: &module,
        entry_point,
        constants: &naga::back::PipelineConstants::default(),
        // Printed kernels write workgroup memory before they read it.
        zero_initialize_workgroup_memory: false,
    };
    let descriptor = hal::ComputePipelineDescriptor { label: Some(label), layout, stage, cache };
    // SAFETY: layout, module and cache were made on this device; the layout has as many bindings as the printed shader.
    let pipeline = unsafe { device.create_compute_pipeline(&descriptor) };
    // SAFETY: pipelines do not need their module any more.
    unsafe { device.destroy_shader_module(module) };
    pipeline
}

unsafe fn destroy_pipeline(device: &vulkan::Device, pipeline: vulkan::ComputePipeline) {
    // SAFETY: as this function's caller says: made on this device, and no longer used.
    unsafe { device.destroy_compute_pipeline(pipeline) };
}

/// Bind groups. They come from pools that may not be freed before the layouts.
pub(super) struct Groups(Vec<(Owned<vulkan::BindGroup>, Arc<Layout>)>);

impl Groups {
    /// One group for each example, by its bindings.
    pub fn bind(gpu: &Gpu, buffers: &[wgpu::Buffer], examples: &[&Dispatch]) -> Result<Groups, DeviceError> {
        let handles = buffers.iter().map(hal_buffer).collect::<Option<Vec<_>>>().ok_or_else(lost)?;
        let bind = |example: &&Dispatch| {
            let layout = layout(gpu, example.bindings.len())?;
            let create = |device: &vulkan::Device| bind(device, &layout.1, &handles, &example.bindings);
            let group = Owned::make(gpu, create, destroy_group)?.map_err(|error| refused("bind buffers", error))?;
            Ok((group, layout))
        };
        examples.iter().map(bind).collect::<Result<Vec<_>, DeviceError>>().map(Groups)
    }

    pub fn get(&self, at: usize) -> &vulkan::BindGroup {
        &self.0[at].0
    }
}

fn bind(
    device: &vulkan::Device,
    layout: &vulkan::BindGroupLayout,
    buffers: &[vulkan::Buffer],
    bindings: &[Binding],
) -> Result<vulkan::BindGroup, hal::DeviceError> {
    let buffer = |binding: &Binding| {
        let (place, size) = (&binding.place, BufferSize::new(bound_bytes(binding)));
        hal::BufferBinding::new_unchecked(&buffers[place.buffer], place.offset as u64, size)
    };
    let entry = |at: usize| hal::BindGroupEntry { binding: at as u32, resource_index: at as u32, count: 1 };
    let buffers: Vec<_> = bindings.iter().map(buffer).collect();
    let entries: Vec<_> = (0..bindings.len()).map(entry).collect();
    // SAFETY: one entry for each of the layout's; a session checked that every place lies inside its buffer and is
    // aligned as the device wants it.
    unsafe {
        device.create_bind_group(&hal::BindGroupDescriptor {
            label: None,
            layout,
            buffers: &buffers,
            samplers: &[],
            textures: &[],
            entries: &entries,
            acceleration_structures: &[],
            external_textures: &[],
        })
    }
}

unsafe fn destroy_group(device: &vulkan::Device, group: vulkan::BindGroup) {
    // SAFETY: as this function's caller says: made on this device, and no longer used.
    unsafe { device.destroy_bind_group(group) };
}

/// Timestamp queries.
pub(super) struct Queries(Owned<vulkan::QuerySet>);

impl Queries {
    pub fn new(gpu: &Gpu, count: u32) -> Result<Queries, DeviceError> {
        let descriptor = QuerySetDescriptor { label: None, ty: QueryType::Timestamp, count };
        // SAFETY: the caller made sure that the device has timestamps.
        let create = |device: &vulkan::Device| unsafe { device.create_query_set(&descriptor) };
        let made = Owned::make(gpu, create, destroy_queries)?;
        made.map(Queries).map_err(|error| refused("create timestamp queries", error))
    }

    pub fn raw(&self) -> &vulkan::QuerySet {
        &self.0
    }
}

unsafe fn destroy_queries(device: &vulkan::Device, queries: vulkan::QuerySet) {
    // SAFETY: as this function's caller says: made on this device, and no longer used.
    unsafe { device.destroy_query_set(queries) };
}
