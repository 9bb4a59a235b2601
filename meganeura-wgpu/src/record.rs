//! Recording a step through wgpu's safe path: one encoder, one compute pass, one submission.
//!
//! wgpu places the barriers: one before each dispatch that touches a buffer which was written before in the pass.
//! Encoders are one-shot, so that a step is recorded anew each time; about 1 µs a dispatch.

use crate::device::Gpu;
use crate::error::DeviceError;
use wgpu::{CommandEncoder, CommandEncoderDescriptor, ComputePass, ComputePassDescriptor, SubmissionIndex};

/// All that a step dispatches.
pub(crate) struct Recording {
    /// Distinct pipelines.
    pub pipelines: Vec<wgpu::ComputePipeline>,
    /// Distinct bind groups.
    pub groups: Vec<wgpu::BindGroup>,
    /// In execution order.
    pub dispatches: Vec<Recorded>,
}

/// One dispatch.
pub(crate) struct Recorded {
    /// Position in [`Recording::pipelines`].
    pub pipeline: usize,
    /// Position in [`Recording::groups`].
    pub group: usize,
    /// Workgroups along each dimension.
    pub grid: [u32; 3],
}

impl Recording {
    /// Submits one step; does not wait.
    pub fn submit(&self, gpu: &Gpu) -> Result<SubmissionIndex, DeviceError> {
        gpu.check()?;
        let submit = || {
            let mut encoder = new_encoder(gpu);
            self.encode(&mut encoder);
            gpu.queue.submit([encoder.finish()])
        };
        gpu.call(submit).map_err(|error| error.during("run a step"))
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
