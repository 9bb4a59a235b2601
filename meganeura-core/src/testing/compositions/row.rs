//! Functions of rows: softmax, norms, losses, statistics, scans.

use super::{Composition, spaced};
use crate::compose::{CrossEntropy, Direction};
use crate::dtype::DType;
use crate::ops::{Fill, SampleOperand};
use crate::scalar::Monoid;

/// A row each of: ordinary, `−∞` only, one `∞`, one `NaN`, large and equal.
const ROWS: &[f64] = &[
    1.0,
    -2.0,
    0.5,
    f64::NEG_INFINITY,
    f64::NEG_INFINITY,
    f64::NEG_INFINITY,
    f64::INFINITY,
    1.0,
    2.0,
    f64::NAN,
    1.0,
    2.0,
    1e4,
    1e4,
    1e4,
];

pub(super) fn table() -> Vec<Composition> {
    [softmax(), norms(), cross_entropies(), losses(), statistics(), positions(), scans()].concat()
}

fn uniform(shape: &[usize], low: f64, high: f64) -> SampleOperand {
    SampleOperand::of(DType::F32, shape, Fill::Uniform(low, high))
}

fn softmax() -> Vec<Composition> {
    let x = || uniform(&[3, 5, 17], -3.0, 3.0);
    let rows = || SampleOperand::of(DType::F32, [5, 3], Fill::List(ROWS));
    vec![
        Composition::new("softmax", [x()], |x| x[0].softmax(2)),
        Composition::new("softmax along a middle axis", [x()], |x| x[0].softmax(1)),
        Composition::new("log_softmax", [x()], |x| x[0].log_softmax(2)),
        Composition::new("log_softmax along the first axis", [x()], |x| x[0].log_softmax(0)),
        Composition::new("logsumexp", [x()], |x| x[0].logsumexp(2)),
        Composition::new("softmax of long rows", [uniform(&[2, 1031], -3.0, 3.0)], |x| x[0].softmax(1)),
        Composition::jumping("softmax of odd rows", [rows()], |x| x[0].softmax(1)),
        Composition::jumping("log_softmax of odd rows", [rows()], |x| x[0].log_softmax(1)),
        Composition::jumping("logsumexp of odd rows", [rows()], |x| x[0].logsumexp(1)),
    ]
}

fn norms() -> Vec<Composition> {
    let x = || uniform(&[2, 6, 5, 7], -2.0, 2.0);
    let channels = || uniform(&[6], 0.5, 2.0);
    let affine = [uniform(&[33, 65], -2.0, 2.0), uniform(&[65], -1.0, 1.0), uniform(&[65], -1.0, 1.0)];
    vec![
        Composition::new("layer_norm", affine, |x| x[0].layer_norm(1, 1e-5) * x[1] + x[2]),
        Composition::new("layer_norm of 3 dimensions", [x()], |x| x[0].layer_norm(3, 1e-5)),
        Composition::new("layer_norm of a large mean", [uniform(&[3, 65], 1000.0, 1004.0)], |x| {
            x[0].layer_norm(1, 1e-5)
        }),
        Composition::new("rms_norm", [uniform(&[33, 17], -2.0, 2.0), uniform(&[17], -1.0, 1.0)], |x| {
            x[0].rms_norm(1, 1e-5) * x[1]
        }),
        Composition::new("group_norm", [x(), channels()], |x| {
            let y = x[0].group_norm(3, 1e-5);
            y * x[1].along(1, y)
        }),
        Composition::new("instance_norm", [x()], |x| x[0].instance_norm(1e-5)),
        Composition::new("batch_norm", [x(), channels(), channels()], |x| {
            let y = x[0].batch_norm(1e-5).value;
            y * x[1].along(1, y) + x[2].along(1, y)
        }),
        Composition::new("batch_norm of vectors", [uniform(&[17, 5], -2.0, 2.0)], |x| x[0].batch_norm(1e-5).value),
        Composition::jumping("statistics of batch_norm", [x()], |x| {
            let norm = x[0].batch_norm(1e-5);
            norm.mean * 10.0 + norm.variance
        }),
        Composition::new("batch_norm_with", [x(), channels(), channels()], |x| x[0].batch_norm_with(x[1], x[2], 1e-5)),
    ]
}

fn cross_entropies() -> Vec<Composition> {
    let logits = || uniform(&[13, 17], -3.0, 3.0);
    let labels = || SampleOperand::index([13], 17);
    let weights = || uniform(&[17], 0.5, 2.0);
    vec![
        Composition::new("cross_entropy", [logits(), labels()], |x| x[0].cross_entropy(x[1])),
        Composition::new(
            "cross_entropy of sequences",
            [uniform(&[3, 5, 7], -3.0, 3.0), SampleOperand::index([3, 5], 7)],
            |x| x[0].cross_entropy(x[1]).mean_all(),
        ),
        Composition::new("cross_entropy with ignored rows", [logits(), SampleOperand::index([13], 3)], |x| {
            x[0].cross_entropy_with(x[1], CrossEntropy { ignored: Some(1), ..CrossEntropy::default() }).mean()
        }),
        Composition::new("cross_entropy with smoothing", [logits(), labels()], |x| {
            x[0].cross_entropy_with(x[1], CrossEntropy { smoothing: 0.1, ..CrossEntropy::default() }).losses
        }),
        Composition::new("cross_entropy with everything", [logits(), labels(), weights()], |x| {
            let options = CrossEntropy { ignored: Some(2), smoothing: 0.1, weights: Some(x[2]) };
            x[0].cross_entropy_with(x[1], options).mean()
        }),
        Composition::jumping("cross_entropy of labels out of range", [logits(), SampleOperand::index([13], 25)], |x| {
            x[0].cross_entropy(x[1])
        }),
        Composition::new("cross_entropy_of", [logits(), uniform(&[13, 17], 0.0, 0.2), weights()], |x| {
            let options = CrossEntropy { smoothing: 0.1, weights: Some(x[2]), ..CrossEntropy::default() };
            x[0].cross_entropy_of(x[1], options)
        }),
    ]
}

fn losses() -> Vec<Composition> {
    let pair = || [uniform(&[5, 13], -3.0, 3.0), uniform(&[5, 13], 0.1, 0.9)];
    vec![
        Composition::new("bce_with_logits", pair(), |x| x[0].bce_with_logits(x[1])),
        Composition::new("mean_squared_error", pair(), |x| x[0].mean_squared_error(x[1])),
        Composition::new("l1_loss", pair(), |x| x[0].l1_loss(x[1])),
        Composition::new("huber_loss", pair(), |x| x[0].huber_loss(x[1], 0.7)),
        Composition::new("smooth_l1_loss", pair(), |x| x[0].smooth_l1_loss(x[1], 0.7)),
        Composition::new("kl_divergence", pair(), |x| x[0].kl_divergence(x[1])),
    ]
}

fn statistics() -> Vec<Composition> {
    let x = || uniform(&[3, 5, 17], -2.0, 2.0);
    vec![
        Composition::new("var", [x()], |x| x[0].var([0, 2], 1.0)),
        Composition::new("std", [x()], |x| x[0].std([2], 1.0)),
        Composition::new("norm 1", [x()], |x| x[0].norm(1.0, [1])),
        Composition::new("norm 2", [x()], |x| x[0].norm(2.0, [1, 2])),
        Composition::new("norm 3", [x()], |x| x[0].norm(3.0, [2])),
        Composition::new("norm infinity", [spaced([5, 7])], |x| x[0].norm(f64::INFINITY, [1])),
        Composition::new("cosine_similarity", [x(), x()], |x| x[0].cosine_similarity(x[1], 2, 1e-8)),
        Composition::new("norms of zeros", [uniform(&[5, 3], 1.0, 2.0)], |x| {
            let zero = x[0] * 0.0;
            x[0].sum([1]) + zero.norm(2.0, [1]) + zero.norm(0.5, [1]) + zero.std([1], 0.0)
        }),
    ]
}

fn positions() -> Vec<Composition> {
    let rows = || SampleOperand::of(DType::F32, [5, 3], Fill::List(ROWS));
    let x = || SampleOperand::of(DType::F32, [7, 33], Fill::Uniform(-2.0, 2.0));
    let integers = || SampleOperand::of(DType::I32, [7, 65], Fill::Uniform(-3.0, 3.0));
    vec![
        Composition::jumping("argmax", [x()], |x| x[0].argmax(1)),
        Composition::jumping("argmin along the first axis", [x()], |x| x[0].argmin(0)),
        Composition::jumping("argmax of odd rows", [rows()], |x| x[0].argmax(1)),
        Composition::jumping("argmin of odd rows", [rows()], |x| x[0].argmin(1)),
        Composition::jumping("argmax of integers with ties", [integers()], |x| x[0].argmax(1)),
    ]
}

fn scans() -> Vec<Composition> {
    let x = || uniform(&[3, 65], -1.0, 1.0);
    let near_one = || uniform(&[2, 37], 0.9, 1.1);
    let integers = || SampleOperand::of(DType::I32, [5, 33, 3], Fill::Bits);
    vec![
        Composition::new("cumsum", [x()], |x| x[0].cumsum(1)),
        Composition::new("cumsum along the first axis", [x()], |x| x[0].cumsum(0)),
        Composition::new("cumsum of a middle axis", [uniform(&[2, 40, 3], -1.0, 1.0)], |x| x[0].cumsum(1)),
        Composition::new("cumsum in three levels", [uniform(&[1031], -1.0, 1.0)], |x| x[0].cumsum(0)),
        Composition::new("cumsum of one element", [uniform(&[1], -1.0, 1.0)], |x| x[0].cumsum(0)),
        Composition::new("reverse cumsum", [x()], |x| x[0].cumulative(Monoid::Sum, 1, Direction::Reverse)),
        Composition::new("cumprod", [near_one()], |x| x[0].cumprod(1)),
        Composition::new("cumulative maximum", [spaced([3, 37])], |x| {
            x[0].cumulative(Monoid::Max, 1, Direction::Forward).sum([1])
        }),
        Composition::jumping("cumsum of integers", [integers()], |x| x[0].cumsum(1)),
        Composition::jumping("reverse cumulative minimum of integers", [integers()], |x| {
            x[0].cumulative(Monoid::Min, 1, Direction::Reverse)
        }),
    ]
}
