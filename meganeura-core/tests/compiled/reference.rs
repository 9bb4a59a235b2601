//! Functions against PyTorch's numbers, forward and backward: `reference/functions.py`.

use super::{optimised, run_on_cpu};
use meganeura_core::compose::{AttentionOptions, Border, ConvOptions, CrossEntropy, PoolOptions, Resize};
use meganeura_core::dtype::DType;
use meganeura_core::ir::{Builder, Value};
use meganeura_core::oracle::{Array, run};
use meganeura_core::pipeline::compile;
use meganeura_core::schedule::Caps;
use meganeura_core::shape::TensorType;
use meganeura_core::testing::{Case, Function};
use serde_json::Value as Json;
use std::collections::HashMap;

/// What the interpreter may differ by from f64 on f64: constants are `f32`, and the file has 8 digits.
const ORACLE: f64 = 1e-6;
/// What the CPU device may differ by: some units in the last place of `f32`, of sums of up to some hundred terms around 1.
const CPU: f64 = 5e-6;

/// Each case of the file, and what is to give the same.
fn functions() -> Vec<(&'static str, Function)> {
    [activations(), rows(), orders(), norms(), losses(), pools(), borders(), convolutions(), attentions(), structure()]
        .concat()
}

fn activations() -> Vec<(&'static str, Function)> {
    vec![
        ("relu", |x| x[0].relu()),
        ("relu6", |x| x[0].relu6()),
        ("leaky_relu", |x| x[0].leaky_relu(0.1)),
        ("prelu", |x| x[0].prelu(x[1])),
        ("elu", |x| x[0].elu(1.3)),
        ("selu", |x| x[0].selu()),
        ("celu", |x| x[0].celu(0.7)),
        ("gelu", |x| x[0].gelu()),
        ("gelu_tanh", |x| x[0].gelu_tanh()),
        ("silu", |x| x[0].silu()),
        ("swiglu", |x| x[0].swiglu(x[1])),
        ("geglu", |x| x[0].geglu(x[1])),
        ("sigmoid", |x| x[0].sigmoid()),
        ("log_sigmoid", |x| x[0].log_sigmoid()),
        ("softplus", |x| x[0].softplus()),
        ("mish", |x| x[0].mish()),
        ("tanh", |x| x[0].tanh()),
        ("hardtanh", |x| x[0].hardtanh(-1.0, 1.5)),
        ("hardsigmoid", |x| x[0].hardsigmoid()),
        ("hardswish", |x| x[0].hardswish()),
        ("softsign", |x| x[0].softsign()),
        ("erf", |x| x[0].erf()),
        ("clamp", |x| x[0].clamp(-1.0, 1.5)),
        ("abs", |x| x[0].abs()),
        ("sign", |x| x[0].sign()),
        ("square", |x| x[0].powf(2.0)),
        ("cube", |x| x[0].powf(3.0)),
        ("maximum with ties", |x| x[0].maximum(x[1])),
        ("minimum with ties", |x| x[0].minimum(x[1])),
        ("expm1", |x| x[0].expm1()),
        ("log1p", |x| x[0].log1p()),
        ("pow", |x| x[0].pow(x[1])),
    ]
}

fn rows() -> Vec<(&'static str, Function)> {
    vec![
        ("softmax", |x| x[0].softmax(1)),
        ("log_softmax", |x| x[0].log_softmax(2)),
        ("logsumexp", |x| x[0].logsumexp(2)),
        ("sum", |x| x[0].sum([0, 2])),
        ("mean", |x| x[0].mean([1])),
        ("var", |x| x[0].var([0, 2], 1.0)),
        ("std", |x| x[0].std([1], 0.0)),
        ("norm 1.0", |x| x[0].norm(1.0, [2])),
        ("norm 2.0", |x| x[0].norm(2.0, [2])),
        ("norm 3.0", |x| x[0].norm(3.0, [2])),
        ("norm inf", |x| x[0].norm(f64::INFINITY, [2])),
        ("cosine_similarity", |x| x[0].cosine_similarity(x[1], 1, 1e-8)),
        ("cumsum", |x| x[0].cumsum(1)),
        ("cumprod", |x| x[0].cumprod(2)),
    ]
}

fn orders() -> Vec<(&'static str, Function)> {
    vec![
        ("max with ties", |x| x[0].max([1])),
        ("argmax with ties", |x| x[0].argmax(1)),
        ("argmin with ties", |x| x[0].argmin(1)),
        ("sort ascending with ties, values", |x| x[0].sort(false).values),
        ("sort ascending with ties, indices", |x| x[0].sort(false).indices),
        ("sort descending with ties, values", |x| x[0].sort(true).values),
        ("sort descending with ties, indices", |x| x[0].sort(true).indices),
        ("topk with ties, values", |x| x[0].topk(4, true).values),
        ("topk of the least, indices", |x| x[0].topk(4, false).indices),
    ]
}

fn norms() -> Vec<(&'static str, Function)> {
    vec![
        ("layer_norm", |x| x[0].layer_norm(1, 1e-5) * x[1] + x[2]),
        ("layer_norm of 2 dimensions", |x| x[0].layer_norm(2, 1e-5)),
        ("rms_norm", |x| x[0].rms_norm(1, 1e-6) * x[1]),
        ("group_norm", |x| affine(x[0].group_norm(3, 1e-5), x[1], x[2])),
        ("instance_norm", |x| x[0].instance_norm(1e-5)),
        ("batch_norm", |x| affine(x[0].batch_norm(1e-5).value, x[1], x[2])),
        ("statistics of batch_norm", |x| {
            let norm = x[0].batch_norm(1e-5);
            norm.mean.stack(&[norm.variance], 0)
        }),
        ("batch_norm_with", |x| x[0].batch_norm_with(x[1], x[2], 1e-5)),
    ]
}

#[track_caller]
fn affine<'g>(y: Value<'g>, weight: Value<'g>, bias: Value<'g>) -> Value<'g> {
    y * weight.along(1, y) + bias.along(1, y)
}

fn losses() -> Vec<(&'static str, Function)> {
    vec![
        ("cross_entropy", |x| x[0].cross_entropy(x[1])),
        ("cross_entropy, mean", |x| cross_entropy(x, None, 0.0).mean()),
        ("cross_entropy, ignored", |x| cross_entropy(x, Some(2), 0.0).mean()),
        ("cross_entropy, ignored, each row", |x| cross_entropy(x, Some(2), 0.0).losses),
        ("cross_entropy, weighted", |x| cross_entropy(x, None, 0.0).mean()),
        ("cross_entropy, smoothed", |x| cross_entropy(x, None, 0.1).mean()),
        ("cross_entropy, smoothed, each row", |x| cross_entropy(x, None, 0.1).losses),
        ("cross_entropy, smoothed, weighted", |x| cross_entropy(x, None, 0.1).mean()),
        ("cross_entropy, everything", |x| cross_entropy(x, Some(2), 0.1).mean()),
        ("cross_entropy_of", |x| x[0].cross_entropy_of(x[1], CrossEntropy::default())),
        ("cross_entropy_of, smoothed", |x| {
            x[0].cross_entropy_of(x[1], CrossEntropy { smoothing: 0.1, ..CrossEntropy::default() })
        }),
        ("cross_entropy_of, everything", |x| {
            x[0].cross_entropy_of(x[1], CrossEntropy { smoothing: 0.1, weights: Some(x[2]), ignored: None })
        }),
        ("kl_divergence", |x| x[0].log_softmax(1).kl_divergence(x[1])),
        ("bce_with_logits", |x| x[0].bce_with_logits(x[1])),
        ("mean_squared_error", |x| x[0].mean_squared_error(x[1])),
        ("l1_loss", |x| x[0].l1_loss(x[1])),
        ("huber_loss", |x| x[0].huber_loss(x[1], 0.75)),
        ("smooth_l1_loss", |x| x[0].smooth_l1_loss(x[1], 0.75)),
    ]
}

/// Of logits, labels, and weights if there are any.
#[track_caller]
fn cross_entropy<'g>(x: &[Value<'g>], ignored: Option<u32>, smoothing: f64) -> meganeura_core::compose::RowLosses<'g> {
    x[0].cross_entropy_with(x[1], CrossEntropy { ignored, smoothing, weights: x.get(2).copied() })
}

fn pools() -> Vec<(&'static str, Function)> {
    fn of(size: usize, stride: usize, padding: usize) -> PoolOptions {
        PoolOptions::new([size]).stride(stride).padding(padding)
    }
    vec![
        ("max_pool", |x| x[0].max_pool(&of(3, 2, 1))),
        ("max_pool, dilated and partial", |x| {
            x[0].max_pool(&PoolOptions { dilation: vec![2], partial: true, ..of(2, 3, 1) })
        }),
        ("max_pool of a sequence", |x| x[0].max_pool(&of(3, 3, 0))),
        ("avg_pool", |x| x[0].avg_pool(&of(3, 2, 1))),
        ("avg_pool, without the border", |x| x[0].avg_pool(&PoolOptions { count_padding: false, ..of(3, 2, 1) })),
        ("avg_pool, partial", |x| x[0].avg_pool(&PoolOptions { partial: true, ..of(2, 2, 0) })),
        ("avg_pool, partial, with a border", |x| x[0].avg_pool(&PoolOptions { partial: true, ..of(3, 2, 1) })),
        ("adaptive_avg_pool", |x| x[0].adaptive_avg_pool([3, 2])),
        ("adaptive_max_pool", |x| x[0].adaptive_max_pool([3, 2])),
    ]
}

fn borders() -> Vec<(&'static str, Function)> {
    const CORNERS: Resize = Resize::Linear { align_corners: true };
    const CELLS: Resize = Resize::Linear { align_corners: false };
    vec![
        ("border reflect", |x| x[0].pad_border([0, 0, 1, 2], [0, 0, 3, 1], Border::Reflect)),
        ("border replicate", |x| x[0].pad_border([0, 0, 1, 2], [0, 0, 3, 1], Border::Replicate)),
        ("border circular", |x| x[0].pad_border([0, 0, 1, 2], [0, 0, 3, 1], Border::Circular)),
        ("nearest up", |x| x[0].resize([10, 14], Resize::Nearest)),
        ("nearest between", |x| x[0].resize([7, 5], Resize::Nearest)),
        ("nearest down", |x| x[0].resize([2, 3], Resize::Nearest)),
        ("bilinear up, corners false", |x| x[0].resize([10, 14], CELLS)),
        ("bilinear up, corners true", |x| x[0].resize([10, 14], CORNERS)),
        ("bilinear between, corners false", |x| x[0].resize([7, 5], CELLS)),
        ("bilinear between, corners true", |x| x[0].resize([7, 5], CORNERS)),
        ("bilinear down, corners false", |x| x[0].resize([2, 3], CELLS)),
        ("bilinear down, corners true", |x| x[0].resize([2, 3], CORNERS)),
        ("linear of a sequence", |x| x[0].resize([9], CELLS)),
    ]
}

fn convolutions() -> Vec<(&'static str, Function)> {
    fn with(stride: usize, padding: usize, dilation: usize, groups: usize) -> ConvOptions {
        ConvOptions::default().stride(stride).padding(padding).dilation(dilation).groups(groups)
    }
    vec![
        ("conv1d", |x| x[0].conv(x[1], &with(2, 1, 1, 1))),
        ("conv1d, dilated, in groups", |x| x[0].conv(x[1], &with(1, 0, 3, 2))),
        ("conv2d", |x| x[0].conv(x[1], &with(1, 1, 1, 1))),
        ("conv2d, strided", |x| {
            let padding = vec![[1, 1], [0, 0]];
            x[0].conv(x[1], &ConvOptions { stride: vec![2, 1], padding, ..ConvOptions::default() })
        }),
        ("conv2d, dilated", |x| x[0].conv(x[1], &with(1, 1, 2, 1))),
        ("conv2d, depthwise", |x| x[0].conv(x[1], &with(2, 1, 1, 4))),
        ("conv3d", |x| x[0].conv(x[1], &with(1, 1, 1, 1))),
        ("conv_transpose1d", |x| x[0].conv_transpose(x[1], &with(2, 1, 1, 1), &[1])),
        ("conv_transpose2d", |x| x[0].conv_transpose(x[1], &with(2, 0, 1, 1), &[0])),
        ("conv_transpose2d, dilated, in groups", |x| x[0].conv_transpose(x[1], &with(2, 1, 2, 2), &[0])),
    ]
}

fn attentions() -> Vec<(&'static str, Function)> {
    vec![
        ("attention", |x| attention(x, AttentionOptions::default())),
        ("attention, causal", |x| attention(x, AttentionOptions { causal: true, ..AttentionOptions::default() })),
        ("attention, grouped", |x| attention(x, AttentionOptions::default())),
        ("attention, grouped, causal, more keys", |x| {
            attention(x, AttentionOptions { causal: true, ..AttentionOptions::default() })
        }),
        ("attention, window", |x| attention(x, AttentionOptions { window: Some(2), ..AttentionOptions::default() })),
        ("attention, causal window, more keys", |x| {
            attention(x, AttentionOptions { causal: true, window: Some(3), ..AttentionOptions::default() })
        }),
        ("attention, causal, fewer keys", |x| {
            attention(x, AttentionOptions { causal: true, ..AttentionOptions::default() })
        }),
        ("attention, bias", |x| attention(x, AttentionOptions { bias: Some(x[3]), ..AttentionOptions::default() })),
        ("attention, mask", |x| {
            let mask = x[3].ne(x[3].like(0.0));
            attention(x, AttentionOptions { mask: Some(mask), ..AttentionOptions::default() })
        }),
        ("attention, lengths", |x| {
            attention(x, AttentionOptions { kv_len: Some(x[3]), ..AttentionOptions::default() })
        }),
    ]
}

#[track_caller]
fn attention<'g>(x: &[Value<'g>], options: AttentionOptions<'g>) -> Value<'g> {
    x[0].attention(x[1], x[2], options)
}

fn structure() -> Vec<(&'static str, Function)> {
    vec![
        ("embedding", |x| x[0].gather(x[1], 0)),
        ("embedding with a padding row", |x| x[0].embedding(x[1], Some(1))),
        ("scatter_add", |x| x[0].scatter_add(x[1], 0, 5)),
        ("roll", |x| x[0].roll(2, 1)),
        ("repeat_interleave", |x| x[0].repeat_interleave(2, 1)),
        ("tril", |x| x[0].tril(-1)),
        ("triu", |x| x[0].triu(1)),
    ]
}

fn array(json: &Json) -> Array {
    let numbers = |key: &str| json[key].as_array().unwrap().iter();
    let shape: Vec<usize> = numbers("shape").map(|extent| extent.as_u64().unwrap() as usize).collect();
    let dtype = if json["dtype"] == "u32" { DType::U32 } else { DType::F32 };
    Array::new(TensorType::new(dtype, shape), numbers("data").map(|number| number.as_f64().unwrap()).collect())
}

/// The program of a case, output `y` and a gradient `g0`, `g1`, … for each operand that has one, and what they are to be.
fn program(name: &str, json: &Json, function: Function) -> (Case, HashMap<String, Array>) {
    let operands: Vec<Array> = json["operands"].as_array().unwrap().iter().map(array).collect();
    let mut inputs: HashMap<String, Array> =
        operands.iter().enumerate().map(|(at, array)| (format!("x{at}"), array.clone())).collect();
    let mut expected = HashMap::from([("y".to_owned(), array(&json["y"]))]);
    let builder = Builder::new();
    let values: Vec<Value<'_>> =
        operands.iter().enumerate().map(|(at, array)| builder.input(format!("x{at}"), array.ty.clone())).collect();
    let y = function(&values);
    builder.output("y", y);
    if let Some(gradients) = json["gradients"].as_object() {
        let r = array(&json["r"]);
        let loss = (y * builder.input("r", r.ty.clone())).sum_all();
        inputs.insert("r".to_owned(), r);
        let wanted: Vec<usize> = gradients.keys().map(|at| at.parse().unwrap()).collect();
        let found = builder.gradients(loss, &wanted.iter().map(|&at| values[at]).collect::<Vec<_>>());
        for (at, gradient) in wanted.into_iter().zip(found) {
            builder.output(format!("g{at}"), gradient);
            expected.insert(format!("g{at}"), array(&gradients[&at.to_string()]));
        }
    }
    let graph = builder.finish().unwrap_or_else(|errors| panic!("{name}: {errors}"));
    (Case { name: name.to_owned(), graph, inputs, states: HashMap::new() }, expected)
}

/// The largest difference of two elements, relative where they are large.
fn difference(found: &[f64], expected: &Array) -> f64 {
    assert_eq!(found.len(), expected.data.len());
    let differences = found.iter().zip(&expected.data).map(|(a, b)| (a - b).abs() / b.abs().max(1.0));
    differences.fold(0.0, |worst, next| if next <= worst { worst } else { next })
}

#[test]
fn functions_and_gradients_are_those_of_pytorch() {
    let file: Json = serde_json::from_str(include_str!("../reference/functions.json")).unwrap();
    let functions = functions();
    assert_eq!(file["cases"].as_object().unwrap().len(), functions.len());
    let mut wrong = Vec::new();
    for (name, function) in functions {
        let (case, expected) = program(name, &file["cases"][name], function);
        let oracle = run(&case.graph, &case.inputs, &case.states).unwrap().outputs;
        let plan = compile(&case.graph, &optimised(), &Caps::cpu(2), None).unwrap().plan;
        let cpu = run_on_cpu(&plan, &case);
        for (output, expected) in &expected {
            assert_eq!(oracle[output].ty.shape, expected.ty.shape, "{name} {output}");
            let errors = [difference(&oracle[output].data, expected), difference(&cpu[output], expected)];
            if errors[0] > ORACLE || errors[1] > CPU || errors.iter().any(|error| error.is_nan()) {
                wrong.push(format!("{name} {output}: {:e} and {:e}", errors[0], errors[1]));
            }
        }
    }
    assert!(wrong.is_empty(), "off by, in the interpreter and on the CPU device:\n{}", wrong.join("\n"));
}
