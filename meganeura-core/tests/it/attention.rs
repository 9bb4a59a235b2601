//! Attention and rotary positions, against formulas written out here.

use meganeura_core::compose::{AttentionOptions, Positions, Rope, RopePairs, RopeScaling, attention_reference};
use meganeura_core::dtype::DType;
use meganeura_core::ir::{Builder, Value};
use meganeura_core::ops::Fill;
use meganeura_core::options::Options;
use meganeura_core::oracle::{Array, run};
use meganeura_core::pipeline::{Report, compile};
use meganeura_core::schedule::Caps;
use meganeura_core::shape::TensorType;
use meganeura_core::testing::{Draws, gradcheck};
use std::collections::HashMap;

fn floats(shapes: &[[usize; 4]], seed: u64) -> Vec<Array> {
    let mut draws = Draws::new(seed);
    let fill = |shape: &[usize; 4]| draws.fill(&TensorType::new(DType::F32, *shape), Fill::Uniform(-2.0, 2.0));
    shapes.iter().map(fill).collect()
}

fn value_of(operands: &[Array], function: &dyn for<'g> Fn(&'g Builder, &[Value<'g>]) -> Value<'g>) -> Array {
    let builder = Builder::new();
    let input = |(at, array): (usize, &Array)| builder.input(format!("x{at}"), array.ty.clone());
    let values: Vec<Value<'_>> = operands.iter().enumerate().map(input).collect();
    builder.output("y", function(&builder, &values));
    let graph = builder.finish().unwrap();
    let inputs = operands.iter().enumerate().map(|(at, array)| (format!("x{at}"), array.clone())).collect();
    run(&graph, &inputs, &HashMap::new()).unwrap().outputs["y"].clone()
}

/// The formula, row by row; `seen` and `bias` by batch, head, query and key.
fn attention_by_hand(
    [q, k, v]: [&Array; 3],
    seen: &dyn Fn([usize; 4]) -> bool,
    bias: &dyn Fn([usize; 4]) -> f64,
) -> Array {
    let ([heads, kv_heads], keys, width) = ([q.ty.shape[1], k.ty.shape[1]], k.ty.shape[2], q.ty.shape[3]);
    let ty = TensorType::new(DType::F32, [q.ty.shape[0], heads, q.ty.shape[2], v.ty.shape[3]]);
    Array::from_fn(&ty, |at| {
        let (b, h, i, e) = (at[0], at[1], at[2], at[3]);
        let kv = h / (heads / kv_heads);
        let (mut sum, mut weighted) = (0.0, 0.0);
        for j in (0..keys).filter(|&j| seen([b, h, i, j])) {
            let product: f64 = (0..width).map(|d| q.at(&[b, h, i, d]) * k.at(&[b, kv, j, d])).sum();
            let weight = (product * f64::from((1.0 / (width as f64).sqrt()) as f32) + bias([b, h, i, j])).exp();
            sum += weight;
            weighted += weight * v.at(&[b, kv, j, e]);
        }
        if sum == 0.0 { 0.0 } else { weighted / sum }
    })
}

fn close(found: &Array, expected: &Array) {
    assert_eq!(found.ty, expected.ty);
    let distance = found.distance(expected);
    assert!(distance < 1e-12, "off by {distance}");
}

#[test]
fn the_reference_is_the_formula() {
    let [q, k, v] = [[2, 4, 5, 3], [2, 2, 7, 3], [2, 2, 7, 6]];
    let xs = floats(&[q, k, v, [1, 4, 5, 7]], 3);
    let of = |x: &[Array]| attention_by_hand([&x[0], &x[1], &x[2]], &|_| true, &|_| 0.0);
    close(&value_of(&xs, &|_, x| attention_reference(x[0], x[1], x[2], AttentionOptions::default())), &of(&xs));
    let options = AttentionOptions { causal: true, window: Some(3), ..Default::default() };
    let seen = |[_, _, i, j]: [usize; 4]| j <= i + 2 && j + 3 > i + 2;
    let expected = attention_by_hand([&xs[0], &xs[1], &xs[2]], &seen, &|at| xs[3].at(&[0, at[1], at[2], at[3]]));
    close(
        &value_of(&xs, &|_, x| attention_reference(x[0], x[1], x[2], AttentionOptions { bias: Some(x[3]), ..options })),
        &expected,
    );
}

#[test]
fn lengths_and_masks_hide_keys() {
    let mut xs = floats(&[[2, 2, 3, 4], [2, 1, 5, 4], [2, 1, 5, 4]], 5);
    xs.push(Array::new(TensorType::new(DType::U32, [2]), vec![2.0, 9.0]));
    xs.push(Draws::new(9).fill(&TensorType::new(DType::Bool, [3, 5]), Fill::Bool));
    let seen = |[b, _, i, j]: [usize; 4]| (b == 1 || j < 2) && xs[4].at(&[i, j]) != 0.0;
    let expected = attention_by_hand([&xs[0], &xs[1], &xs[2]], &seen, &|_| 0.0);
    let found = value_of(&xs, &|_, x| {
        let options = AttentionOptions { kv_len: Some(x[3]), mask: Some(x[4]), ..Default::default() };
        attention_reference(x[0], x[1], x[2], options)
    });
    close(&found, &expected);
}

#[test]
fn the_references_derivatives_match_differences() {
    let xs = floats(&[[2, 4, 3, 5], [2, 2, 5, 5], [2, 2, 5, 2], [1, 4, 1, 5]], 7);
    for options in [
        AttentionOptions::default(),
        // The first queries see no key: there are more queries than keys.
        AttentionOptions { causal: true, scale: Some(0.3), ..Default::default() },
    ] {
        gradcheck(&xs, &|_, x| attention_reference(x[0], x[1], x[2], AttentionOptions { bias: Some(x[3]), ..options }))
            .unwrap();
    }
    let more_queries = floats(&[[1, 1, 7, 3], [1, 1, 4, 3], [1, 1, 4, 3]], 8);
    let causal = AttentionOptions { causal: true, ..Default::default() };
    let found = value_of(&more_queries, &|_, x| attention_reference(x[0], x[1], x[2], causal));
    assert!(found.data[..9].iter().all(|&x| x == 0.0) && found.data[9..].iter().all(|&x| x != 0.0), "{found:?}");
    gradcheck(&more_queries, &|_, x| attention_reference(x[0], x[1], x[2], causal)).unwrap();
}

#[test]
fn wrong_operands_of_attention_are_refused() {
    let builder = Builder::new();
    let x = builder.input("x", TensorType::new(DType::F32, [2, 3, 4]));
    builder.output("y", attention_reference(x, x, x, AttentionOptions::default()));
    let errors = builder.finish().unwrap_err().to_string();
    assert!(errors.contains("four dimensions"), "{errors}");
}

/// `x` turned, by the definition.
fn rope_by_hand(x: &Array, turned: usize, half_split: bool, angle: &dyn Fn(usize, usize, usize) -> f64) -> Array {
    Array::from_fn(&x.ty, |at| {
        let (d, half) = (at[3], turned / 2);
        if d >= turned {
            return x.at(at);
        }
        let (pair, second) = if half_split { (d % half, d >= half) } else { (d / 2, d % 2 == 1) };
        let element = |which: usize| {
            let d = if half_split { pair + which * half } else { 2 * pair + which };
            x.at(&[at[0], at[1], at[2], d])
        };
        let angle = angle(at[0], at[2], pair);
        if second {
            element(1) * angle.cos() + element(0) * angle.sin()
        } else {
            element(0) * angle.cos() - element(1) * angle.sin()
        }
    })
}

/// Settings that may refer to operands.
type Make<'a> = &'a dyn for<'g> Fn(&[Value<'g>]) -> Rope<'g>;

#[test]
fn rope_is_the_formula() {
    let mut xs = floats(&[[2, 3, 5, 8]], 11);
    xs.push(Array::new(TensorType::new(DType::U32, []), vec![7.0]));
    xs.push(Array::new(TensorType::new(DType::U32, [2, 5]), vec![3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0]));
    let frequency = |pair: usize, width: f64, base: f64| base.powf(-2.0 * pair as f64 / width);
    // The step between exponents is an f32 constant.
    let check = |half_split: bool, turned: usize, make: Make<'_>, angle: &dyn Fn(usize, usize, usize) -> f64| {
        let found = value_of(&xs, &|_, x| x[0].rope(&make(x)));
        let distance = found.distance(&rope_by_hand(&xs[0], turned, half_split, angle));
        assert!(distance < 1e-5, "off by {distance}");
    };
    check(true, 8, &|_| Rope::default(), &|_, row, pair| row as f64 * frequency(pair, 8.0, 1e4));
    let interleaved = Rope { pairs: RopePairs::Interleaved, ..Rope::default() };
    check(
        false,
        8,
        &|x| Rope { positions: Positions::After(x[1]), pairs: RopePairs::Interleaved, ..Rope::default() },
        &|_, row, pair| (row + 7) as f64 * frequency(pair, 8.0, 1e4),
    );
    check(
        true,
        6,
        &|x| Rope { positions: Positions::Ids(x[2]), width: Some(6), base: 500.0, ..Rope::default() },
        &|batch, row, pair| xs[2].at(&[batch, row]) * frequency(pair, 6.0, 500.0),
    );
    let linear = RopeScaling::Linear(4.0);
    check(
        true,
        8,
        &|_| Rope { positions: Positions::From(100), scaling: linear, ..Rope::default() },
        &|_, row, pair| (row + 100) as f64 / 4.0 * frequency(pair, 8.0, 1e4),
    );
    check(true, 8, &|_| Rope { scaling: RopeScaling::Ntk(4.0), ..Rope::default() }, &|_, row, pair| {
        row as f64 * frequency(pair, 8.0, 1e4 * 4f64.powf(8.0 / 6.0))
    });
    gradcheck(&xs[..1], &|_, x| x[0].rope(&interleaved)).unwrap();
    gradcheck(&xs[..1], &|_, x| x[0].rope(&Rope { width: Some(4), ..Rope::default() })).unwrap();
}

#[test]
fn products_of_turned_vectors_depend_on_the_distance_only() {
    let one = floats(&[[1, 1, 1, 16], [1, 1, 1, 16]], 13);
    let product = |at: [usize; 2]| {
        let found = value_of(&one, &|_, x| {
            let turned = |side: usize| x[side].rope(&Rope { positions: Positions::From(at[side]), ..Rope::default() });
            (turned(0) * turned(1)).sum_all()
        });
        found.data[0]
    };
    assert!((product([3, 10]) - product([203, 210])).abs() < 1e-9);
    assert!((product([3, 10]) - product([3, 11])).abs() > 1e-3);
}

/// A program that computes gradients of causal attention with grouped heads, compiled for a device.
fn compiled(length: usize, caps: &Caps) -> Report {
    let builder = Builder::new();
    let input = |name: &str, heads| builder.input(name, TensorType::new(DType::F32, [1, heads, length, 64]));
    let (q, k, v, r) = (input("q", 9), input("k", 3), input("v", 3), input("r", 9));
    let y = q.attention(k, v, AttentionOptions { causal: true, ..Default::default() });
    let gradients = builder.gradients((y * r).sum_all(), &[q, k, v]);
    ["dq", "dk", "dv"].iter().zip(gradients).for_each(|(name, gradient)| builder.output(*name, gradient));
    let options = Options { verify: true, ..Options::default() };
    compile(&builder.finish().unwrap(), &options, caps, None).unwrap().report
}

#[test]
fn attention_takes_memory_linear_in_the_length_and_four_dispatches() {
    for caps in [Caps::cpu(2), Caps::base(), Caps::h200()] {
        let reports = [512, 2048, 8192].map(|length| compiled(length, &caps));
        let [short, middle, long] = reports.each_ref().map(|report| report.planned_bytes);
        // Padding to alignment aside, four times the length takes four times the bytes; all weights would take 2.4 GB.
        assert!(middle <= 4 * short && long <= 4 * middle, "{short}, {middle}, {long} bytes");
        for report in reports {
            // Output with log-sum-exp; δ; the query's gradient; those of key and value.
            assert_eq!(report.dispatches, 4, "{report:?}");
        }
    }
}

#[test]
fn the_streamed_form_is_the_reference_and_so_are_its_derivatives() {
    let xs = floats(&[[2, 4, 3, 5], [2, 2, 5, 5], [2, 2, 5, 2], [1, 4, 1, 5]], 17);
    for options in
        [AttentionOptions::default(), AttentionOptions { causal: true, window: Some(2), ..Default::default() }]
    {
        fn with<'g>(options: AttentionOptions<'static>, bias: Value<'g>) -> AttentionOptions<'g> {
            AttentionOptions { bias: Some(bias), ..options }
        }
        let streamed = value_of(&xs, &|_, x| x[0].attention(x[1], x[2], with(options, x[3])));
        close(&streamed, &value_of(&xs, &|_, x| attention_reference(x[0], x[1], x[2], with(options, x[3]))));
        gradcheck(&xs, &|_, x| x[0].attention(x[1], x[2], with(options, x[3]))).unwrap();
    }
    // One value in all places, differentiated twice.
    gradcheck(&floats(&[[1, 1, 3, 2]], 19), &|g, x| {
        let y = x[0].attention(x[0], x[0], AttentionOptions { causal: true, ..Default::default() });
        g.gradients((y * y * y).sum_all(), x)[0]
    })
    .unwrap();
}

#[test]
fn bias_mask_and_length_together_are_two_operands() {
    let mut xs = floats(&[[2, 2, 3, 4], [2, 1, 5, 4], [2, 1, 5, 4], [1, 2, 3, 5]], 23);
    xs.push(Draws::new(9).fill(&TensorType::new(DType::Bool, [3, 5]), Fill::Bool));
    xs.push(Array::new(TensorType::new(DType::U32, [2]), vec![2.0, 9.0]));
    let seen = |[b, _, i, j]: [usize; 4]| (b == 1 || j < 2) && xs[4].at(&[i, j]) != 0.0;
    let bias = |[_, h, i, j]: [usize; 4]| xs[3].at(&[0, h, i, j]);
    let found = value_of(&xs, &|_, x| {
        let options = AttentionOptions { bias: Some(x[3]), mask: Some(x[4]), kv_len: Some(x[5]), ..Default::default() };
        x[0].attention(x[1], x[2], options)
    });
    close(&found, &attention_by_hand([&xs[0], &xs[1], &xs[2]], &seen, &bias));
}
