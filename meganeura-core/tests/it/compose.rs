//! Compositions: values at the edges, and how few kernels they take.

use meganeura_core::compose::CrossEntropy;
use meganeura_core::dtype::DType;
use meganeura_core::ir::{Builder, Value};
use meganeura_core::options::Options;
use meganeura_core::oracle::{Array, run};
use meganeura_core::pipeline::compile;
use meganeura_core::schedule::Caps;
use meganeura_core::shape::TensorType;
use meganeura_core::testing::compositions;
use std::collections::HashMap;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

fn evaluate(x: &[f64], shape: &[usize], function: impl for<'g> Fn(Value<'g>) -> Value<'g>) -> Vec<f64> {
    let builder = Builder::new();
    let ty = TensorType::new(DType::F32, shape);
    builder.output("y", function(builder.input("x", ty.clone())));
    let inputs = HashMap::from([("x".to_string(), Array::new(ty, x.to_vec()))]);
    run(&builder.finish().unwrap(), &inputs, &HashMap::new()).unwrap().outputs["y"].data.clone()
}

/// Bit by bit but for `NaN`s, which are all alike.
#[track_caller]
fn same(found: &[f64], expected: &[f64]) {
    let alike = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-6 || a == b || (a.is_nan() && b.is_nan());
    assert!(found.len() == expected.len() && found.iter().zip(expected).all(alike), "{found:?}, not {expected:?}");
}

#[test]
fn rows_without_numbers_give_what_pytorch_gives() {
    let rows = [-INF, -INF, INF, 1.0, NAN, 1.0, 1e4, 1e4];
    same(&evaluate(&rows, &[4, 2], |x| x.logsumexp(1)), &[-INF, INF, NAN, 1e4 + 2_f64.ln()]);
    let expected = [NAN, NAN, NAN, NAN, NAN, NAN, 0.5, 0.5];
    same(&evaluate(&rows, &[4, 2], |x| x.softmax(1)), &expected);
    same(&evaluate(&[0.0, -INF], &[1, 2], |x| x.softmax(1)), &[1.0, 0.0]);
    same(&evaluate(&[0.0, -INF], &[1, 2], |x| x.log_softmax(1)), &[0.0, -INF]);
    same(&evaluate(&rows, &[4, 2], |x| x.argmax(1)), &[0.0, 0.0, 0.0, 0.0]);
    same(&evaluate(&[1.0, 3.0, 3.0, 2.0, NAN, NAN], &[2, 3], |x| x.argmax(1)), &[1.0, 1.0]);
    same(&evaluate(&[], &[2, 0], |x| x.sum([1])), &[0.0, 0.0]);
    same(&evaluate(&[], &[2, 0], |x| x.mean([1])), &[NAN, NAN]);
    same(&evaluate(&[], &[2, 0], |x| x.cumsum(1)), &[]);
    same(&evaluate(&[5.0], &[1], |x| x.var([0], 1.0)), &[NAN]);
}

#[test]
fn rounding_and_parts() {
    let x = [-2.5, -0.5, 0.5, 1.5, 2.5, -INF, NAN];
    same(&evaluate(&x, &[7], |x| x.round()), &[-2.0, 0.0, 0.0, 2.0, 2.0, -INF, NAN]);
    same(&evaluate(&x, &[7], |x| x.trunc()), &[-2.0, 0.0, 0.0, 1.0, 2.0, -INF, NAN]);
    same(&evaluate(&x[..5], &[5], |x| x.fract()), &[-0.5, -0.5, 0.5, 0.5, 0.5]);
    same(&evaluate(&x, &[7], |x| x.clamp(-1.0, 2.0)), &[-1.0, -0.5, 0.5, 1.5, 2.0, -1.0, NAN]);
}

#[test]
fn cross_entropy_counts_what_is_not_ignored() {
    // Two classes of equal logits: ln 2 a row.
    let loss = |ignored: Option<u32>, smoothing: f64| {
        evaluate(&[0.0; 6], &[3, 2], |x| {
            let labels = x.builder().iota([3], 0);
            let labels = labels.minimum(labels.like(1.0));
            x.cross_entropy_with(labels, CrossEntropy { ignored, smoothing, weights: None }).mean()
        })
    };
    same(&loss(None, 0.0), &[2_f64.ln()]);
    same(&loss(Some(1), 0.0), &[2_f64.ln()]);
    same(&loss(None, 0.3), &[2_f64.ln()]);
    let all_ignored = evaluate(&[0.0; 2], &[1, 2], |x| {
        let labels = x.builder().iota([1], 0);
        x.cross_entropy_with(labels, CrossEntropy { ignored: Some(0), ..CrossEntropy::default() }).mean()
    });
    same(&all_ignored, &[NAN]);
}

/// Kernels of `function` alone and of it with its gradients, on a device with the limits of most GPUs. The function's
/// value and every gradient are stored.
fn dispatches(shapes: &[&[usize]], function: impl for<'g> Fn(&[Value<'g>]) -> Value<'g>) -> [usize; 2] {
    [false, true].map(|backward| {
        let builder = Builder::new();
        let input = |name: String, shape: &[usize]| builder.input(name, TensorType::new(DType::F32, shape));
        let operands: Vec<Value<'_>> =
            shapes.iter().enumerate().map(|(at, shape)| input(format!("x{at}"), shape)).collect();
        let y = function(&operands);
        builder.output("y", y);
        if backward {
            let loss = (y * builder.input("r", y.ty())).sum_all();
            let gradients = builder.gradients(loss, &operands);
            gradients.into_iter().enumerate().for_each(|(at, value)| builder.output(format!("g{at}"), value));
        }
        let caps = Caps { max_bindings: 16, ..Caps::h200() };
        compile(&builder.finish().unwrap(), &Options::default(), &caps, None).unwrap().report.dispatches as usize
    })
}

#[test]
fn rows_take_few_passes() {
    let x: &[usize] = &[4096, 768];
    let logits: &[usize] = &[4096, 1000];
    let image: &[usize] = &[64, 128, 28, 28];
    // A batch of one: its axis has a single coordinate, which reshapes write as 0.
    let one: &[usize] = &[1, 128, 576];
    let map: &[usize] = &[1, 64, 32, 32];
    // Kernels forward, and forward and backward together.
    type Row = (&'static str, [usize; 2], [usize; 2]);
    let found: Vec<Row> = vec![
        ("softmax", dispatches(&[x], |x| x[0].softmax(1)), [1, 1]),
        ("log_softmax", dispatches(&[x], |x| x[0].log_softmax(1)), [1, 2]),
        ("layer_norm", dispatches(&[x, &[768], &[768]], |x| x[0].layer_norm(1, 1e-5) * x[1] + x[2]), [1, 3]),
        ("rms_norm", dispatches(&[x, &[768]], |x| x[0].rms_norm(1, 1e-5) * x[1]), [1, 3]),
        ("layer_norm of one", dispatches(&[one, &[576], &[576]], |x| x[0].layer_norm(1, 1e-5) * x[1] + x[2]), [1, 3]),
        ("rms_norm of one", dispatches(&[one, &[576]], |x| x[0].rms_norm(1, 1e-5) * x[1]), [1, 3]),
        ("softmax of one", dispatches(&[one], |x| x[0].softmax(2)), [1, 1]),
        ("group_norm", dispatches(&[image], |x| x[0].group_norm(32, 1e-5)), [2, 3]),
        (
            "group_norm of one",
            dispatches(&[map, &[64]], |x| (x[0].group_norm(16, 1e-5) * x[1].along(1, x[0])).silu()),
            [1, 4],
        ),
        ("instance_norm", dispatches(&[image], |x| x[0].instance_norm(1e-5)), [1, 1]),
        ("batch_norm", dispatches(&[image], |x| x[0].batch_norm(1e-5).value), [1, 1]),
        ("cross_entropy", dispatches(&[logits], |x| x[0].cross_entropy(x[0].builder().iota([4096], 0))), [1, 1]),
        ("argmax", dispatches(&[x], |x| x[0].argmax(1).cast(DType::F32)), [1, 2]),
        ("cumsum", dispatches(&[x], |x| x[0].cumsum(1)), [4, 8]),
    ];
    let wrong: Vec<&Row> = found.iter().filter(|(_, found, most)| found[0] > most[0] || found[1] > most[1]).collect();
    assert!(wrong.is_empty(), "name, found, most: {wrong:#?}");
}

#[test]
fn no_composition_takes_many_kernels() {
    let kernels = |entry: &meganeura_core::testing::Composition| {
        compile(&entry.case().graph, &Options::default(), &Caps::h200(), None).unwrap().report.dispatches as usize
    };
    let all = compositions();
    let most = all.iter().map(kernels).max().unwrap();
    // Forward and backward together; scans of three levels take the most.
    assert!(most <= 16, "{most} kernels");
}

#[test]
fn elements_go_where_they_should() {
    let x = [3.0, NAN, -1.0, 1.0, -INF, 1.0, INF, 0.0];
    same(&evaluate(&x, &[8], |x| x.sort(false).values), &[-INF, -1.0, 0.0, 1.0, 1.0, 3.0, INF, NAN]);
    same(&evaluate(&x, &[8], |x| x.sort(false).indices), &[4.0, 2.0, 7.0, 3.0, 5.0, 0.0, 6.0, 1.0]);
    same(&evaluate(&x, &[8], |x| x.topk(5, true).indices), &[1.0, 6.0, 0.0, 3.0, 5.0]);
    let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    same(&evaluate(&x[..3], &[3], |x| x.roll(1, 0)), &[3.0, 1.0, 2.0]);
    same(&evaluate(&x[..2], &[2], |x| x.tile(&[2])), &[1.0, 2.0, 1.0, 2.0]);
    same(&evaluate(&x[..2], &[2], |x| x.repeat_interleave(2, 0)), &[1.0, 1.0, 2.0, 2.0]);
    same(&evaluate(&x, &[2, 3], |x| x.tril(0)), &[1.0, 0.0, 0.0, 4.0, 5.0, 0.0]);
    same(&evaluate(&x, &[2, 3], |x| x.triu(1)), &[0.0, 2.0, 3.0, 0.0, 0.0, 6.0]);
    same(&evaluate(&x[..2], &[2], |x| x.stack(&[x * 10.0], 1)), &[1.0, 10.0, 2.0, 20.0]);
    same(&evaluate(&x, &[6], |x| x.cumsum(0)), &[1.0, 3.0, 6.0, 10.0, 15.0, 21.0]);
    // The padding row keeps its value and gets no gradient.
    let slope = evaluate(&x, &[3, 2], |x| {
        let rows = x.embedding(x.builder().iota([3], 0), Some(1));
        x.builder().gradients(rows.sum_all(), &[x])[0]
    });
    same(&slope, &[1.0, 1.0, 0.0, 0.0, 1.0, 1.0]);
}
