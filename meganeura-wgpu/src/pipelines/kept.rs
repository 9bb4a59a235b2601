//! What the driver made of shaders, kept on disk through wgpu's pipeline cache: for one adapter and one version of its
//! driver. naga's work is not kept, only the driver's.

use super::lock;
use crate::cache::{Cache, Kind, key_of};
use crate::device::Gpu;
use wgpu::{Features, PipelineCacheDescriptor};

/// The driver's cache of a device, and where it is kept.
pub(crate) struct KeptPipelines {
    cache: Cache,
    key: String,
    object: wgpu::PipelineCache,
    /// A hash of what is on disk.
    on_disk: Option<String>,
}

impl Gpu {
    /// Keeps pipelines that are made from now on in a cache, where the driver can.
    pub fn keep_pipelines_in(&self, cache: Option<Cache>) {
        let mut kept = lock(&self.pipelines.kept);
        if kept.as_ref().map(|kept| &kept.cache) != cache.as_ref() {
            *kept = cache.and_then(|cache| self.open_kept(cache));
        }
    }

    /// The driver's cache, for new pipelines.
    pub(super) fn kept_pipelines(&self) -> Option<wgpu::PipelineCache> {
        lock(&self.pipelines.kept).as_ref().map(|kept| kept.object.clone())
    }

    /// Writes what the driver has in its cache, if it is not what lies there.
    pub(super) fn keep(&self, object: &wgpu::PipelineCache) {
        let mut kept = lock(&self.pipelines.kept);
        let Some(kept) = kept.as_mut().filter(|kept| kept.object == *object) else { return };
        let Ok(Some(data)) = self.call(|| kept.object.get_data()) else { return };
        let content = Some(key_of(&[&data]));
        if kept.on_disk != content {
            kept.cache.write(&kept.key, Kind::Pipelines, &data);
            kept.on_disk = content;
        }
    }

    fn open_kept(&self, cache: Cache) -> Option<KeptPipelines> {
        if !self.device.features().contains(Features::PIPELINE_CACHE) {
            return None;
        }
        let info = self.device.adapter_info();
        let adapter = wgpu::util::pipeline_cache_key(&info)?;
        let key = key_of(&[&adapter, &info.name, &info.driver, &info.driver_info].map(|part| part.as_bytes()));
        let data = cache.read(&key, Kind::Pipelines);
        let create = |data: Option<&[u8]>| {
            let descriptor = PipelineCacheDescriptor { label: Some("pipelines"), data, fallback: true };
            // SAFETY: the data must come from `get_data` on this adapter and driver. The cache's checksum tells that they
            // are what `keep` wrote under this key, which only the user's own processes can; wgpu compares adapter and
            // driver once more, and begins anew where they differ.
            self.call(|| unsafe { self.device.create_pipeline_cache(&descriptor) }).ok()
        };
        let object = create(data.as_deref()).or_else(|| create(None))?;
        Some(KeptPipelines { cache, key, object, on_disk: data.map(|data| key_of(&[&data])) })
    }
}
