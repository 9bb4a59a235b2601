//! Layers, losses and optimisers as graphs, against loops of plain numbers, in the f64 interpreter.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use meganeura_core::dtype::DType;
use meganeura_core::ir::{Builder, Graph};
use meganeura_core::oracle::{Array, run};
use meganeura_core::shape::{Shape, TensorType};
use meganeura_nn::init::Init;
use meganeura_nn::layers::{Dropout, Linear, Randomness};
use meganeura_nn::loss::{check_labels, cross_entropy};
use meganeura_nn::optim::{AdamW, Optimizer, Sgd};
use meganeura_nn::params::Parameters;
use std::collections::HashMap;

type Arrays = HashMap<String, Array>;

fn f32s(shape: impl Into<Shape>, data: &[f64]) -> Array {
    Array::new(TensorType::new(DType::F32, shape), data.to_vec())
}

fn u32s(shape: impl Into<Shape>, data: &[f64]) -> Array {
    Array::new(TensorType::new(DType::U32, shape), data.to_vec())
}

fn arrays<const N: usize>(entries: [(&str, Array); N]) -> Arrays {
    entries.into_iter().map(|(name, array)| (name.to_owned(), array)).collect()
}

/// Zeros for every state of a graph.
fn zero_states(graph: &Graph) -> Arrays {
    graph.states().iter().map(|state| (state.name.to_string(), Array::new(state.ty.clone(), Vec::new()))).collect()
}

fn close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= tolerance * b.abs().max(1e-3);
    assert!(found.iter().zip(expected).all(near), "found {found:?}, expected {expected:?}");
}

#[test]
fn linear_is_x_times_the_transposed_weight_plus_bias() {
    let builder = Builder::new();
    let parameters = Parameters::new(&builder);
    let x = builder.input("x", TensorType::new(DType::F32, [2, 3]));
    let root = parameters.root();
    builder.output("y", Linear::new(2).forward(&root.sub("fc"), x));
    builder.output("z", Linear::new(1).without_bias().forward(&root.sub("head"), x));
    let specs = parameters.specs();
    let shapes: Vec<_> = specs.iter().map(|spec| (spec.name.as_str(), spec.ty.shape.to_vec())).collect();
    assert_eq!(shapes, [("fc.weight", vec![2, 3]), ("fc.bias", vec![2]), ("head.weight", vec![1, 3])]);
    let bound = 1.0 / 3.0_f64.sqrt();
    assert_eq!(specs[1].init, Init::Uniform { low: -bound, high: bound });
    let graph = builder.finish().unwrap();
    let states = arrays([
        ("fc.weight", f32s([2, 3], &[1.0, 2.0, 3.0, -1.0, 0.5, 0.0])),
        ("fc.bias", f32s([2], &[10.0, 20.0])),
        ("head.weight", f32s([1, 3], &[1.0, 1.0, 1.0])),
    ]);
    let inputs = arrays([("x", f32s([2, 3], &[1.0, 0.0, 2.0, 0.0, 1.0, 1.0]))]);
    let outputs = run(&graph, &inputs, &states).unwrap().outputs;
    assert_eq!(outputs["y"].data, [17.0, 19.0, 15.0, 20.5]);
    assert_eq!(outputs["z"].data, [3.0, 2.0]);
}

fn loss_of(labels: &[f64]) -> f64 {
    let builder = Builder::new();
    let logits = builder.input("logits", TensorType::new(DType::F32, [2, 3]));
    let targets = builder.input("labels", TensorType::new(DType::U32, [2]));
    builder.output("loss", cross_entropy(logits, targets));
    let graph = builder.finish().unwrap();
    let logits = f32s([2, 3], &[1.0, 2.0, 3.0, 1000.0, 0.0, 0.0]);
    run(&graph, &arrays([("logits", logits), ("labels", u32s([2], labels))]), &Arrays::new()).unwrap().outputs["loss"]
        .data[0]
}

#[test]
fn cross_entropy_is_the_mean_of_the_rows_and_nan_for_no_class() {
    let log_sum = (1.0_f64.exp() + 2.0_f64.exp() + 3.0_f64.exp()).ln();
    close(&[loss_of(&[0.0, 0.0])], &[(log_sum - 1.0) / 2.0], 1e-6);
    close(&[loss_of(&[2.0, 1.0])], &[(log_sum - 3.0 + 1000.0) / 2.0], 1e-6);
    assert!(loss_of(&[3.0, 0.0]).is_nan());
    assert!(loss_of(&[0.0, f64::from(u32::MAX)]).is_nan());
    assert_eq!(check_labels(&[2, 0], 3), Ok(()));
    assert_eq!(check_labels(&[2, 3], 3).unwrap_err().to_string(), "label 1 is 3, expected less than 3");
}

/// Runs `steps` of an optimiser on the loss `Σ (p − [1, −2, 3])²`, from `p = [0.5, 0.5, 0.5]`.
fn descend(optimizer: &impl Optimizer, steps: usize) -> Vec<f64> {
    let builder = Builder::new();
    let parameters = Parameters::new(&builder);
    let p = parameters.root().parameter("p", [3], Init::Zeros);
    let target = builder.input("target", TensorType::new(DType::F32, [3]));
    let rate = builder.input("rate", TensorType::new(DType::F32, []));
    let difference = p - target;
    optimizer.minimize(&parameters, (difference * difference).sum_all(), rate);
    let graph = builder.finish().unwrap();
    let inputs = arrays([("target", f32s([3], &[1.0, -2.0, 3.0])), ("rate", f32s([], &[0.05]))]);
    let mut states = zero_states(&graph);
    states.insert("p".to_owned(), f32s([3], &[0.5, 0.5, 0.5]));
    for _ in 0..steps {
        let new = run(&graph, &inputs, &states).unwrap().states;
        states.extend(new);
    }
    states["p"].data.clone()
}

/// The same loss and start, each element stepped by `step(p, g, t)`.
fn reference(steps: usize, mut stepper: impl FnMut() -> Box<dyn FnMut(f64, f64, i32) -> f64>) -> Vec<f64> {
    let element = |target: f64| {
        let mut step = stepper();
        (1..=steps as i32).fold(0.5, |p, t| step(p, 2.0 * (p - target), t))
    };
    [1.0, -2.0, 3.0].map(element).to_vec()
}

#[test]
fn sgd_follows_its_formula_with_and_without_momentum() {
    for (momentum, nesterov, decay) in [(0.0, false, 0.0), (0.9, false, 0.0), (0.9, true, 0.1), (0.0, false, 0.1)] {
        let optimizer = Sgd { momentum: momentum as f32, nesterov, weight_decay: decay as f32 };
        let expected = reference(7, || {
            let mut m = 0.0;
            Box::new(move |p, g, _| {
                let g = g + decay * p;
                m = momentum * m + g;
                p - 0.05 * if nesterov { g + momentum * m } else { m }
            })
        });
        close(&descend(&optimizer, 7), &expected, 1e-6);
    }
}

#[test]
fn adamw_follows_its_formula_from_the_first_step() {
    let optimizer = AdamW { weight_decay: 0.1, ..AdamW::default() };
    for steps in [1, 2, 20] {
        let expected = reference(steps, || {
            let (mut m, mut v) = (0.0, 0.0);
            Box::new(move |p, g, t| {
                m = 0.9 * m + 0.1 * g;
                v = 0.999 * v + 0.001 * g * g;
                let (m_hat, v_hat) = (m / (1.0 - 0.9_f64.powi(t)), v / (1.0 - 0.999_f64.powi(t)));
                p * (1.0 - 0.05 * 0.1) - 0.05 * m_hat / (v_hat.sqrt() + 1e-8)
            })
        });
        close(&descend(&optimizer, steps), &expected, 2e-6);
    }
}

#[test]
fn frozen_parameters_are_not_updated() {
    let builder = Builder::new();
    let parameters = Parameters::new(&builder);
    let root = parameters.root();
    let x = builder.input("x", TensorType::new(DType::F32, [4, 3]));
    let hidden = Linear::new(5).forward(&root.frozen().sub("fc1"), x).relu();
    let loss = Linear::new(1).forward(&root.sub("fc2"), hidden).mean_all();
    let rate = builder.constant(0.1);
    assert_eq!(AdamW::default().minimize(&parameters, loss, rate).len(), 2);
    let graph = builder.finish().unwrap();
    let mut updated: Vec<&str> = graph.updates().iter().map(|update| &*graph.state(update.state).name).collect();
    updated.sort_unstable();
    let moments = ["exp_avg.fc2.bias", "exp_avg.fc2.weight", "exp_avg_sq.fc2.bias", "exp_avg_sq.fc2.weight", "step"];
    let expected: Vec<String> = ["fc2.bias", "fc2.weight"].map(str::to_owned).into_iter().collect();
    assert_eq!(updated[..2], expected);
    assert_eq!(updated[2..], moments.map(|name| format!("optimizer.{name}")));
}

#[test]
fn dropout_keeps_the_mean_and_each_use_has_its_own_mask() {
    let builder = Builder::new();
    let (training, inference) = (Parameters::new(&builder), Parameters::inference(&builder));
    let x = builder.input("x", TensorType::new(DType::F32, [100, 100]));
    for (name, rate) in [("a", 0.25), ("b", 0.25), ("all", 1.0), ("none", 0.0), ("wrong", 1.5)] {
        builder.output(name, Dropout::new(rate).forward(&training.root(), x));
    }
    builder.output("inference", Dropout::new(0.5).forward(&inference.root(), x));
    let graph = builder.finish().unwrap();
    let inputs = arrays([("x", f32s([100, 100], &[1.0; 10_000]))]);
    let run_at = |step| run(&graph, &inputs, &arrays([(Randomness::STATE, u32s([2], &[7.0, step]))])).unwrap();
    let first = run_at(0.0);
    let outputs = &first.outputs;
    let dropped = outputs["a"].data.iter().filter(|&&y| y == 0.0).count();
    // Five standard deviations of a binomial of 10,000 and 1/4.
    assert!(dropped.abs_diff(2500) < 217, "{dropped}");
    assert!(outputs["a"].data.iter().all(|&y| y == 0.0 || (y - 4.0 / 3.0).abs() < 1e-6));
    assert_ne!(outputs["a"], outputs["b"]);
    assert!(outputs["all"].data.iter().all(|&y| y == 0.0));
    assert_eq!(outputs["none"].data, inputs["x"].data);
    assert_eq!(outputs["inference"].data, inputs["x"].data);
    assert!(outputs["wrong"].data.iter().all(|y| y.is_nan()));
    assert_eq!(first.states[Randomness::STATE].data, [7.0, 1.0]);
    assert_ne!(run_at(1.0).outputs["a"], outputs["a"]);
}
