//! Where there is no Vulkan: nothing of the native path can exist.

use super::{Recorded, Recording};
use crate::cache::Cache;
use crate::device::Gpu;
use crate::error::DeviceError;
use crate::pipelines::PipelineKey;
use meganeura_core::memory::Dispatch;
use std::sync::Arc;
use wgpu::SubmissionIndex;

/// Whether this system has Vulkan at all.
pub(super) const EXISTS: bool = false;

/// What a device keeps for this path.
#[derive(Default)]
pub(crate) struct Objects;

impl Objects {
    /// Nothing is made here, so nothing is kept.
    pub fn keep_in(&self, _: Option<&Cache>) {}
}

/// No pipeline.
pub(crate) enum Pipeline {}

/// No commands.
pub(crate) enum Commands {}

pub(crate) fn pipelines(_: &Gpu, _: &[(Arc<PipelineKey>, &str)]) -> Result<Vec<Arc<Pipeline>>, DeviceError> {
    Err(Recording::unsupported())
}

impl Commands {
    pub fn new(
        _: &Gpu,
        _: Vec<Arc<Pipeline>>,
        _: &[wgpu::Buffer],
        _: &[&Dispatch],
        _: Vec<Recorded>,
    ) -> Result<Commands, DeviceError> {
        Err(Recording::unsupported())
    }

    pub fn len(&self) -> usize {
        match *self {}
    }

    pub fn submit(&self, _: &Gpu, _: Option<&wgpu::Buffer>) -> Result<SubmissionIndex, DeviceError> {
        match *self {}
    }
}
