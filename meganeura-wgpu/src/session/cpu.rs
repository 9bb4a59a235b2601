//! A program on the CPU device.

use super::Report;
use crate::error::DeviceError;
use crate::profile::StepTimes;
use crate::transfer;
use meganeura_core::cpu::{Buffer, Executor};
use meganeura_core::memory::{Owner, Plan, Port};
use meganeura_core::tensor::Tensor;
use std::sync::Arc;
use web_time::Instant;

/// Buffers and an executor. Buffers have locks, which a step holds: sessions on one store take turns.
pub(super) struct CpuProgram {
    executor: Executor,
    buffers: Vec<Buffer>,
}

impl CpuProgram {
    /// Prepares the plan's kernels and allocates its buffers.
    pub fn new(plan: &Arc<Plan>, arenas: &[Buffer], report: &mut Report) -> CpuProgram {
        let start = Instant::now();
        let executor = Executor::new(Arc::clone(plan));
        report.seconds.compile = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let mut buffers = Vec::with_capacity(plan.buffers.len());
        for buffer in &plan.buffers {
            let arena = match buffer.owner {
                Owner::Arena(arena) => arenas.get(arena).cloned(),
                Owner::Scratch | Owner::Input | Owner::Output => None,
            };
            report.allocated_bytes += if arena.is_some() { 0 } else { buffer.bytes as u64 };
            buffers.push(arena.unwrap_or_else(|| Buffer::zeroed(buffer.bytes)));
        }
        report.seconds.allocate = start.elapsed().as_secs_f64();
        CpuProgram { executor, buffers }
    }

    pub fn write(&mut self, port: &Port, tensor: &Tensor) -> Result<(), DeviceError> {
        transfer::upload_cpu(&self.buffers[port.place.buffer], port.place.offset, tensor)
    }

    pub fn read(&self, port: &Port) -> Result<Tensor, DeviceError> {
        transfer::download_cpu(&self.buffers[port.place.buffer], port.place.offset, &port.ty)
    }

    /// Runs one step to its end.
    pub fn step(&mut self) -> Result<(), DeviceError> {
        Ok(self.executor.run(&self.buffers)?)
    }

    /// Runs one step to its end and times its dispatches.
    pub fn time(&mut self) -> Result<StepTimes, DeviceError> {
        let submitted = Instant::now();
        let mut dispatches = Vec::with_capacity(self.executor.plan().dispatches.len());
        let mut last = 0.0;
        self.executor.run_observed(&self.buffers, &mut |_| {
            let now = submitted.elapsed().as_secs_f64();
            dispatches.push([std::mem::replace(&mut last, now), now]);
        })?;
        Ok(StepTimes { submitted, dispatches })
    }
}
