//! A browser's GPU, which must be awaited: no thread may wait there.

use super::{Device, Gpu, Selector, caps, gpu};
use crate::error::DeviceError;
use wgpu::{Backends, InstanceDescriptor, InstanceFlags, PowerPreference, RequestAdapterOptions};

impl Device {
    /// The browser's GPU through WebGPU, with all the limits and optional features that kernels can use.
    ///
    /// # Errors
    /// [`DeviceError::NoAdapter`] where the browser offers none, [`DeviceError::Open`] where it refuses to open it.
    pub async fn request() -> Result<Device, DeviceError> {
        let instance = wgpu::Instance::new(InstanceDescriptor {
            backends: Backends::BROWSER_WEBGPU,
            flags: InstanceFlags::empty(),
            ..InstanceDescriptor::new_without_display_handle()
        });
        let options = RequestAdapterOptions {
            power_preference: PowerPreference::HighPerformance,
            ..RequestAdapterOptions::default()
        };
        let adapter = instance.request_adapter(&options).await.map_err(|error| DeviceError::NoAdapter {
            wanted: Selector::Best,
            searched: "WebGPU",
            found: vec![error.to_string()],
        })?;
        let (device, queue) = gpu::open(&adapter).await?;
        Ok(Device::on(device, queue, caps::cooperative(&adapter), Gpu::keep_uncaptured_errors))
    }
}
