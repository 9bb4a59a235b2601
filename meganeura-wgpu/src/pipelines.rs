//! Compute pipelines: made in parallel, and kept by a device for all sessions on it.

pub(crate) mod kept;

use crate::cache::Cache;
use crate::device::{CallError, Gpu};
use crate::error::DeviceError;
use crate::record::NativeObjects;
use kept::{DriverCache, Keeper};

use rayon::prelude::*;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wgpu::{
    BindGroupLayoutDescriptor, BindGroupLayoutEntry, BindingType, BufferBindingType, ComputePipelineDescriptor,
    PipelineCompilationOptions, PipelineLayoutDescriptor, ShaderModuleDescriptor, ShaderRuntimeChecks, ShaderSource,
    ShaderStages,
};

/// Whether shaders check at run time what the verifier has proved: bounds, loop counts, division by zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ShaderChecks {
    /// No checks; 17–29 % faster on an NVIDIA H200.
    #[default]
    Off,
    /// All of wgpu's checks; for tests.
    On,
}

impl ShaderChecks {
    /// In wgpu's words.
    pub(crate) fn of_wgpu(self) -> ShaderRuntimeChecks {
        match self {
            ShaderChecks::Off => ShaderRuntimeChecks::unchecked(),
            ShaderChecks::On => ShaderRuntimeChecks::checked(),
        }
    }
}

/// What makes a pipeline: equal keys share one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PipelineKey {
    /// The WGSL text.
    pub source: String,
    /// For each binding of group 0 whether it is `read_write`.
    pub writable: Vec<bool>,
    pub checks: ShaderChecks,
}

/// Pipelines and layouts of one device.
#[derive(Default)]
pub(crate) struct PipelineCache {
    pipelines: Mutex<HashMap<Arc<PipelineKey>, wgpu::ComputePipeline>>,
    layouts: Mutex<HashMap<Vec<bool>, Layout>>,
    kept: Keeper<wgpu::PipelineCache>,
    /// Those of the native path.
    #[allow(dead_code, reason = "nobody reads it where there is no Vulkan")]
    pub native: NativeObjects,
}

/// The pipelines of `keys` in their order; those that are not among `known` are compiled in parallel, with the driver's
/// cache if `keeper` has one, which is then written. The text beside a key is its name in errors.
pub(crate) fn cached<P: Clone + Send, C: DriverCache + Sync>(
    gpu: &Gpu,
    known: &Mutex<HashMap<Arc<PipelineKey>, P>>,
    keeper: &Keeper<C>,
    keys: &[(Arc<PipelineKey>, &str)],
    compile: impl Fn(&PipelineKey, &str, Option<&C>) -> Result<P, DeviceError> + Sync,
) -> Result<Vec<P>, DeviceError> {
    let mut new: Vec<&(Arc<PipelineKey>, &str)> = Vec::new();
    {
        let known = lock(known);
        let mut seen = HashSet::new();
        new.extend(keys.iter().filter(|(key, _)| !known.contains_key(key) && seen.insert(Arc::clone(key))));
    }
    let kept = if new.is_empty() { None } else { keeper.object(gpu) };
    let compiled = new
        .par_iter()
        .map(|(key, label)| Ok((Arc::clone(key), compile(key, label, kept.as_ref())?)))
        .collect::<Result<Vec<_>, DeviceError>>()?;
    if let Some(kept) = kept {
        keeper.write(gpu, &kept);
    }
    let mut known = lock(known);
    for (key, pipeline) in compiled {
        // Another thread may have made it meanwhile; all use one.
        known.entry(key).or_insert(pipeline);
    }
    // Nothing is ever removed, so every key is there.
    Ok(keys.iter().filter_map(|(key, _)| known.get(key).cloned()).collect())
}

/// How group 0 is bound.
#[derive(Clone)]
pub(crate) struct Layout {
    pub group: wgpu::BindGroupLayout,
    pipeline: wgpu::PipelineLayout,
}

impl Gpu {
    /// The pipelines of `keys` in their order; those that the device has not are compiled in parallel. The text beside
    /// a key is its name in errors.
    pub fn pipelines(&self, keys: &[(Arc<PipelineKey>, &str)]) -> Result<Vec<wgpu::ComputePipeline>, DeviceError> {
        let PipelineCache { pipelines, kept, .. } = &self.pipelines;
        cached(self, pipelines, kept, keys, |key, label, kept| {
            self.compile(key, label, &self.layout(&key.writable)?, kept)
        })
    }

    /// Keeps pipelines that are made from now on in a cache, where the driver can.
    pub fn keep_pipelines_in(&self, cache: Option<&Cache>) {
        self.pipelines.kept.keep_in(cache);
        self.pipelines.native.keep_in(cache);
    }

    /// The layout of a group whose binding `b` is `read_write` where `writable[b]`, and `read` elsewhere.
    pub fn layout(&self, writable: &[bool]) -> Result<Layout, DeviceError> {
        if let Some(layout) = lock(&self.pipelines.layouts).get(writable) {
            return Ok(layout.clone());
        }
        let entry = |(binding, &writable): (usize, &bool)| BindGroupLayoutEntry {
            binding: binding as u32,
            visibility: ShaderStages::COMPUTE,
            ty: BindingType::Buffer {
                ty: BufferBindingType::Storage { read_only: !writable },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let entries: Vec<_> = writable.iter().enumerate().map(entry).collect();
        let create = || {
            let group =
                self.device.create_bind_group_layout(&BindGroupLayoutDescriptor { label: None, entries: &entries });
            let pipeline = self.device.create_pipeline_layout(&PipelineLayoutDescriptor {
                label: None,
                bind_group_layouts: &[Some(&group)],
                immediate_size: 0,
            });
            Layout { group, pipeline }
        };
        let layout = self.call(create).map_err(|error| error.during("create a pipeline layout"))?;
        // Another thread may have made it meanwhile; all must use one.
        Ok(lock(&self.pipelines.layouts).entry(writable.to_vec()).or_insert(layout).clone())
    }

    fn compile(
        &self,
        key: &PipelineKey,
        label: &str,
        layout: &Layout,
        kept: Option<&wgpu::PipelineCache>,
    ) -> Result<wgpu::ComputePipeline, DeviceError> {
        let create = || {
            let descriptor =
                ShaderModuleDescriptor { label: Some(label), source: ShaderSource::Wgsl(key.source.as_str().into()) };
            // SAFETY: without checks the shader itself must stay in bounds and end. A session verifies its kernels
            // before it prints them: every access is in bounds or masked (K1), and bindings are as large as arguments.
            // Printed loops have constant trip counts, and printed integer divisions guard against zero.
            let module = unsafe { self.device.create_shader_module_trusted(descriptor, key.checks.of_wgpu()) };
            self.device.create_compute_pipeline(&ComputePipelineDescriptor {
                label: Some(label),
                layout: Some(&layout.pipeline),
                module: &module,
                entry_point: None,
                // Printed kernels write workgroup memory before they read it.
                compilation_options: PipelineCompilationOptions {
                    zero_initialize_workgroup_memory: false,
                    ..PipelineCompilationOptions::default()
                },
                cache: kept,
            })
        };
        self.call(create).map_err(|error| match error {
            CallError::Refused(message) => {
                DeviceError::Shader { label: label.to_owned(), message, source_text: key.source.clone() }
            }
            other => other.during("create a pipeline"),
        })
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
