//! What the driver made of shaders, kept on disk through the driver's own cache of pipelines: for one adapter and one version of its
//! driver. naga's work is not kept, only the driver's.

use super::lock;
use crate::cache::{Cache, Kind, key_of};
use crate::device::Gpu;
use std::sync::Mutex;
use wgpu::{Features, PipelineCacheDescriptor};

/// A driver's cache of pipelines. Clones are handles of one.
pub(crate) trait DriverCache: Clone + PartialEq {
    /// Tells the files of one kind from those of another.
    const NAME: &'static str;

    /// A cache with what [`DriverCache::data`] gave, or an empty one; `None` if the driver has none or refuses the data.
    fn create(gpu: &Gpu, data: Option<&[u8]>) -> Option<Self>;

    /// What it holds.
    fn data(&self, gpu: &Gpu) -> Option<Vec<u8>>;
}

/// A driver's cache, and where its content is kept.
pub(crate) struct Keeper<C>(Mutex<State<C>>);

struct State<C> {
    cache: Option<Cache>,
    /// Made when it is first needed.
    kept: Option<Kept<C>>,
}

struct Kept<C> {
    key: String,
    object: C,
    /// A hash of what is on disk.
    on_disk: Option<String>,
}

impl<C> Default for Keeper<C> {
    fn default() -> Keeper<C> {
        Keeper(Mutex::new(State { cache: None, kept: None }))
    }
}

impl<C: DriverCache> Keeper<C> {
    /// Keeps pipelines that are made from now on in a cache.
    pub fn keep_in(&self, cache: Option<&Cache>) {
        let mut state = lock(&self.0);
        if state.cache.as_ref() != cache {
            *state = State { cache: cache.cloned(), kept: None };
        }
    }

    /// The driver's cache, for new pipelines; `None` if nothing is to be kept.
    pub fn object(&self, gpu: &Gpu) -> Option<C> {
        let mut state = lock(&self.0);
        let State { cache, kept } = &mut *state;
        if let (Some(cache), None) = (cache, &kept) {
            *kept = Kept::open(gpu, cache);
        }
        kept.as_ref().map(|kept| kept.object.clone())
    }

    /// Writes what the driver has in its cache, if it is not what lies there.
    pub fn write(&self, gpu: &Gpu, object: &C) {
        let mut state = lock(&self.0);
        let State { cache: Some(cache), kept: Some(kept) } = &mut *state else { return };
        if kept.object != *object {
            return;
        }
        let Some(data) = object.data(gpu) else { return };
        let content = Some(key_of(&[&data]));
        if kept.on_disk != content {
            cache.write(&kept.key, Kind::Pipelines, &data);
            kept.on_disk = content;
        }
    }
}

impl<C: DriverCache> Kept<C> {
    fn open(gpu: &Gpu, cache: &Cache) -> Option<Kept<C>> {
        let info = gpu.device.adapter_info();
        let adapter = wgpu::util::pipeline_cache_key(&info)?;
        let parts = [C::NAME, &adapter, &info.name, &info.driver, &info.driver_info];
        let key = key_of(&parts.map(str::as_bytes));
        let data = cache.read(&key, Kind::Pipelines);
        if let Some(object) = data.as_deref().and_then(|data| C::create(gpu, Some(data))) {
            return Some(Kept { key, object, on_disk: data.map(|data| key_of(&[&data])) });
        }
        Some(Kept { key, object: C::create(gpu, None)?, on_disk: None })
    }
}

impl DriverCache for wgpu::PipelineCache {
    const NAME: &'static str = "wgpu";

    fn create(gpu: &Gpu, data: Option<&[u8]>) -> Option<wgpu::PipelineCache> {
        if !gpu.device.features().contains(Features::PIPELINE_CACHE) {
            return None;
        }
        let descriptor = PipelineCacheDescriptor { label: Some("pipelines"), data, fallback: true };
        // SAFETY: the data must come from `get_data` on this adapter and driver. The cache's checksum tells that they
        // are what a `Keeper` wrote under this key, which only the user's own processes can; wgpu compares adapter and
        // driver once more, and begins anew where they differ.
        gpu.call(|| unsafe { gpu.device.create_pipeline_cache(&descriptor) }).ok()
    }

    fn data(&self, gpu: &Gpu) -> Option<Vec<u8>> {
        gpu.call(|| self.get_data()).ok().flatten()
    }
}
