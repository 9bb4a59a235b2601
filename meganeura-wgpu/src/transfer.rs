//! Tensors between host and device.

use crate::buffers::create_for;
use crate::device::Gpu;
use crate::error::DeviceError;
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use wgpu::{BufferUsages, CommandEncoderDescriptor, MapMode};

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
        let malformed = |error: meganeura_core::tensor::TensorError| DeviceError::Refused {
            action: "read a tensor back",
            message: error.to_string(),
        };
        tensor = Tensor::from_bytes(ty.clone(), &copied).map_err(malformed)?;
    }
    Ok(tensor)
}

/// Reads a range of a buffer, both in bytes and multiples of 4.
pub(crate) fn read_bytes(
    gpu: &Gpu,
    buffer: &wgpu::Buffer,
    offset: u64,
    bytes: u64,
    watchdog: Duration,
) -> Result<Vec<u8>, DeviceError> {
    const ACTION: &str = "read a tensor back";
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
        .map_err(|error| error.during(ACTION))?;
    gpu.wait(submission, ACTION, watchdog)?;
    let refused = |message: String| DeviceError::Refused { action: ACTION, message };
    match mapped.get() {
        Some(Ok(())) => {}
        Some(Err(error)) => return Err(refused(error.to_string())),
        None => return Err(refused("the copy was done, but its buffer was not mapped".to_owned())),
    }
    let view = staging.get_mapped_range(..).map_err(|error| refused(error.to_string()))?;
    Ok(view.to_vec())
}
