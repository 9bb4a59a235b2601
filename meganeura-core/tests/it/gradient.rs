//! Derivatives against differences, in f64.

use meganeura_core::dtype::DType;
use meganeura_core::ir::{Builder, Value, verify};
use meganeura_core::ops::{Dot, Fill, Op};
use meganeura_core::oracle::{Array, run};
use meganeura_core::scalar::{Monoid, Scalar};
use meganeura_core::shape::{Shape, TensorType};
use meganeura_core::testing::{Draws, GradientError, Variant, compositions, counts, gradcheck, is_differentiable};
use std::collections::HashMap;

#[test]
fn derivatives_of_every_op_match_differences() {
    let (mut checked, mut failures) = (0, Vec::new());
    for (entry, samples) in Op::registry() {
        for (at, sample) in samples.iter().enumerate().filter(|(_, sample)| is_differentiable(sample)) {
            for variant in Variant::ALL.into_iter().filter(|variant| variant.applies_to(sample)) {
                let values = variant.values(sample, at as u64);
                checked += 1;
                if let Err(error) = gradcheck(&values, &|builder, declared| variant.build(builder, sample, declared)) {
                    failures.push(format!("{entry} {at} {variant:?} {:?}: {error}", sample.op));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {checked} fail:\n{}", failures.len(), failures.join("\n"));
    assert!(counts().contains(&("derivatives of cases against differences", checked)), "{checked}");
}

/// A function of operands, as [`gradcheck`] takes it.
type Function<'a> = dyn for<'g> Fn(&'g Builder, &[Value<'g>]) -> Value<'g> + 'a;

fn floats(shapes: &[&[usize]], fill: Fill) -> Vec<Array> {
    let mut draws = Draws::new(11);
    shapes.iter().map(|&shape| draws.fill(&TensorType::new(DType::F32, shape), fill)).collect()
}

#[track_caller]
fn check(operands: &[Array], function: &Function<'_>) {
    gradcheck(operands, function).unwrap_or_else(|error| panic!("{error}"));
}

const UNIFORM: Fill = Fill::Uniform(-2.0, 2.0);

#[test]
fn a_missing_derivative_is_found() {
    let x = floats(&[&[7]], UNIFORM);
    let stopped = gradcheck(&x, &|_, x| x[0].stop_gradient());
    assert!(matches!(stopped, Err(GradientError::Differs { .. })), "{stopped:?}");
    let half_stopped = gradcheck(&x, &|_, x| x[0] * x[0].stop_gradient());
    assert!(matches!(half_stopped, Err(GradientError::Differs { .. })), "{half_stopped:?}");
    // A constant factor that is wrong by one part in 10⁵ is found too.
    let off = gradcheck(&x, &|_, x| x[0].tanh() + x[0].stop_gradient() * 1e-5);
    assert!(matches!(off, Err(GradientError::Differs { .. })), "{off:?}");
}

#[test]
fn derivatives_of_every_composition_match_differences() {
    let entries: Vec<_> = compositions().into_iter().filter(|entry| entry.smooth).collect();
    let check = |entry: &meganeura_core::testing::Composition| {
        let outcome = gradcheck(&entry.values(), &|_, x| (entry.function)(x));
        outcome.err().map(|error| format!("{}: {error}", entry.name))
    };
    let failures: Vec<String> = entries.iter().filter_map(check).collect();
    assert!(failures.is_empty(), "{} of {} fail:\n{}", failures.len(), entries.len(), failures.join("\n"));
}

/// Slopes at kinks and limits are PyTorch's.
#[test]
fn slopes_at_kinks() {
    let at = |x: &[f64], function: &Function<'_>| {
        gradient_at(&Array::new(TensorType::new(DType::F32, [x.len()]), x.to_vec()), &|g, x| function(g, x).sum_all())
    };
    assert_eq!(at(&[0.0, 6.0], &|_, x| x[0].relu6()), [0.0, 0.0]);
    assert_eq!(at(&[-0.5, 2.0, 3.0], &|_, x| x[0].clamp(-0.5, 2.0)), [1.0, 1.0, 0.0]);
    assert_eq!(at(&[0.0], &|_, x| x[0].leaky_relu(0.25)), [0.25]);
    assert_eq!(at(&[0.0, 1e4], &|_, x| x[0].elu(2.0)), [2.0, 1.0]);
    assert_eq!(at(&[0.0, 1e4], &|_, x| x[0].celu(0.5)), [1.0, 1.0]);
    assert_eq!(at(&[0.0, 1e4, -1e4], &|_, x| x[0].softplus()), [0.5, 1.0, 0.0]);
    assert_eq!(at(&[-3.0, 3.0], &|_, x| x[0].hardsigmoid()), [0.0, 0.0]);
    let swish = at(&[-3.0, 3.0], &|_, x| x[0].hardswish());
    assert!((swish[0] + 0.5).abs() < 1e-7 && (swish[1] - 1.5).abs() < 1e-7, "{swish:?}");
    assert_eq!(at(&[0.0], &|_, x| x[0].softsign()), [1.0]);
    assert_eq!(at(&[0.0], &|_, x| x[0].powf(2.0)), [0.0]);
    assert_eq!(at(&[0.0], &|_, x| x[0].pow(x[0].like(2.0))), [0.0]);
    assert_eq!(at(&[2.0], &|_, x| x[0].pow(x[0].like(0.0))), [0.0]);
    // ∂aᵇ/∂b at a = 0: 0 from b = 0 on, −∞ below.
    assert_eq!(at(&[0.0, 2.0, -1.0], &|_, x| x[0].like(0.0).pow(x[0])), [0.0, 0.0, f64::NEG_INFINITY]);
}

#[test]
fn softmax_family_along_every_axis() {
    let x = floats(&[&[3, 5, 7]], UNIFORM);
    for axis in 0..3 {
        check(&x, &|_, x| x[0].softmax(axis));
        check(&x, &|_, x| x[0].log_softmax(axis));
        check(&x, &|_, x| x[0].logsumexp(axis));
    }
}

#[test]
fn statistics() {
    let x = floats(&[&[3, 5, 7]], UNIFORM);
    for axes in [vec![], vec![0], vec![1, 2], vec![0, 2], vec![0, 1, 2]] {
        check(&x, &|_, x| x[0].mean(axes.clone()));
        check(&x, &|_, x| x[0].variance(axes.clone()));
    }
    check(&x, &|_, x| x[0].mean_all() + x[0].sum_all());
}

#[test]
fn losses() {
    let logits = floats(&[&[5, 17]], UNIFORM);
    check(&logits, &|g, x| x[0].cross_entropy(g.iota([5], 0)));
    check(&floats(&[&[3, 5], &[3, 5]], UNIFORM), &|_, x| x[0].mean_squared_error(x[1]));
}

#[test]
fn matrix_products_with_broadcast_batches() {
    let shapes: [[&[usize]; 2]; 7] = [
        [&[3, 4], &[4, 5]],
        [&[2, 3, 4], &[4, 5]],
        [&[3, 4], &[2, 4, 5]],
        [&[2, 3, 4], &[2, 4, 5]],
        [&[2, 1, 3, 4], &[7, 4, 5]],
        [&[7, 3, 4], &[2, 1, 4, 5]],
        [&[1, 3, 4], &[6, 4, 1]],
    ];
    for pair in shapes {
        check(&floats(&pair, UNIFORM), &|_, x| x[0].matmul(x[1]));
    }
}

#[test]
fn half_precision_values_pass_gradients_through_casts_and_products() {
    let ab = floats(&[&[3, 4], &[4, 5]], UNIFORM);
    check(&ab[..1], &|_, x| x[0].cast(DType::F16).tanh().cast(DType::F32));
    for result in [DType::F16, DType::F32] {
        let dims = Dot { result, ..Dot::matmul(0, DType::F16) };
        check(&ab, &|_, x| x[0].cast(DType::F16).dot(x[1].cast(DType::F16), dims.clone()));
    }
}

#[test]
fn a_perceptron_with_cross_entropy() {
    let operands = floats(&[&[5, 7], &[7, 13], &[13], &[13, 3], &[3]], UNIFORM);
    check(&operands, &|g, x| {
        let hidden = (x[0].matmul(x[1]) + x[2]).gelu();
        let labels = g.iota([5], 0).minimum(g.fill(Scalar::u32(2), Shape::scalar()));
        (hidden.matmul(x[3]) + x[4]).cross_entropy(labels).mean_all()
    });
}

#[test]
fn layer_norm_written_out() {
    check(&floats(&[&[2, 5, 13], &[13], &[13]], UNIFORM), &|_, x| {
        let mean = x[0].mean([2]).reshape([2, 5, 1]);
        let variance = x[0].variance([2]).reshape([2, 5, 1]);
        (x[0] - mean) * (variance + 1e-5).rsqrt() * x[1] + x[2]
    });
}

#[test]
fn an_optimiser_step_is_differentiable_too() {
    // AdamW's update of a weight (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2), as a function of weight,
    // gradient and both moments.
    let mut operands = floats(&[&[3, 7], &[3, 7], &[3, 7]], UNIFORM);
    operands.extend(floats(&[&[3, 7]], Fill::Uniform(0.1, 1.0)));
    check(&operands, &|_, x| {
        let (weight, gradient) = (x[0], x[1]);
        let first = x[2] * 0.9 + gradient * 0.1;
        let second = x[3] * 0.999 + gradient * gradient * 0.001;
        weight - ((first / 0.19) / ((second / 0.002).sqrt() + 1e-8) + weight * 0.01) * 0.1
    });
}

#[test]
fn second_derivatives() {
    let smooth: [(&str, Box<Function<'static>>, Fill); 9] = [
        ("tanh", Box::new(|_, x| x[0].tanh()), UNIFORM),
        ("exp", Box::new(|_, x| x[0].exp()), UNIFORM),
        ("sigmoid", Box::new(|_, x| x[0].sigmoid()), UNIFORM),
        ("gelu", Box::new(|_, x| x[0].gelu()), UNIFORM),
        ("rsqrt", Box::new(|_, x| x[0].rsqrt()), Fill::Uniform(0.5, 2.0)),
        ("softmax", Box::new(|_, x| x[0].softmax(1)), UNIFORM),
        ("logsumexp", Box::new(|_, x| x[0].logsumexp(1)), UNIFORM),
        ("product", Box::new(|_, x| x[0].reduce(Monoid::Prod, [1])), Fill::Uniform(0.5, 2.0)),
        ("gram", Box::new(|_, x| x[0].matmul(x[0].transpose()).sin()), UNIFORM),
    ];
    for (name, function, fill) in smooth {
        let outcome = gradcheck(&floats(&[&[3, 5]], fill), &|g, x| {
            let y = function(g, x);
            // Not a plain sum, whose gradient of a softmax is 0.
            g.gradients((y * y * y).sum_all(), x)[0]
        });
        outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn products_with_zeros_have_derivatives() {
    let ty = TensorType::new(DType::F32, [3, 4]);
    let data = vec![0.5, 2.0, -1.5, 3.0, 0.0, 2.0, 0.25, -1.0, 0.0, 2.0, 0.0, 1.5];
    check(&[Array::new(ty, data)], &|_, x| x[0].reduce(Monoid::Prod, [1]));
}

/// The gradients of `loss` with respect to one input `x`.
fn gradient_at(x: &Array, loss: &Function<'_>) -> Vec<f64> {
    let builder = Builder::new();
    let value = builder.input("x", x.ty.clone());
    let gradient = builder.gradients(loss(&builder, &[value]), &[value])[0];
    builder.output("g", gradient);
    let graph = builder.finish().unwrap();
    verify(&graph).unwrap();
    let inputs = HashMap::from([("x".to_string(), x.clone())]);
    run(&graph, &inputs, &HashMap::new()).unwrap().outputs["g"].data.clone()
}

#[test]
fn ties_share_and_nan_stays() {
    let vector = |data: &[f64]| Array::new(TensorType::new(DType::F32, [data.len()]), data.to_vec());
    assert_eq!(gradient_at(&vector(&[3.0, 1.0, 3.0]), &|_, x| x[0].max([0])), [0.5, 0.0, 0.5]);
    assert_eq!(gradient_at(&vector(&[1.0, 2.0]), &|_, x| x[0].maximum(x[0].like(1.0)).sum_all()), [0.5, 1.0]);
    let with_nan = gradient_at(&vector(&[1.0, f64::NAN]), &|_, x| x[0].max([0]));
    assert!(with_nan.iter().all(|x| x.is_nan()), "{with_nan:?}");
    assert_eq!(gradient_at(&vector(&[0.0, -1.0, 2.0]), &|_, x| x[0].relu().sum_all()), [0.0, 0.0, 1.0]);
    assert!(gradient_at(&vector(&[f64::NAN]), &|_, x| (x[0].relu() * x[0]).sum_all())[0].is_nan());
    // 0⁰ = 1 has slope 0 in its base, and in its exponent as the limit from above.
    let zero = gradient_at(&vector(&[0.0]), &|_, x| x[0].pow(x[0].like(0.0)).sum_all());
    assert_eq!(zero, [0.0]);
}

#[test]
fn gradients_of_what_the_loss_ignores_are_zero_and_of_intermediates_work() {
    let x = Array::new(TensorType::new(DType::F32, [2]), vec![1.0, 2.0]);
    assert_eq!(gradient_at(&x, &|g, _| g.constant(3.0)), [0.0, 0.0]);
    assert_eq!(gradient_at(&x, &|_, x| x[0].floor().sum_all()), [0.0, 0.0]);
    let builder = Builder::new();
    let (a, b) = (builder.constant(3.0), builder.constant(5.0));
    let product = a * b;
    let loss = product * product + a;
    let gradients = builder.gradients(loss, &[a, product, loss]);
    ["a", "product", "loss"].iter().zip(gradients).for_each(|(name, value)| builder.output(*name, value));
    let outputs = run(&builder.finish().unwrap(), &HashMap::new(), &HashMap::new()).unwrap().outputs;
    assert_eq!([&outputs["a"], &outputs["product"], &outputs["loss"]].map(|y| y.data[0]), [151.0, 30.0, 1.0]);
}

#[test]
fn g7_gradients_have_the_types_of_their_values() {
    let mut gradients = 0;
    for case in (0..300).map(meganeura_core::testing::random_graph) {
        for output in case.graph.outputs() {
            // Random graphs name the gradient of node 7 `slope7`.
            let Some(of) = output.name.strip_prefix("slope") else { continue };
            let of = &case.graph.nodes()[of.parse::<usize>().unwrap()];
            assert_eq!(case.graph.node(output.value).ty, of.ty, "{}: {}", case.name, output.name);
            gradients += 1;
        }
    }
    assert!(gradients > 100, "{gradients} gradients");
}
