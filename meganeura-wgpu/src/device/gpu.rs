//! An open wgpu device: errors, loss and waiting made into results.

use crate::error::DeviceError;
use crate::pipelines::PipelineCache;
use meganeura_core::schedule::Caps;
use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wgpu::{Adapter, DeviceDescriptor, ErrorFilter, ExperimentalFeatures, Features, MemoryHints, PollError, PollType};

/// How long a failed call waits to see whether the device was lost.
const LOSS_GRACE: Duration = Duration::from_secs(1);

/// Whether a thread may wait for the GPU: in a browser the only one must return for the GPU's answers to come.
pub(crate) const MAY_WAIT: bool = !cfg!(target_arch = "wasm32");

/// A wgpu device with what is known about its health, and the pipelines made on it.
pub(crate) struct Gpu {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub caps: Arc<Caps>,
    pub pipelines: PipelineCache,
    health: Arc<Health>,
}

/// Filled by wgpu's callbacks, on whatever thread they come.
#[derive(Default)]
struct Health {
    lost: AtomicBool,
    loss: Mutex<Option<String>>,
    /// Whether a wait ever timed out.
    late: AtomicBool,
    uncaptured: Mutex<Option<String>>,
}

/// An error that a wgpu call reported.
pub(crate) enum CallError {
    OutOfMemory,
    Refused(String),
    Lost(DeviceError),
}

impl CallError {
    /// As the error of something that is not an allocation and has no text of its own.
    pub fn during(self, action: &'static str) -> DeviceError {
        match self {
            CallError::OutOfMemory => DeviceError::OutOfMemory { item: action.to_owned(), bytes: 0 },
            CallError::Refused(message) => DeviceError::Refused { action, message },
            CallError::Lost(error) => error,
        }
    }
}

/// Opens an adapter with its own limits and the optional features that kernels can use; if the driver refuses,
/// without the experimental ones, and then without any.
pub(super) async fn open(adapter: &Adapter) -> Result<(wgpu::Device, wgpu::Queue), DeviceError> {
    let optional = Features::SHADER_F16
        | Features::SUBGROUP
        | Features::IMMEDIATES
        | Features::TIMESTAMP_QUERY
        | Features::TIMESTAMP_QUERY_INSIDE_PASSES
        | Features::PIPELINE_CACHE;
    let experimental = Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
    let mut attempts =
        [optional | experimental, optional, Features::empty()].map(|all| all & adapter.features()).to_vec();
    attempts.dedup();
    let mut refusal = String::new();
    for features in attempts {
        match request(adapter, features).await {
            Ok(opened) => return Ok(opened),
            Err(error) => {
                tracing::warn!("{} refused {features:?}: {error}", adapter.get_info().name);
                refusal = error.to_string();
            }
        }
    }
    Err(DeviceError::Open { adapter: adapter.get_info().name, message: refusal })
}

async fn request(
    adapter: &Adapter,
    features: Features,
) -> Result<(wgpu::Device, wgpu::Queue), wgpu::RequestDeviceError> {
    let experimental_features = if features.contains(Features::EXPERIMENTAL_COOPERATIVE_MATRIX) {
        // SAFETY: the token states that experimental features may have bugs. The only one requested is the cooperative
        // matrix, and the printer of shaders keeps to the forms that were seen to translate and compute rightly.
        unsafe { ExperimentalFeatures::enabled() }
    } else {
        ExperimentalFeatures::disabled()
    };
    let descriptor = DeviceDescriptor {
        label: Some("meganeura"),
        required_features: features,
        required_limits: adapter.limits(),
        experimental_features,
        // The hint for performance reserves 128 MiB with the first buffer. Plans ask for few, large buffers, which get
        // an allocation of their own under either hint.
        memory_hints: MemoryHints::MemoryUsage,
        ..DeviceDescriptor::default()
    };
    adapter.request_device(&descriptor).await
}

impl Gpu {
    pub fn new(device: wgpu::Device, queue: wgpu::Queue, caps: Arc<Caps>) -> Gpu {
        let health = Arc::new(Health::default());
        let seen = Arc::clone(&health);
        device.set_device_lost_callback(move |reason, message| {
            record(&seen.loss, format!("{reason:?}: {message}"));
            seen.lost.store(true, Ordering::Release);
        });
        Gpu { device, queue, caps, pipelines: PipelineCache::default(), health }
    }

    /// Keeps errors that no scope catches for the next check, where wgpu would panic. Only for a device that nobody
    /// else uses: another user's errors are none of ours.
    pub fn keep_uncaptured_errors(&self) {
        let seen = Arc::clone(&self.health);
        self.device.on_uncaptured_error(Arc::new(move |error| {
            tracing::error!("uncaptured wgpu error: {error}");
            record(&seen.uncaptured, error.to_string());
        }));
    }

    pub fn is_lost(&self) -> bool {
        self.health.lost.load(Ordering::Acquire)
    }

    /// Fails if the device is lost, or if an error reached no caller since the last check. wgpu tells of a loss only
    /// while it is polled; a poll that does not wait costs about a microsecond.
    pub fn check(&self) -> Result<(), DeviceError> {
        self.poll_for_loss(PollType::Poll);
        self.health()
    }

    fn poll_for_loss(&self, poll: PollType) {
        // `poll` panics where the device gives an error, as a lost one may.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.device.poll(poll))) {
            record(&self.health.loss, panic_text(panic.as_ref()));
            self.health.lost.store(true, Ordering::Release);
        }
    }

    fn health(&self) -> Result<(), DeviceError> {
        if self.is_lost() {
            let loss = self.health.loss.lock().unwrap_or_else(PoisonError::into_inner);
            return Err(DeviceError::Lost { message: loss.clone().unwrap_or_default() });
        }
        match self.health.uncaptured.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(message) => Err(DeviceError::Refused { action: "run an earlier call", message }),
            None => Ok(()),
        }
    }

    /// Runs wgpu calls that report errors on the side, and returns the first error instead. Panics inside wgpu and naga
    /// are caught too: naga's SPIR-V writer panics on some modules that its validator accepts.
    pub fn call<T>(&self, calls: impl FnOnce() -> T) -> Result<T, CallError> {
        // In a browser no thread may wait for a scope's errors; there they reach the next check.
        let filters = [ErrorFilter::OutOfMemory, ErrorFilter::Validation, ErrorFilter::Internal];
        let filters = if MAY_WAIT { &filters[..] } else { &filters[..0] };
        let scopes: Vec<_> = filters.iter().map(|filter| self.device.push_error_scope(*filter)).collect();
        // The state that a panic could leave half-changed is wgpu's own, whose locks do not poison; the objects being
        // made are dropped.
        let result = catch_unwind(AssertUnwindSafe(calls));
        let mut errors =
            scopes.into_iter().rev().filter_map(|scope| pollster::block_on(scope.pop())).collect::<Vec<_>>();
        if result.is_err() || !errors.is_empty() {
            // On a device that is being lost every call fails, and wgpu tells of the loss once the queue is empty.
            self.poll_for_loss(PollType::Wait { submission_index: None, timeout: Some(LOSS_GRACE) });
        }
        if let Err(lost) = self.health() {
            return Err(CallError::Lost(lost));
        }
        match (result, errors.pop()) {
            (Err(panic), _) => Err(CallError::Refused(panic_text(panic.as_ref()))),
            (Ok(_), Some(wgpu::Error::OutOfMemory { .. })) => Err(CallError::OutOfMemory),
            (Ok(_), Some(error)) => Err(CallError::Refused(error.to_string())),
            (Ok(value), None) => Ok(value),
        }
    }

    /// Waits until a submission is done, at most for `watchdog`.
    pub fn wait(
        &self,
        submission: wgpu::SubmissionIndex,
        action: &'static str,
        watchdog: Duration,
    ) -> Result<(), DeviceError> {
        self.check()?;
        if !MAY_WAIT {
            return Err(DeviceError::Unsupported {
                action: "wait for the GPU",
                feature: "threads that may wait, as in a browser",
            });
        }
        let poll = PollType::Wait { submission_index: Some(submission), timeout: Some(watchdog) };
        let polled = catch_unwind(AssertUnwindSafe(|| self.device.poll(poll)));
        if matches!(polled, Ok(Err(PollError::Timeout))) {
            self.health.late.store(true, Ordering::Relaxed);
        }
        self.check()?;
        match polled {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(PollError::Timeout)) => Err(DeviceError::TimeOut { action, after: watchdog }),
            Ok(Err(error)) => Err(DeviceError::Refused { action, message: error.to_string() }),
            Err(panic) => Err(DeviceError::Lost { message: panic_text(panic.as_ref()) }),
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if !self.health.late.load(Ordering::Relaxed) {
            return;
        }
        // Before wgpu drops a queue it waits for its end, however long: a kernel that hangs would hang the host.
        let poll = PollType::Wait { submission_index: None, timeout: Some(LOSS_GRACE) };
        if !matches!(catch_unwind(AssertUnwindSafe(|| self.device.poll(poll))), Ok(Ok(_))) {
            tracing::warn!("a device that does not finish its work is left behind");
            mem::forget(self.queue.clone());
        }
    }
}

/// Keeps the first message: later ones are consequences.
fn record(slot: &Mutex<Option<String>>, message: String) {
    slot.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(message);
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers;
    use crate::pipelines::{PipelineKey, ShaderChecks};

    /// A device that computes nothing, but validates.
    fn noop() -> Gpu {
        let (device, queue) = wgpu::Device::noop(&DeviceDescriptor::default());
        let caps = Caps { max_buffer_bytes: device.limits().max_buffer_size, ..Caps::base() };
        let gpu = Gpu::new(device, queue, Arc::new(caps));
        gpu.keep_uncaptured_errors();
        gpu
    }

    #[test]
    fn a_panic_inside_a_call_is_an_error() {
        let gpu = noop();
        let result: Result<(), _> = gpu.call(|| panic!("not cached"));
        let error = result.err().map(|error| error.during("test"));
        assert!(matches!(&error, Some(DeviceError::Refused { message, .. }) if message == "not cached"), "{error:?}");
        assert!(gpu.call(|| ()).is_ok(), "the error scopes are balanced");
    }

    #[test]
    fn an_error_that_no_scope_catches_is_told_once_at_the_next_check() {
        let gpu = noop();
        let usage = wgpu::BufferUsages::empty();
        let _ = gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 4,
            usage,
            mapped_at_creation: false,
        });
        assert!(matches!(gpu.check(), Err(DeviceError::Refused { .. })));
        assert!(gpu.check().is_ok());
    }

    #[test]
    fn a_buffer_beyond_the_limit_is_an_error_with_its_size() {
        let gpu = noop();
        let have = gpu.caps.max_buffer_bytes;
        let error = buffers::create(&gpu, "weights", have + 4).unwrap_err();
        let DeviceError::LimitTooSmall { item, limit, need, have: limit_bytes } = &error else { panic!("{error}") };
        assert_eq!((item.as_str(), *limit, *need, *limit_bytes), ("weights", "max_buffer_bytes", have + 4, have));
    }

    #[test]
    fn a_bad_shader_is_an_error_with_its_name_and_text() {
        let gpu = noop();
        let source = "@compute @workgroup_size(1) fn main() { nonsense(); }".to_owned();
        let key = Arc::new(PipelineKey { source: source.clone(), writable: vec![true], checks: ShaderChecks::Off });
        let error = gpu.pipelines(&[(key, "layer 3: add")]).unwrap_err();
        let DeviceError::Shader { label, message, source_text } = &error else { panic!("{error}") };
        assert_eq!((label.as_str(), source_text), ("layer 3: add", &source));
        assert!(message.contains("nonsense"), "{message}");
    }

    #[test]
    fn equal_keys_share_a_pipeline() {
        let gpu = noop();
        let key = |size: u32, checks| {
            let source = format!("@compute @workgroup_size({size}) fn main() {{}}");
            (Arc::new(PipelineKey { source, writable: vec![], checks }), "empty")
        };
        let keys =
            [key(1, ShaderChecks::Off), key(2, ShaderChecks::Off), key(1, ShaderChecks::Off), key(1, ShaderChecks::On)];
        let pipelines = gpu.pipelines(&keys).unwrap();
        assert_eq!(pipelines.len(), 4);
        assert_eq!(pipelines[0], pipelines[2]);
        assert!(pipelines[0] != pipelines[1] && pipelines[0] != pipelines[3]);
        assert_eq!(gpu.pipelines(&keys).unwrap(), pipelines);
    }
}
