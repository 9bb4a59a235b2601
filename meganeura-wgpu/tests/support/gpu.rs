//! Runs one module on the first adapter.

use half::f16;
use meganeura_core::dtype::DType;
use meganeura_core::kernel::{Access, Kernel};
use meganeura_wgpu::wgsl::Module;
use pollster::block_on;
use std::sync::OnceLock;

pub struct Gpu {
    device: wgpu::Device,
    queue: wgpu::Queue,
    pub f16: bool,
}

/// The adapter to test on; `None`, visibly, if there is none and none is required.
pub fn device() -> Option<&'static Gpu> {
    static GPU: OnceLock<Option<Gpu>> = OnceLock::new();
    let gpu = GPU.get_or_init(open).as_ref();
    let required = std::env::var("MEGANEURA_REQUIRE_GPU").is_ok_and(|value| value == "1");
    assert!(gpu.is_some() || !required, "MEGANEURA_REQUIRE_GPU=1, but there is no adapter");
    if gpu.is_none() {
        eprintln!("skipped: no adapter");
    }
    gpu
}

fn open() -> Option<Gpu> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle_from_env());
    let adapter = block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default())).ok()?;
    let f16 = adapter.features().contains(wgpu::Features::SHADER_F16);
    eprintln!("adapter: {} (f16: {f16})", adapter.get_info().name);
    let mut features = wgpu::Features::empty();
    features.set(wgpu::Features::SHADER_F16, f16);
    let descriptor =
        wgpu::DeviceDescriptor { required_features: features, required_limits: adapter.limits(), ..Default::default() };
    let (device, queue) = block_on(adapter.request_device(&descriptor)).ok()?;
    Some(Gpu { device, queue, f16 })
}

impl Gpu {
    /// The contents of all arguments after the kernel ran on `inputs`, one binding an argument.
    pub fn run(&self, kernel: &Kernel, module: &Module, inputs: &[Vec<f64>], checked: bool) -> Vec<Vec<f64>> {
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let buffers: Vec<wgpu::Buffer> = kernel
            .args
            .iter()
            .zip(inputs)
            .map(|(arg, values)| {
                let mut bytes = encode(arg.dtype, values);
                bytes.resize(bytes.len().next_multiple_of(16).max(16), 0);
                let size = bytes.len() as u64;
                let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
                    label: None,
                    size,
                    usage,
                    mapped_at_creation: false,
                });
                self.queue.write_buffer(&buffer, 0, &bytes);
                buffer
            })
            .collect();
        let writable: Vec<bool> = kernel.args.iter().map(|arg| arg.access != Access::Read).collect();
        self.dispatch(module, &writable, &buffers, checked);
        let args = kernel.args.iter().zip(&buffers);
        args.map(|(arg, buffer)| decode(arg.dtype, &self.read(buffer), arg.elements)).collect()
    }

    /// Runs a module once over these bindings.
    pub fn dispatch(&self, module: &Module, writable: &[bool], buffers: &[wgpu::Buffer], checked: bool) {
        let device = &self.device;
        let entry = |(binding, &writable): (usize, &bool)| wgpu::BindGroupLayoutEntry {
            binding: binding as u32,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Storage { read_only: !writable },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let entries: Vec<_> = writable.iter().enumerate().map(entry).collect();
        let group_layout =
            device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        let layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&group_layout)],
            immediate_size: 0,
        });
        let descriptor = wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(module.source.as_str().into()),
        };
        let shader = match checked {
            true => device.create_shader_module(descriptor),
            // SAFETY: every access is in bounds or masked and every loop ends, which the checked run just showed too.
            false => unsafe { device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked()) },
        };
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(&layout),
            module: &shader,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        });
        let bound: Vec<_> = buffers
            .iter()
            .enumerate()
            .map(|(at, buffer)| wgpu::BindGroupEntry { binding: at as u32, resource: buffer.as_entire_binding() })
            .collect();
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &group_layout,
            entries: &bound,
        });
        let mut encoder = device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            let [x, y, z] = module.grid;
            pass.dispatch_workgroups(x, y, z);
        }
        self.queue.submit([encoder.finish()]);
    }

    fn read(&self, buffer: &wgpu::Buffer) -> Vec<u8> {
        let staging = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: buffer.size(),
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(buffer, 0, &staging, 0, buffer.size());
        self.queue.submit([encoder.finish()]);
        staging.slice(..).map_async(wgpu::MapMode::Read, |result| result.unwrap());
        self.device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
        staging.slice(..).get_mapped_range().unwrap().to_vec()
    }
}

/// The bytes of elements in device memory.
pub fn encode(dtype: DType, values: &[f64]) -> Vec<u8> {
    let bytes = |&value: &f64| match dtype {
        DType::F32 => (value as f32).to_le_bytes().to_vec(),
        DType::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
        DType::I32 => (value as i32).to_le_bytes().to_vec(),
        DType::U32 | DType::Bool => (value as u32).to_le_bytes().to_vec(),
    };
    values.iter().flat_map(bytes).collect()
}

/// The inverse of [`encode`].
pub fn decode(dtype: DType, bytes: &[u8], elements: usize) -> Vec<f64> {
    let word = |chunk: &[u8]| u32::from_le_bytes(chunk.try_into().unwrap());
    match dtype {
        DType::F16 => bytes
            .chunks_exact(2)
            .take(elements)
            .map(|chunk| f16::from_le_bytes(chunk.try_into().unwrap()).to_f64())
            .collect(),
        _ => bytes
            .chunks_exact(4)
            .take(elements)
            .map(|chunk| match dtype {
                DType::F32 => f64::from(f32::from_bits(word(chunk))),
                DType::I32 => f64::from(word(chunk) as i32),
                _ => f64::from(word(chunk)),
            })
            .collect(),
    }
}
