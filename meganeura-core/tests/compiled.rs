//! The op table through the whole compiler: the plan's slow meaning and the CPU device against the oracle, optimised and not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "compiled/reference.rs"]
mod reference;

use meganeura_core::cpu::{Buffer, Executor};
use meganeura_core::dtype::DType;
use meganeura_core::ir::Graph;
use meganeura_core::kernel::Role;
use meganeura_core::memory::{self, Plan, Port};
use meganeura_core::ops::{Lowering, Operation};
use meganeura_core::options::Options;
use meganeura_core::oracle::{self, Array};
use meganeura_core::pipeline::{Program, compile};
use meganeura_core::rewrite::{RULES, RuleSet};
use meganeura_core::schedule::Caps;
use meganeura_core::testing::{Case, cases_of_compositions, cases_of_op_table, cases_of_states, random_graph};
use std::collections::HashMap;

fn raw(arrays: &HashMap<String, Array>) -> HashMap<String, Vec<f64>> {
    arrays.iter().map(|(name, array)| (name.clone(), array.data.clone())).collect()
}

fn to_bytes(dtype: DType, data: &[f64]) -> Vec<u8> {
    let word = |&x: &f64| match dtype {
        DType::F32 => (x as f32).to_bits(),
        DType::I32 => x as i32 as u32,
        DType::U32 | DType::Bool => x as u32,
        DType::F16 => panic!("no f16 in the table"),
    };
    data.iter().flat_map(|x| word(x).to_le_bytes()).collect()
}

fn from_bytes(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let value = |word: u32| match dtype {
        DType::F32 => f64::from(f32::from_bits(word)),
        DType::I32 => f64::from(word as i32),
        _ => f64::from(word),
    };
    bytes.chunks_exact(4).map(|word| value(u32::from_le_bytes(word.try_into().unwrap()))).collect()
}

/// Outputs and states after one step on the CPU device.
fn run_on_cpu(plan: &Plan, case: &Case) -> HashMap<String, Vec<f64>> {
    let buffers: Vec<Buffer> = plan.buffers.iter().map(|buffer| Buffer::zeroed(buffer.bytes)).collect();
    for (ports, given) in [(&plan.inputs, &case.inputs), (&plan.states, &case.states)] {
        for port in ports {
            let bytes = to_bytes(port.ty.dtype, &given[&port.name].data);
            buffers[port.place.buffer].write(port.place.offset, &bytes).unwrap();
        }
    }
    Executor::new(plan.clone().into()).run(&buffers).unwrap();
    let read = |port: &Port| {
        let mut bytes = vec![0; port.ty.bytes()];
        buffers[port.place.buffer].read(port.place.offset, &mut bytes).unwrap();
        (port.name.clone(), from_bytes(port.ty.dtype, &bytes))
    };
    plan.outputs.iter().chain(&plan.states).map(read).collect()
}

/// Terms of the longest fold or product.
fn longest_sum(graph: &Graph) -> usize {
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

fn expected(case: &Case) -> HashMap<String, Array> {
    let run = oracle::run(&case.graph, &case.inputs, &case.states).unwrap();
    run.outputs.into_iter().chain(run.states).collect()
}

fn check(case: &Case, options: &Options, caps: &Caps, cpu: bool) -> Result<(), String> {
    let program = compile(&case.graph, options, caps, None).map_err(|error| format!("{}: {error}", case.name))?;
    let expected = expected(case);
    let (found, tolerance): (HashMap<String, Vec<f64>>, f64) = if cpu {
        // Functions are good to some units in the last place; a sum of n terms in any order to n half-units (Higham,
        // Accuracy and Stability of Numerical Algorithms, 4.2).
        let tolerance = 2e-6 + longest_sum(&case.graph) as f64 * f64::from(f32::EPSILON) / 2.0;
        (run_on_cpu(&program.plan, case), tolerance)
    } else {
        let [outputs, states] = memory::interp(&program.plan, &raw(&case.inputs), &raw(&case.states))
            .map_err(|error| format!("{}: {error}", case.name))?;
        // Folded constants are rounded to f32.
        (outputs.into_iter().chain(states).collect(), if options.simplify { 1e-6 } else { 1e-12 })
    };
    for (name, expected) in &expected {
        let distance = Array::new(expected.ty.clone(), found[name].clone()).distance(expected);
        if distance > tolerance {
            return Err(format!("{} {name}: off by {distance:e}", case.name));
        }
    }
    Ok(())
}

fn check_all(cases: &[Case], options: &Options, cpu: bool) {
    let caps = if cpu { Caps::cpu(2) } else { Caps::base() };
    let failures: Vec<String> = cases.iter().filter_map(|case| check(case, options, &caps, cpu).err()).collect();
    assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

fn optimised() -> Options {
    Options { verify: true, ..Options::default() }
}

#[test]
fn plans_mean_what_graphs_mean() {
    check_all(&cases_of_op_table(), &optimised(), false);
}

#[test]
fn plans_without_optimisation_mean_what_graphs_mean() {
    check_all(&cases_of_op_table(), &Options::plain(), false);
}

#[test]
fn the_cpu_device_computes_what_graphs_mean() {
    check_all(&cases_of_op_table(), &optimised(), true);
}

#[test]
fn programs_come_back_from_bytes() {
    let cases = cases_of_op_table().into_iter().chain(cases_of_states()).chain((0..100).map(random_graph));
    for (case, caps) in cases.flat_map(|case| [(case.clone(), Caps::base()), (case, Caps::h200())]) {
        let program = compile(&case.graph, &optimised(), &caps, None).unwrap();
        let bytes = postcard::to_stdvec(&program).unwrap();
        let back: Program = postcard::from_bytes(&bytes).unwrap();
        assert_eq!((&back.plan, &back.layout), (&program.plan, &program.layout), "{}", case.name);
        assert_eq!((&back.initial, &back.report), (&program.initial, &program.report), "{}", case.name);
    }
}

#[test]
fn compositions_and_their_gradients_mean_what_graphs_mean() {
    let cases = cases_of_compositions();
    for options in [optimised(), Options::plain()] {
        check_all(&cases, &options, false);
        check_all(&cases, &options, true);
    }
}

#[test]
fn states_are_written_after_every_read() {
    let cases = cases_of_states();
    for options in [optimised(), Options::plain()] {
        check_all(&cases, &options, false);
        check_all(&cases, &options, true);
    }
}

#[test]
fn random_graphs_mean_the_same_optimised_and_not() {
    let cases: Vec<Case> = (0..1000).map(random_graph).collect();
    check_all(&cases, &optimised(), false);
    check_all(&cases, &Options::plain(), false);
}

#[test]
fn random_graphs_mean_the_same_with_each_rule_off() {
    let cases: Vec<Case> = (0..300).map(random_graph).collect();
    for rule in RULES {
        check_all(&cases, &Options { rules: RuleSet::ALL.without(rule.name).unwrap(), ..optimised() }, false);
    }
    check_all(&cases, &Options { rules: RuleSet::NONE, ..optimised() }, false);
}
