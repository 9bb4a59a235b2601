//! Layers against loops of plain numbers, in the f64 interpreter.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "layers/attention.rs"]
mod attention;

use meganeura_core::dtype::DType;
use meganeura_core::ir::{Builder, Value};
use meganeura_core::oracle::{Array, run};
use meganeura_core::shape::{Shape, TensorType};
use meganeura_nn::init::Init;
use meganeura_nn::layers::{Activation, BatchNorm, Embedding, GroupNorm, LayerNorm, Linear, Mlp, RmsNorm};
use meganeura_nn::params::{ParameterSpec, Parameters, Scope, summary};
use std::collections::HashMap;

type Arrays = HashMap<String, Array>;

fn array(shape: impl Into<Shape>, data: Vec<f64>) -> Array {
    Array::new(TensorType::new(DType::F32, shape), data)
}

/// Numbers without a pattern, in `(−1, 1)`.
fn numbers(count: usize, seed: usize) -> Vec<f64> {
    (0..count).map(|at| f64::from(((at + 7 * seed) as f32 * 12.9898).sin())).collect()
}

/// What a layer makes of `x`, with parameters drawn by [`numbers`] (variances squared); its parameters, and new states.
fn apply(
    training: bool,
    shape: &[usize],
    layer: impl for<'g> Fn(&Scope<'_, 'g>, Value<'g>) -> Value<'g>,
) -> (Array, Arrays, Arrays) {
    let builder = Builder::new();
    let parameters = if training { Parameters::new(&builder) } else { Parameters::inference(&builder) };
    let x = builder.input("x", TensorType::new(DType::F32, shape));
    builder.output("y", layer(&parameters.root(), x));
    let specs = parameters.specs();
    let graph = builder.finish().unwrap();
    let draw = |(at, spec): (usize, &ParameterSpec)| {
        let square = spec.name.ends_with("_var");
        let data = numbers(spec.ty.elements(), at + 1).into_iter().map(|v| if square { v * v + 0.1 } else { v });
        (spec.name.clone(), Array::new(spec.ty.clone(), data.collect()))
    };
    let states: Arrays = specs.iter().enumerate().map(draw).collect();
    let inputs = HashMap::from([("x".to_owned(), input(shape))]);
    let result = run(&graph, &inputs, &states).unwrap();
    (result.outputs["y"].clone(), states, result.states)
}

fn input(shape: &[usize]) -> Array {
    array(shape, numbers(shape.iter().product(), 0))
}

fn close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
    assert!(found.iter().zip(expected).all(near), "found {found:?}, expected {expected:?}");
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Mean and biased variance.
fn moments(values: &[f64]) -> (f64, f64) {
    let centre = mean(values);
    (centre, mean(&values.iter().map(|value| (value - centre).powi(2)).collect::<Vec<_>>()))
}

#[test]
fn layer_norm_and_rms_norm_follow_their_formulas() {
    let x = input(&[3, 5]).data;
    let (y, states, _) = apply(true, &[3, 5], |g, x| LayerNorm::default().forward(g, x));
    let (weight, bias) = (&states["weight"].data, &states["bias"].data);
    let expected: Vec<f64> = x
        .chunks(5)
        .flat_map(|row| {
            let (centre, variance) = moments(row);
            row.iter()
                .enumerate()
                .map(|(at, value)| (value - centre) / (variance + 1e-5).sqrt() * weight[at] + bias[at])
                .collect::<Vec<_>>()
        })
        .collect();
    close(&y.data, &expected);
    let (y, states, _) = apply(true, &[3, 5], |g, x| RmsNorm::default().forward(g, x));
    let weight = &states["weight"].data;
    let scale = |row: &[f64]| 1.0 / (mean(&row.iter().map(|v| v * v).collect::<Vec<_>>()) + 1e-6).sqrt();
    let expected: Vec<f64> =
        x.chunks(5).flat_map(|row| (0..5).map(|at| row[at] * scale(row) * weight[at]).collect::<Vec<_>>()).collect();
    close(&y.data, &expected);
}

#[test]
fn group_norm_takes_channels_of_a_group_together() {
    let shape = [2, 4, 3];
    let x = input(&shape).data;
    let (y, states, _) = apply(true, &shape, |g, x| GroupNorm::new(2).forward(g, x));
    let expected: Vec<f64> = (0..24)
        .map(|at| {
            let (centre, variance) = moments(&x[at / 6 * 6..at / 6 * 6 + 6]);
            let channel = at / 3 % 4;
            (x[at] - centre) / (variance + 1e-5).sqrt() * states["weight"].data[channel] + states["bias"].data[channel]
        })
        .collect();
    close(&y.data, &expected);
}

#[test]
fn groups_that_do_not_divide_the_channels_are_refused() {
    let builder = Builder::new();
    let parameters = Parameters::new(&builder);
    let x = builder.input("x", TensorType::new(DType::F32, [2, 4, 3]));
    GroupNorm::new(3).forward(&parameters.root(), x);
    GroupNorm::new(0).forward(&parameters.root(), x);
    assert!(builder.finish().is_err());
}

#[test]
fn batch_norm_follows_the_batch_in_training_and_its_buffers_in_inference() {
    let shape = [3, 2, 2];
    let x = input(&shape).data;
    let channel = |c: usize| -> Vec<f64> { (0..12).filter(|at| at / 2 % 2 == c).map(|at| x[at]).collect() };
    let layer = |c: usize, v: f64, m: f64, var: f64, states: &Arrays| {
        (v - m) / (var + 1e-5).sqrt() * states["weight"].data[c] + states["bias"].data[c]
    };
    let (y, states, new) = apply(true, &shape, |g, x| BatchNorm::default().forward(g, x));
    let of_batch = |at: usize| {
        let c = at / 2 % 2;
        let (m, var) = moments(&channel(c));
        layer(c, x[at], m, var, &states)
    };
    close(&y.data, &(0..12).map(of_batch).collect::<Vec<_>>());
    for c in 0..2 {
        let (m, var) = moments(&channel(c));
        let moved = |name: &str, to: f64| 0.9 * states[name].data[c] + 0.1 * to;
        let expected = [moved("running_mean", m), moved("running_var", var * 6.0 / 5.0)];
        close(&[new["running_mean"].data[c], new["running_var"].data[c]], &expected);
    }
    let of_buffers = |at: usize, states: &Arrays| {
        let c = at / 2 % 2;
        layer(c, x[at], states["running_mean"].data[c], states["running_var"].data[c], states)
    };
    let (y, states, new) = apply(false, &shape, |g, x| BatchNorm::default().forward(g, x));
    close(&y.data, &(0..12).map(|at| of_buffers(at, &states)).collect::<Vec<_>>());
    assert!(new.is_empty(), "inference changes nothing");
    let (frozen, states, new) = apply(true, &shape, |g, x| BatchNorm::default().forward(&g.frozen(), x));
    close(&frozen.data, &(0..12).map(|at| of_buffers(at, &states)).collect::<Vec<_>>());
    assert!(new.is_empty(), "what is frozen does not change");
}

#[test]
fn an_embedding_and_its_logits_share_one_weight() {
    let builder = Builder::new();
    let parameters = Parameters::new(&builder);
    let tokens = builder.input("x", TensorType::new(DType::U32, [3]));
    let (table, scope) = (Embedding::new(4, 2), parameters.root().sub("wte"));
    let rows = table.forward(&scope, tokens);
    builder.output("rows", rows);
    builder.output("logits", table.logits(&scope, rows));
    let specs = parameters.specs();
    assert_eq!(specs.len(), 1, "tied weights are one parameter");
    assert!(summary(&specs).ends_with("8 parameters, 8 trained, 0 not"));
    let graph = builder.finish().unwrap();
    let weight = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let states = HashMap::from([("wte.weight".to_owned(), array([4, 2], weight))]);
    let tokens = Array::new(TensorType::new(DType::U32, [3]), vec![2.0, 0.0, 4.0]);
    let outputs = run(&graph, &HashMap::from([("x".to_owned(), tokens)]), &states).unwrap().outputs;
    assert_eq!(outputs["rows"].data[..4], [5.0, 6.0, 1.0, 2.0]);
    assert!(outputs["rows"].data[4].is_nan(), "4 is no row");
    assert_eq!(outputs["logits"].data[..8], [17.0, 39.0, 61.0, 83.0, 5.0, 11.0, 17.0, 23.0]);
}

#[test]
fn an_mlp_is_two_linear_layers() {
    let shape = [2, 3];
    let mlp = Mlp::new(5, 2).with_activation(Activation::Tanh);
    let (y, states, _) = apply(false, &shape, |g, x| mlp.with_dropout(0.5).forward(g, x));
    let (expected, same, _) = apply(false, &shape, |g, x| {
        let hidden = Linear::new(5).forward(&g.sub("fc1"), x).tanh();
        Linear::new(2).forward(&g.sub("fc2"), hidden)
    });
    assert_eq!(states, same);
    assert_eq!(y, expected);
    let builder = Builder::new();
    let parameters = Parameters::new(&builder);
    let x = builder.input("x", TensorType::new(DType::F32, shape));
    mlp.with_init(Init::XavierUniform { gain: 1.0 }).forward(&parameters.root(), x);
    let inits: Vec<Init> = parameters.specs().iter().map(|spec| spec.init).collect();
    let xavier = Init::XavierUniform { gain: 1.0 };
    assert_eq!(inits, [xavier, Init::Zeros, xavier, Init::Zeros]);
}
