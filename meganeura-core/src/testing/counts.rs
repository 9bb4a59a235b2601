//! How much the tables drive.

use super::{Variant, cases_of_states, compositions};
use crate::ops::{Op, Operation, Sample};
use crate::shape::TensorType;
use std::collections::HashSet;

/// Whether differences can show the derivative of a sample's op: it maps floats to floats, and the derivative is not 0 by
/// definition.
pub fn is_differentiable(sample: &Sample) -> bool {
    let types: Vec<TensorType> = sample.operands.iter().map(|operand| operand.ty.clone()).collect();
    let result = sample.op.infer(&types);
    sample.op.name() != "stop_gradient"
        && types.iter().any(|ty| ty.dtype.is_float())
        && result.is_ok_and(|ty| ty.dtype.is_float())
}

/// What the op table and the table of compositions hold, each number with its name.
pub fn counts() -> Vec<(&'static str, usize)> {
    let registry = Op::registry();
    let samples: Vec<&Sample> = registry.iter().flat_map(|(_, samples)| samples).collect();
    let names: HashSet<&str> = samples.iter().map(|sample| sample.op.name()).collect();
    let variants = |sample: &&Sample| Variant::ALL.iter().filter(|variant| variant.applies_to(sample)).count();
    let cases: usize = samples.iter().map(variants).sum();
    let derivatives: usize = samples.iter().filter(|sample| is_differentiable(sample)).map(variants).sum();
    let compositions = compositions();
    let smooth = compositions.iter().filter(|entry| entry.smooth).count();
    let states = cases_of_states().len();
    vec![
        ("entries of the op table", registry.len()),
        ("ops by name", names.len()),
        ("samples of ops", samples.len()),
        ("cases, with permuted and broadcast operands", cases),
        ("derivatives of cases against differences", derivatives),
        ("compositions", compositions.len()),
        ("derivatives of compositions against differences", smooth),
        ("programs with states", states),
        ("programs compared with the interpreter on each device", cases + compositions.len() + states),
    ]
}
