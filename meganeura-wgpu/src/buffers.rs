//! Device buffers: those of a store's arenas and those that a plan asks for.

use crate::device::{CallError, Gpu};
use crate::error::DeviceError;
use meganeura_core::memory::{Owner, Plan};
use wgpu::{BufferDescriptor, BufferUsages, CommandEncoderDescriptor};

/// The buffers of a session, in the order of [`Plan::buffers`]; arenas are handles of the store's.
pub(crate) struct Buffers {
    pub all: Vec<wgpu::Buffer>,
    /// Bytes of those that the session owns.
    pub allocated: u64,
}

impl Buffers {
    /// Allocates what the plan asks for, and clears it.
    ///
    /// # Errors
    /// [`DeviceError::LimitTooSmall`], [`DeviceError::OutOfMemory`], or [`DeviceError::Unplanned`] if the sum is not
    /// what was planned (M6).
    pub fn allocate(gpu: &Gpu, plan: &Plan, arenas: &[wgpu::Buffer]) -> Result<Buffers, DeviceError> {
        let mut buffers = Buffers { all: Vec::with_capacity(plan.buffers.len()), allocated: 0 };
        for (at, buffer) in plan.buffers.iter().enumerate() {
            let arena = match buffer.owner {
                Owner::Arena(arena) => Some(arena),
                Owner::Scratch | Owner::Input | Owner::Output => None,
            };
            let handle = match arena.and_then(|arena| arenas.get(arena)) {
                Some(shared) => shared.clone(),
                None => create(gpu, &format!("{:?} buffer {at}", buffer.owner), buffer.bytes as u64)?,
            };
            buffers.allocated += if arena.is_some() { 0 } else { handle.size() };
            buffers.all.push(handle);
        }
        let planned = plan.session_bytes() as u64;
        if buffers.allocated != planned {
            return Err(DeviceError::Unplanned { planned, allocated: buffers.allocated });
        }
        let own = plan.buffers.iter().zip(&buffers.all).filter(|(buffer, _)| !matches!(buffer.owner, Owner::Arena(_)));
        clear(gpu, own.map(|(_, handle)| handle))?;
        Ok(buffers)
    }
}

/// Clears buffers at once. wgpu would else do so piece by piece, each before what it takes for the first use; it does not
/// see the uses of the native path.
pub(crate) fn clear<'b>(gpu: &Gpu, buffers: impl Iterator<Item = &'b wgpu::Buffer>) -> Result<(), DeviceError> {
    let clear = || {
        let mut encoder = gpu.device.create_command_encoder(&CommandEncoderDescriptor { label: Some("clear") });
        buffers.for_each(|buffer| encoder.clear_buffer(buffer, 0, None));
        gpu.queue.submit([encoder.finish()]);
    };
    gpu.call(clear).map_err(|error| error.during("clear buffers"))
}

/// Creates one storage buffer, which the host can write and read through copies.
pub(crate) fn create(gpu: &Gpu, label: &str, bytes: u64) -> Result<wgpu::Buffer, DeviceError> {
    let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
    create_for(gpu, label, bytes, usage)
}

/// Creates one buffer for the given uses; its size is in bytes.
pub(crate) fn create_for(gpu: &Gpu, label: &str, bytes: u64, usage: BufferUsages) -> Result<wgpu::Buffer, DeviceError> {
    let have = gpu.caps.max_buffer_bytes;
    if bytes > have {
        return Err(DeviceError::LimitTooSmall {
            item: label.to_owned(),
            limit: "max_buffer_bytes",
            need: bytes,
            have,
        });
    }
    let descriptor = BufferDescriptor { label: Some(label), size: bytes, usage, mapped_at_creation: false };
    gpu.call(|| gpu.device.create_buffer(&descriptor)).map_err(|error| match error {
        CallError::OutOfMemory => DeviceError::OutOfMemory { item: label.to_owned(), bytes },
        other => other.during("create a buffer"),
    })
}
