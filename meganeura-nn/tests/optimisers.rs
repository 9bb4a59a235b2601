//! Optimisers, clipping, groups, accumulation, averages and schedules against PyTorch's numbers: `reference/optimisers.py`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

use meganeura_core::dtype::DType;
use meganeura_core::ir::Builder;
use meganeura_core::options::Options;
use meganeura_core::pipeline::compile;
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use meganeura_nn::init::Init;
use meganeura_nn::optim::{Adafactor, Adagrad, Adam, AdamW, Group, Lion, Optimizer, RmsProp, Schedule, Sgd, Training};
use meganeura_nn::params::Parameters;
use meganeura_wgpu::{Device, Session, StateStore};
use serde_json::Value as Json;

const SHAPES: [(&str, &[usize]); 2] = [("w", &[5, 3]), ("b", &[7])];

fn fixture() -> Json {
    serde_json::from_str(include_str!("reference/optimisers.json")).unwrap()
}

fn floats(json: &Json) -> Vec<f64> {
    json.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

fn tensor(shape: &[usize], json: &Json) -> Tensor {
    Tensor::from_f32(shape, floats(json).into_iter().map(|value| value as f32).collect()).unwrap()
}

/// The CPU device, and the first adapter if there is one.
fn devices() -> Vec<Device> {
    let mut devices = vec![Device::cpu()];
    if meganeura_wgpu::adapters().is_empty() {
        assert!(std::env::var_os("MEGANEURA_REQUIRE_GPU").is_none(), "a GPU is required, but there is no adapter");
        eprintln!("SKIPPED: no adapter; on the CPU device alone");
    } else {
        devices.push(Device::from_selector("0").unwrap());
    }
    devices
}

/// Runs the fixture's 20 gradients through a training at rate 0.01; states of both parameters, under a prefix, at the end.
fn train(
    device: &Device,
    fixture: &Json,
    optimizer: &dyn Optimizer,
    choose: impl for<'a, 'g> Fn(Training<'a, 'g>) -> Training<'a, 'g>,
    prefix: &str,
) -> Vec<Vec<f64>> {
    let builder = Builder::new();
    let parameters = Parameters::new(&builder);
    let products = SHAPES.map(|(name, shape)| {
        let gradient = builder.input(format!("gradient.{name}"), TensorType::new(DType::F32, shape));
        (parameters.root().parameter(name, shape, Init::Zeros) * gradient).sum_all()
    });
    let training = choose(Training::new(&parameters, optimizer, 0.01));
    let trained = training.minimize(products[0] + products[1]);
    builder.output("norm", trained.gradient_norm);
    let graph = builder.finish().unwrap();
    let program = compile(&graph, &Options::default(), device.caps(), None).unwrap();
    let store = StateStore::for_program(device, &program).unwrap();
    for ((name, shape), start) in SHAPES.iter().zip(fixture["start"].as_array().unwrap()) {
        store.write(name, &tensor(shape, start)).unwrap();
    }
    let mut session = Session::new(device, program.plan, &store).unwrap();
    for gradients in fixture["gradients"].as_array().unwrap() {
        for ((name, shape), gradient) in SHAPES.iter().zip(gradients.as_array().unwrap()) {
            session.write(&format!("gradient.{name}"), &tensor(shape, gradient)).unwrap();
        }
        session.step().unwrap();
    }
    assert!(session.read("norm").unwrap().as_f32().unwrap()[0] > 0.0);
    SHAPES.iter().map(|(name, _)| store.read(&format!("{prefix}{name}")).unwrap().to_f64()).collect()
}

/// Relative Euclidean error of the change of each parameter.
fn error(fixture: &Json, case: &str, found: &[Vec<f64>]) -> f64 {
    let expected = fixture["cases"][case].as_array().unwrap();
    let error = |at: usize| {
        let (start, expected) = (floats(&fixture["start"][at]), floats(&expected[at]));
        let norm = |values: &[f64], to: &[f64]| values.iter().zip(to).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
        norm(&found[at], &expected) / norm(&expected, &start)
    };
    (0..SHAPES.len()).map(error).fold(0.0, f64::max)
}

#[test]
fn every_optimiser_changes_parameters_as_pytorch_does() {
    let fixture = fixture();
    let decay = 0.1;
    let cases: [(&str, &dyn Optimizer); 10] = [
        ("sgd", &Sgd::default()),
        ("sgd_momentum", &Sgd { momentum: 0.9, weight_decay: decay, ..Sgd::default() }),
        ("sgd_nesterov", &Sgd { momentum: 0.9, nesterov: true, ..Sgd::default() }),
        ("adam", &Adam { weight_decay: decay, ..Adam::default() }),
        ("adamw", &AdamW { weight_decay: decay, ..AdamW::default() }),
        ("rmsprop", &RmsProp { weight_decay: decay, ..RmsProp::default() }),
        ("rmsprop_centered", &RmsProp { momentum: 0.9, centered: true, ..RmsProp::default() }),
        ("adagrad", &Adagrad { weight_decay: decay, ..Adagrad::default() }),
        ("lion", &Lion { weight_decay: decay, ..Lion::default() }),
        ("adafactor", &Adafactor::default()),
    ];
    for device in devices() {
        for (case, optimizer) in cases {
            let error = error(&fixture, case, &train(&device, &fixture, optimizer, |training| training, ""));
            assert!(error <= 1e-5, "{case} on {}: relative error of the change {error:e}", device.info());
        }
    }
}

#[test]
fn what_surrounds_an_optimiser_does_as_pytorch_does() {
    let fixture = fixture();
    let (sgd, adamw) = (Sgd::default(), AdamW { weight_decay: 0.1, ..AdamW::default() });
    let half = Group { pattern: "b".to_owned(), rate: 0.5, decay: 0.0 };
    for device in devices() {
        let check = |case: &str, found: Vec<Vec<f64>>| {
            let error = error(&fixture, case, &found);
            assert!(error <= 1e-5, "{case} on {}: relative error of the change {error:e}", device.info());
        };
        check("clip_norm", train(&device, &fixture, &sgd, |training| training.clip_norm(2.0), ""));
        check("clip_value", train(&device, &fixture, &sgd, |training| training.clip_value(0.5), ""));
        check("groups", train(&device, &fixture, &adamw, |training| training.group(half.clone()), ""));
        check("accumulate", train(&device, &fixture, &adamw, |training| training.accumulate(4), ""));
        check("average", train(&device, &fixture, &adamw, |training| training.average(0.9), "average."));
    }
}

#[test]
fn vectors_do_not_decay_where_matrices_only_do() {
    let fixture = fixture();
    let (decays, none) =
        (AdamW { weight_decay: 0.1, ..AdamW::default() }, AdamW { weight_decay: 0.0, ..AdamW::default() });
    let device = Device::cpu();
    let all = train(&device, &fixture, &decays, |training| training, "");
    let matrices = train(&device, &fixture, &decays, |training| training.decay_matrices_only(), "");
    let nothing = train(&device, &fixture, &none, |training| training, "");
    assert_eq!(matrices[0], all[0]);
    assert_ne!(matrices[1], all[1]);
    let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-6;
    assert!(matrices[1].iter().zip(&nothing[1]).all(close));
}

#[test]
fn schedules_change_without_another_program() {
    let fixture = fixture();
    let warm = Schedule::line(10, 0.01, 0.1);
    let schedules = [
        ("constant", Schedule::constant(0.1)),
        ("cosine", Schedule::cosine(30, 0.1, 0.0)),
        ("step", Schedule::stairs(7, 0.1, 0.3, 5)),
        ("polynomial", Schedule::polynomial(25, 0.1, 2.0)),
        ("one_cycle", Schedule::one_cycle(30, 0.1)),
        ("linear", warm.clone()),
        ("chained", warm.then(Schedule::cosine(20, 0.1, 0.0))),
    ];
    for device in devices() {
        let builder = Builder::new();
        let parameters = Parameters::new(&builder);
        let loss = parameters.root().parameter("p", [2], Init::Zeros).sum_all();
        let (_, own) = &schedules[schedules.len() - 1];
        builder.output("rate", Training::new(&parameters, &Sgd::default(), own.clone()).minimize(loss).rate);
        let graph = builder.finish().unwrap();
        let program = compile(&graph, &Options::default(), device.caps(), None).unwrap();
        let store = StateStore::for_program(&device, &program).unwrap();
        let mut session = Session::new(&device, program.plan, &store).unwrap();
        // At first none is stored: the program's own.
        for (at, (name, schedule)) in schedules.iter().rev().chain(&schedules).enumerate() {
            if at > 0 {
                schedule.store(&store).unwrap();
            }
            store.write("optimizer.step", &Tensor::from_u32([], vec![0]).unwrap()).unwrap();
            for (step, expected) in floats(&fixture["schedules"][name]).into_iter().enumerate() {
                session.step().unwrap();
                let found = f64::from(session.read("rate").unwrap().as_f32().unwrap()[0]);
                let host = schedule.at(step as u64);
                assert!((host - expected).abs() < 1e-7, "{name}, step {step}: {host}, expected {expected}");
                assert!((found - expected).abs() < 1e-6, "{name}, step {step}: {found}, expected {expected}");
            }
        }
    }
}
