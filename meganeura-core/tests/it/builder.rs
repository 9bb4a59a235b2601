//! Wrong calls: which mistake is reported, where, and how often.

use meganeura_core::dtype::DType;
use meganeura_core::ir::{BuildError, BuildErrors, Builder, StateSpec, Value};
use meganeura_core::ops::Dot;
use meganeura_core::scalar::{Monoid, Scalar};
use meganeura_core::shape::TensorType;

fn ty(dtype: DType, shape: &[usize]) -> TensorType {
    TensorType::new(dtype, shape)
}

fn float<'g>(builder: &'g Builder, shape: &[usize]) -> Value<'g> {
    builder.fill(Scalar::f32(0.5), shape)
}

fn unsigned<'g>(builder: &'g Builder, shape: &[usize]) -> Value<'g> {
    builder.fill(Scalar::u32(1), shape)
}

fn state<'g>(builder: &'g Builder, name: &str, shape: &[usize]) -> Value<'g> {
    let ty = ty(DType::F32, shape);
    builder.state(StateSpec { name: name.into(), ty, group: "parameters".into(), init: Scalar::f32(0.0) })
}

fn mistakes(build: impl FnOnce(&Builder)) -> BuildErrors {
    let builder = Builder::new();
    build(&builder);
    builder.finish().expect_err("a wrong call is a mistake")
}

/// The one mistake made.
#[track_caller]
fn mistake(build: impl FnOnce(&Builder)) -> BuildError {
    let BuildErrors(mut errors) = mistakes(build);
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.remove(0)
}

/// Checks that one op reports a broken rule once, at the line that called it.
#[track_caller]
fn breaks(op: &str, rule: &str, build: impl for<'g> FnOnce(&'g Builder) -> Value<'g>) {
    let error = mistake(|builder| {
        let value = build(builder);
        // What is made of it stays silent.
        builder.output("y", (value + 1.0).exp().sum_all());
    });
    let BuildError::Operands { op: found, violation, location, .. } = &error else { panic!("{error}") };
    assert_eq!(*found, op, "{error}");
    assert!(violation.to_string().contains(rule), "{error}");
    let caller = std::panic::Location::caller();
    assert_eq!(location.file(), caller.file(), "{error}");
    assert!(location.line().abs_diff(caller.line()) <= 3, "{error}, called at {caller}");
    assert!(error.to_string().starts_with(&format!("{}:{}", location.file(), location.line())), "{error}");
}

#[test]
fn elementwise_ops() {
    breaks("add", "one element type", |g| float(g, &[2]) + unsigned(g, &[2]));
    breaks("add", "broadcast together, found f32[2] and f32[3]", |g| float(g, &[2]) + float(g, &[3]));
    breaks("exp", "takes the operand's element type, found u32", |g| unsigned(g, &[2]).exp());
    breaks("not", "takes the operand's element type", |g| float(g, &[2]).not());
    breaks("pow", "takes the operands' element type", |g| unsigned(g, &[2]).pow(unsigned(g, &[2, 2])));
    breaks("lt", "one element type", |g| float(g, &[2]).lt(unsigned(g, &[2])));
    breaks("lt", "takes the operands' element type, found bool", |g| {
        let truth = float(g, &[2]).le(float(g, &[1]));
        truth.lt(truth)
    });
    breaks("select", "the condition is `bool`", |g| float(g, &[2]).select(float(g, &[1]), float(g, &[1, 1])));
    breaks("select", "one element type", |g| {
        let truth = float(g, &[2]).le(float(g, &[1]));
        truth.select(float(g, &[3, 2]), unsigned(g, &[2]))
    });
    breaks("bitcast", "f32, u32 or i32, found f32 to f16", |g| float(g, &[2]).bitcast(DType::F16));
    breaks("constant", "holds the number exactly, found 0.5", |g| unsigned(g, &[2]) * 0.5);
    breaks("constant", "holds the number exactly, found -1", |g| unsigned(g, &[2]) + -1.0);
}

#[test]
fn views() {
    breaks("reshape", "keeps the number of elements", |g| float(g, &[2, 3]).reshape([7]));
    breaks("reshape", "keeps the number of elements", |g| float(g, &[2, 3]).reshape([usize::MAX, 2]));
    breaks("permute", "each dimension of the operand once", |g| float(g, &[2, 3]).permute([0, 0]));
    breaks("permute", "each dimension of the operand once", |g| float(g, &[2, 3]).permute([0]));
    breaks("broadcast", "extents are equal or 1", |g| float(g, &[2, 3]).broadcast([3, 3]));
    breaks("broadcast", "extents are equal or 1", |g| float(g, &[1, 3]).broadcast([3]));
    breaks("slice", "inside the operand", |g| float(g, &[4]).slice([2], [3]));
    breaks("slice", "for each dimension", |g| float(g, &[4]).slice([], []));
    breaks("slice", "inside the operand", |g| float(g, &[4]).slice([usize::MAX], [2]));
    breaks("pad", "before and after each dimension", |g| float(g, &[4]).pad([1, 1], [1], 0.0));
    breaks("pad", "extents fit in memory", |g| float(g, &[4]).pad([usize::MAX], [1], 0.0));
    breaks("pad", "holds the border's number exactly", |g| unsigned(g, &[4]).pad([1], [1], f64::NAN));
}

#[test]
fn folds_products_and_indices() {
    breaks("reduce", "ascending, each once, found [1, 0]", |g| float(g, &[2, 3]).sum([1, 0]));
    breaks("reduce", "ascending, each once", |g| float(g, &[2, 3]).max([2]));
    breaks("reduce", "numeric", |g| {
        let truth = float(g, &[2]).le(float(g, &[1]));
        truth.reduce(Monoid::Max, [0])
    });
    breaks("dot", "one float type", |g| unsigned(g, &[2, 2]).matmul(unsigned(g, &[2, 2, 2])));
    breaks("dot", "extents of both operands agree", |g| float(g, &[2, 3]).matmul(float(g, &[4, 5])));
    let dot = |contract: [Vec<usize>; 2]| Dot { batch: [vec![0], vec![0]], contract, result: DType::F32 };
    breaks("dot", "distinct ones", |g| float(g, &[2, 3]).dot(float(g, &[2, 4]), dot([vec![0], vec![1]])));
    breaks("dot", "distinct ones", |g| float(g, &[2, 3]).dot(float(g, &[2, 4]), dot([vec![5], vec![1]])));
    breaks("dot", "agree", |g| float(g, &[2, 3]).dot(float(g, &[2, 4]), dot([vec![1], vec![]])));
    let to_f16 = Dot { result: DType::F16, ..Dot::matmul(0, DType::F32) };
    breaks("dot", "or f32, found f16", |g| float(g, &[2, 3]).dot(float(g, &[3, 4]), to_f16));
    breaks("matmul", "at least two dimensions", |g| float(g, &[2, 3]).matmul(float(g, &[3])));
    // The leading dimension of the right operand could pair with the wrong one of the left.
    breaks("matmul", "broadcast", |g| float(g, &[4, 5, 7, 6]).matmul(float(g, &[4, 5, 6])));
    breaks("gather", "a dimension of the data", |g| float(g, &[2]).gather(unsigned(g, &[3]), 1));
    breaks("gather", "indices are u32", |g| float(g, &[2]).gather(float(g, &[3]), 0));
    breaks("scatter_add", "at the axis", |g| float(g, &[2, 3]).scatter_add(unsigned(g, &[2]), 1, 5));
    breaks("scatter_add", "at the axis", |g| float(g, &[2]).scatter_add(unsigned(g, &[2]), usize::MAX, 5));
    breaks("scatter_add", "u32", |g| float(g, &[2]).scatter_add(float(g, &[2]), 0, 5));
    breaks("scatter_add", "numeric", |g| {
        let truth = float(g, &[2]).le(float(g, &[1]));
        truth.scatter_add(unsigned(g, &[2]), 0, 5)
    });
}

#[test]
fn leaves_and_limits() {
    breaks("iota", "a dimension of the shape", |g| g.iota([2, 3], 2).cast(DType::F32));
    breaks("random", "u32[2]", |g| g.random_uniform(unsigned(g, &[3]), [2], 0));
    breaks("input", "at most 6 dimensions, found 7", |g| g.input("x", ty(DType::F32, &[1; 7])));
    breaks("input", "fewer than 2^32 - 1 elements", |g| g.input("x", ty(DType::F32, &[1 << 16, 1 << 16])));
    breaks("constant", "fewer than 2^32 - 1 elements", |g| g.fill(Scalar::f32(0.0), [usize::MAX, usize::MAX]));
    breaks("broadcast", "fewer than", |g| float(g, &[1 << 17, 1]) * float(g, &[1, 1 << 17]));
    let spec = |init| StateSpec { name: "w".into(), ty: ty(DType::F32, &[2]), group: "p".into(), init };
    breaks("state", "its own element type, found 0u32", |g| g.state(spec(Scalar::u32(0))));
    breaks("dot", "at most 6", |g| {
        let none = Dot { batch: [vec![], vec![]], contract: [vec![], vec![]], result: DType::F32 };
        float(g, &[1; 4]).dot(float(g, &[1; 3]), none)
    });
}

#[test]
fn compositions_name_the_callers_line() {
    breaks("reduce", "dimensions of the operand", |g| float(g, &[2, 3]).softmax(2));
    breaks("reduce", "dimensions of the operand", |g| float(g, &[2, 3]).log_softmax(2));
    breaks("reduce", "dimensions of the operand", |g| float(g, &[2, 3]).logsumexp(2));
    breaks("reduce", "dimensions of the operand", |g| float(g, &[2, 3]).variance([2]));
    breaks("mean", "floats, found u32", |g| unsigned(g, &[2, 3]).mean([1]));
    breaks("mean", "floats", |g| unsigned(g, &[2, 3]).mean_all());
    breaks("variance", "floats", |g| unsigned(g, &[2, 3]).variance([1]));
    breaks("gelu", "floats", |g| unsigned(g, &[2, 3]).gelu());
    breaks("gelu_tanh", "floats", |g| unsigned(g, &[2, 3]).gelu_tanh());
    breaks("silu", "floats", |g| unsigned(g, &[2, 3]).silu());
    breaks("softmax", "floats", |g| unsigned(g, &[2, 3]).softmax(1));
    breaks("log_softmax", "floats", |g| unsigned(g, &[2, 3]).log_softmax(1));
    breaks("logsumexp", "floats", |g| unsigned(g, &[2, 3]).logsumexp(1));
    breaks("cross_entropy", "labels are u32 of the logits' shape", |g| float(g, &[]).cross_entropy(unsigned(g, &[])));
    // Each of these would broadcast to something of another meaning.
    breaks("cross_entropy", "labels are u32 of the logits' shape", |g| {
        float(g, &[6, 3]).cross_entropy(unsigned(g, &[6, 1]))
    });
    breaks("cross_entropy", "labels are u32 of the logits' shape", |g| {
        float(g, &[6, 3]).cross_entropy(unsigned(g, &[1]))
    });
    breaks("cross_entropy", "labels are u32", |g| float(g, &[6, 3]).cross_entropy(float(g, &[6])));
    breaks("cross_entropy", "logits are floats", |g| unsigned(g, &[6, 3]).cross_entropy(unsigned(g, &[6])));
    breaks("mean_squared_error", "one float type", |g| float(g, &[6, 1]).mean_squared_error(float(g, &[6])));
    breaks("erf", "element type", |g| unsigned(g, &[2]).bitcast(DType::I32).erf());
}

#[test]
fn names_are_unique_by_kind() {
    let duplicate = |error: BuildError| match error {
        BuildError::DuplicateName { kind, name, location } => {
            assert!(location.file().ends_with("builder.rs"));
            (kind, name)
        }
        other => panic!("{other}"),
    };
    let input = |g: &Builder| {
        let _ = [(); 2].map(|()| g.input("x", ty(DType::F32, &[2])));
    };
    assert_eq!(duplicate(mistake(input)), ("an input", "x".into()));
    let states = |g: &Builder| {
        let _ = [(); 2].map(|()| state(g, "x", &[2]));
    };
    assert_eq!(duplicate(mistake(states)), ("a state", "x".into()));
    let outputs = |g: &Builder| {
        let x = float(g, &[2]);
        g.output("y", x);
        g.output("y", x);
    };
    assert_eq!(duplicate(mistake(outputs)), ("an output", "y".into()));
    // An input, a state and an output may share a name.
    let builder = Builder::new();
    builder.output("x", builder.input("x", ty(DType::F32, &[2])) + state(&builder, "x", &[2]));
    builder.finish().unwrap();
}

#[test]
fn updates() {
    let twice = mistake(|g| {
        let w = state(g, "w", &[2]);
        g.update(w, w + 1.0);
        g.update(w, w);
    });
    assert!(matches!(&twice, BuildError::UpdatedTwice { name, .. } if name == "w"), "{twice}");
    let other_type = mistake(|g| {
        let w = state(g, "w", &[2]);
        g.update(w, w.sum_all());
    });
    let BuildError::UpdateType { name, expected, found, .. } = other_type else { panic!("{other_type}") };
    assert_eq!((name.as_str(), expected, found), ("w", ty(DType::F32, &[2]), ty(DType::F32, &[])));
    let not_a_state = mistake(|g| g.update(float(g, &[2]), float(g, &[1])));
    assert!(matches!(not_a_state, BuildError::NotAState { op: "update", found: "constant", .. }), "{not_a_state}");
}

#[test]
fn values_of_another_builder() {
    let other = Builder::new();
    let stranger = float(&other, &[2]);
    let foreign = |error: BuildError| match error {
        BuildError::Foreign { op, .. } => op,
        error => panic!("{error}"),
    };
    let builder = Builder::new();
    builder.output("y", stranger);
    builder.update(stranger, stranger);
    let gradients = builder.gradients(stranger, &[stranger]);
    assert_eq!(gradients.len(), 1);
    let _ = float(&builder, &[2]) + stranger;
    let errors = builder.finish().unwrap_err().0;
    assert_eq!(errors.into_iter().map(foreign).collect::<Vec<_>>(), ["output", "update", "gradients", "add"]);
    other.finish().unwrap();
}

#[test]
fn gradients_of_the_wrong_things() {
    let vector = mistake(|g| drop(g.gradients(float(g, &[2]), &[])));
    assert!(matches!(&vector, BuildError::LossNotScalar { found, .. } if *found == ty(DType::F32, &[2])), "{vector}");
    let integer = mistake(|g| drop(g.gradients(unsigned(g, &[]), &[])));
    assert!(matches!(integer, BuildError::LossNotScalar { .. }), "{integer}");
    let labels = mistake(|g| {
        let labels = unsigned(g, &[2]);
        let slopes = g.gradients(labels.cast(DType::F32).sum_all(), &[labels]);
        g.output("slope", slopes[0].exp());
    });
    assert!(matches!(labels, BuildError::NotDifferentiable { .. }), "{labels}");
}

#[test]
fn all_mistakes_are_reported_at_once_in_order() {
    let errors = mistakes(|g| {
        let x = float(g, &[2, 3]);
        let poisoned = x.reshape([5]);
        // Everything that takes a poisoned value is silent.
        let more = poisoned.matmul(x).softmax(7).cross_entropy(poisoned).select(x, x).gather(x, 9).pad([1], [2], 0.5);
        g.update(poisoned, more);
        g.output("silent", more.mean_squared_error(x) * 0.5);
        g.output("gradient", g.gradients(more, &[x])[0]);
        assert_eq!(format!("{poisoned:?}"), "poisoned value");
        let _ = x.exp().not();
        g.output("silent", x);
        let _ = x.permute([1]);
    });
    let ops = |error: &BuildError| match error {
        BuildError::Operands { op, .. } => op.to_string(),
        BuildError::DuplicateName { name, .. } => name.clone(),
        other => panic!("{other}"),
    };
    assert_eq!(errors.0.iter().map(ops).collect::<Vec<_>>(), ["reshape", "not", "silent", "permute"]);
    let text = errors.to_string();
    assert!(text.starts_with("the graph has 4 mistakes:\n"), "{text}");
    assert_eq!(text.matches("tests/it/builder.rs:").count(), 4, "{text}");
}
