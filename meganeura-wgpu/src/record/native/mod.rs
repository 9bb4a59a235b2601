//! The native path: Vulkan commands written through wgpu's hardware layer into a wgpu encoder.
//!
//! wgpu still owns device, queue, memory and submission. What it does not do here is to track buffers: it would place a
//! barrier before every dispatch that touches a buffer written before, where the plan knows which dispatches are
//! independent. So this module
//! - places one memory barrier between the plan's groups, and one at either end of the step against wgpu's copies;
//! - makes pipelines and bind groups once, for all steps;
//! - keeps all that the commands name until the device is done with them.
//!
//! wgpu clears a buffer before what it thinks is its first use. Buffers are therefore cleared through wgpu when they are
//! allocated, before any of this.

mod kept;
mod objects;

pub(crate) use objects::{Objects, Pipeline, pipelines};

use super::{Recorded, Recording};
use crate::device::Gpu;
use crate::error::DeviceError;
use ash::vk;
use meganeura_core::memory::Dispatch;
use objects::{Groups, Queries, hal_buffer, on_device};
use std::sync::Arc;
use wgpu::hal::{self, CommandEncoder as _, vulkan};
use wgpu::{BufferSize, CommandEncoderDescriptor, SubmissionIndex};

/// Whether this system has Vulkan at all.
pub(super) const EXISTS: bool = true;

/// Stages and accesses on one side of a barrier.
type Scope = (vk::PipelineStageFlags, vk::AccessFlags);

const COMPUTE_WRITES: Scope = (vk::PipelineStageFlags::COMPUTE_SHADER, vk::AccessFlags::SHADER_WRITE);

/// Reads and writes of shaders.
const COMPUTE: Scope = (
    vk::PipelineStageFlags::COMPUTE_SHADER,
    vk::AccessFlags::from_raw(vk::AccessFlags::SHADER_READ.as_raw() | vk::AccessFlags::SHADER_WRITE.as_raw()),
);

/// What may come before a step: shaders of other steps, and wgpu's uploads, clears and readbacks.
const BEFORE: Scope = (
    vk::PipelineStageFlags::from_raw(
        vk::PipelineStageFlags::COMPUTE_SHADER.as_raw() | vk::PipelineStageFlags::TRANSFER.as_raw(),
    ),
    vk::AccessFlags::from_raw(vk::AccessFlags::SHADER_WRITE.as_raw() | vk::AccessFlags::TRANSFER_WRITE.as_raw()),
);

/// What may come after a step. wgpu does not know that the step wrote anything, so that it may place no barrier itself.
const AFTER: Scope = (
    BEFORE.0,
    vk::AccessFlags::from_raw(
        COMPUTE.1.as_raw() | vk::AccessFlags::TRANSFER_READ.as_raw() | vk::AccessFlags::TRANSFER_WRITE.as_raw(),
    ),
);

/// All that a step dispatches.
pub(crate) struct Commands {
    queue: wgpu::Queue,
    /// Only taken when this is dropped.
    named: Option<Named>,
    /// In execution order.
    dispatches: Vec<Recorded>,
}

/// What commands name. Bind groups name buffers.
struct Named {
    pipelines: Vec<Arc<Pipeline>>,
    groups: Groups,
    _buffers: Vec<wgpu::Buffer>,
}

impl Drop for Commands {
    fn drop(&mut self) {
        // Steps may still run; dropped when all that was submitted so far is done.
        let named = self.named.take();
        self.queue.on_submitted_work_done(move || drop(named));
    }
}

impl Commands {
    pub fn new(
        gpu: &Gpu,
        pipelines: Vec<Arc<Pipeline>>,
        buffers: &[wgpu::Buffer],
        examples: &[&Dispatch],
        dispatches: Vec<Recorded>,
    ) -> Result<Commands, DeviceError> {
        let groups = Groups::bind(gpu, buffers, examples)?;
        let named = Some(Named { pipelines, groups, _buffers: buffers.to_vec() });
        Ok(Commands { queue: gpu.queue.clone(), named, dispatches })
    }

    pub fn len(&self) -> usize {
        self.dispatches.len()
    }

    /// Submits one step, with timestamps around its dispatches if there is a buffer for them.
    pub fn submit(&self, gpu: &Gpu, ticks: Option<&wgpu::Buffer>) -> Result<SubmissionIndex, DeviceError> {
        let Some(named) = &self.named else { return Err(Recording::unsupported()) };
        let stamps = ticks.map(|ticks| Stamps::new(gpu, ticks, self.dispatches.len() as u32 + 1)).transpose()?;
        let mut encoder = gpu.device.create_command_encoder(&CommandEncoderDescriptor { label: Some("step") });
        let record = |encoder: &mut vulkan::CommandEncoder| {
            // SAFETY: the command buffer is only written to, and wgpu ends it.
            let buffer = unsafe { encoder.raw_handle() };
            on_device(&gpu.device, |device| self.record(named, device.raw_device(), buffer, encoder, stamps.as_ref()))
        };
        // SAFETY: nothing else is recorded with this encoder, and the callback neither ends nor destroys it.
        let recorded = unsafe {
            encoder.as_hal_mut::<hal::api::Vulkan, _, _>(|encoder| encoder.map_or_else(|| Err(lost()), record))
        };
        recorded?;
        let submission = gpu.queue.submit([encoder.finish()]);
        if let Some(stamps) = stamps {
            gpu.queue.on_submitted_work_done(move || drop(stamps));
        }
        Ok(submission)
    }

    /// Records all dispatches, with a timestamp before the first and after each if wanted.
    fn record(
        &self,
        named: &Named,
        device: &ash::Device,
        buffer: vk::CommandBuffer,
        encoder: &mut vulkan::CommandEncoder,
        stamps: Option<&Stamps>,
    ) {
        if let Some(stamps) = stamps {
            stamps.reset(encoder);
        }
        barrier(device, buffer, BEFORE, COMPUTE);
        let pass = hal::ComputePassDescriptor { label: None, timestamp_writes: None };
        // SAFETY: the encoder is open, and no other pass is.
        unsafe { encoder.begin_compute_pass(&pass) };
        let (mut pipeline, mut group) = (None, None);
        for (at, dispatch) in self.dispatches.iter().enumerate() {
            if dispatch.barrier || (stamps.is_some() && at > 0) {
                barrier(device, buffer, COMPUTE_WRITES, COMPUTE);
            }
            if let Some(stamps) = stamps.filter(|_| at == 0) {
                stamps.write(encoder, 0);
            }
            let bound = &named.pipelines[dispatch.pipeline];
            // SAFETY: pipeline, layout and group belong to this device and live until the submission is done (see
            // `Drop`), as do the buffers in the group. A session checked that bindings lie inside their buffers, and
            // verified that the kernel stays inside its bindings (K1).
            unsafe {
                if pipeline.replace(dispatch.pipeline) != Some(dispatch.pipeline) {
                    encoder.set_compute_pipeline(bound.raw());
                }
                // A group stays bound when the next pipeline has the same layout; one group has one layout.
                if group.replace(dispatch.group) != Some(dispatch.group) {
                    encoder.set_bind_group(bound.layout(), 0, named.groups.get(dispatch.group), &[]);
                }
                encoder.dispatch_workgroups(dispatch.grid);
            }
            if let Some(stamps) = stamps {
                stamps.write(encoder, at as u32 + 1);
            }
        }
        // SAFETY: the pass was begun above.
        unsafe { encoder.end_compute_pass() };
        if let Some(stamps) = stamps {
            stamps.resolve(encoder);
        }
        barrier(device, buffer, BEFORE, AFTER);
    }
}

/// Orders what comes before against what comes after, and makes the one's writes visible to the other.
fn barrier(device: &ash::Device, buffer: vk::CommandBuffer, from: Scope, to: Scope) {
    let memory = vk::MemoryBarrier::default().src_access_mask(from.1).dst_access_mask(to.1);
    // SAFETY: the command buffer is being recorded outside of render passes, and the stages exist on every queue that
    // can compute.
    unsafe { device.cmd_pipeline_barrier(buffer, from.0, to.0, vk::DependencyFlags::empty(), &[memory], &[], &[]) };
}

/// The error where wgpu gives no Vulkan object any more.
fn lost() -> DeviceError {
    DeviceError::Lost { message: "wgpu has no Vulkan object behind its handle".to_owned() }
}

/// A timestamp is a `u64`.
const TICK_BYTES: BufferSize = BufferSize::MIN.saturating_mul(BufferSize::MIN.saturating_add(7));

/// Timestamps of one step, and where they go.
struct Stamps {
    queries: Queries,
    count: u32,
    target: vulkan::Buffer,
    _ticks: wgpu::Buffer,
}

impl Stamps {
    fn new(gpu: &Gpu, ticks: &wgpu::Buffer, count: u32) -> Result<Stamps, DeviceError> {
        let target = hal_buffer(ticks).ok_or_else(lost)?;
        Ok(Stamps { queries: Queries::new(gpu, count)?, count, target, _ticks: ticks.clone() })
    }

    fn reset(&self, encoder: &mut vulkan::CommandEncoder) {
        // SAFETY: the queries are new, so no other commands use them; no pass is open.
        unsafe { encoder.reset_queries(self.queries.raw(), 0..self.count) };
    }

    fn write(&self, encoder: &mut vulkan::CommandEncoder, at: u32) {
        // SAFETY: `at` is below `count`: there is one more than dispatches; each is written once after the reset.
        unsafe { encoder.write_timestamp(self.queries.raw(), at) };
    }

    fn resolve(&self, encoder: &mut vulkan::CommandEncoder) {
        // SAFETY: every query was written, and the target was made for as many. It lives as long as this does.
        unsafe { encoder.copy_query_results(self.queries.raw(), 0..self.count, &self.target, 0, TICK_BYTES) };
    }
}
