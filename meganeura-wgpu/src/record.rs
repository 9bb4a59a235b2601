//! Recording a step through wgpu's safe path: one encoder, one compute pass, one submission.
//!
//! wgpu places the barriers: one before each dispatch that touches a buffer which was written before in the pass.
//! Encoders are one-shot, so that a step is recorded anew each time; about 1 µs a dispatch.

use crate::buffers::create_for;
use crate::device::Gpu;
use crate::error::DeviceError;
use crate::transfer::read_bytes;
use std::time::Duration;
use wgpu::{
    BufferUsages, CommandEncoder, CommandEncoderDescriptor, ComputePassDescriptor, Features, QUERY_SET_MAX_QUERIES,
    QuerySet, QuerySetDescriptor, QueryType, SubmissionIndex,
};

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
            self.encode(&mut encoder, &[]);
            gpu.queue.submit([encoder.finish()])
        };
        gpu.call(submit).map_err(|error| error.during("run a step"))
    }

    /// Submits one step with a timestamp around each dispatch, and waits: seconds of each.
    pub fn profile(&self, gpu: &Gpu, watchdog: Duration) -> Result<Vec<f64>, DeviceError> {
        const ACTION: &str = "time dispatches";
        let needed = Features::TIMESTAMP_QUERY | Features::TIMESTAMP_QUERY_INSIDE_PASSES;
        if !gpu.device.features().contains(needed) {
            return Err(DeviceError::Unsupported { action: ACTION, feature: "timestamps inside passes" });
        }
        gpu.check()?;
        let count = self.dispatches.len() as u32 + 1;
        let bytes = u64::from(count) * 8;
        let resolved = create_for(gpu, "timestamps", bytes, BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC)?;
        let submit = || {
            let sets = query_sets(gpu, count);
            let mut encoder = new_encoder(gpu);
            self.encode(&mut encoder, &sets);
            for (at, set) in sets.iter().enumerate() {
                let first = at as u32 * QUERY_SET_MAX_QUERIES;
                let queries = QUERY_SET_MAX_QUERIES.min(count - first);
                encoder.resolve_query_set(set, 0..queries, &resolved, u64::from(first) * 8);
            }
            gpu.queue.submit([encoder.finish()])
        };
        gpu.call(submit).map_err(|error| error.during(ACTION))?;
        let ticks = read_bytes(gpu, &resolved, 0, bytes, watchdog)?;
        let ticks: Vec<u64> = ticks.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect();
        let seconds_per_tick = f64::from(gpu.queue.get_timestamp_period()) * 1e-9;
        Ok(ticks.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) as f64 * seconds_per_tick).collect())
    }

    /// Encodes all dispatches, with a timestamp before the first and after each if there are query sets.
    fn encode(&self, encoder: &mut CommandEncoder, queries: &[QuerySet]) {
        if self.dispatches.is_empty() && queries.is_empty() {
            return;
        }
        let descriptor = ComputePassDescriptor { label: Some("step"), timestamp_writes: None };
        let mut pass = encoder.begin_compute_pass(&descriptor);
        let stamp = |pass: &mut wgpu::ComputePass<'_>, at: usize| {
            if let Some(set) = queries.get(at / QUERY_SET_MAX_QUERIES as usize) {
                pass.write_timestamp(set, at as u32 % QUERY_SET_MAX_QUERIES);
            }
        };
        stamp(&mut pass, 0);
        let (mut pipeline, mut group) = (None, None);
        for (at, dispatch) in self.dispatches.iter().enumerate() {
            if pipeline.replace(dispatch.pipeline) != Some(dispatch.pipeline) {
                pass.set_pipeline(&self.pipelines[dispatch.pipeline]);
            }
            if group.replace(dispatch.group) != Some(dispatch.group) {
                pass.set_bind_group(0, &self.groups[dispatch.group], &[]);
            }
            let [x, y, z] = dispatch.grid;
            pass.dispatch_workgroups(x, y, z);
            stamp(&mut pass, at + 1);
        }
    }
}

fn new_encoder(gpu: &Gpu) -> CommandEncoder {
    gpu.device.create_command_encoder(&CommandEncoderDescriptor { label: Some("step") })
}

fn query_sets(gpu: &Gpu, count: u32) -> Vec<QuerySet> {
    let set = |first: u32| {
        gpu.device.create_query_set(&QuerySetDescriptor {
            label: Some("dispatch times"),
            ty: QueryType::Timestamp,
            count: QUERY_SET_MAX_QUERIES.min(count - first),
        })
    };
    (0..count).step_by(QUERY_SET_MAX_QUERIES as usize).map(set).collect()
}
