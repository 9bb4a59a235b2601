//! Tensors between host and device.

use crate::buffers::create_for;
use crate::device::Gpu;
use crate::error::DeviceError;
use meganeura_core::cpu;
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use std::fmt::Display;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use wgpu::{BufferUsages, CommandEncoderDescriptor, MapMode};

/// What reading is called in errors.
const READ: &str = "read a tensor back";

/// Writes a tensor at `offset` bytes of a buffer, before the commands of the next submission and after those of the
/// last: steps in flight still see the old value. wgpu stages the bytes, so this does not wait.
pub(crate) fn upload(gpu: &Gpu, buffer: &wgpu::Buffer, offset: usize, tensor: &Tensor) -> Result<(), DeviceError> {
    gpu.check()?;
    if tensor.bytes().is_empty() {
        return Ok(());
    }
    gpu.call(|| gpu.queue.write_buffer(buffer, offset as u64, tensor.bytes()))
        .map_err(|error| error.during("upload a tensor"))
}

/// Reads the tensor at `offset` bytes of a buffer, after all that was submitted before.
pub(crate) fn download(
    gpu: &Gpu,
    buffer: &wgpu::Buffer,
    offset: usize,
    ty: &TensorType,
    watchdog: Duration,
) -> Result<Tensor, DeviceError> {
    let mut tensor = Tensor::zeros(ty.clone());
    let bytes = tensor.bytes().len() as u64;
    gpu.check()?;
    if bytes > 0 {
        let copied = read_bytes(gpu, buffer, offset as u64, bytes, watchdog)?;
        tensor = Tensor::from_bytes(ty.clone(), &copied).map_err(|error| refused(READ, error))?;
    }
    Ok(tensor)
}

/// Writes a tensor at `offset` bytes of a buffer of the CPU device.
pub(crate) fn upload_cpu(buffer: &cpu::Buffer, offset: usize, tensor: &Tensor) -> Result<(), DeviceError> {
    buffer.write(offset, tensor.bytes()).map_err(|error| refused("write a tensor", error))
}

/// Reads the tensor at `offset` bytes of a buffer of the CPU device.
pub(crate) fn download_cpu(buffer: &cpu::Buffer, offset: usize, ty: &TensorType) -> Result<Tensor, DeviceError> {
    let mut bytes = vec![0; ty.bytes()];
    buffer.read(offset, &mut bytes).map_err(|error| refused(READ, error))?;
    Tensor::from_bytes(ty.clone(), &bytes).map_err(|error| refused(READ, error))
}

fn refused(action: &'static str, error: impl Display) -> DeviceError {
    DeviceError::Refused { action, message: error.to_string() }
}

/// Reads a range of a buffer, both in bytes and multiples of 4.
pub(crate) fn read_bytes(
    gpu: &Gpu,
    buffer: &wgpu::Buffer,
    offset: u64,
    bytes: u64,
    watchdog: Duration,
) -> Result<Vec<u8>, DeviceError> {
    let staging = create_for(gpu, "readback", bytes, BufferUsages::COPY_DST | BufferUsages::MAP_READ)?;
    let mapped = Arc::new(OnceLock::new());
    let seen = Arc::clone(&mapped);
    let submission = gpu
        .call(|| {
            let mut encoder = gpu.device.create_command_encoder(&CommandEncoderDescriptor { label: Some("readback") });
            encoder.copy_buffer_to_buffer(buffer, offset, &staging, 0, bytes);
            let submission = gpu.queue.submit([encoder.finish()]);
            staging.map_async(MapMode::Read, .., move |result| {
                seen.get_or_init(|| result);
            });
            submission
        })
        .map_err(|error| error.during(READ))?;
    gpu.wait(submission, READ, watchdog)?;
    match mapped.get() {
        Some(Ok(())) => {}
        Some(Err(error)) => return Err(refused(READ, error)),
        None => return Err(refused(READ, "the copy was done, but its buffer was not mapped")),
    }
    let view = staging.get_mapped_range(..).map_err(|error| refused(READ, error))?;
    Ok(view.to_vec())
}
