//! wgpu's safe path: one encoder, one compute pass, one submission.
//!
//! wgpu places the barriers: one before each dispatch that touches a buffer which was written before in the pass.
//! Encoders are one-shot, so that a step is recorded anew each time; about 2 µs a dispatch.

use super::{Recorded, bound_bytes};
use crate::device::Gpu;
use crate::error::DeviceError;
use meganeura_core::memory::{Binding, Dispatch};
use wgpu::{
    BindGroupDescriptor, BindGroupEntry, BindingResource, BufferBinding, BufferSize, CommandEncoder,
    CommandEncoderDescriptor, ComputePass, ComputePassDescriptor, SubmissionIndex,
};

/// All that a step dispatches.
pub(crate) struct Commands {
    pipelines: Vec<wgpu::ComputePipeline>,
    groups: Vec<wgpu::BindGroup>,
    /// In execution order.
    pub dispatches: Vec<Recorded>,
}

impl Commands {
    pub fn new(
        gpu: &Gpu,
        pipelines: Vec<wgpu::ComputePipeline>,
        buffers: &[wgpu::Buffer],
        examples: &[&Dispatch],
        dispatches: Vec<Recorded>,
    ) -> Result<Commands, DeviceError> {
        let groups = examples.iter().map(|example| bind(gpu, buffers, example)).collect::<Result<Vec<_>, _>>()?;
        Ok(Commands { pipelines, groups, dispatches })
    }

    /// Submits one step.
    pub fn submit(&self, gpu: &Gpu) -> SubmissionIndex {
        let mut encoder = new_encoder(gpu);
        self.encode(&mut encoder);
        gpu.queue.submit([encoder.finish()])
    }

    /// Encodes all dispatches into one pass.
    fn encode(&self, encoder: &mut CommandEncoder) {
        if self.dispatches.is_empty() {
            return;
        }
        let descriptor = ComputePassDescriptor { label: Some("step"), timestamp_writes: None };
        let mut pass = encoder.begin_compute_pass(&descriptor);
        let mut bound = Bound::default();
        self.dispatches.iter().for_each(|dispatch| self.dispatch(&mut pass, &mut bound, dispatch));
    }

    /// Encodes one dispatch; `bound` is what the pass has set so far.
    pub fn dispatch(&self, pass: &mut ComputePass<'_>, bound: &mut Bound, dispatch: &Recorded) {
        if bound.pipeline.replace(dispatch.pipeline) != Some(dispatch.pipeline) {
            pass.set_pipeline(&self.pipelines[dispatch.pipeline]);
        }
        if bound.group.replace(dispatch.group) != Some(dispatch.group) {
            pass.set_bind_group(0, &self.groups[dispatch.group], &[]);
        }
        let [x, y, z] = dispatch.grid;
        pass.dispatch_workgroups(x, y, z);
    }
}

/// What a pass has set: setting it again would cost time.
#[derive(Default)]
pub(crate) struct Bound {
    pipeline: Option<usize>,
    group: Option<usize>,
}

pub(crate) fn new_encoder(gpu: &Gpu) -> CommandEncoder {
    gpu.device.create_command_encoder(&CommandEncoderDescriptor { label: Some("step") })
}

fn bind(gpu: &Gpu, buffers: &[wgpu::Buffer], example: &Dispatch) -> Result<wgpu::BindGroup, DeviceError> {
    let writable: Vec<bool> = example.bindings.iter().map(|binding| binding.writable).collect();
    let layout = gpu.layout(&writable)?;
    let entry = |(at, binding): (usize, &Binding)| BindGroupEntry {
        binding: at as u32,
        resource: BindingResource::Buffer(BufferBinding {
            buffer: &buffers[binding.place.buffer],
            offset: binding.place.offset as u64,
            size: BufferSize::new(bound_bytes(binding)),
        }),
    };
    let entries: Vec<_> = example.bindings.iter().enumerate().map(entry).collect();
    let descriptor = BindGroupDescriptor { label: Some(&example.label), layout: &layout.group, entries: &entries };
    gpu.call(|| gpu.device.create_bind_group(&descriptor)).map_err(|error| error.during("bind buffers"))
}
