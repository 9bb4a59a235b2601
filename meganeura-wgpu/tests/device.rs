//! Choosing a device, sharing one, and losing one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use meganeura_core::memory::StateLayout;
use meganeura_core::tensor::Tensor;
use meganeura_wgpu::{Device, DeviceError, DeviceKind, Selector, Session, StateStore, adapters};
use std::sync::Arc;

/// The GPU of [`gpu`] opened by the caller, with the caller's own handle of it.
fn shared() -> Option<(wgpu::Device, Device)> {
    shared_with(wgpu::Features::empty())
}

/// As [`shared`], with optional features, as far as the adapter has them.
fn shared_with(features: wgpu::Features) -> Option<(wgpu::Device, Device)> {
    gpu()?;
    let descriptor = wgpu::InstanceDescriptor {
        backends: wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12,
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    };
    let instance = wgpu::Instance::new(descriptor);
    let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default())).unwrap();
    let descriptor = wgpu::DeviceDescriptor { required_features: features & adapter.features(), ..Default::default() };
    let (device, queue) = pollster::block_on(adapter.request_device(&descriptor)).unwrap();
    Some((device.clone(), Device::from_wgpu(device, queue)))
}

fn ones() -> Tensor {
    Tensor::from_f32([N], vec![1.0; N]).unwrap()
}

fn running(device: &Device) -> Session {
    let store = StateStore::new(device, &layout()).unwrap();
    let mut session = Session::new(device, Arc::new(accumulate()), &store).unwrap();
    session.write("x", &ones()).unwrap();
    session.step().unwrap();
    session
}

#[test]
fn best_never_takes_a_software_gpu_unasked() {
    if meganeura_core::debug::device_selector().is_some() {
        return;
    }
    let device = Device::best();
    assert_ne!(device.info().kind, DeviceKind::SoftwareGpu);
    assert!(device.notice().unwrap().contains(&device.info().name));
    assert!(Device::cpu().notice().is_none());
}

#[test]
fn devices_are_selected_by_text() {
    assert_eq!(Device::from_selector("cpu").unwrap().info().kind, DeviceKind::Cpu);
    for adapter in adapters() {
        let by_index = Device::gpu(&Selector::Index(adapter.index)).unwrap();
        assert_eq!(*by_index.info(), adapter.info);
        assert_eq!(*by_index.caps(), adapter.caps);
        let by_name = Device::from_selector(&adapter.info.name.to_uppercase()).unwrap();
        assert_eq!(by_name.info().name, adapter.info.name);
    }
}

#[test]
fn an_unknown_adapter_is_an_error_that_names_what_exists() {
    let error = Device::from_selector("nonexistent").unwrap_err();
    assert!(matches!(&error, DeviceError::NoAdapter { .. }));
    assert!(error.to_string().contains("nonexistent"));
    assert!(adapters().iter().all(|adapter| error.to_string().contains(&adapter.info.name)), "{error}");
}

#[test]
fn a_callers_device_runs_programs_within_its_own_limits() {
    let Some((_, device)) = shared() else { return };
    assert_eq!(device.caps().max_buffer_bytes, 256 << 20, "wgpu's default limits were asked for");
    assert!(!device.caps().f16 && device.caps().subgroup.is_none() && device.caps().cooperative.is_empty());
    assert_eq!(running(&device).read("sum").unwrap(), ones());
    let error = running(&device).time(1).unwrap_err();
    assert!(matches!(error, DeviceError::Unsupported { .. }), "{error}");
}

#[test]
fn devices_that_take_timestamps_at_passes_only_time_dispatches_too() {
    let Some((handle, device)) = shared_with(wgpu::Features::TIMESTAMP_QUERY) else { return };
    let store = StateStore::new(&device, &StateLayout::default()).unwrap();
    let mut session = Session::new(&device, Arc::new(chain()), &store).unwrap();
    session.write("x", &ones()).unwrap();
    let times = session.time(2);
    if !handle.features().contains(wgpu::Features::TIMESTAMP_QUERY) {
        return assert!(matches!(times, Err(DeviceError::Unsupported { .. })), "{times:?}");
    }
    let times = times.unwrap();
    assert!(times.iter().all(|step| step.dispatches.len() == 3), "{times:?}");
    assert!(times.iter().flat_map(|step| &step.dispatches).all(|[start, end]| start <= end), "{times:?}");
    assert_eq!(session.read("y").unwrap(), Tensor::from_f32([N], vec![9.0; N]).unwrap());
}

#[test]
fn a_destroyed_device_gives_errors_and_neither_panics_nor_hangs() {
    let Some((handle, device)) = shared() else { return };
    let mut session = running(&device);
    handle.destroy();
    let lost = |error: DeviceError| assert!(matches!(error, DeviceError::Lost { .. }), "{error}");
    lost(session.read("sum").unwrap_err());
    lost(session.step().unwrap_err());
    lost(session.write("x", &ones()).unwrap_err());
    lost(session.store().read("total").unwrap_err());
    lost(session.store().write("total", &ones()).unwrap_err());
    lost(StateStore::new(&device, &layout()).map(|_| ()).unwrap_err());
    lost(Session::new(&device, Arc::new(accumulate()), session.store()).map(|_| ()).unwrap_err());
    assert!(device.is_lost());
}

#[test]
fn steps_after_a_loss_fail_though_nobody_waited() {
    let Some((handle, device)) = shared() else { return };
    let mut session = running(&device);
    handle.destroy();
    // The loss shows once the step in flight is done.
    let noticed = (0..1000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        matches!(session.step(), Err(DeviceError::Lost { .. }))
    });
    assert!(noticed);
}

#[test]
fn the_noop_backend_accepts_pipelines_and_interfaces() {
    let (device, queue) = wgpu::Device::noop(&wgpu::DeviceDescriptor::default());
    let device = Device::from_wgpu(device, queue);
    let store = StateStore::new(&device, &StateLayout::default()).unwrap();
    let mut session = Session::new(&device, Arc::new(chain()), &store).unwrap();
    session.write("x", &ones()).unwrap();
    session.step().unwrap();
    session.read("y").unwrap();
    assert_eq!(session.report().pipelines, 3);
}
