//! Listing adapters and choosing one.

use super::{DeviceInfo, DeviceKind, caps};
use crate::error::DeviceError;
use meganeura_core::schedule::Caps;
use std::fmt;
use std::sync::OnceLock;
use wgpu::{Adapter, AdapterInfo, Backend, Backends, DeviceType, InstanceDescriptor, InstanceFlags};

/// The graphics APIs that are searched, for messages.
const SEARCHED: &str = "Vulkan, Metal and DirectX 12";

/// Which GPU is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// The first of [`adapters`] that is not a software one.
    Best,
    /// The adapter of that number in [`adapters`].
    Index(usize),
    /// The adapter whose name contains this text, in any case; the first of several cards of one name.
    Name(String),
}

impl Selector {
    /// `gpu` or nothing is [`Selector::Best`], a number is an index, all else is part of a name.
    pub fn parse(text: &str) -> Selector {
        let text = text.trim();
        if text.is_empty() || text.eq_ignore_ascii_case("gpu") {
            return Selector::Best;
        }
        text.parse().map_or_else(|_| Selector::Name(text.to_owned()), Selector::Index)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::Best => f.write_str("hardware GPU"),
            Selector::Index(index) => write!(f, "adapter {index}"),
            Selector::Name(part) => write!(f, "adapter with {part:?} in its name"),
        }
    }
}

/// One adapter, as plain data.
#[derive(Clone, Debug)]
pub struct AdapterSummary {
    /// Its number, for [`Selector::Index`].
    pub index: usize,
    /// What it is.
    pub info: DeviceInfo,
    /// What a program may use of it.
    pub caps: Caps,
    /// Names of all its wgpu features.
    pub features: Vec<&'static str>,
}

/// The adapters of this machine, preferred kinds first, in a fixed order.
pub fn adapters() -> Vec<AdapterSummary> {
    let summary = |(index, adapter): (usize, Adapter)| {
        let mut caps = caps::caps(&adapter.get_info(), &adapter.limits(), adapter.features());
        caps.cooperative = caps::cooperative(&adapter);
        let features = adapter.features().iter_names().map(|(name, _)| name).collect();
        AdapterSummary { index, info: info(&adapter.get_info()), caps, features }
    };
    enumerate().into_iter().enumerate().map(summary).collect()
}

/// The adapter that a selector means.
pub(super) fn find(selector: &Selector) -> Result<Adapter, DeviceError> {
    let all: Vec<(usize, Adapter)> = enumerate().into_iter().enumerate().collect();
    let name = |adapter: &Adapter| adapter.get_info().name;
    let listed = |list: &[(usize, Adapter)]| {
        list.iter().map(|(index, adapter)| format!("{index}: {}", info(&adapter.get_info()))).collect::<Vec<_>>()
    };
    let found = listed(&all);
    let fits = |index: usize, adapter: &Adapter| match selector {
        Selector::Best => kind(adapter.get_info().device_type) != DeviceKind::SoftwareGpu,
        Selector::Index(wanted) => index == *wanted,
        Selector::Name(part) => name(adapter).to_lowercase().contains(&part.to_lowercase()),
    };
    let matches: Vec<_> = all.into_iter().filter(|(index, adapter)| fits(*index, adapter)).collect();
    let named = matches!(selector, Selector::Name(_));
    if named && matches.windows(2).any(|pair| name(&pair[0].1) != name(&pair[1].1)) {
        return Err(DeviceError::AmbiguousAdapter { wanted: selector.clone(), matches: listed(&matches) });
    }
    let first = matches.into_iter().next().map(|(_, adapter)| adapter);
    first.ok_or_else(|| DeviceError::NoAdapter { wanted: selector.clone(), searched: SEARCHED, found })
}

/// The adapters of this machine, best first. Drivers are loaded and asked once a process: 19 tests that each did so at the
/// same time hung, in most runs, with NVIDIA's driver 580.
fn enumerate() -> Vec<Adapter> {
    static ADAPTERS: OnceLock<Vec<Adapter>> = OnceLock::new();
    ADAPTERS.get_or_init(ask_drivers).clone()
}

fn ask_drivers() -> Vec<Adapter> {
    if cfg!(target_arch = "wasm32") {
        // A browser's adapter must be awaited.
        return Vec::new();
    }
    let instance = wgpu::Instance::new(InstanceDescriptor {
        backends: Backends::VULKAN | Backends::METAL | Backends::DX12,
        // No validation layers: they double the cost of recording, and every plan was verified before.
        flags: InstanceFlags::empty(),
        ..InstanceDescriptor::new_without_display_handle()
    });
    let mut all = pollster::block_on(instance.enumerate_adapters(Backends::all()));
    // On Windows one card shows up under two APIs; Vulkan is the one with cooperative matrices.
    let card = |adapter: &Adapter| (adapter.get_info().vendor, adapter.get_info().device);
    let vulkan: Vec<_> = all.iter().filter(|adapter| adapter.get_info().backend == Backend::Vulkan).map(card).collect();
    all.retain(|adapter| adapter.get_info().backend != Backend::Dx12 || !vulkan.contains(&card(adapter)));
    all.sort_by_key(|adapter| kind(adapter.get_info().device_type));
    all
}

pub(super) fn info(adapter: &AdapterInfo) -> DeviceInfo {
    DeviceInfo {
        name: adapter.name.clone(),
        backend: adapter.backend.to_str().to_owned(),
        kind: kind(adapter.device_type),
        driver: [adapter.driver.as_str(), &adapter.driver_info].join(" ").trim().to_owned(),
    }
}

fn kind(device_type: DeviceType) -> DeviceKind {
    match device_type {
        DeviceType::DiscreteGpu => DeviceKind::DiscreteGpu,
        DeviceType::IntegratedGpu => DeviceKind::IntegratedGpu,
        DeviceType::Other => DeviceKind::OtherGpu,
        DeviceType::VirtualGpu => DeviceKind::VirtualGpu,
        DeviceType::Cpu => DeviceKind::SoftwareGpu,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_told_apart() {
        assert_eq!(Selector::parse(" GPU "), Selector::Best);
        assert_eq!(Selector::parse("0"), Selector::Index(0));
        assert_eq!(Selector::parse("llvmpipe"), Selector::Name("llvmpipe".to_owned()));
    }

    #[test]
    fn a_selector_that_fits_nothing_names_what_exists() {
        let error = find(&Selector::Name("nonexistent".to_owned())).unwrap_err();
        let DeviceError::NoAdapter { wanted, found, .. } = &error else { panic!("{error}") };
        assert_eq!(*wanted, Selector::Name("nonexistent".to_owned()));
        assert_eq!(found.len(), adapters().len());
        assert!(adapters().iter().all(|adapter| error.to_string().contains(&adapter.info.name)));
        assert!(matches!(find(&Selector::Index(1000)), Err(DeviceError::NoAdapter { .. })));
    }
}
