//! States whose new value depends on elements of the old one that a kernel may overwrite too early.

use super::{Case, Draws};
use crate::dtype::DType;
use crate::ir::Graph;
use crate::ops::{Fill, Op};
use crate::oracle::Array;
use crate::shape::TensorType;
use std::collections::HashMap;

/// What is read of the old value, and a program. State `s` is `@0`, read by `%0`; input `i` holds indices, `x` floats.
const PROGRAMS: [(&str, &str); 13] = [
    ("the same element", "f32[7] | %1 = exp(%0) : f32[7] | update @0 = %1"),
    (
        "a shift",
        "f32[7] | %1 = pad[before=[1], after=[0], fill=0f32](%0) : f32[8] | \
      %2 = slice[starts=[0]](%1) : f32[7] | update @0 = %2",
    ),
    ("a transpose", "f32[5, 5] | %1 = permute[order=[1, 0]](%0) : f32[5, 5] | update @0 = %1"),
    (
        "rows and columns",
        "f32[5, 5] | %1 = dot[batch=[[], []], contract=[[1], [0]]](%0, %0) : f32[5, 5] | \
      update @0 = %1",
    ),
    (
        "matrices of a batch",
        "f32[3, 4, 4] | %1 = dot[batch=[[0], [0]], contract=[[2], [1]]](%0, %0) : f32[3, 4, 4] | \
      update @0 = %1",
    ),
    (
        "products element by element",
        "f32[5] | %1 = dot[batch=[[0], [0]], contract=[[], []]](%0, %0) : f32[5] | \
      update @0 = %1",
    ),
    (
        "elements by index",
        "f32[7] | %1 = input[\"i\"]() : u32[7] | %2 = gather[axis=0](%0, %1) : f32[7] | \
      update @0 = %2",
    ),
    (
        "sums by index",
        "f32[13] | %1 = input[\"i\"]() : u32[13] | %2 = scatter_add[axis=0](%0, %1) : f32[13] | \
      update @0 = %2",
    ),
    (
        "a column's sum",
        "f32[4, 33] | %1 = reduce[monoid=sum, axes=[0]](%0) : f32[33] | \
      %2 = broadcast(%1) : f32[4, 33] | %3 = add(%0, %2) : f32[4, 33] | update @0 = %3 | output \"y\" = %1",
    ),
    (
        "a row's sum",
        "f32[33, 4] | %1 = reduce[monoid=sum, axes=[1]](%0) : f32[33] | %2 = reshape(%1) : f32[33, 1] | \
      %3 = broadcast(%2) : f32[33, 4] | %4 = sub(%0, %3) : f32[33, 4] | update @0 = %4",
    ),
    (
        "another reader",
        "f32[7] | %1 = broadcast(%0) : f32[3, 7] | %2 = exp(%0) : f32[7] | update @0 = %2 | \
      output \"y\" = %1 | output \"old\" = %0",
    ),
    (
        "another reader by index",
        "bool[1] | %1 = input[\"i\"]() : u32[1] | %2 = gather[axis=0](%0, %1) : bool[1] | \
      %3 = not(%0) : bool[1] | update @0 = %3 | output \"y\" = %2",
    ),
    (
        "an exchange",
        "f32[7] | state @1 \"t\" : f32[7] in \"p\" = 0f32 | %1 = state[@1]() : f32[7] | update @0 = %1 | \
      update @1 = %0",
    ),
];

/// Programs that update a state in place, or must not: the update follows every read of the old value (M7).
pub fn cases_of_states() -> Vec<Case> {
    let case = |(at, &(name, program)): (usize, &(&str, &str))| {
        let (ty, rest) = program.split_once(" | ").unwrap_or((program, ""));
        let zero = ty.split('[').next().map_or(String::new(), |dtype| format!("0{dtype}"));
        let first = format!("state @0 \"s\" : {ty} in \"p\" = {zero}\n%0 = state[@0]() : {ty}\n");
        let graph: Graph =
            (first + &rest.replace(" | ", "\n")).parse().unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut draws = Draws::new(at as u64);
        let states = graph.states().iter().map(|state| (state.name.to_string(), values(&mut draws, &state.ty)));
        let states: HashMap<String, Array> = states.collect();
        let inputs = graph.nodes().iter().filter_map(|node| match &node.op {
            Op::Input(input) => Some((input.name.to_string(), values(&mut draws, &node.ty))),
            _ => None,
        });
        Case { name: format!("a state updated from {name}"), inputs: inputs.collect(), states, graph }
    };
    PROGRAMS.iter().enumerate().map(case).collect()
}

/// Floats, truth values, or indices below the number of elements.
fn values(draws: &mut Draws, ty: &TensorType) -> Array {
    let fill = match ty.dtype {
        DType::Bool => Fill::Bool,
        DType::U32 => Fill::Uniform(0.0, ty.elements() as f64),
        _ => Fill::Uniform(-2.0, 2.0),
    };
    draws.fill(ty, fill)
}
