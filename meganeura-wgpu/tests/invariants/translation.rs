//! Every module that the suite's programs are made of, through naga's back ends; and what Apple's compiler would refuse.

use super::support::translate;
use meganeura_core::compose::ConvOptions;
use meganeura_core::dtype::DType;
use meganeura_core::ir::{Builder, Value};
use meganeura_core::options::Options;
use meganeura_core::pipeline::compile;
use meganeura_core::schedule::{Caps, Cooperative, Numerics};
use meganeura_core::shape::TensorType;
use meganeura_core::testing::{Case, cases_of_compositions, cases_of_op_table, cases_of_states, random_graph};
use meganeura_wgpu::wgsl::{Module, print};
use std::collections::{HashMap, HashSet};

/// A GPU with all optional features, whose matrices are of one size.
fn with_matrices(size: u32) -> Caps {
    Caps { cooperative: vec![Cooperative { size, operand: DType::F16, accumulate: DType::F32 }], ..Caps::h200() }
}

/// The modules of a program, as a session prints them.
fn modules(case: &Case, options: &Options, caps: &Caps) -> Vec<Module> {
    let plan = compile(&case.graph, options, caps, None).unwrap_or_else(|error| panic!("{}: {error}", case.name)).plan;
    let print = |dispatch: &meganeura_core::memory::Dispatch| {
        let writable: Vec<bool> = dispatch.bindings.iter().map(|binding| binding.writable).collect();
        print(&plan.kernels[dispatch.kernel], &dispatch.spec, &writable, &dispatch.arg_binding, caps)
            .unwrap_or_else(|error| panic!("{}: {}: {error}", case.name, dispatch.label))
    };
    plan.dispatches.iter().map(print).collect()
}

/// Translates each distinct module once and counts them.
fn translate_all(cases: &[Case], caps: &Caps, numerics: Numerics) -> [usize; 2] {
    let options = Options { numerics, ..Options::default() };
    let (mut seen, mut cooperative) = (HashSet::new(), 0);
    for module in cases.iter().flat_map(|case| modules(case, &options, caps)) {
        if !seen.contains(&module.source) {
            translate::check(&module);
            cooperative += usize::from(module.needs.cooperative);
            seen.insert(module.source);
        }
    }
    [seen.len(), cooperative]
}

#[test]
fn w1_modules_of_the_op_table_translate() {
    let cases = cases_of_op_table();
    for (caps, numerics) in [(Caps::base(), Numerics::Strict), (with_matrices(8), Numerics::Accelerated)] {
        let [modules, _] = translate_all(&cases, &caps, numerics);
        assert!(modules > 500, "{modules} modules");
    }
}

#[test]
fn w1_modules_of_compositions_states_and_random_graphs_translate() {
    let cases: Vec<Case> = [cases_of_compositions(), cases_of_states(), (0..60).map(random_graph).collect()].concat();
    for (caps, numerics) in [(Caps::base(), Numerics::Strict), (with_matrices(8), Numerics::Accelerated)] {
        let [modules, _] = translate_all(&cases, &caps, numerics);
        assert!(modules > 500, "{modules} modules");
    }
}

type Product = for<'g> fn(Value<'g>, Value<'g>) -> Value<'g>;

/// A product with an activation, and its gradients by both operands: large enough for matrix units.
fn large(product: Product, dtype: DType, shapes: [&[usize]; 2]) -> Case {
    let g = Builder::new();
    let [a, b] = [("a", shapes[0]), ("b", shapes[1])].map(|(name, shape)| g.input(name, TensorType::new(dtype, shape)));
    let y = product(a, b).tanh();
    g.output("y", y);
    let gradients = g.gradients(y.sum_all(), &[a, b]);
    ["da", "db"].iter().zip(gradients).for_each(|(name, gradient)| g.output(*name, gradient));
    let (name, graph) = (format!("{dtype} {shapes:?}"), g.finish().unwrap());
    Case { name, graph, inputs: HashMap::new(), states: HashMap::new() }
}

fn large_products() -> Vec<Case> {
    let product: Product = |a, b| a.matmul(b);
    let convolution: Product = |x, w| x.conv(w, &ConvOptions::default().padding(1));
    let shapes: [(Product, [&[usize]; 2]); 4] = [
        (product, [&[256, 320], &[320, 256]]),
        (product, [&[250, 301], &[301, 129]]),
        (product, [&[4, 130, 96], &[4, 96, 144]]),
        (convolution, [&[4, 64, 20, 20], &[48, 64, 3, 3]]),
    ];
    let types = |(product, shapes)| [DType::F32, DType::F16].map(|dtype| large(product, dtype, shapes));
    shapes.into_iter().flat_map(types).collect()
}

#[test]
fn w1_modules_with_matrices_translate() {
    let cases = large_products();
    for size in [8, 16] {
        let [modules, cooperative] = translate_all(&cases, &with_matrices(size), Numerics::Accelerated);
        assert!(cooperative >= 16, "{cooperative} of {modules} modules have matrices of {size}");
    }
}

/// A product of matrices of 8×8, one operand from workgroup memory.
const PRODUCT: &str = "
    enable f16;
    enable wgpu_cooperative_matrix;
    @group(0) @binding(0) var<storage, read> a: array<f16>;
    @group(0) @binding(1) var<storage, read_write> c: array<f32>;
    var<workgroup> stage: array<f16, 64>;
    @compute @workgroup_size(32) fn main(@builtin(local_invocation_index) lane: u32) {
        stage[lane] = f16(a[lane]);
        stage[lane + 32u] = f16(a[lane + 32u]);
        workgroupBarrier();
        let left = coopLoadT<coop_mat8x8<f16, A>>(&stage[0], 8u);
        let right = coopLoadT<coop_mat8x8<f16, B>>(&a[0], 8u);
        var sums: array<coop_mat8x8<f32, C>, 2>;
        sums[1] = coopMultiplyAdd(left, right, sums[1]);
        let sum = sums[1];
        coopStoreT(sum, &c[0], 8u);
    }";

/// The text check can fail: it refuses each thing that it looks for, and nothing else.
#[test]
fn w4_what_apple_would_not_take_is_refused() {
    let refusal = |edits: &[(&str, &str)]| {
        let edit = |text: String, (from, to): &(&str, &str)| {
            assert!(text.contains(from), "{from}");
            text.replace(from, to)
        };
        translate::refused_by_apple(&edits.iter().fold(PRODUCT.to_owned(), edit)).unwrap_or_default()
    };
    assert_eq!(refusal(&[]), "");
    assert!(refusal(&[("8x8", "16x16")]).contains("SIMD-group matrix of 16x16"));
    for operation in ["sum + sum", "sums[1] - sum", "sum * 0.5"] {
        let refusal = refusal(&[("coopStoreT(sum,", &format!("let changed = {operation}; coopStoreT(changed,"))]);
        assert!(refusal.contains("arithmetic"), "{operation}: {refusal:?}");
    }
    let vectors = refusal(&[("stage: array<f16, 64>", "stage: array<vec4<f16>, 64>"), ("= f16(a", "= vec4<f16>(a")]);
    assert!(vectors.contains("stage holds vectors"), "{vectors:?}");
    let buffer = refusal(&[("c: array<f32>", "c: array<vec4<f32>>")]);
    assert!(buffer.contains("c holds vectors"), "{buffer:?}");
}

/// What is printed for matrices of 16×16 is for other GPUs.
#[test]
fn w4_large_matrices_are_refused_for_apple() {
    let case = large(|a, b| a.matmul(b), DType::F16, [&[256, 320], &[320, 256]]);
    let options = Options { numerics: Numerics::Accelerated, ..Options::default() };
    let printed = modules(&case, &options, &with_matrices(16));
    let large = printed.iter().filter(|module| module.needs.cooperative);
    let refused = large.map(|module| translate::refused_by_apple(&module.source)).collect::<Vec<_>>();
    assert!(!refused.is_empty() && refused.iter().all(Option::is_some), "{refused:?}");
}
