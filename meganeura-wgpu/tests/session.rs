//! Sessions and stores on every device of this machine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use meganeura_core::dtype::DType;
use meganeura_core::ir::{Builder, StateSpec};
use meganeura_core::memory::{Buffer, Owner, Place, Plan, Port, StateLayout};
use meganeura_core::options::Options;
use meganeura_core::pipeline::compile;
use meganeura_core::scalar::Scalar;
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use meganeura_wgpu::{
    Device, DeviceError, LayoutMismatch, Recording, Session, SessionOptions, ShaderChecks, StateStore,
};
use std::sync::Arc;
use std::time::Duration;

fn ramp(scale: f32) -> Tensor {
    Tensor::from_f32([N], (0..N).map(|at| at as f32 * scale).collect()).unwrap()
}

fn session(device: &Device, plan: Plan, layout: &StateLayout) -> Session {
    let store = StateStore::new(device, layout).unwrap();
    Session::new(device, Arc::new(plan), &store).unwrap()
}

#[test]
fn dispatches_see_what_earlier_ones_wrote() {
    for device in devices() {
        let mut session = session(&device, chain(), &StateLayout::default());
        for scale in [1.0, -0.5] {
            session.write("x", &ramp(scale)).unwrap();
            session.step().unwrap();
            assert_eq!(session.read("y").unwrap(), ramp(9.0 * scale), "{}", device.info());
        }
        let report = session.report();
        assert_eq!(report.allocated_bytes as usize, 4 * BYTES);
        assert_eq!(report.dispatches, 3);
    }
}

#[test]
fn inputs_keep_their_value_and_steps_queue_up() {
    for device in devices() {
        let mut session = session(&device, accumulate(), &layout());
        session.write("x", &ramp(1.0)).unwrap();
        (0..20).for_each(|_| session.step().unwrap());
        // A write after steps that may still run must not change what they read.
        session.write("x", &ramp(-1.0)).unwrap();
        session.step().unwrap();
        assert_eq!(session.read("sum").unwrap(), ramp(19.0), "{}", device.info());
        assert_eq!(session.store().read("total").unwrap(), ramp(19.0));
    }
}

#[test]
fn sessions_share_a_store() {
    for device in devices() {
        let store = StateStore::new(&device, &layout()).unwrap();
        assert_eq!(store.read("total").unwrap(), Tensor::zeros(f32s()), "states start at zero");
        store.write("total", &ramp(1.0)).unwrap();
        let add = |scale: f32, steps: usize| {
            let (device, store) = (device.clone(), store.clone());
            move || {
                let mut session = Session::new(&device, Arc::new(accumulate()), &store).unwrap();
                session.write("x", &ramp(scale)).unwrap();
                (0..steps).for_each(|_| session.step().unwrap());
                session.read("sum").unwrap();
            }
        };
        let threads = [std::thread::spawn(add(1.0, 50)), std::thread::spawn(add(2.0, 50))];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(store.read("total").unwrap(), ramp(151.0), "{}", device.info());
        assert_eq!(store.names().collect::<Vec<_>>(), ["total"]);
    }
}

#[test]
fn states_start_at_their_initial_values() {
    for device in devices() {
        let builder = Builder::new();
        let initial = [("three", Scalar::f32(3.0)), ("nothing", Scalar::f32(0.0)), ("count", Scalar::u32(7))];
        for (name, init) in initial {
            let ty = TensorType::new(init.dtype(), [5]);
            let old = builder.state(StateSpec { name: name.into(), ty, group: "parameters".into(), init });
            builder.update(old, old + old.like(1.0));
        }
        let program = compile(&builder.finish().unwrap(), &Options::default(), device.caps(), None).unwrap();
        let store = StateStore::for_program(&device, &program).unwrap();
        for (name, init) in initial {
            assert_eq!(store.read(name).unwrap(), Tensor::filled([5], init), "{name}");
        }
        Session::new(&device, Arc::clone(&program.plan), &store).unwrap().step().unwrap();
        assert_eq!(store.read("three").unwrap(), Tensor::filled([5], Scalar::f32(4.0)), "{}", device.info());
        store.fill("three", Scalar::f32(-1.0)).unwrap();
        assert_eq!(store.read("three").unwrap(), Tensor::filled([5], Scalar::f32(-1.0)));
        assert!(matches!(store.fill("three", Scalar::u32(1)), Err(DeviceError::WrongType { .. })));
    }
}

#[test]
fn a_plan_without_dispatches_passes_inputs_through() {
    for device in devices() {
        let mut session = session(&device, passthrough(), &StateLayout::default());
        session.write("x", &ramp(1.0)).unwrap();
        session.step().unwrap();
        assert_eq!(session.read("y").unwrap(), ramp(1.0));
    }
}

#[test]
fn wrong_names_types_and_order_are_named() {
    for device in devices() {
        let mut session = session(&device, accumulate(), &layout());
        let error = session.step().unwrap_err();
        assert!(matches!(&error, DeviceError::MissingInputs { names } if names == &["x"]), "{error}");
        let error = session.write("z", &ramp(1.0)).unwrap_err();
        assert!(
            matches!(&error, DeviceError::UnknownTensor { kind: "input", name, known } if name == "z" && known == &["x"])
        );
        let long = Tensor::zeros(TensorType::new(DType::F32, [N + 1]));
        let error = session.write("x", &long).unwrap_err();
        assert!(matches!(&error, DeviceError::WrongType { name, expected, found }
            if name == "x" && *expected == f32s() && found == long.ty()));
        let error = session.store().write("total", &Tensor::zeros(TensorType::new(DType::I32, [N]))).unwrap_err();
        assert!(matches!(&error, DeviceError::WrongType { name, .. } if name == "total"));
        let error = session.store().read("nothing").unwrap_err();
        assert!(matches!(&error, DeviceError::UnknownTensor { kind: "state", known, .. } if known == &["total"]));
        let error = session.read("sum").unwrap_err();
        assert!(matches!(&error, DeviceError::NoStep { name } if name == "sum"));
        session.write("x", &ramp(1.0)).unwrap();
        session.step().unwrap();
        let error = session.read("mean").unwrap_err();
        assert!(matches!(&error, DeviceError::UnknownTensor { kind: "output", known, .. } if known == &["sum"]));
    }
}

#[test]
fn a_plan_for_another_store_is_refused() {
    for device in devices() {
        let refusal = |layout: &StateLayout| {
            let store = StateStore::new(&device, layout).unwrap();
            match Session::new(&device, Arc::new(accumulate()), &store).map(|_| ()).unwrap_err() {
                DeviceError::OtherLayout { mismatch } => mismatch,
                other => panic!("{other}"),
            }
        };
        let missing = LayoutMismatch::Arena { arena: 0, planned: BYTES, stored: 0 };
        assert_eq!(refusal(&StateLayout::default()), missing);
        let mut renamed = layout();
        renamed.states[0].name = "mean".to_owned();
        assert_eq!(refusal(&renamed), LayoutMismatch::State { name: "total".to_owned() });
        let mut outside = layout();
        outside.states[0].offset = 4;
        assert!(matches!(StateStore::new(&device, &outside), Err(DeviceError::Malformed { what: "byte", .. })));
    }
}

#[test]
fn a_malformed_plan_is_refused() {
    let spoil: [fn(&mut Plan); 4] = [
        |plan| plan.dispatches[0].kernel = 9,
        |plan| plan.dispatches[1].bindings[0].place.buffer = 9,
        |plan| plan.dispatches[2].arg_binding[0] = 9,
        |plan| plan.outputs[0].place.offset = 4,
    ];
    for device in devices() {
        let store = StateStore::new(&device, &StateLayout::default()).unwrap();
        for spoil in spoil {
            let mut plan = chain();
            spoil(&mut plan);
            let error = Session::new(&device, Arc::new(plan), &store).map(|_| ()).unwrap_err();
            assert!(matches!(error, DeviceError::Malformed { .. }), "{error}");
        }
    }
}

#[test]
fn an_access_out_of_bounds_is_refused_before_anything_runs() {
    for device in devices() {
        let store = StateStore::new(&device, &StateLayout::default()).unwrap();
        let mut plan = chain();
        plan.kernels[1].axes[0].extent = N + 1;
        let error = Session::new(&device, Arc::new(plan), &store).map(|_| ()).unwrap_err();
        assert!(matches!(&error, DeviceError::Kernel { label, .. } if label == "dispatch 1"), "{error}");
        let mut plan = chain();
        plan.kernels[1].args.iter_mut().for_each(|arg| arg.elements = N + 1);
        let error = Session::new(&device, Arc::new(plan), &store).map(|_| ()).unwrap_err();
        assert!(matches!(error, DeviceError::Malformed { what: "byte", .. }), "{error}");
    }
}

#[test]
fn a_store_of_another_device_is_refused() {
    let Some(gpu) = gpu() else { return };
    let store = StateStore::new(&Device::cpu(), &layout()).unwrap();
    let error = Session::new(&gpu, Arc::new(accumulate()), &store).map(|_| ()).unwrap_err();
    assert!(matches!(error, DeviceError::OtherDevice { .. }), "{error}");
}

#[test]
fn pipelines_are_shared_by_equal_dispatches_and_by_sessions() {
    let Some(device) = gpu() else { return };
    let store = StateStore::new(&device, &StateLayout::default()).unwrap();
    let mut plan = chain();
    plan.dispatches[2] = dispatch(0, 2, &[(2, false), (3, true)]);
    let first = Session::new(&device, Arc::new(plan.clone()), &store).unwrap();
    assert_eq!((first.report().dispatches, first.report().pipelines), (3, 2));
    let second = Session::new(&device, Arc::new(plan), &store).unwrap();
    assert!(second.report().seconds.compile < first.report().seconds.compile);
}

#[test]
fn checked_shaders_compute_the_same() {
    let Some(device) = gpu() else { return };
    let store = StateStore::new(&device, &StateLayout::default()).unwrap();
    let results = [ShaderChecks::Off, ShaderChecks::On].map(|shader_checks| {
        let options = SessionOptions { shader_checks, ..SessionOptions::default() };
        let mut session = Session::with_options(&device, Arc::new(chain()), &store, &options).unwrap();
        session.write("x", &ramp(0.1)).unwrap();
        session.step().unwrap();
        session.read("y").unwrap()
    });
    assert_eq!(results[0], results[1]);
}

#[test]
fn waiting_needs_no_step_and_ends() {
    for device in devices() {
        let mut session = session(&device, chain(), &StateLayout::default());
        session.wait().unwrap();
        session.write("x", &ramp(1.0)).unwrap();
        (0..20).for_each(|_| session.step().unwrap());
        session.wait().unwrap();
        session.wait().unwrap();
        assert_eq!(session.read("y").unwrap(), ramp(9.0));
    }
}

#[test]
fn a_buffer_beyond_the_limit_is_refused_before_it_is_made() {
    let Some(device) = gpu() else { return };
    let have = device.caps().max_buffer_bytes;
    let mut plan = chain();
    plan.buffers[1].bytes = have as usize + 4;
    let store = StateStore::new(&device, &StateLayout::default()).unwrap();
    let error = Session::new(&device, Arc::new(plan), &store).map(|_| ()).unwrap_err();
    assert!(
        matches!(&error, DeviceError::LimitTooSmall { limit: "max_buffer_bytes", need, have: limit, .. }
        if *need == have + 4 && *limit == have),
        "{error}"
    );
    let huge = StateLayout { arenas: vec![have as usize + 4], states: Vec::new() };
    assert!(matches!(StateStore::new(&device, &huge), Err(DeviceError::LimitTooSmall { .. })));
}

#[test]
fn allocated_bytes_are_the_planned_ones() {
    for device in devices() {
        let mut plan = accumulate();
        plan.buffers.push(Buffer { bytes: 1 << 20, owner: Owner::Scratch });
        let session = session(&device, plan, &layout());
        assert_eq!(session.report().allocated_bytes, (1 << 20) + BYTES as u64);
        assert_eq!(session.report().arena_bytes, BYTES as u64);
    }
}

#[test]
fn a_kernel_that_cannot_be_printed_is_named() {
    let Some(device) = gpu() else { return };
    let mut plan = chain();
    plan.dispatches[1].bindings[2].writable = false;
    plan.dispatches[1].label = "residual".to_owned();
    let store = StateStore::new(&device, &StateLayout::default()).unwrap();
    let error = Session::new(&device, Arc::new(plan), &store).map(|_| ()).unwrap_err();
    assert!(matches!(&error, DeviceError::Print { label, .. } if label == "residual"), "{error}");
}

#[test]
fn a_wait_that_takes_too_long_is_an_error_and_the_session_goes_on() {
    let Some(device) = gpu() else { return };
    let mut plan = accumulate();
    // So many dependent dispatches take many milliseconds on any device.
    plan.dispatches = vec![plan.dispatches[0].clone(); 50_000];
    let store = StateStore::new(&device, &layout()).unwrap();
    let options = SessionOptions { watchdog: Duration::ZERO, ..SessionOptions::default() };
    let mut session = Session::with_options(&device, Arc::new(plan), &store, &options).unwrap();
    session.write("x", &ramp(1.0)).unwrap();
    session.step().unwrap();
    match session.read("sum") {
        Err(error) => assert!(matches!(error, DeviceError::TimeOut { after: Duration::ZERO, .. }), "{error}"),
        // A software GPU may have computed everything inside the submission.
        Ok(sum) => assert!(is_software(&device) && sum == ramp(50_000.0)),
    }
    assert_eq!(store.read("total").unwrap(), ramp(50_000.0));
    session.step().unwrap();
    assert_eq!(store.read("total").unwrap(), ramp(100_000.0));
}

#[test]
fn an_odd_number_of_halves_goes_in_and_out() {
    let ty = TensorType::new(DType::F16, [3]);
    let place = Place { buffer: 0, offset: 0, bytes: 8 };
    let port = |name: &str| Port { name: name.to_owned(), ty: ty.clone(), place };
    for device in devices() {
        let mut plan = passthrough();
        (plan.inputs, plan.outputs) = (vec![port("x")], vec![port("y")]);
        let mut session = session(&device, plan, &StateLayout::default());
        let halves = Tensor::from_f16([3], &[1.0, -2.0, 0.5].map(half::f16::from_f32)).unwrap();
        session.write("x", &halves).unwrap();
        session.step().unwrap();
        assert_eq!(session.read("y").unwrap(), halves);
    }
}

#[test]
fn tensors_without_elements_are_carried() {
    let ty = TensorType::new(DType::F32, [0, 4]);
    let place = Place { buffer: 0, offset: 0, bytes: 0 };
    let port = |name: &str| Port { name: name.to_owned(), ty: ty.clone(), place };
    for device in devices() {
        let mut plan = passthrough();
        (plan.inputs, plan.outputs) = (vec![port("x")], vec![port("y")]);
        let mut session = session(&device, plan, &StateLayout::default());
        session.write("x", &Tensor::zeros(ty.clone())).unwrap();
        session.step().unwrap();
        assert_eq!(session.read("y").unwrap(), Tensor::zeros(ty.clone()));
    }
}

#[test]
fn native_recording_is_taken_on_vulkan_and_an_error_elsewhere() {
    for device in devices() {
        let vulkan = device.info().backend == "vulkan";
        let store = StateStore::new(&device, &StateLayout::default()).unwrap();
        let open = |recording| {
            let options = SessionOptions { recording, ..SessionOptions::default() };
            Session::with_options(&device, Arc::new(chain()), &store, &options)
        };
        assert!(!open(Recording::Safe).unwrap().report().native);
        if meganeura_core::debug::recording().is_none() {
            assert_eq!(open(Recording::Auto).unwrap().report().native, vulkan);
        }
        match open(Recording::Native) {
            Ok(session) => assert!(vulkan && session.report().native),
            Err(error) => assert!(!vulkan && matches!(error, DeviceError::Unsupported { .. }), "{error}"),
        }
    }
}

#[test]
fn sessions_of_both_recordings_take_turns_on_one_store() {
    let Some(device) = gpu() else { return };
    let store = StateStore::new(&device, &layout()).unwrap();
    let mut sessions = [Recording::Safe, Recording::Auto].map(|recording| {
        let options = SessionOptions { recording, ..SessionOptions::default() };
        Session::with_options(&device, Arc::new(accumulate()), &store, &options).unwrap()
    });
    for step in 0..20 {
        for (session, sign) in sessions.iter_mut().zip([2.0, -1.0]) {
            session.write("x", &ramp(sign)).unwrap();
            session.step().unwrap();
        }
        assert_eq!(sessions[step % 2].read("sum").unwrap(), ramp(step as f32 + 1.0));
    }
}

#[test]
fn a_session_may_be_dropped_while_its_steps_run() {
    let Some(device) = gpu() else { return };
    let store = StateStore::new(&device, &layout()).unwrap();
    for _ in 0..20 {
        let mut session = Session::new(&device, Arc::new(accumulate()), &store).unwrap();
        session.write("x", &ramp(1.0)).unwrap();
        (0..5).for_each(|_| session.step().unwrap());
    }
    assert_eq!(store.read("total").unwrap(), ramp(100.0));
}
