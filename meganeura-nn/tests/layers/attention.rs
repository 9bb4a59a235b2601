//! Attention and transformer layers against PyTorch's numbers: `reference/layers.py`.

use super::array;
use meganeura_core::compose::Rope;
use meganeura_core::dtype::DType;
use meganeura_core::ir::{Builder, Value};
use meganeura_core::options::Options;
use meganeura_core::oracle::{Array, run};
use meganeura_core::pipeline::compile;
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use meganeura_nn::layers::{Activation, AttentionContext, MultiHeadAttention, TransformerEncoderLayer};
use meganeura_nn::params::{Parameters, Scope};
use meganeura_wgpu::{Device, Session, StateStore};
use serde_json::Value as Json;
use std::collections::HashMap;

type Layer = Box<dyn for<'g> Fn(&Scope<'_, 'g>, &HashMap<String, Value<'g>>) -> Value<'g>>;

/// Each case of the file, and the layer that is to do the same.
fn layers() -> Vec<(&'static str, Layer)> {
    let attention = MultiHeadAttention::new(2).packed();
    let grouped = MultiHeadAttention::new(4).kv_heads(2).head_width(4).without_bias();
    let grouped = grouped.causal().window(3).rope(Rope::default());
    let layer = TransformerEncoderLayer::new(2, 6);
    let first = layer.with_attention(attention.causal()).norm_first().with_activation(Activation::Gelu);
    vec![
        ("self", Box::new(move |g, x| attention.forward(g, x["x"]))),
        ("causal", Box::new(move |g, x| attention.causal().forward(g, x["x"]))),
        (
            "cross",
            Box::new(move |g, x| {
                let context = AttentionContext { source: Some(x["source"]), ..AttentionContext::default() };
                attention.without_bias().forward_in(g, x["x"], context)
            }),
        ),
        ("grouped", Box::new(move |g, x| grouped.forward(g, x["x"]))),
        ("layer", Box::new(move |g, x| layer.forward(g, x["x"]))),
        ("layer, norm first", Box::new(move |g, x| first.forward(g, x["x"]))),
    ]
}

fn read(json: &Json) -> Array {
    let numbers = |key: &str| json[key].as_array().unwrap().iter();
    let shape: Vec<usize> = numbers("shape").map(|extent| extent.as_u64().unwrap() as usize).collect();
    array(shape, numbers("data").map(|number| number.as_f64().unwrap()).collect())
}

fn read_all(json: &Json) -> HashMap<String, Array> {
    json.as_object().unwrap().iter().map(|(name, json)| (name.clone(), read(json))).collect()
}

/// The largest difference, of numbers around 1.
fn difference(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(a, b)| (a - b).abs() / b.abs().max(1.0)).fold(0.0, f64::max)
}

/// The program of a case: output `y` and the gradient of `Σ y · r` for each parameter and input, under its name.
fn program(case: &Json, layer: &Layer) -> meganeura_core::ir::Graph {
    let builder = Builder::new();
    let parameters = Parameters::new(&builder);
    let mut wanted: Vec<(String, Value<'_>)> = Vec::new();
    for (name, array) in read_all(&case["inputs"]) {
        wanted.push((name.clone(), builder.input(name, array.ty)));
    }
    let y = layer(&parameters.root(), &wanted.iter().cloned().collect());
    let r = builder.input("r", TensorType::new(DType::F32, y.shape()));
    builder.output("y", y);
    let specs = parameters.specs();
    let expected = read_all(&case["parameters"]);
    assert_eq!(specs.len(), expected.len(), "{specs:?}");
    specs.iter().for_each(|spec| assert_eq!(spec.ty, expected[&spec.name].ty, "{}", spec.name));
    wanted.extend(parameters.trainable());
    let values: Vec<Value<'_>> = wanted.iter().map(|(_, value)| *value).collect();
    let gradients = builder.gradients((y * r).sum_all(), &values);
    wanted.iter().zip(gradients).for_each(|((name, _), gradient)| builder.output(format!("d {name}"), gradient));
    builder.finish().unwrap()
}

fn check(name: &str, case: &Json, outputs: impl Fn(&str) -> Vec<f64>, tolerance: f64) {
    let mut expected: HashMap<String, Array> =
        read_all(&case["gradients"]).into_iter().map(|(name, array)| (format!("d {name}"), array)).collect();
    expected.insert("y".to_owned(), read(&case["y"]));
    for (output, array) in expected {
        let error = difference(&outputs(&output), &array.data);
        assert!(error <= tolerance, "{name}, {output}: {error:e}");
    }
}

fn tensor(array: &Array) -> Tensor {
    Tensor::from_f32(array.ty.shape.clone(), array.data.iter().map(|&value| value as f32).collect()).unwrap()
}

#[test]
fn attention_and_transformer_layers_do_as_pytorch_does() {
    let file: Json = serde_json::from_str(include_str!("../reference/layers.json")).unwrap();
    let layers = layers();
    assert_eq!(file["cases"].as_object().unwrap().len(), layers.len());
    for (name, layer) in layers {
        let case = &file["cases"][name];
        let graph = program(case, &layer);
        let mut inputs = read_all(&case["inputs"]);
        inputs.insert("r".to_owned(), read(&case["r"]));
        let states = read_all(&case["parameters"]);
        let result = run(&graph, &inputs, &states).unwrap();
        // Scales and ε are f32 numbers.
        check(name, case, |output| result.outputs[output].data.clone(), 1e-6);

        let device = Device::cpu();
        let program = compile(&graph, &Options::default(), device.caps(), None).unwrap();
        let store = StateStore::for_program(&device, &program).unwrap();
        states.iter().for_each(|(name, array)| store.write(name, &tensor(array)).unwrap());
        let mut session = Session::new(&device, program.plan, &store).unwrap();
        inputs.iter().for_each(|(name, array)| session.write(name, &tensor(array)).unwrap());
        session.step().unwrap();
        let session = std::cell::RefCell::new(session);
        check(name, case, |output| session.borrow_mut().read(output).unwrap().to_f64(), 1e-5);
    }
}

#[test]
fn what_attention_is_configured_for_gives_names_and_shapes() {
    let builder = Builder::new();
    let parameters = Parameters::new(&builder);
    let x = builder.input("x", TensorType::new(DType::F32, [1, 3, 10]));
    let layer = MultiHeadAttention::new(4).kv_heads(2).head_width(6).with_names(["q", "k", "v", "o"]);
    let y = layer.with_biases([true, false, true, true]).forward(&parameters.root().sub("attn"), x);
    assert_eq!(y.shape(), [1, 3, 10].into());
    let found: Vec<String> = parameters.specs().iter().map(|spec| format!("{} {}", spec.name, spec.ty)).collect();
    let expected = [
        "attn.q.weight f32[24, 10]",
        "attn.q.bias f32[24]",
        "attn.k.weight f32[12, 10]",
        "attn.v.weight f32[12, 10]",
        "attn.v.bias f32[12]",
        "attn.o.weight f32[10, 24]",
        "attn.o.bias f32[10]",
    ];
    assert_eq!(found, expected);
    assert!(builder.finish().is_ok());
}

#[test]
fn heads_that_do_not_fit_are_refused() {
    for layer in [
        MultiHeadAttention::new(3),
        MultiHeadAttention::new(0),
        MultiHeadAttention::new(4).kv_heads(3).head_width(2),
        MultiHeadAttention::new(3).packed(),
    ] {
        let builder = Builder::new();
        let parameters = Parameters::new(&builder);
        let x = builder.input("x", TensorType::new(DType::F32, [1, 3, 10]));
        builder.output("y", layer.forward(&parameters.root(), x));
        assert!(builder.finish().is_err(), "{layer:?}");
    }
    let builder = Builder::new();
    let parameters = Parameters::new(&builder);
    let x = builder.input("x", TensorType::new(DType::F32, [3, 10]));
    MultiHeadAttention::new(2).forward(&parameters.root(), x);
    assert!(builder.finish().is_err(), "there is no batch");
}
