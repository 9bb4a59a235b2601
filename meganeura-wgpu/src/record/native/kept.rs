//! The driver's cache of pipelines, as a Vulkan object.

use super::objects::{Owned, on_device};
use crate::device::Gpu;
use crate::pipelines::kept::DriverCache;
use ash::vk;
use std::sync::Arc;
use wgpu::hal::{self, Device as _, vulkan};

/// A Vulkan pipeline cache. Vulkan lets any number of threads use one at a time.
#[derive(Clone)]
pub(super) struct NativeCache(Arc<Owned<vulkan::PipelineCache>>);

impl PartialEq for NativeCache {
    fn eq(&self, other: &NativeCache) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl NativeCache {
    pub fn raw(&self) -> &vulkan::PipelineCache {
        &self.0
    }
}

impl DriverCache for NativeCache {
    const NAME: &'static str = "vulkan";

    fn create(gpu: &Gpu, data: Option<&[u8]>) -> Option<NativeCache> {
        let create = |device: &vulkan::Device| {
            let data = data.filter(|data| begins_as_ours(device, data));
            // SAFETY: the data must come from `vkGetPipelineCacheData` on this device and driver. The cache's checksum
            // tells that they are what a `Keeper` wrote under the key of this adapter and driver, which only the user's
            // own processes can; the header, which names both, was compared.
            unsafe { device.create_pipeline_cache(&hal::PipelineCacheDescriptor { label: None, data }) }
        };
        let made = Owned::make(gpu, create, destroy).ok()?;
        made.inspect_err(|error| tracing::warn!("the driver makes no cache of pipelines: {error}"))
            .ok()
            .map(|raw| NativeCache(Arc::new(raw)))
    }

    fn data(&self, gpu: &Gpu) -> Option<Vec<u8>> {
        // SAFETY: the cache was made on this device.
        on_device(&gpu.device, |device| unsafe { device.pipeline_cache_get_data(&self.0) }).ok().flatten()
    }
}

/// Whether data begin with the header that this device writes (`VkPipelineCacheHeaderVersionOne`): its length and version,
/// then the vendor, the device and the driver's own number for what it can read.
fn begins_as_ours(device: &vulkan::Device, data: &[u8]) -> bool {
    let instance = device.shared_instance().raw_instance();
    // SAFETY: the physical device is the one that the device was opened on, of this instance.
    let own = unsafe { instance.get_physical_device_properties(device.raw_physical_device()) };
    let version = vk::PipelineCacheHeaderVersion::ONE.as_raw() as u32;
    let words = [32, version, own.vendor_id, own.device_id].map(u32::to_le_bytes);
    data.starts_with(&[words.as_flattened(), &own.pipeline_cache_uuid].concat())
}

unsafe fn destroy(device: &vulkan::Device, cache: vulkan::PipelineCache) {
    // SAFETY: as this function's caller says: made on this device, and no longer used.
    unsafe { device.destroy_pipeline_cache(cache) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, Executor, Selector};

    #[test]
    fn data_of_another_device_or_driver_are_not_given_to_the_driver() {
        let Ok(device) = Device::gpu(&Selector::Index(0)) else {
            return assert!(!meganeura_core::debug::require_gpu());
        };
        let Executor::Gpu(gpu) = device.executor() else { panic!("a GPU was asked for") };
        if device.info().backend != "vulkan" {
            return;
        }
        let own = NativeCache::create(gpu, None).unwrap().data(gpu).unwrap();
        let ours = |data: &[u8]| on_device(&gpu.device, |device| begins_as_ours(device, data)).unwrap();
        assert!(ours(&own) && ours(&[&own[..], b"more"].concat()));
        for at in 0..32 {
            let mut foreign = own.clone();
            foreign[at] ^= 1;
            assert!(!ours(&foreign) && !ours(&own[..at]), "byte {at}");
            assert!(NativeCache::create(gpu, Some(&foreign)).unwrap().data(gpu).unwrap().starts_with(&own[..32]));
        }
    }
}
