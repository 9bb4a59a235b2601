//! Activations and functions of each element.

use super::{Composition, spaced};
use crate::dtype::DType;
use crate::ops::{Fill, SampleOperand};

/// Zeros of both signs, places of kinks and jumps and their neighbours, what overflows, and what is no number.
const EDGES: &[f64] = &[
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    3.0,
    -3.0,
    6.0,
    9.0,
    -9.0,
    20.0,
    -20.0,
    88.0,
    -88.0,
    1e4,
    -1e4,
    1e30,
    -1e30,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

/// A function of one float: on spaced values with derivatives, on edges without.
macro_rules! functions {
    ($list:ident: $($name:literal => $function:expr;)*) => {
        $(
            $list.push(Composition::new($name, [spaced([3, 17])], $function));
            $list.push(Composition::new($name, [spaced([1])], $function));
            let edges = SampleOperand::of(DType::F32, [EDGES.len()], Fill::List(EDGES));
            $list.push(Composition::jumping(concat!($name, " at edges"), [edges], $function));
        )*
    };
}

pub(super) fn table() -> Vec<Composition> {
    let mut list = Vec::new();
    functions! { list:
        "gelu" => |x| x[0].gelu();
        "gelu_tanh" => |x| x[0].gelu_tanh();
        "silu" => |x| x[0].silu();
        "relu" => |x| x[0].relu();
        "relu6" => |x| x[0].relu6();
        "leaky_relu" => |x| x[0].leaky_relu(0.01);
        "elu" => |x| x[0].elu(1.3);
        "selu" => |x| x[0].selu();
        "celu" => |x| x[0].celu(0.7);
        "softplus" => |x| x[0].softplus();
        "log_sigmoid" => |x| x[0].log_sigmoid();
        "mish" => |x| x[0].mish();
        "hardtanh" => |x| x[0].hardtanh(-1.0, 1.5);
        "hardsigmoid" => |x| x[0].hardsigmoid();
        "hardswish" => |x| x[0].hardswish();
        "softsign" => |x| x[0].softsign();
        "clamp" => |x| x[0].clamp(-0.5, 2.0);
        "trunc" => |x| x[0].trunc();
        "fract" => |x| x[0].fract();
    }
    list.extend(of_several_operands());
    list.extend(of_integers());
    list
}

fn of_several_operands() -> Vec<Composition> {
    let positive = |n: usize| SampleOperand::of(DType::F32, [n], Fill::Uniform(0.3, 3.0));
    let mask = SampleOperand::of(DType::Bool, [5, 13], Fill::Bool);
    vec![
        Composition::new("swiglu", [spaced([5, 33]), spaced([5, 33])], |x| x[0].swiglu(x[1])),
        Composition::new("geglu", [spaced([5, 33]), spaced([5, 33])], |x| x[0].geglu(x[1])),
        Composition::new("prelu of one slope", [spaced([3, 5]), positive(1)], |x| x[0].prelu(x[1])),
        Composition::new("prelu of channels", [spaced([2, 5, 7]), positive(5)], |x| x[0].prelu(x[1])),
        Composition::new("powf 2", [spaced([13])], |x| x[0].powf(2.0)),
        Composition::new("powf 3", [spaced([13])], |x| x[0].powf(3.0)),
        Composition::new("powf 5", [spaced([13])], |x| x[0].powf(5.0)),
        Composition::new("powf -1", [spaced([13])], |x| x[0].powf(-1.0)),
        Composition::new("powf 0.5", [positive(13)], |x| x[0].powf(0.5)),
        Composition::new("powf -0.5", [positive(13)], |x| x[0].powf(-0.5)),
        Composition::new("powf -2", [positive(13)], |x| x[0].powf(-2.0)),
        Composition::new("powf 1.7", [positive(13)], |x| x[0].powf(1.7)),
        Composition::new("masked_fill", [spaced([5, 13]), mask], |x| x[0].masked_fill(x[1], -2.5)),
        Composition::new("maximum and minimum", [spaced([5, 7]), spaced([7])], |x| {
            x[0].maximum(x[1]) - x[0].minimum(x[1])
        }),
    ]
}

fn of_integers() -> Vec<Composition> {
    let signed = || SampleOperand::of(DType::I32, [5, 13], Fill::Bits);
    let unsigned = || SampleOperand::of(DType::U32, [5, 13], Fill::Bits);
    let small = || SampleOperand::of(DType::U32, [13], Fill::Uniform(0.0, 40.0));
    vec![
        Composition::jumping("clamp of integers", [signed()], |x| x[0].clamp(-1e9, 1e9)),
        Composition::jumping("bits", [unsigned(), unsigned()], |x| {
            x[0].and(x[1]).xor(x[0].or(x[1].not())) + x[0] % x[1]
        }),
        Composition::jumping("bits of signed", [signed(), signed()], |x| {
            x[0].and(x[1]).xor(x[0].or(x[1].not())) + x[0] % x[1]
        }),
        Composition::jumping("shifts", [unsigned(), small()], |x| x[0].shift_left(x[1]).xor(x[0].shift_right(x[1]))),
    ]
}
