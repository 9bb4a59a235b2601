//! Joining, cutting, repeating, masking, order.

use super::{Composition, spaced};
use crate::dtype::DType;
use crate::ops::{Fill, SampleOperand};

const ODD: &[f64] = &[3.0, 1.0, f64::NAN, -1.0, 1.0, f64::INFINITY, 0.0, -0.0, f64::NEG_INFINITY, 2.0];

pub(super) fn table() -> Vec<Composition> {
    [joined(), masked(), ordered()].concat()
}

fn joined() -> Vec<Composition> {
    let x = || spaced([3, 5, 7]);
    let truth = || SampleOperand::of(DType::Bool, [5, 13], Fill::Bool);
    vec![
        Composition::new("concat", [x(), spaced([3, 1, 7]), spaced([3, 17, 7])], |x| x[0].concat(&x[1..], 1)),
        Composition::jumping("concat of truth values", [truth(), truth()], |x| x[0].concat(&x[1..], 1)),
        Composition::new("stack", [x(), x()], |x| x[0].stack(&x[1..], 1)),
        Composition::new("split", [x()], |x| {
            let parts = x[0].split(2, &[2, 5]);
            parts[1].concat(&parts[..1], 2)
        }),
        Composition::new("chunk", [spaced([5, 3])], |x| {
            let parts = x[0].chunk(0, 3);
            parts[2].sum([0]) + parts[0].sum([0]) * 2.0
        }),
        Composition::new("roll", [x()], |x| x[0].roll(-2, 2)),
        Composition::new("tile", [x()], |x| x[0].tile(&[2, 1, 3])),
        Composition::new("repeat_interleave", [x()], |x| x[0].repeat_interleave(3, 1)),
        Composition::new("flatten, squeeze, unsqueeze", [x()], |x| x[0].flatten(1, 2).unsqueeze(1).squeeze(1)),
        Composition::new("arange", [spaced([17])], |x| x[0] * x[0].builder().arange(0.5, 0.25, 17)),
    ]
}

fn masked() -> Vec<Composition> {
    let table = || spaced([7, 3]);
    let ids = || SampleOperand::index([2, 5], 7);
    vec![
        Composition::new("tril", [spaced([2, 5, 7])], |x| x[0].tril(1)),
        Composition::new("triu", [spaced([17, 5])], |x| x[0].triu(-1)),
        Composition::jumping("one_hot", [SampleOperand::index([13], 9)], |x| x[0].one_hot(7)),
        Composition::new("embedding", [table(), ids()], |x| x[0].embedding(x[1], None)),
        // Differences see the padding row, gradients do not.
        Composition::jumping("embedding with padding", [table(), ids()], |x| x[0].embedding(x[1], Some(2))),
    ]
}

fn ordered() -> Vec<Composition> {
    let odd = || SampleOperand::of(DType::F32, [3, ODD.len()], Fill::List(ODD));
    let integers = || SampleOperand::of(DType::I32, [5, 33], Fill::Uniform(-9.0, 9.0));
    vec![
        Composition::new("sort", [spaced([5, 33])], |x| x[0].sort(false).values),
        Composition::new("topk", [spaced([3, 2, 17])], |x| x[0].topk(5, true).values),
        Composition::jumping("sort of odd rows", [odd()], |x| x[0].sort(false).values),
        Composition::jumping("positions of odd rows", [odd()], |x| x[0].sort(true).indices),
        Composition::jumping("sort of integers", [integers()], |x| x[0].sort(true).values),
        Composition::jumping("positions of integers", [integers()], |x| x[0].sort(false).indices),
    ]
}
