//! Devices that are lost, full or too slow: typed errors, soon; later calls fail too, and other devices go on.

use super::*;
use meganeura_core::memory::{Buffer, Owner, StateLayout};
use meganeura_wgpu::{DeviceError, Selector};
use std::process::Command;
use std::time::{Duration, Instant};

/// A device opened by the test, and the test's own handle of it.
pub fn shared() -> Option<(wgpu::Device, Device)> {
    gpu()?;
    let descriptor = wgpu::InstanceDescriptor {
        backends: wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12,
        // As the library opens it. Else a build with debug assertions takes in the validation layer, which keeps the name
        // of every staging buffer for ever.
        flags: wgpu::InstanceFlags::empty(),
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    };
    let instance = wgpu::Instance::new(descriptor);
    let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default())).unwrap();
    let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor::default())).unwrap();
    Some((device.clone(), Device::from_wgpu(device, queue)))
}

/// Runs something that may take a second at most.
fn soon<T>(what: &str, act: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = act();
    assert!(start.elapsed() < Duration::from_secs(1), "{what} took {:?}", start.elapsed());
    result
}

fn lost<T>(what: &str, act: impl FnOnce() -> Result<T, DeviceError>) {
    match soon(what, act) {
        Err(DeviceError::Lost { .. }) => {}
        Err(other) => panic!("{what}: {other}"),
        Ok(_) => panic!("{what} succeeded"),
    }
}

/// A new device computes what it should.
fn works(device: &Device) {
    let store = StateStore::new(device, &layout()).unwrap();
    let mut session = open(device, accumulate(), &store, &SessionOptions::default(), 1.0);
    (0..3).for_each(|_| session.step().unwrap());
    assert_eq!(session.read("sum").unwrap(), ramp(3.0));
}

/// `accumulate` so many times, each dispatch waiting for the one before.
fn repeated(times: usize) -> Plan {
    let mut plan = accumulate();
    plan.dispatches = (0..times).map(|group| dispatch(0, group, &[(1, true), (0, false)])).collect();
    plan
}

#[test]
fn a_device_destroyed_in_mid_run_fails_every_later_call_soon() {
    let Some(other) = gpu() else { return };
    for &recording in recordings(&other) {
        let (handle, device) = shared().unwrap();
        let store = StateStore::new(&device, &layout()).unwrap();
        let mut session = open(&device, repeated(100), &store, &recorded(recording), 1.0);
        let mut reads = Vec::new();
        for _ in 0..6 {
            session.step().unwrap();
            reads.push(session.read_later("sum").unwrap());
        }
        handle.destroy();
        let waiting = reads.pop().unwrap();
        lost("a pending read", || waiting.wait());
        lost("another one", || reads[0].try_get());
        lost("a step", || session.step());
        lost("a write", || session.write("x", &ramp(2.0)));
        lost("a read", || session.read("sum"));
        lost("a read begun", || session.read_later("sum"));
        lost("a wait", || session.wait());
        lost("a timed step", || session.time(1));
        lost("a state read", || store.read("total"));
        lost("a state write", || store.write("total", &ramp(1.0)));
        lost("a store", || StateStore::new(&device, &layout()));
        lost("a session", || Session::with_options(&device, Arc::new(chain()), &store, &recorded(recording)));
        assert!(device.is_lost());
        works(&other);
        soon("dropping it all", move || drop((reads, session, store, device, handle)));
    }
    works(&gpu().unwrap());
}

#[test]
fn steps_onto_a_destroyed_device_are_noticed_though_nobody_waits() {
    let Some(other) = gpu() else { return };
    for &recording in recordings(&other) {
        let (handle, device) = shared().unwrap();
        let store = StateStore::new(&device, &layout()).unwrap();
        let mut session = open(&device, repeated(100), &store, &recorded(recording), 1.0);
        (0..4).for_each(|_| session.step().unwrap());
        handle.destroy();
        let start = Instant::now();
        let error = loop {
            match session.step() {
                Ok(()) => assert!(start.elapsed() < Duration::from_secs(1), "{recording:?}"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, DeviceError::Lost { .. }), "{recording:?}: {error}");
    }
}

#[test]
fn a_kernel_that_seems_to_hang_is_an_error_and_holds_up_nobody() {
    let Some(other) = gpu() else { return };
    for &recording in recordings(&other) {
        let device = Device::gpu(&Selector::Index(0)).unwrap();
        let store = StateStore::new(&device, &layout()).unwrap();
        let short = SessionOptions { watchdog: Duration::from_millis(20), ..recorded(recording) };
        let mut session = open(&device, long(&other, recording), &store, &short, 1.0);
        session.step().unwrap();
        for _ in 0..2 {
            let error = soon("a wait", || session.wait()).unwrap_err();
            assert!(matches!(error, DeviceError::TimeOut { .. }), "{recording:?}: {error}");
        }
        works(&gpu().unwrap());
        // Dropped while its step still runs.
        let start = Instant::now();
        drop((session, store, device));
        assert!(start.elapsed() < Duration::from_secs(3), "{recording:?}: {:?}", start.elapsed());
        works(&other);
    }
}

/// A plan whose step takes some seconds on a device.
fn long(device: &Device, recording: Recording) -> Plan {
    let store = StateStore::new(device, &layout()).unwrap();
    let mut session = open(device, repeated(2000), &store, &recorded(recording), 0.0);
    let mut timed = || {
        let start = Instant::now();
        session.step().unwrap();
        session.read("sum").unwrap();
        start.elapsed().as_secs_f64()
    };
    let each = (0..3).map(|_| timed()).fold(f64::INFINITY, f64::min) / 2000.0;
    repeated((4.0 / each) as usize)
}

#[test]
fn a_late_device_catches_up() {
    let Some(device) = gpu() else { return };
    for &recording in recordings(&device) {
        let store = StateStore::new(&device, &layout()).unwrap();
        let short = SessionOptions { watchdog: Duration::ZERO, ..recorded(recording) };
        let mut session = open(&device, repeated(5000), &store, &short, 1.0);
        session.step().unwrap();
        let error = session.wait().unwrap_err();
        assert!(matches!(error, DeviceError::TimeOut { after: Duration::ZERO, .. }), "{error}");
        // The store has a longer patience.
        assert_eq!(store.read("total").unwrap(), ramp(5000.0), "{recording:?}");
        session.wait().unwrap();
        assert_eq!(store.read("total").unwrap(), ramp(5000.0));
    }
}

#[test]
fn a_buffer_beyond_the_limits_harms_nothing() {
    for device in devices().into_iter().filter(|device| device.info().backend != "cpu") {
        let have = device.caps().max_buffer_bytes;
        let store = StateStore::new(&device, &layout()).unwrap();
        let mut session = open(&device, accumulate(), &store, &SessionOptions::default(), 1.0);
        let mut plan = accumulate();
        plan.buffers.push(Buffer { bytes: have as usize + 4, owner: Owner::Scratch });
        let error = soon("a session", || Session::new(&device, Arc::new(plan), &store)).map(|_| ()).unwrap_err();
        assert!(matches!(error, DeviceError::LimitTooSmall { limit: "max_buffer_bytes", .. }), "{error}");
        session.step().unwrap();
        assert_eq!(session.read("sum").unwrap(), ramp(1.0));
    }
}

/// What the child process of the next test is told by.
const CHILD: &str = "MEGANEURA_TEST_MEMORY";

#[test]
fn a_full_device_says_so_and_goes_on() {
    let Some(device) = gpu() else { return };
    if std::env::var_os(CHILD).is_some() || !is_software(&device) {
        return fill(&device);
    }
    // A software GPU takes memory of its process, which is made to be little.
    let test = std::env::current_exe().unwrap();
    let child = Command::new("sh")
        .args(["-c", "ulimit -v 6000000 && exec \"$0\" --exact faults::a_full_device_says_so_and_goes_on"])
        .arg(test)
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert!(
        child.status.success(),
        "{}{}",
        String::from_utf8_lossy(&child.stdout),
        String::from_utf8_lossy(&child.stderr)
    );
}

/// Takes more memory than there is.
fn fill(device: &Device) {
    let store = StateStore::new(device, &layout()).unwrap();
    let mut session = open(device, accumulate(), &store, &SessionOptions::default(), 1.0);
    session.step().unwrap();
    // No device has as many terabytes; 2 GiB a buffer is what most allow.
    let bytes = device.caps().max_buffer_bytes.min(1 << 40) as usize / 4 * 4;
    let huge = StateLayout { arenas: vec![bytes; 8], states: Vec::new() };
    let error = StateStore::new(device, &huge).map(|_| ()).unwrap_err();
    assert!(
        matches!(&error, DeviceError::OutOfMemory { item, bytes: asked } if item.starts_with("state arena") && *asked == bytes as u64),
        "{error}"
    );
    let mut plan = accumulate();
    plan.buffers.extend([(); 8].map(|()| Buffer { bytes, owner: Owner::Scratch }));
    let error = Session::new(device, Arc::new(plan), &store).map(|_| ()).unwrap_err();
    assert!(matches!(&error, DeviceError::OutOfMemory { item, .. } if item.starts_with("Scratch buffer")), "{error}");
    // What was there before and what fits still work.
    session.step().unwrap();
    assert_eq!(session.read("sum").unwrap(), ramp(2.0));
    works(device);
    works(&gpu().unwrap());
}
