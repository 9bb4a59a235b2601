//! Convolution and pooling layers: parameters as in PyTorch, and values in the f64 interpreter.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use meganeura_core::compose::{ConvOptions, PoolOptions};
use meganeura_core::dtype::DType;
use meganeura_core::ir::Builder;
use meganeura_core::oracle::{Array, run};
use meganeura_core::shape::TensorType;
use meganeura_nn::init::Init;
use meganeura_nn::layers::{AvgPool2d, Conv1d, Conv2d, ConvTranspose2d, MaxPool2d};
use meganeura_nn::params::Parameters;
use std::collections::HashMap;

#[test]
fn parameters_are_those_of_pytorch() {
    let builder = Builder::new();
    let parameters = Parameters::new(&builder);
    let root = parameters.root();
    let image = builder.input("image", TensorType::new(DType::F32, [2, 8, 12, 10]));
    let y = Conv2d::new(6, 3).stride(2).padding(1).groups(2).forward(&root.sub("conv1"), image);
    assert_eq!(*y.shape(), [2, 6, 6, 5]);
    let options = ConvOptions { padding: vec![[0, 0], [2, 2]], ..ConvOptions::default() };
    let y = Conv2d::new(4, 1).with_size([1, 5]).with_options(options).without_bias().forward(&root.sub("wide"), y);
    assert_eq!(*y.shape(), [2, 4, 6, 5]);
    let up = ConvTranspose2d::new(Conv2d::new(10, 3).stride(2).padding(1).groups(2)).output_padding(1);
    assert_eq!(*up.forward(&root.sub("up"), y).shape(), [2, 10, 12, 10]);
    let sequence = y.reshape([2, 4, 30]);
    let y = Conv1d::new(3, 3).dilation(2).with_init(Init::Ones).forward(&root.sub("line"), sequence);
    assert_eq!(*y.shape(), [2, 3, 26]);
    let specs = parameters.specs();
    let shapes: Vec<_> = specs.iter().map(|spec| (spec.name.as_str(), spec.ty.shape.to_vec())).collect();
    let expected = [
        ("conv1.weight", vec![6, 4, 3, 3]),
        ("conv1.bias", vec![6]),
        ("wide.weight", vec![4, 6, 1, 5]),
        ("up.weight", vec![4, 5, 3, 3]),
        ("up.bias", vec![10]),
        ("line.weight", vec![3, 4, 3]),
        ("line.bias", vec![3]),
    ];
    assert_eq!(shapes, expected);
    // 1 / √fan_in, of the weight's second dimension and its window.
    let inits: Vec<Init> = specs.iter().map(|spec| spec.init).collect();
    let fans = [36, 36, 30, 45, 45].map(Init::fan_in_uniform);
    assert_eq!(inits, [&fans[..], &[Init::Ones, Init::Zeros]].concat());
    builder.finish().unwrap();
}

#[test]
fn values_by_hand() {
    let builder = Builder::new();
    let parameters = Parameters::new(&builder);
    let root = parameters.root();
    let x = builder.input("x", TensorType::new(DType::F32, [1, 1, 2, 4]));
    builder.output("conv", Conv2d::new(2, 1).forward(&root.sub("conv"), x));
    builder.output("max", MaxPool2d::new(2).forward(x));
    builder.output("mean", AvgPool2d::new(2).stride(1).forward(x));
    builder.output("border", MaxPool2d::new(3).padding(1).forward(x));
    let options = PoolOptions { count_padding: false, ..PoolOptions::new([3]).padding(1) };
    builder.output("own", AvgPool2d::new(1).with_options(options).forward(x));
    let graph = builder.finish().unwrap();
    let array = |shape: &[usize], data: &[f64]| Array::new(TensorType::new(DType::F32, shape), data.to_vec());
    let inputs = HashMap::from([("x".to_owned(), array(&[1, 1, 2, 4], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]))]);
    let states = HashMap::from([
        ("conv.weight".to_owned(), array(&[2, 1, 1, 1], &[2.0, -1.0])),
        ("conv.bias".to_owned(), array(&[2], &[10.0, 0.0])),
    ]);
    let outputs = run(&graph, &inputs, &states).unwrap().outputs;
    let of = |name: &str| outputs[name].data.clone();
    let conv = [12.0, 14.0, 16.0, 18.0, 20.0, 22.0, 24.0, 26.0, -1.0, -2.0, -3.0, -4.0, -5.0, -6.0, -7.0, -8.0];
    assert_eq!(of("conv"), conv);
    assert_eq!(of("max"), [6.0, 8.0]);
    assert_eq!(of("mean"), [3.5, 4.5, 5.5]);
    assert_eq!(of("border"), [6.0, 8.0]);
    assert_eq!(of("own"), [3.5, 5.5]);
}

#[test]
fn mistakes_are_reported_once() {
    let builder = Builder::new();
    let parameters = Parameters::new(&builder);
    let root = parameters.root();
    let sequence = builder.input("x", TensorType::new(DType::F32, [2, 8, 12]));
    Conv2d::new(4, 3).forward(&root.sub("images"), sequence);
    Conv1d::new(4, 3).groups(0).forward(&root.sub("groups"), sequence);
    Conv1d::new(4, 13).forward(&root.sub("long"), sequence);
    ConvTranspose2d::new(Conv2d::new(4, 3)).forward(&root.sub("transposed"), sequence);
    MaxPool2d::new(2).stride(0).forward(sequence.reshape([2, 8, 3, 4]));
    assert_eq!(builder.finish().unwrap_err().0.len(), 5);
}
