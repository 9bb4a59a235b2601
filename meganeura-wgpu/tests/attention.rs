//! Attention and its gradients on every device of this machine: several tiles and column blocks, large scores, rows that see
//! nothing, caches with rubbish beyond their length; and what is printed for it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
#[path = "support/translate.rs"]
mod translate;

use common::devices;
use meganeura_core::compose::AttentionOptions;
use meganeura_core::dtype::DType;
use meganeura_core::ir::{Builder, Graph};
use meganeura_core::kernel::Access;
use meganeura_core::ops::Fill;
use meganeura_core::options::Options;
use meganeura_core::oracle::{self, Array};
use meganeura_core::pipeline::compile;
use meganeura_core::schedule::{Caps, Spec};
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use meganeura_core::testing::Draws;
use meganeura_wgpu::wgsl::print;
use meganeura_wgpu::{Device, Session, StateStore};
use std::collections::HashMap;

/// Batch, heads, kv heads, queries, keys, width, value width.
type Sizes = [usize; 7];

/// The output and the three gradients for the cotangent `r`; with lengths, the input `length`.
fn graph([batch, heads, kv_heads, queries, keys, width, value_width]: Sizes, causal: bool, lengths: bool) -> Graph {
    let g = Builder::new();
    let input = |name: &str, shape: [usize; 4]| g.input(name, TensorType::new(DType::F32, shape));
    let q = input("q", [batch, heads, queries, width]);
    let k = input("k", [batch, kv_heads, keys, width]);
    let v = input("v", [batch, kv_heads, keys, value_width]);
    let kv_len = lengths.then(|| g.input("length", TensorType::new(DType::U32, [batch])));
    let options = AttentionOptions { scale: Some(0.5), causal, kv_len, ..AttentionOptions::default() };
    let y = q.attention(k, v, options);
    let r = input("r", [batch, heads, queries, value_width]);
    g.output("y", y);
    let gradients = g.gradients((y * r).sum_all(), &[q, k, v]);
    ["dq", "dk", "dv"].iter().zip(gradients).for_each(|(name, gradient)| g.output(*name, gradient));
    g.finish().unwrap()
}

fn inputs(graph: &Graph, round: bool, range: f64) -> HashMap<String, Array> {
    let mut draws = Draws::new(29);
    let mut fill = |name: &str| {
        let ty = graph.nodes().iter().find_map(|node| match &node.op {
            meganeura_core::ops::Op::Input(input) if &*input.name == name => Some(node.ty.clone()),
            _ => None,
        });
        let mut array = draws.fill(&ty.unwrap(), Fill::Uniform(-range, range));
        if round {
            array.data.iter_mut().for_each(|x| *x = x.round());
        }
        (name.to_string(), array)
    };
    ["q", "k", "v", "r"].into_iter().map(&mut fill).collect()
}

fn run(device: &Device, graph: &Graph, inputs: &HashMap<String, Array>) -> HashMap<String, Array> {
    let options = Options { verify: true, ..Options::default() };
    let program = compile(graph, &options, device.caps(), None).unwrap();
    let store = StateStore::new(device, &program.layout).unwrap();
    let mut session = Session::new(device, program.plan.clone(), &store).unwrap();
    for (name, array) in inputs {
        let tensor = match array.ty.dtype {
            DType::U32 => Tensor::from_u32(array.ty.shape.clone(), array.data.iter().map(|&x| x as u32).collect()),
            _ => Tensor::from_f32(array.ty.shape.clone(), array.data.iter().map(|&x| x as f32).collect()),
        };
        session.write(name, &tensor.unwrap()).unwrap();
    }
    session.step().unwrap();
    let read = |port: &meganeura_core::memory::Port| {
        (port.name.clone(), Array::new(port.ty.clone(), session.read(&port.name).unwrap().to_f64()))
    };
    program.plan.outputs.iter().map(read).collect()
}

fn check(graph: &Graph, inputs: &HashMap<String, Array>, tolerance: f64) -> Vec<HashMap<String, Array>> {
    let expected = oracle::run(graph, inputs, &HashMap::new()).unwrap().outputs;
    let on = |device: Device| {
        let found = run(&device, graph, inputs);
        for (name, expected) in &expected {
            let distance = found[name].distance(expected);
            assert!(distance <= tolerance, "{} {name}: off by {distance:e}", device.info());
        }
        found
    };
    devices().into_iter().map(on).collect()
}

#[test]
fn several_tiles_and_blocks_of_columns() {
    for (sizes, causal) in
        [([1, 4, 2, 150, 170, 24, 24], true), ([1, 2, 1, 70, 97, 72, 200], false), ([1, 1, 1, 19, 40, 131, 131], true)]
    {
        let graph = graph(sizes, causal, false);
        check(&graph, &inputs(&graph, false, 1.0), 2e-5);
    }
}

#[test]
fn large_scores_do_not_overflow() {
    let graph = graph([1, 2, 1, 70, 150, 8, 8], true, false);
    for range in [12.0, 60.0] {
        // Whole numbers, so that scores are exact. The gradients' weights are those of a log-sum-exp in f32, whose half unit in
        // the last place is a factor of every weight; scores are at most 8 · range² · scale.
        let rounding = 4.0 * range * range * f64::from(f32::EPSILON) / 2.0;
        check(&graph, &inputs(&graph, true, range), 2e-5 + rounding);
    }
}

#[test]
fn keys_beyond_the_length_may_hold_anything_and_no_keys_give_zeros() {
    let sizes = [3, 2, 1, 5, 70, 8, 12];
    let graph = graph(sizes, false, true);
    let mut inputs = inputs(&graph, false, 1.0);
    let lengths = [0, 33, 70];
    inputs.insert("length".into(), Array::new(TensorType::new(DType::U32, [3]), lengths.map(|n| n as f64).to_vec()));
    for name in ["k", "v"] {
        let array = inputs.get_mut(name).unwrap();
        let width = array.ty.shape[3];
        for (batch, length) in lengths.into_iter().enumerate() {
            array.data[(batch * 70 + length) * width..(batch + 1) * 70 * width].fill(f64::NAN);
        }
    }
    for found in check(&graph, &inputs, 2e-5) {
        for (name, array) in found {
            let of_first = array.data.len() / 3;
            assert!(array.data[..of_first].iter().all(|&x| x == 0.0), "{name} of a batch without keys");
        }
    }
}

/// W1, W2 and K3 for streams.
#[test]
fn printed_streams_translate_and_repeat() {
    for caps in [Caps::base(), Caps::h200()] {
        for (sizes, causal) in [([2, 4, 2, 150, 170, 64, 64], true), ([1, 1, 1, 19, 40, 13, 200], false)] {
            let plan = compile(&graph(sizes, causal, true), &Options::default(), &caps, None).unwrap().plan;
            let streams = plan.dispatches.iter().filter(|dispatch| matches!(dispatch.spec, Spec::Stream(_)));
            let mut printed = 0;
            for dispatch in streams {
                let kernel = &plan.kernels[dispatch.kernel];
                let writable: Vec<bool> = kernel.args.iter().map(|arg| arg.access != Access::Read).collect();
                let bindings: Vec<usize> = (0..writable.len()).collect();
                let module = || print(kernel, &dispatch.spec, &writable, &bindings, &caps).unwrap();
                translate::check(&module());
                assert_eq!(module(), module());
                printed += 1;
            }
            // The output with its log-sum-exp, the query's gradient, those of key and value in one or two.
            assert!((3..=4).contains(&printed), "{printed} streams");
        }
    }
}
