//! Tensors between host and device.

use crate::buffers::create_for;
use crate::device::{Gpu, MAY_WAIT};
use crate::error::DeviceError;
use meganeura_core::cpu;
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use std::fmt::{self, Display};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use wgpu::{BufferAsyncError, BufferUsages, CommandEncoderDescriptor, MapMode, SubmissionIndex};

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
    match Copied::of_tensor(gpu, buffer, offset, ty)? {
        None => Ok(Tensor::zeros(ty.clone())),
        Some(copied) => tensor(ty, &copied.wait(gpu, watchdog)?),
    }
}

/// Begins to read the tensor at `offset` bytes of a buffer, after all that was submitted before; does not wait.
pub(crate) fn download_later(
    gpu: &Arc<Gpu>,
    buffer: &wgpu::Buffer,
    offset: usize,
    ty: &TensorType,
    watchdog: Duration,
) -> Result<PendingRead, DeviceError> {
    Ok(match Copied::of_tensor(gpu, buffer, offset, ty)? {
        None => PendingRead::ready(Tensor::zeros(ty.clone())),
        Some(copied) => PendingRead(Pending::Coming { gpu: Arc::clone(gpu), copied, ty: ty.clone(), watchdog }),
    })
}

/// A tensor on its way to the host: see [`Session::read_later`](crate::Session::read_later).
///
/// It holds as much memory as the tensor until it is dropped. It can be awaited too, as it must be in a browser, whose only
/// thread may not wait; elsewhere whoever awaits it asks the device again and again, so [`wait`](Self::wait) costs less.
#[must_use = "the value is lost if nobody takes it"]
pub struct PendingRead(Pending);

enum Pending {
    Ready(Tensor),
    Coming { gpu: Arc<Gpu>, copied: Copied, ty: TensorType, watchdog: Duration },
}

impl PendingRead {
    pub(crate) fn ready(tensor: Tensor) -> PendingRead {
        PendingRead(Pending::Ready(tensor))
    }

    /// The tensor if it has arrived, else `None`; does not wait. On the CPU device it is always there.
    ///
    /// # Errors
    /// [`DeviceError::Lost`]; [`DeviceError::Refused`] if the copy failed.
    pub fn try_get(&self) -> Result<Option<Tensor>, DeviceError> {
        match &self.0 {
            Pending::Ready(tensor) => Ok(Some(tensor.clone())),
            Pending::Coming { gpu, copied, ty, .. } => {
                gpu.check()?;
                copied.bytes()?.map(|bytes| tensor(ty, &bytes)).transpose()
            }
        }
    }

    /// The tensor; waits for the step whose value it is, and not for those after it.
    ///
    /// # Errors
    /// [`DeviceError::TimeOut`] if it does not arrive within the session's watchdog, [`DeviceError::Lost`];
    /// [`DeviceError::Refused`] if the copy failed.
    pub fn wait(self) -> Result<Tensor, DeviceError> {
        match self.0 {
            Pending::Ready(tensor) => Ok(tensor),
            Pending::Coming { gpu, copied, ty, watchdog } => tensor(&ty, &copied.wait(&gpu, watchdog)?),
        }
    }
}

impl Future for PendingRead {
    type Output = Result<Tensor, DeviceError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Pending::Coming { copied, .. } = &self.0 {
            // Before it is looked for: what arrives in between wakes too.
            copied.arrival.wake_later(context.waker());
        }
        match self.try_get().transpose() {
            Some(arrived) => Poll::Ready(arrived),
            None => {
                if MAY_WAIT {
                    // Outside of a browser things arrive while the device is asked for them.
                    context.waker().wake_by_ref();
                }
                Poll::Pending
            }
        }
    }
}

impl fmt::Debug for PendingRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ty = match &self.0 {
            Pending::Ready(tensor) => tensor.ty(),
            Pending::Coming { ty, .. } => ty,
        };
        f.debug_tuple("PendingRead").field(ty).finish()
    }
}

/// Writes a tensor at `offset` bytes of a buffer of the CPU device.
pub(crate) fn upload_cpu(buffer: &cpu::Buffer, offset: usize, tensor: &Tensor) -> Result<(), DeviceError> {
    buffer.write(offset, tensor.bytes()).map_err(|error| refused("write a tensor", error))
}

/// Reads the tensor at `offset` bytes of a buffer of the CPU device.
pub(crate) fn download_cpu(buffer: &cpu::Buffer, offset: usize, ty: &TensorType) -> Result<Tensor, DeviceError> {
    let mut bytes = vec![0; ty.bytes()];
    buffer.read(offset, &mut bytes).map_err(|error| refused(READ, error))?;
    tensor(ty, &bytes)
}

fn tensor(ty: &TensorType, bytes: &[u8]) -> Result<Tensor, DeviceError> {
    Tensor::from_bytes(ty.clone(), bytes).map_err(|error| refused(READ, error))
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
    Copied::new(gpu, buffer, offset, bytes)?.wait(gpu, watchdog)
}

/// A copy of a range of a buffer, on its way to the host.
struct Copied {
    staging: wgpu::Buffer,
    arrival: Arc<Arrival>,
    submission: SubmissionIndex,
}

/// Filled by wgpu's callback, on whatever thread it comes.
#[derive(Default)]
struct Arrival {
    /// Set when the copy is done and the host may see it.
    mapped: OnceLock<Result<(), BufferAsyncError>>,
    waker: Mutex<Option<Waker>>,
}

impl Arrival {
    fn set(&self, result: Result<(), BufferAsyncError>) {
        self.mapped.get_or_init(|| result);
        if let Some(waker) = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take() {
            waker.wake();
        }
    }

    fn wake_later(&self, waker: &Waker) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
    }
}

impl Copied {
    /// Submits the copy; `None` of nothing, which cannot be copied.
    fn of_tensor(
        gpu: &Gpu,
        buffer: &wgpu::Buffer,
        offset: usize,
        ty: &TensorType,
    ) -> Result<Option<Copied>, DeviceError> {
        gpu.check()?;
        // Copies are of whole words, and so are tensors' places.
        let bytes = ty.bytes().next_multiple_of(4) as u64;
        (bytes > 0).then(|| Copied::new(gpu, buffer, offset as u64, bytes)).transpose()
    }

    fn new(gpu: &Gpu, buffer: &wgpu::Buffer, offset: u64, bytes: u64) -> Result<Copied, DeviceError> {
        let staging = create_for(gpu, "readback", bytes, BufferUsages::COPY_DST | BufferUsages::MAP_READ)?;
        let arrival = Arc::new(Arrival::default());
        let seen = Arc::clone(&arrival);
        let submit = || {
            let mut encoder = gpu.device.create_command_encoder(&CommandEncoderDescriptor { label: Some("readback") });
            encoder.copy_buffer_to_buffer(buffer, offset, &staging, 0, bytes);
            let submission = gpu.queue.submit([encoder.finish()]);
            staging.map_async(MapMode::Read, .., move |result| seen.set(result));
            submission
        };
        let submission = gpu.call(submit).map_err(|error| error.during(READ))?;
        Ok(Copied { staging, arrival, submission })
    }

    /// The bytes, if they have arrived.
    fn bytes(&self) -> Result<Option<Vec<u8>>, DeviceError> {
        match self.arrival.mapped.get() {
            Some(Ok(())) => {}
            Some(Err(error)) => return Err(refused(READ, error)),
            None => return Ok(None),
        }
        let view = self.staging.get_mapped_range(..).map_err(|error| refused(READ, error))?;
        Ok(Some(view.to_vec()))
    }

    fn wait(&self, gpu: &Gpu, watchdog: Duration) -> Result<Vec<u8>, DeviceError> {
        gpu.wait(self.submission.clone(), READ, watchdog)?;
        self.bytes()?.ok_or_else(|| refused(READ, "the copy was done, but its buffer was not mapped"))
    }
}
