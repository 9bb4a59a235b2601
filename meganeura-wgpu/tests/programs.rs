//! Whole programs on every device of this machine against the oracle: the op table, states, random graphs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{devices, gpu};
use meganeura_core::dtype::DType;
use meganeura_core::ir::Builder;
use meganeura_core::kernel::Role;
use meganeura_core::ops::{Lowering, Operation};
use meganeura_core::options::Options;
use meganeura_core::oracle::{self, Array};
use meganeura_core::pipeline::compile;
use meganeura_core::scalar::Unary;
use meganeura_core::schedule::Numerics;
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use meganeura_core::testing::{Case, cases_of_compositions, cases_of_op_table, cases_of_states, random_graph};
use meganeura_wgpu::{Device, Recording, Session, SessionOptions, StateStore};
use std::collections::HashMap;

fn tensor(array: &Array) -> Tensor {
    let TensorType { dtype, shape } = array.ty.clone();
    let data = &array.data;
    match dtype {
        DType::F32 => Tensor::from_f32(shape, data.iter().map(|&x| x as f32).collect()),
        DType::F16 => Tensor::from_f16(shape, &data.iter().map(|&x| half::f16::from_f64(x)).collect::<Vec<_>>()),
        DType::U32 => Tensor::from_u32(shape, data.iter().map(|&x| x as u32).collect()),
        DType::I32 => Tensor::from_i32(shape, data.iter().map(|&x| x as i32).collect()),
        DType::Bool => Tensor::from_bool(shape, &data.iter().map(|&x| x != 0.0).collect::<Vec<_>>()),
    }
    .unwrap()
}

/// Outputs and new states after one step.
fn run(device: &Device, case: &Case, options: &Options) -> Result<HashMap<String, Tensor>, String> {
    run_steps(device, case, options, Recording::Auto, 1)
}

/// Outputs and new states after several steps.
fn run_steps(
    device: &Device,
    case: &Case,
    options: &Options,
    recording: Recording,
    steps: usize,
) -> Result<HashMap<String, Tensor>, String> {
    let message = |error: &dyn std::fmt::Display| format!("{}: {error}", case.name);
    let program = compile(&case.graph, options, device.caps(), None).map_err(|error| message(&error))?;
    let store = StateStore::new(device, &program.layout).map_err(|error| message(&error))?;
    for (name, state) in &case.states {
        store.write(name, &tensor(state)).map_err(|error| message(&error))?;
    }
    let how = SessionOptions { recording, ..SessionOptions::default() };
    let session = Session::with_options(device, program.plan.clone(), &store, &how);
    let mut session = session.map_err(|error| message(&error))?;
    for (name, input) in &case.inputs {
        session.write(name, &tensor(input)).map_err(|error| message(&error))?;
    }
    (0..steps).try_for_each(|_| session.step()).map_err(|error| message(&error))?;
    let outputs = program.plan.outputs.iter().map(|port| Ok((port.name.clone(), session.read(&port.name)?)));
    let states = program.plan.states.iter().map(|port| Ok((port.name.clone(), store.read(&port.name)?)));
    outputs.chain(states).collect::<Result<_, meganeura_wgpu::DeviceError>>().map_err(|error| message(&error))
}

/// Terms of the longest fold or product.
fn longest_sum(case: &Case) -> usize {
    let graph = &case.graph;
    let terms = graph.nodes().iter().map(|node| match node.op.lower(&graph.operand_types(node), &node.ty) {
        Lowering::Fold { extents, .. } => extents.iter().product(),
        Lowering::Contract { depth, .. } => depth.iter().product(),
        // One sum of products feeds another.
        Lowering::Stream { axes, .. } => {
            let summed = axes.iter().filter(|axis| matches!(axis.role, Role::Reduce | Role::Depth));
            summed.map(|axis| axis.extent).sum()
        }
        Lowering::Leaf | Lowering::Point => 0,
    });
    terms.max().unwrap_or(0)
}

fn check(device: &Device, case: &Case, options: &Options, base: f64) -> Result<(), String> {
    let found = run(device, case, options)?;
    let expected = oracle::run(&case.graph, &case.inputs, &case.states).unwrap();
    // A sum of n terms in any order is good to n half-units in the last place (Higham, Accuracy and Stability, 4.2).
    let tolerance = base + longest_sum(case) as f64 * f64::from(f32::EPSILON) / 2.0;
    for (name, expected) in expected.outputs.iter().chain(&expected.states) {
        let distance = Array::new(expected.ty.clone(), found[name].to_f64()).distance(expected);
        if distance > tolerance {
            return Err(format!("{} {name}: off by {distance:e}, more than {tolerance:e}", case.name));
        }
    }
    Ok(())
}

fn check_all(cases: &[Case], options: &Options, base: f64) {
    for device in devices() {
        let failures: Vec<String> = cases.iter().filter_map(|case| check(&device, case, options, base).err()).collect();
        assert!(
            failures.is_empty(),
            "{}: {} of {} cases:\n{}",
            device.info(),
            failures.len(),
            cases.len(),
            failures.join("\n")
        );
    }
}

fn optimised() -> Options {
    Options { verify: true, ..Options::default() }
}

#[test]
fn the_op_table_agrees_with_the_oracle() {
    // Own functions are good to 10 units in the last place (tests/accuracy.rs), the driver's `exp` to less.
    check_all(&cases_of_op_table(), &optimised(), 4e-6);
}

#[test]
fn compositions_and_their_gradients_agree_with_the_oracle() {
    check_all(&cases_of_compositions(), &optimised(), 1e-5);
}

/// Functions of rows that hold no number or an infinite one. What multiplies such an element by a constant 0, divides it
/// by one, or takes it from itself is not here: drivers fold that (`docs/accuracy.md`).
fn carrying() -> Vec<(&'static str, meganeura_core::testing::Function)> {
    vec![
        ("relu", |x| x[0].relu()),
        ("maximum with a constant", |x| x[0].maximum(x[0].like(0.5))),
        ("minimum with a constant", |x| x[0].minimum(x[0].like(0.5))),
        ("maximum", |x| x[0].maximum(x[1])),
        ("minimum", |x| x[1].minimum(x[0])),
        ("clamp", |x| x[0].clamp(-1.0, 1.0)),
        ("hardtanh", |x| x[0].hardtanh(-1.0, 1.0)),
        ("select", |x| x[1].gt(x[1].like(0.0)).select(x[0], x[1])),
        ("select by it", |x| x[0].gt(x[0].like(0.0)).select(x[0], x[1])),
        ("is_nan", |x| x[0].unary(Unary::IsNan)),
        ("add", |x| x[0] + x[1]),
        ("multiply", |x| x[0] * x[1]),
        ("divide", |x| x[0] / x[1]),
        ("divide by it", |x| x[1] / x[0]),
        ("reciprocal", |x| x[0].recip()),
        ("sum", |x| x[0].sum([1])),
        ("sum of columns", |x| x[0].sum([0])),
        ("mean", |x| x[0].mean([1])),
        ("max", |x| x[0].max([1])),
        ("min", |x| x[0].min([1])),
        ("product of matrices", |x| x[0].matmul(x[1].transpose())),
        ("softmax", |x| x[0].softmax(1)),
        ("log_softmax", |x| x[0].log_softmax(1)),
        ("logsumexp", |x| x[0].logsumexp(1)),
        ("cumsum", |x| x[0].cumsum(1)),
        ("argmax", |x| x[0].argmax(1)),
        ("silu", |x| x[0].silu()),
        ("gelu", |x| x[0].gelu()),
        ("softplus", |x| x[0].softplus()),
    ]
}

#[test]
fn numbers_that_are_none_are_carried() {
    const INF: f64 = f64::INFINITY;
    let rows = [[f64::NAN, 1.0, 2.0], [1.0, INF, -2.0], [-INF, 0.25, 3.0], [INF, -INF, 1.0], [0.5, -0.0, -3.0]];
    let others = [[0.5, f64::NAN, -1.0], [2.0, 3.0, -0.5], [1.5, -2.5, 0.75], [-1.0, 1.0, INF], [4.0, -4.0, 0.5]];
    let array = |rows: &[[f64; 3]; 5]| Array::new(TensorType::new(DType::F32, [5, 3]), rows.concat());
    let inputs = HashMap::from([("x0".to_owned(), array(&rows)), ("x1".to_owned(), array(&others))]);
    let cases = carrying().into_iter().map(|(name, function)| {
        let g = Builder::new();
        let x = ["x0", "x1"].map(|name| g.input(name, TensorType::new(DType::F32, [5, 3])));
        g.output("y", function(&x));
        Case { name: name.to_owned(), graph: g.finish().unwrap(), inputs: inputs.clone(), states: HashMap::new() }
    });
    let cases: Vec<Case> = cases.collect();
    for options in [optimised(), Options::plain()] {
        check_all(&cases, &options, 4e-6);
    }
}

#[test]
fn accelerated_products_stay_within_f16_rounding() {
    let options = Options { numerics: Numerics::Accelerated, ..optimised() };
    check_all(&cases_of_op_table(), &options, 2e-3);
}

#[test]
fn states_are_written_after_every_read() {
    for options in [optimised(), Options::plain()] {
        check_all(&cases_of_states(), &options, 4e-6);
    }
}

#[test]
fn random_graphs_agree_with_the_oracle() {
    let cases: Vec<Case> = (0..60).map(random_graph).collect();
    check_all(&cases, &optimised(), 2e-5);
}

#[test]
fn products_of_empty_matrices_are_empty_or_zero() {
    for [rows, depth, cols] in [[0, 3, 2], [0, 3, 0], [3, 0, 3], [40, 0, 40], [2, 0, 0]] {
        let g = Builder::new();
        let input = |name: &str, shape: [usize; 2]| g.input(name, TensorType::new(DType::F32, shape));
        let (a, b) = (input("a", [rows, depth]), input("b", [depth, cols]));
        g.output("y", a.matmul(b) + 1.0);
        let graph = g.finish().unwrap();
        let empty = |shape: [usize; 2]| Array::new(TensorType::new(DType::F32, shape), vec![0.5; shape[0] * shape[1]]);
        let inputs = HashMap::from([("a".into(), empty([rows, depth])), ("b".into(), empty([depth, cols]))]);
        let case = Case { name: format!("{rows}x{depth}x{cols}"), graph, inputs, states: HashMap::new() };
        check_all(&[case], &optimised(), 0.0);
    }
}

/// Both ways of recording, bit by bit, over programs of all kinds.
fn check_recordings(cases: &[Case], steps: usize) {
    let Some(device) = gpu() else { return };
    if device.info().backend != "vulkan" {
        return;
    }
    for case in cases {
        let [safe, native] = [Recording::Safe, Recording::Native]
            .map(|recording| run_steps(&device, case, &optimised(), recording, steps).unwrap());
        assert_eq!(safe.len(), native.len());
        for (name, safe) in &safe {
            assert_eq!(safe.bytes(), native[name].bytes(), "{} {name} after {steps} steps", case.name);
        }
    }
}

#[test]
fn both_recordings_compute_the_same_bits() {
    check_recordings(&cases_of_op_table(), 1);
    check_recordings(&(0..60).map(random_graph).collect::<Vec<_>>(), 2);
}

#[test]
fn both_recordings_compute_the_same_bits_over_many_steps() {
    check_recordings(&cases_of_states(), 40);
}

#[test]
fn attention_agrees_with_the_oracle() {
    let attention = |case: &Case| case.name.starts_with("Attention");
    let cases: Vec<Case> = cases_of_op_table().into_iter().filter(attention).collect();
    assert!(cases.len() > 50, "{}", cases.len());
    check_all(&cases, &optimised(), 4e-6);
}
