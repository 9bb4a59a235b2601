//! The tiny workloads on the CPU device and a GPU against PyTorch in float64.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::explicit_write)]

use meganeura_core::debug;
use meganeura_core::dtype::DType;
use meganeura_core::options::Options;
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use meganeura_nn::checkpoint::Checkpoint;
use meganeura_nn::models::workload::{self, Phase, Variant, Workload, WorkloadProgram, scaled_program, weights};
use meganeura_wgpu::{Device, Selector, Session, StateStore, adapters};
use std::io::Write as _;
use std::path::Path;

/// Largest relative distances (L2) from float64.
const OUTPUT: f64 = 1e-5;
const LOSS: f64 = 1e-5;
const GRADIENT: f64 = 1e-4;
const CHANGE: f64 = 1e-3;

/// The CPU device, and a GPU if there is one; without one a visible skip, or a failure where a GPU is required.
fn devices() -> Vec<Device> {
    let mut devices = vec![Device::cpu()];
    match adapters().first() {
        Some(adapter) => devices.push(Device::gpu(&Selector::Index(adapter.index)).unwrap()),
        None => {
            assert!(!debug::require_gpu(), "MEGANEURA_REQUIRE_GPU=1, but there is no adapter");
            // Past the capture of tests that pass.
            writeln!(std::io::stderr(), "SKIPPED on a GPU: there is no adapter").unwrap();
        }
    }
    devices
}

/// What PyTorch computes.
struct Expected(Checkpoint);

impl Expected {
    fn of(workload: &dyn Workload) -> Expected {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/workloads");
        Expected(Checkpoint::open(&folder.join(format!("{}.safetensors", workload.name()))).unwrap())
    }

    fn values(&self, name: &str, ty: &TensorType) -> Vec<f64> {
        self.0.tensor(name, ty).unwrap().to_f64()
    }

    /// Whether the graph's trained parameters are the fixture's: the same names and nothing else.
    fn check_names(&self, program: &WorkloadProgram) {
        let mut found: Vec<&str> = self.0.tensors().filter_map(|(name, _)| name.strip_prefix("grad.")).collect();
        let trained = program.parameters.iter().filter(|spec| spec.trainable);
        let mut expected: Vec<&str> = trained.map(|spec| spec.name.as_str()).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
}

/// A program of a workload, ready on a device with its first weights and inputs.
fn ready(device: &Device, workload: &dyn Workload, phase: Phase, scale: f32) -> (WorkloadProgram, Session) {
    let built = scaled_program(workload, phase, scale).unwrap();
    let compiled = device.compile(&built.graph, &Options::default(), None).unwrap();
    let store = StateStore::for_program(device, &compiled).unwrap();
    for spec in &built.parameters {
        let values = Tensor::from_f32(&spec.ty.shape, weights(workload, spec)).unwrap();
        store.write(&spec.name, &values).unwrap();
    }
    let mut session = Session::new(device, compiled.plan, &store).unwrap();
    for feed in &built.feeds {
        session.write(feed.name, &feed.tensor().unwrap()).unwrap();
    }
    (built, session)
}

fn distance(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>();
    let difference = square(&mut found.iter().zip(expected).map(|(a, b)| a - b)).sqrt();
    match square(&mut expected.iter().copied()).sqrt() {
        // A gradient that is 0 by definition, such as that of a bias before a softmax.
        0.0 => difference,
        size => difference / size,
    }
}

fn assert_near(what: &str, found: &[f64], expected: &[f64], most: f64) {
    let distance = distance(found, expected);
    assert!(distance <= most, "{what}: {distance:.2e} from float64, expected at most {most:.0e}");
}

fn loss_type() -> TensorType {
    TensorType::new(DType::F32, [1])
}

fn check_outputs(device: &Device, workload: &dyn Workload, expected: &Expected) {
    for (phase, name) in [(Phase::Inference, "output"), (Phase::Minimal, "minimal.output")] {
        let (_, mut session) = ready(device, workload, phase, 1.0);
        session.step().unwrap();
        let output = session.read("output").unwrap();
        let what = format!("{} of {} on {}", name, workload.name(), device.info());
        assert_near(&what, &output.to_f64(), &expected.values(name, output.ty()), OUTPUT);
    }
}

fn check_gradients(device: &Device, workload: &dyn Workload, expected: &Expected, scale: f32) {
    let (built, mut session) = ready(device, workload, Phase::Gradients, scale);
    expected.check_names(&built);
    session.step().unwrap();
    let on = format!("of {} on {}", workload.name(), device.info());
    let loss = session.read("loss").unwrap().to_f64();
    assert_near(&format!("loss {on}"), &loss, &expected.values("loss", &loss_type()), LOSS);
    for spec in built.parameters.iter().filter(|spec| spec.trainable) {
        let name = format!("grad.{}", spec.name);
        let found = session.read(&name).unwrap().to_f64();
        assert_near(&format!("{name} {on}"), &found, &expected.values(&name, &spec.ty), GRADIENT);
    }
}

fn check_steps(device: &Device, workload: &dyn Workload, expected: &Expected) {
    let (built, mut session) = ready(device, workload, Phase::Step, 1.0);
    let on = format!("of {} on {}", workload.name(), device.info());
    let losses = expected.values("adamw.losses", &TensorType::new(DType::F32, [4]));
    for (step, loss) in losses[..3].iter().enumerate() {
        session.step().unwrap();
        let found = session.read("loss").unwrap().to_f64();
        assert_near(&format!("loss of step {} {on}", step + 1), &found, &[*loss], LOSS);
    }
    let (mut found, mut wanted) = (Vec::new(), Vec::new());
    for spec in built.parameters.iter().filter(|spec| spec.trainable) {
        let first: Vec<f64> = weights(workload, spec).into_iter().map(f64::from).collect();
        let change = |new: Vec<f64>| new.into_iter().zip(&first).map(|(new, first)| new - first).collect::<Vec<f64>>();
        found.extend(change(session.store().read(&spec.name).unwrap().to_f64()));
        wanted.extend(change(expected.values(&format!("adamw.param.{}", spec.name), &spec.ty)));
    }
    assert_near(&format!("change by three steps {on}"), &found, &wanted, CHANGE);
}

fn check(name: &str) {
    let workload = workload::find(name, Variant::Tiny).unwrap();
    let expected = Expected::of(&*workload);
    for device in devices() {
        check_outputs(&device, &*workload, &expected);
        check_gradients(&device, &*workload, &expected, 1.0);
        check_steps(&device, &*workload, &expected);
    }
}

#[test]
fn inputs_are_those_of_the_reference() {
    for workload in workload::all(Variant::Tiny) {
        let expected = Expected::of(&*workload);
        for feed in workload.inputs(false).into_iter().chain(workload.target()) {
            let name = if feed.name == "target" { "target".to_owned() } else { format!("input.{}", feed.name) };
            let stored = match feed.ty.dtype {
                DType::U32 => TensorType::new(DType::I32, feed.ty.shape.clone()),
                _ => feed.ty.clone(),
            };
            let found = feed.tensor().unwrap().to_f64();
            // Both sides round the f64 value of a library's sine, whose last bit may differ.
            assert_near(&format!("{name} of {}", workload.name()), &found, &expected.values(&name, &stored), 1e-8);
        }
    }
}

#[test]
fn resnet50_follows_float64() {
    check("resnet50");
}

#[test]
fn smollm2_follows_float64() {
    check("smollm2");
}

#[test]
fn whisper_follows_float64() {
    check("whisper");
}

#[test]
fn smolvla_follows_float64() {
    check("smolvla");
}

#[test]
fn unet_follows_float64() {
    check("unet");
}

#[test]
fn a_loss_scale_is_divided_out_of_the_gradients() {
    for workload in workload::all(Variant::Tiny) {
        check_gradients(&Device::cpu(), &*workload, &Expected::of(&*workload), 1024.0);
    }
}
