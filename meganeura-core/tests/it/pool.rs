//! Pooling, borders and other sizes: values as PyTorch documents them, mistakes.

use meganeura_core::compose::{Border, PoolOptions, Resize};
use meganeura_core::dtype::DType;
use meganeura_core::ir::{Builder, Value};
use meganeura_core::oracle::{Array, run};
use meganeura_core::shape::TensorType;
use std::collections::HashMap;

/// The elements of a function of `f32[1, 1, shape…]`, in f64.
fn eval(shape: &[usize], data: &[f64], function: impl for<'g> Fn(&'g Builder, Value<'g>) -> Value<'g>) -> Vec<f64> {
    let builder = Builder::new();
    let x = Array::new(TensorType::new(DType::F32, [&[1, 1], shape].concat()), data.to_vec());
    let value = builder.input("x", x.ty.clone());
    builder.output("y", function(&builder, value));
    let inputs = HashMap::from([("x".to_string(), x)]);
    run(&builder.finish().unwrap(), &inputs, &HashMap::new()).unwrap().outputs.remove("y").unwrap().data
}

fn close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4), "{found:?} instead of {expected:?}");
}

#[test]
fn the_first_of_equal_elements_gets_the_derivative() {
    let pool = PoolOptions::new([2]).stride(1);
    let slopes = |data: &[f64]| eval(&[3, 3], data, |g, x| g.gradients(x.max_pool(&pool).sum_all(), &[x])[0]);
    assert_eq!(slopes(&[1.0; 9]), [1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(slopes(&[0.0, 5.0, 0.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0]), [0.0, 2.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    // The border never wins, and a NaN is passed on.
    let padded = PoolOptions::new([3]).stride(2).padding(1);
    assert_eq!(eval(&[3], &[-4.0, -3.0, -5.0], |_, x| x.max_pool(&padded)), [-3.0, -3.0]);
    assert!(eval(&[2, 2], &[1.0, f64::NAN, 0.0, 0.0], |_, x| x.max_pool(&pool))[0].is_nan());
    let adaptive = eval(&[4], &[2.0; 4], |g, x| g.gradients(x.adaptive_max_pool([2]).sum_all(), &[x])[0]);
    assert_eq!(adaptive, [1.0, 0.0, 1.0, 0.0]);
}

#[test]
fn averages_count_what_they_are_told() {
    let x: Vec<f64> = (1..=6).map(f64::from).collect();
    let whole = PoolOptions::new([3]).stride(2).padding(1);
    close(&eval(&[6], &x, |_, x| x.avg_pool(&whole)), &[1.0, 3.0, 5.0]);
    // The last window has one element and the border's one zero; what lies beyond is not counted.
    let partial = PoolOptions { partial: true, ..whole };
    close(&eval(&[6], &x, |_, x| x.avg_pool(&partial)), &[1.0, 3.0, 5.0, 3.0]);
    let own = PoolOptions { count_padding: false, ..partial };
    close(&eval(&[6], &x, |_, x| x.avg_pool(&own)), &[1.5, 3.0, 5.0, 6.0]);
    // A last window that began in the border is left out.
    let late = PoolOptions { partial: true, ..PoolOptions::new([2]).stride(2).padding(1) };
    close(&eval(&[5], &x[..5], |_, x| x.avg_pool(&late)), &[0.5, 2.5, 4.5]);
    close(&eval(&[7], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], |_, x| x.adaptive_avg_pool([3])), &[2.0, 4.0, 6.0]);
    close(&eval(&[2, 3], &x, |_, x| x.global_avg_pool()), &[3.5]);
}

#[test]
fn borders_as_documented() {
    let x = [0.0, 1.0, 2.0, 3.0];
    let of = |border| eval(&[4], &x, move |_, x| x.pad_border([0, 0, 2], [0, 0, 2], border));
    assert_eq!(of(Border::Reflect), [2.0, 1.0, 0.0, 1.0, 2.0, 3.0, 2.0, 1.0]);
    assert_eq!(of(Border::Replicate), [0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 3.0, 3.0]);
    assert_eq!(of(Border::Circular), [2.0, 3.0, 0.0, 1.0, 2.0, 3.0, 0.0, 1.0]);
    assert_eq!(of(Border::Constant(7.0)), [7.0, 7.0, 0.0, 1.0, 2.0, 3.0, 7.0, 7.0]);
}

#[test]
fn sizes_as_documented() {
    // The examples of torch.nn.Upsample (PyTorch 2.11 documentation).
    let of = |how| eval(&[2, 2], &[1.0, 2.0, 3.0, 4.0], move |_, x| x.resize([4], how));
    close(&of(Resize::Nearest), &[1., 1., 2., 2., 1., 1., 2., 2., 3., 3., 4., 4., 3., 3., 4., 4.]);
    let cells = [1., 1.25, 1.75, 2., 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3., 3.25, 3.75, 4.];
    close(&of(Resize::Linear { align_corners: false }), &cells);
    let third = |n: u32| 1.0 + f64::from(n) / 3.0;
    let corners: Vec<f64> = (0..4).flat_map(|row| (0..4).map(move |col| third(2 * row + col))).collect();
    close(&of(Resize::Linear { align_corners: true }), &corners);
    // Not a whole factor: (o + ½) · 3 / 4 − ½ is −⅛ → 0, ⅝, 1⅜, 2⅛ → 2.
    let cells = Resize::Linear { align_corners: false };
    close(&eval(&[3], &[0.0, 8.0, 16.0], |_, x| x.resize([4], cells)), &[0.0, 5.0, 11.0, 16.0]);
    close(&eval(&[5], &[0.0, 1.0, 2.0, 3.0, 4.0], |_, x| x.resize([3], Resize::Nearest)), &[0.0, 1.0, 3.0]);
}

#[test]
fn mistakes_are_reported() {
    let builder = Builder::new();
    let x = builder.input("x", TensorType::new(DType::F32, [2, 3, 4]));
    let pool = |size: usize| PoolOptions::new([size]);
    let wrong = [
        x.max_pool(&pool(5)),
        x.max_pool(&pool(0)),
        x.max_pool(&pool(2).stride(0)),
        x.max_pool(&PoolOptions::new([2, 2])),
        x.max_pool(&pool(2).padding(usize::MAX)),
        x.reshape([24]).max_pool(&pool(2)),
        x.cast(DType::U32).max_pool(&pool(2)),
        x.avg_pool(&PoolOptions { dilation: vec![2], ..pool(2) }),
        x.adaptive_avg_pool([0]),
        x.adaptive_max_pool([2, 2]),
        x.pad_border([0, 0, 4], [0, 0, 0], Border::Reflect),
        x.pad_border([0, 0, 5], [0, 0, 0], Border::Circular),
        x.pad_border([0, 0], [0, 0, 0], Border::Replicate),
        x.resize([0], Resize::Nearest),
        x.resize([8, 8], Resize::Nearest),
        x.resize([1 << 20], Resize::Linear { align_corners: true }),
    ];
    let count = wrong.len();
    let _ = wrong.map(|value| value.max_pool(&pool(2)).global_avg_pool().resize([2], Resize::Nearest));
    assert_eq!(builder.finish().unwrap_err().0.len(), count);
}
