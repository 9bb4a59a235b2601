//! Convolutions: shapes and values as PyTorch documents them, derivatives, mistakes.

use meganeura_core::compose::ConvOptions;
use meganeura_core::dtype::DType;
use meganeura_core::ir::{Builder, Value};
use meganeura_core::ops::Fill;
use meganeura_core::oracle::{Array, run};
use meganeura_core::shape::TensorType;
use meganeura_core::testing::{Draws, gradcheck};
use std::collections::HashMap;

fn options() -> ConvOptions {
    ConvOptions::default()
}

fn array(shape: &[usize], data: &[f64]) -> Array {
    Array::new(TensorType::new(DType::F32, shape), data.to_vec())
}

fn floats(shapes: &[&[usize]]) -> Vec<Array> {
    let mut draws = Draws::new(5);
    let fill = |&shape: &&[usize]| draws.fill(&TensorType::new(DType::F32, shape), Fill::Uniform(-1.0, 1.0));
    shapes.iter().map(fill).collect()
}

/// The value of a function in f64.
fn eval(operands: &[Array], function: &dyn for<'g> Fn(&'g Builder, &[Value<'g>]) -> Value<'g>) -> Array {
    let builder = Builder::new();
    let xs: Vec<Value<'_>> =
        operands.iter().enumerate().map(|(at, value)| builder.input(format!("x{at}"), value.ty.clone())).collect();
    builder.output("y", function(&builder, &xs));
    let inputs = operands.iter().enumerate().map(|(at, value)| (format!("x{at}"), value.clone())).collect();
    run(&builder.finish().unwrap(), &inputs, &HashMap::new()).unwrap().outputs.remove("y").unwrap()
}

#[test]
fn values_by_hand() {
    let x = array(&[1, 1, 5], &[1.0, 2.0, 3.0, 4.0, 5.0]);
    let w = array(&[1, 1, 3], &[1.0, 0.0, -1.0]);
    let y = eval(&[x.clone(), w.clone()], &|_, x| x[0].conv(x[1], &options().padding(1)));
    // Taps are not reversed: x[y − 1] − x[y + 1].
    assert_eq!(y, array(&[1, 1, 5], &[-2.0, -2.0, -2.0, -2.0, 4.0]));
    let y =
        eval(&[x.clone(), w], &|_, x| x[0].conv(x[1], &ConvOptions { padding: vec![[2, 0]], ..options().stride(2) }));
    assert_eq!(y, array(&[1, 1, 3], &[-1.0, -2.0, -2.0]));
    // Two groups: each output sees its own channel.
    let x = array(&[1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let w = array(&[2, 1, 1], &[10.0, 100.0]);
    let y = eval(&[x, w], &|_, x| x[0].conv(x[1], &options().groups(2)));
    assert_eq!(y, array(&[1, 2, 2], &[10.0, 20.0, 300.0, 400.0]));
    // Each element lays down the taps, two steps apart.
    let (x, w) = (array(&[1, 1, 2], &[1.0, 2.0]), array(&[1, 1, 3], &[1.0, 10.0, 100.0]));
    let y = eval(&[x, w], &|_, x| x[0].conv_transpose(x[1], &options().stride(2), &[0]));
    assert_eq!(y, array(&[1, 1, 5], &[1.0, 10.0, 102.0, 20.0, 200.0]));
}

#[test]
fn shapes_as_documented() {
    let builder = Builder::new();
    let input = |name: &str, shape: &[usize]| builder.input(name, TensorType::new(DType::F32, shape));
    // The examples of torch.nn.Conv2d and torch.nn.ConvTranspose2d (PyTorch 2.11 documentation).
    let x = input("x", &[20, 16, 50, 100]);
    let two = |a, b| ConvOptions { stride: vec![2, 1], padding: vec![[a, a], [b, b]], ..options() };
    let (w, t) = (input("w", &[33, 16, 3, 5]), input("t", &[16, 33, 3, 5]));
    let dilated = ConvOptions { dilation: vec![3, 1], ..two(4, 2) };
    assert_eq!(&*x.conv(w, &dilated).shape(), [20, 33, 26, 100]);
    assert_eq!(&*x.conv_transpose(t, &two(4, 2), &[0]).shape(), [20, 33, 93, 100]);
    let (x, w) = (input("image", &[1, 16, 12, 12]), input("square", &[16, 16, 3, 3]));
    let down = options().stride(2).padding(1);
    let y = x.conv(w, &down);
    assert_eq!(&*y.shape(), [1, 16, 6, 6]);
    assert_eq!(y.conv_transpose(w, &down, &[1]).shape(), x.shape());
    builder.finish().unwrap();
}

#[test]
fn a_transposed_convolution_is_the_derivative() {
    for (options, padding, more) in [(options().stride(2).groups(2), 1, 1), (options().stride(3).dilation(2), 2, 2)] {
        let options = options.padding(padding);
        let groups = options.groups;
        let operands = floats(&[&[2, 4, 9 + more], &[6, 4 / groups, 3]]);
        let y = eval(&operands, &|_, x| x[0].conv(x[1], &options));
        let cotangent = floats(&[&y.ty.shape]).remove(0);
        let all = [operands[0].clone(), operands[1].clone(), cotangent];
        let derivative = eval(&all, &|g, x| g.gradients((x[0].conv(x[1], &options) * x[2]).sum_all(), &x[..1])[0]);
        let extent = |more: usize| {
            let (x, stride) = (y.ty.shape[2], options.stride[0]);
            (x - 1) * stride + options.dilation[0] * 2 + 1 + more - 2 * padding
        };
        let more = (0..8).find(|&more| extent(more) == operands[0].ty.shape[2]).unwrap();
        let transposed = eval(&all, &|_, x| x[2].conv_transpose(x[1], &options, &[more]));
        assert!(transposed.distance(&derivative) < 1e-12);
    }
}

#[test]
fn derivatives_to_the_second() {
    let cases: [(&[usize], &[usize], ConvOptions); 5] = [
        (&[2, 3, 7], &[4, 3, 3], options().padding(1)),
        (&[1, 4, 6, 5], &[6, 2, 3, 2], options().stride(2).groups(2).padding(1)),
        (&[2, 3, 5, 5], &[3, 1, 3, 3], options().groups(3).padding(2).dilation(2)),
        (&[2, 2, 5, 4], &[3, 2, 1, 1], options()),
        (&[1, 2, 4, 4, 3], &[2, 2, 2, 2, 2], options().stride(2).padding(1)),
    ];
    for (x, w, options) in cases {
        gradcheck(&floats(&[x, w]), &|_, x| x[0].conv(x[1], &options)).unwrap();
        gradcheck(&floats(&[x, w]), &|g, x| {
            let y = x[0].conv(x[1], &options).tanh();
            let slopes = g.gradients((y * y).sum_all(), x);
            slopes[0].sum_all() * (slopes[1] * slopes[1]).sum_all()
        })
        .unwrap();
    }
    let transposed = options().stride(2).padding(1).groups(2);
    gradcheck(&floats(&[&[2, 4, 3, 3], &[4, 3, 3, 3]]), &|_, x| x[0].conv_transpose(x[1], &transposed, &[1, 0]))
        .unwrap();
}

#[test]
fn half_precision_is_summed_in_single() {
    let operands = floats(&[&[2, 4, 7], &[3, 4, 3]]);
    gradcheck(&operands, &|_, x| x[0].cast(DType::F16).conv(x[1].cast(DType::F16), &options()).cast(DType::F32))
        .unwrap();
}

#[test]
fn mistakes_are_reported() {
    let builder = Builder::new();
    let input = |name: &str, shape: &[usize]| builder.input(name, TensorType::new(DType::F32, shape));
    let (x, w, t) = (input("x", &[2, 4, 9]), input("w", &[6, 4, 3]), input("t", &[4, 3, 3]));
    let wrong = [
        x.conv(w, &options().groups(2)),
        x.conv(w, &options().groups(0)),
        x.conv(w, &options().stride(0)),
        x.conv(w, &options().dilation(0)),
        x.conv(w, &options().dilation(5)),
        x.conv(w, &options().padding(usize::MAX)),
        x.conv(w, &ConvOptions { stride: vec![1, 1], ..options() }),
        x.conv(input("flat", &[6, 4]), &options()),
        input("none", &[]).conv(w, &options()),
        x.conv(w.cast(DType::U32), &options()),
        x.conv_transpose(w, &options(), &[0]),
        x.conv_transpose(t, &options().padding(9), &[0]),
        x.conv_transpose(t, &options(), &[0, 0]),
        x.conv_transpose(t, &options().stride(usize::MAX), &[0]),
    ];
    let count = wrong.len();
    // Of a mistake follows no second one.
    let _ = wrong.map(|value| value.relu().conv(w, &options()));
    assert_eq!(builder.finish().unwrap_err().0.len(), count);
}

#[test]
fn dispatches_of_convolutions() {
    use meganeura_core::compose::PoolOptions;
    use meganeura_core::options::Options;
    use meganeura_core::pipeline::compile;
    use meganeura_core::schedule::Caps;
    let count = |caps: &Caps, build: &dyn for<'g> Fn(&'g Builder, Value<'g>, Value<'g>) -> Value<'g>| {
        let builder = Builder::new();
        let input = |name: &str, shape: &[usize]| builder.input(name, TensorType::new(DType::F32, shape));
        let (x, w) = (input("x", &[4, 64, 56, 56]), input("w", &[64, 64, 3, 3]));
        builder.output("y", build(&builder, x, w));
        compile(&builder.finish().unwrap(), &Options::default(), caps, None).unwrap().report.dispatches
    };
    let same = options().padding(1);
    // Bias, activation and residual happen before the store.
    assert_eq!(count(&Caps::cpu(2), &|g, x, w| block(g, x, w, &same)), 1);
    let pool = PoolOptions::new([2]);
    assert_eq!(count(&Caps::cpu(2), &|g, x, w| block(g, x, w, &same).max_pool(&pool)), 2);
    // The long sum of few results is split, so that it fills the device.
    let slope = |caps: &Caps| {
        count(caps, &|g, x, w| {
            let r = g.input("r", TensorType::new(DType::F32, [4, 64, 56, 56]));
            g.gradients((x.conv(w, &same) * r).sum_all(), &[w])[0]
        })
    };
    assert_eq!(slope(&Caps::h200()) - slope(&Caps::cpu(2)), 1);
}

/// With bias, activation and residual.
fn block<'g>(g: &'g Builder, x: Value<'g>, w: Value<'g>, options: &ConvOptions) -> Value<'g> {
    let bias = g.input("bias", TensorType::new(DType::F32, [64, 1, 1]));
    (x.conv(w, options) + bias).relu() + x
}
