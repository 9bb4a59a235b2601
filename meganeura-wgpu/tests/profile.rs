//! Profiles on every device of this machine: they name everything, add up, parse, and change no bit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::devices;
use meganeura_core::cost::Cost;
use meganeura_core::dtype::DType;
use meganeura_core::ir::{Builder, Graph, Phase, StateSpec, Value};
use meganeura_core::options::Options;
use meganeura_core::pipeline::compile;
use meganeura_core::scalar::Scalar;
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use meganeura_wgpu::profile::{Key, Profile};
use meganeura_wgpu::{Device, HostSpans, Recording, Session, SessionOptions, StateStore};
use serde_json::Value as Json;
use std::collections::HashSet;
use std::time::Instant;
use tracing_subscriber::layer::SubscriberExt;

const BATCH: usize = 33;
const WIDTHS: [usize; 3] = [65, 31, 7];

/// A step of gradient descent of two layers, `net.first` and `net.second`.
fn training() -> Graph {
    let g = Builder::new();
    let weights: Vec<Value<'_>> = WIDTHS
        .windows(2)
        .enumerate()
        .map(|(at, pair)| {
            let ty = TensorType::new(DType::F32, [pair[0], pair[1]]);
            g.state(StateSpec { name: format!("w{at}"), ty, group: "parameters".into(), init: Scalar::f32(0.01) })
        })
        .collect();
    let x = g.input("x", TensorType::new(DType::F32, [BATCH, WIDTHS[0]]));
    let loss = g.scoped("net", || {
        let hidden = g.scoped("first", || x.matmul(weights[0]).relu());
        let output = g.scoped("second", || hidden.matmul(weights[1]));
        (output * output - output).mean_all()
    });
    g.output("loss", loss);
    let gradients = g.gradients(loss, &weights);
    g.in_phase(Phase::Update, || {
        for (&weight, gradient) in weights.iter().zip(gradients) {
            g.scoped("descent", || g.update(weight, weight - gradient * 0.1));
        }
    });
    g.finish().unwrap()
}

fn session(device: &Device) -> Session {
    let program = compile(&training(), &Options::default(), device.caps(), None).unwrap();
    let store = StateStore::for_program(device, &program).unwrap();
    let mut session = Session::new(device, program.plan, &store).unwrap();
    let values = (0..BATCH * WIDTHS[0]).map(|at| (at % 17) as f32 / 8.0 - 1.0).collect();
    session.write("x", &Tensor::from_f32([BATCH, WIDTHS[0]], values).unwrap()).unwrap();
    session
}

fn states(session: &Session) -> Vec<Tensor> {
    ["w0", "w1"].map(|name| session.store().read(name).unwrap()).to_vec()
}

fn close(one: f64, two: f64) -> bool {
    (one - two).abs() <= 1e-9 * one.abs().max(two.abs())
}

fn check_sums(profile: &Profile) {
    let total = profile.total();
    assert!(total.seconds > 0.0 && close(total.seconds, profile.seconds()));
    assert_eq!(total.cost, profile.dispatches.iter().map(|dispatch| dispatch.cost).sum::<Cost>());
    for key in Key::ALL {
        let buckets = profile.by(key);
        assert!(close(buckets.iter().map(|bucket| bucket.seconds).sum(), total.seconds), "{key:?}");
        assert!(close(buckets.iter().map(|bucket| bucket.least_seconds).sum(), total.least_seconds), "{key:?}");
        assert_eq!(buckets.iter().map(|bucket| bucket.dispatches).sum::<usize>(), profile.dispatches.len());
        assert_eq!(buckets.iter().map(|bucket| bucket.cost).sum::<Cost>(), total.cost);
        assert!(buckets.is_sorted_by(|one, two| one.seconds >= two.seconds));
        let names: HashSet<&str> = buckets.iter().map(|bucket| bucket.name.as_str()).collect();
        assert_eq!(names.len(), buckets.len(), "{key:?}");
    }
}

#[test]
fn a_profile_names_every_dispatch_and_its_sums_agree() {
    for device in devices() {
        let mut session = session(&device);
        let profile = session.profile(3).unwrap();
        let labels: Vec<&str> = profile.dispatches.iter().map(|dispatch| dispatch.label.as_str()).collect();
        let planned: Vec<&str> = session.plan().dispatches.iter().map(|dispatch| dispatch.label.as_str()).collect();
        assert_eq!(labels, planned);
        assert_eq!(profile.steps.len(), 3);
        for step in &profile.steps {
            assert_eq!(step.dispatches.len(), labels.len());
            assert!(step.dispatches.iter().all(|[start, end]| 0.0 <= *start && start <= end && *end < 10.0));
            assert!(step.dispatches.windows(2).all(|pair| pair[0][1] <= pair[1][0]), "dispatches do not overlap");
        }
        check_sums(&profile);
        let ceilings = profile.ceilings;
        assert!(ceilings.flops > 1e6 && ceilings.bytes > 1e6 && ceilings.flops.is_finite(), "{ceilings:?}");
        let names = |key| profile.by(key).into_iter().map(|bucket| bucket.name).collect::<Vec<_>>();
        assert!(names(Key::Phase).contains(&"backward".to_owned()), "{:?}", names(Key::Phase));
        assert!(names(Key::Origin).contains(&"net.first, forward".to_owned()), "{:?}", names(Key::Origin));
        assert!(names(Key::Layer).contains(&"net.second".to_owned()), "{:?}", names(Key::Layer));
        // The update joins the kernel that computes the gradient, or has its own.
        let updates = profile.dispatches.iter().flat_map(|dispatch| dispatch.fused.iter().chain([&dispatch.origin]));
        assert!(updates.into_iter().any(|origin| origin.phase == Phase::Update && &*origin.scope == "descent"));
        let table = profile.to_string();
        assert!(table.contains("net.first, forward") && table.contains("ceilings: "), "{table}");
    }
}

/// Ways of recording that a device has.
fn recordings(device: &Device) -> &'static [Recording] {
    match device.info().backend.as_str() {
        "vulkan" => &[Recording::Safe, Recording::Native],
        _ => &[Recording::Safe],
    }
}

#[test]
fn dispatches_of_a_group_are_timed_one_at_a_time_and_their_times_add_up() {
    // Independent of each other, and every other one has next to nothing to do.
    let g = Builder::new();
    for at in 0..3 {
        let input = |kind: &str, len: usize| g.input(format!("{kind}{at}"), TensorType::new(DType::F32, [len + at]));
        let heavy = (0..8).fold(input("heavy", 1 << 19), |value, _| value.sin().exp());
        g.output(format!("heavy of {at}"), heavy);
        g.output(format!("light of {at}"), input("light", 5).exp());
    }
    let graph = g.finish().unwrap();
    for device in devices() {
        let program = compile(&graph, &Options::default(), device.caps(), None).unwrap();
        for &recording in recordings(&device) {
            let store = StateStore::for_program(&device, &program).unwrap();
            let options = SessionOptions { recording, ..SessionOptions::default() };
            let mut session = Session::with_options(&device, program.plan.clone(), &store, &options).unwrap();
            for port in &program.plan.inputs {
                session.write(&port.name, &Tensor::zeros(port.ty.clone())).unwrap();
            }
            check_times(&mut session);
        }
    }
}

fn check_times(session: &mut Session) {
    let start = Instant::now();
    let steps = session.time(7).unwrap();
    let elapsed = start.elapsed().as_secs_f64();
    let mut sum = 0.0;
    for step in &steps {
        let [first, last] = [step.dispatches[0][0], step.dispatches.last().unwrap()[1]];
        assert!(step.dispatches.windows(2).all(|pair| pair[0][1] <= pair[1][0]), "{step:?}");
        assert!(step.seconds().sum::<f64>() <= (last - first) * 1.0001, "{step:?}");
        sum += last - first;
    }
    assert!(0.0 < sum && sum < elapsed, "{sum} s of dispatches in {elapsed} s");
    let least = |at: usize| steps.iter().map(|step| step.seconds().nth(at).unwrap()).fold(f64::INFINITY, f64::min);
    let plan = session.plan();
    let (mut heavy, mut light) = (Vec::new(), Vec::new());
    for (at, dispatch) in plan.dispatches.iter().enumerate() {
        let is_heavy = Cost::of(&plan.kernels[dispatch.kernel]).flops > 1000;
        (if is_heavy { &mut heavy } else { &mut light }).push(least(at));
    }
    assert_eq!((heavy.len(), light.len()), (3, 3));
    assert!(plan.dispatches.windows(2).any(|pair| pair[0].group == pair[1].group), "some are of one group");
    let most = light.iter().copied().fold(0.0, f64::max);
    assert!(heavy.iter().all(|heavy| most * 4.0 < *heavy), "heavy {heavy:?}, light {light:?}");
}

#[test]
fn profiling_changes_no_bit() {
    for device in devices() {
        let (mut plain, mut profiled) = (session(&device), session(&device));
        (0..5).for_each(|_| plain.step().unwrap());
        profiled.step().unwrap();
        profiled.profile(3).unwrap();
        profiled.step().unwrap();
        assert_eq!(plain.read("loss").unwrap(), profiled.read("loss").unwrap(), "{}", device.info());
        assert_eq!(states(&plain), states(&profiled), "{}", device.info());
        assert_ne!(states(&plain)[0], states(&session(&device))[0], "the steps did something");
    }
}

#[test]
fn json_and_trace_parse_and_hold_everything() {
    // For all threads: spans that another thread meets first would stay off with a subscriber of one thread.
    let spans = HostSpans::default();
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(spans.clone())).unwrap();
    for device in devices() {
        let profile = session(&device).profile(2).unwrap();
        let json: Json = serde_json::from_str(&profile.json().to_string()).unwrap();
        assert_eq!(json["dispatches"].as_array().unwrap().len(), profile.dispatches.len());
        assert!(close(json["seconds"].as_f64().unwrap(), profile.seconds()));
        assert!(json["ceilings"]["flops_per_second"].as_f64().unwrap() > 0.0);
        assert_eq!(json["by_phase"].as_array().unwrap().len(), profile.by(Key::Phase).len());

        let host = spans.take();
        assert!(host.iter().any(|span| span.name == "session") && host.iter().any(|span| span.name == "compile"));
        assert!(host.iter().all(|span| span.start <= span.end));
        let trace: Json = serde_json::from_str(&profile.trace(&host).to_string()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let complete: Vec<&Json> = events.iter().filter(|event| event["ph"] == "X").collect();
        for event in &complete {
            assert!(event["ts"].as_f64().unwrap() >= 0.0 && event["dur"].as_f64().unwrap() >= 0.0, "{event}");
            assert!(event["pid"].is_u64() && event["tid"].is_u64() && event["name"].is_string(), "{event}");
        }
        let dispatched = complete.iter().filter(|event| event["pid"] == 2 && event["tid"] == 0).count();
        assert_eq!(dispatched, 2 * profile.dispatches.len());
        assert_eq!(complete.iter().filter(|event| event["pid"] == 1).count(), host.len());
        assert_eq!(trace["otherData"], json);
    }
}
