//! Runs printed modules on whatever adapter there is.

use meganeura_core::dtype::DType;
use meganeura_core::kernel::Kernel;
use meganeura_wgpu::wgsl::Module;
use std::sync::OnceLock;
use wgpu::util::DeviceExt as _;

pub struct Gpu {
    pub device: wgpu::Device,
    queue: wgpu::Queue,
    pub f16: bool,
    pub cooperative: bool,
}

/// The adapter that all tests share; `None` if there is none, which `MEGANEURA_REQUIRE_GPU=1` makes a failure.
pub fn gpu() -> Option<&'static Gpu> {
    static GPU: OnceLock<Option<Gpu>> = OnceLock::new();
    let gpu = GPU.get_or_init(open).as_ref();
    assert!(gpu.is_some() || std::env::var("MEGANEURA_REQUIRE_GPU").as_deref() != Ok("1"), "no adapter");
    if gpu.is_none() {
        eprintln!("skipped: no adapter");
    }
    gpu
}

fn open() -> Option<Gpu> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle_from_env());
    let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default())).ok()?;
    let wanted =
        wgpu::Features::SHADER_F16 | wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX | wgpu::Features::SUBGROUP;
    let features = adapter.features() & wanted;
    let descriptor = wgpu::DeviceDescriptor {
        required_features: features,
        required_limits: adapter.limits(),
        // SAFETY: the cooperative kernels under test follow naga's rules; that is what is tested.
        experimental_features: unsafe { wgpu::ExperimentalFeatures::enabled() },
        ..Default::default()
    };
    let (device, queue) = pollster::block_on(adapter.request_device(&descriptor)).ok()?;
    let square = |p: &wgpu::CooperativeMatrixProperties| p.m_size == 16 && p.n_size == 16 && p.k_size == 16;
    let cooperative = features.contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX)
        && adapter.cooperative_matrix_properties().iter().any(square);
    Some(Gpu { device, queue, f16: features.contains(wgpu::Features::SHADER_F16), cooperative })
}

pub fn to_bytes(dtype: DType, values: &[f64]) -> Vec<u8> {
    let mut bytes: Vec<u8> = match dtype {
        DType::F32 => values.iter().flat_map(|&v| (v as f32).to_le_bytes()).collect(),
        DType::F16 => values.iter().flat_map(|&v| half::f16::from_f64(v).to_le_bytes()).collect(),
        DType::U32 | DType::Bool => values.iter().flat_map(|&v| (v as u32).to_le_bytes()).collect(),
        DType::I32 => values.iter().flat_map(|&v| (v as i32).to_le_bytes()).collect(),
    };
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

pub fn from_bytes(dtype: DType, bytes: &[u8], elements: usize) -> Vec<f64> {
    let words = || bytes.chunks_exact(4).map(|word| [word[0], word[1], word[2], word[3]]);
    let mut values: Vec<f64> = match dtype {
        DType::F32 => words().map(|word| f64::from(f32::from_le_bytes(word))).collect(),
        DType::F16 => bytes.chunks_exact(2).map(|half| half::f16::from_le_bytes([half[0], half[1]]).to_f64()).collect(),
        DType::U32 | DType::Bool => words().map(|word| f64::from(u32::from_le_bytes(word))).collect(),
        DType::I32 => words().map(|word| f64::from(i32::from_le_bytes(word))).collect(),
    };
    values.truncate(elements);
    values
}

impl Gpu {
    /// Runs a module whose argument `n` has binding `n`; `args` are replaced by what the buffers hold afterwards.
    pub fn run(&self, module: &Module, kernel: &Kernel, args: &mut [Vec<f64>]) {
        let source = wgpu::ShaderSource::Wgsl(module.source.as_str().into());
        let descriptor = wgpu::ShaderModuleDescriptor { label: None, source };
        // SAFETY: what is under test is that printed kernels stay in bounds without checks.
        let shader =
            unsafe { self.device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked()) };
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &shader,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        });
        let buffers: Vec<wgpu::Buffer> = kernel
            .args
            .iter()
            .zip(args.iter())
            .map(|(arg, values)| {
                self.device.create_buffer_init(&wgpu::util::BufferInitDescriptor {
                    label: None,
                    contents: &to_bytes(arg.dtype, values),
                    usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC,
                })
            })
            .collect();
        let entries: Vec<wgpu::BindGroupEntry<'_>> = buffers
            .iter()
            .enumerate()
            .map(|(at, buffer)| wgpu::BindGroupEntry { binding: at as u32, resource: buffer.as_entire_binding() })
            .collect();
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            let [x, y, z] = module.grid;
            pass.dispatch_workgroups(x, y, z);
        }
        let staging: Vec<wgpu::Buffer> = buffers
            .iter()
            .map(|buffer| {
                let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
                let descriptor =
                    wgpu::BufferDescriptor { label: None, size: buffer.size(), usage, mapped_at_creation: false };
                let staging = self.device.create_buffer(&descriptor);
                encoder.copy_buffer_to_buffer(buffer, 0, &staging, 0, buffer.size());
                staging
            })
            .collect();
        self.queue.submit([encoder.finish()]);
        staging.iter().for_each(|buffer| buffer.slice(..).map_async(wgpu::MapMode::Read, |result| result.unwrap()));
        self.device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
        for ((buffer, arg), values) in staging.iter().zip(&kernel.args).zip(args) {
            let view = buffer.slice(..).get_mapped_range().unwrap();
            *values = from_bytes(arg.dtype, &view, arg.elements);
        }
    }
}
