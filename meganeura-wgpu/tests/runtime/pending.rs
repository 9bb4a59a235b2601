//! Values that are read while later steps run.

use super::*;
use meganeura_core::dtype::DType;
use meganeura_core::memory::{Place, Port, StateLayout};
use meganeura_core::shape::TensorType;
use meganeura_wgpu::DeviceError;
use std::time::{Duration, Instant};

#[test]
fn a_pending_read_has_the_value_of_its_step() {
    for device in devices() {
        for &recording in recordings(&device) {
            let store = StateStore::new(&device, &layout()).unwrap();
            let mut session = open(&device, accumulate(), &store, &recorded(recording), 1.0);
            let reads: Vec<_> = (0..30)
                .map(|_| {
                    session.step().unwrap();
                    session.read_later("sum").unwrap()
                })
                .collect();
            for (step, read) in reads.into_iter().enumerate().rev() {
                assert_eq!(read.wait().unwrap(), ramp(step as f32 + 1.0), "{} {recording:?}", device.info());
            }
            assert_eq!(session.read("sum").unwrap(), ramp(30.0));
        }
    }
}

#[test]
fn a_pending_read_can_be_awaited() {
    for device in devices() {
        let store = StateStore::new(&device, &layout()).unwrap();
        let mut session = open(&device, accumulate(), &store, &SessionOptions::default(), 1.0);
        session.step().unwrap();
        let (sum, total) = (session.read_later("sum").unwrap(), store.read_later("total").unwrap());
        session.step().unwrap();
        let [sum, total] = pollster::block_on(async { [sum.await.unwrap(), total.await.unwrap()] });
        assert_eq!([sum, total], [ramp(1.0), ramp(1.0)], "{}", device.info());
        assert!(store.read_later("nothing").is_err());
    }
}

#[test]
fn a_pending_read_arrives_by_itself() {
    for device in devices() {
        let store = StateStore::new(&device, &layout()).unwrap();
        let mut session = open(&device, accumulate(), &store, &SessionOptions::default(), 1.0);
        session.step().unwrap();
        let read = session.read_later("sum").unwrap();
        assert!(device.info().backend != "cpu" || read.try_get().unwrap().is_some());
        session.step().unwrap();
        let start = Instant::now();
        while read.try_get().unwrap().is_none() {
            assert!(start.elapsed() < Duration::from_secs(20), "{}", device.info());
            std::thread::sleep(Duration::from_millis(1));
        }
        // It may be asked again, after the session is gone too.
        session.step().unwrap();
        drop(session);
        assert_eq!(read.try_get().unwrap(), Some(ramp(1.0)));
        assert_eq!(read.wait().unwrap(), ramp(1.0));
        assert_eq!(store.read("total").unwrap(), ramp(3.0));
    }
}

#[test]
fn asking_for_a_read_waits_no_longer_than_asking_for_a_step() {
    let Some(device) = gpu() else { return };
    let mut plan = accumulate();
    plan.dispatches = vec![plan.dispatches[0].clone(); 3000];
    let timed = |act: &mut dyn FnMut()| {
        let start = Instant::now();
        act();
        start.elapsed()
    };
    for &recording in recordings(&device) {
        let store = StateStore::new(&device, &layout()).unwrap();
        let mut session = open(&device, plan.clone(), &store, &recorded(recording), 0.0);
        let mut attempt = || {
            session.wait().unwrap();
            session.step().unwrap();
            // Mesa's software GPU computes the earlier submission inside the later one.
            let step = timed(&mut || session.step().unwrap());
            let mut read = None;
            let asked = timed(&mut || read = Some(session.read_later("sum").unwrap()));
            let waited = timed(&mut || drop(read.take().unwrap().wait().unwrap()));
            (asked < waited / 2 || asked < 2 * step + Duration::from_millis(1), [step, asked, waited])
        };
        let mut attempts = Vec::new();
        // Other work on this machine may stop the thread at any time.
        let seen = (0..5).any(|_| {
            let (short, times) = attempt();
            attempts.push(times);
            short
        });
        assert!(seen, "{recording:?}: {attempts:?}");
    }
}

#[test]
fn pending_reads_name_what_is_wrong() {
    for device in devices() {
        let store = StateStore::new(&device, &layout()).unwrap();
        let mut session = open(&device, accumulate(), &store, &SessionOptions::default(), 1.0);
        assert!(matches!(session.read_later("sum"), Err(DeviceError::NoStep { name }) if name == "sum"));
        session.step().unwrap();
        let unknown = session.read_later("mean");
        assert!(matches!(unknown, Err(DeviceError::UnknownTensor { kind: "output", name, .. }) if name == "mean"));
    }
}

#[test]
fn odd_and_empty_tensors_arrive_too() {
    for device in devices() {
        for (extent, bytes) in [(3, 8), (0, 0)] {
            let ty = TensorType::new(DType::F16, [extent]);
            let port = |name: &str| {
                let place = Place { buffer: 0, offset: 0, bytes };
                Port { name: name.to_owned(), ty: ty.clone(), place }
            };
            let mut plan = passthrough();
            (plan.inputs, plan.outputs) = (vec![port("x")], vec![port("y")]);
            let store = StateStore::new(&device, &StateLayout::default()).unwrap();
            let mut session = Session::new(&device, Arc::new(plan), &store).unwrap();
            let halves = vec![half::f16::from_f32(-2.5); extent];
            let halves = Tensor::from_f16([extent], &halves).unwrap();
            session.write("x", &halves).unwrap();
            session.step().unwrap();
            assert_eq!(session.read_later("y").unwrap().wait().unwrap(), halves, "{}", device.info());
        }
    }
}
