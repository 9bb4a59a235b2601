//! Whole programs through every stage, against the oracle.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use meganeura_core::dtype::DType;
use meganeura_core::ir::{Builder, Graph, Phase, StateSpec, Value};
use meganeura_core::memory;
use meganeura_core::options::Options;
use meganeura_core::oracle::{self, Array};
use meganeura_core::pipeline::{Program, compile};
use meganeura_core::scalar::Scalar;
use meganeura_core::schedule::Caps;
use meganeura_core::shape::TensorType;
use std::collections::HashMap;

fn state<'g>(g: &'g Builder, name: &str, shape: &[usize], group: &str) -> Value<'g> {
    let ty = TensorType::new(DType::F32, shape);
    g.state(StateSpec { name: name.to_string(), ty, group: group.to_string(), init: Scalar::f32(0.0) })
}

/// A multilayer perceptron with cross-entropy and AdamW: the step program of a classifier.
fn classifier(batch: usize, widths: &[usize]) -> Graph {
    let g = Builder::new();
    let x = g.input("x", TensorType::new(DType::F32, [batch, widths[0]]));
    let labels = g.input("labels", TensorType::new(DType::U32, [batch]));
    let mut parameters = Vec::new();
    let mut h = x;
    for (at, pair) in widths.windows(2).enumerate() {
        let w = state(&g, &format!("{at}.weight"), &[pair[1], pair[0]], "parameters");
        let b = state(&g, &format!("{at}.bias"), &[pair[1]], "parameters");
        h = h.matmul(w.transpose()) + b;
        if at + 2 < widths.len() {
            h = h.relu();
        }
        parameters.extend([(format!("{at}.weight"), w), (format!("{at}.bias"), b)]);
    }
    let loss = h.cross_entropy(labels).mean_all();
    g.output("loss", loss);
    let values: Vec<Value<'_>> = parameters.iter().map(|(_, value)| *value).collect();
    let gradients = g.gradients(loss, &values);
    g.in_phase(Phase::Update, || {
        let ty = TensorType::new(DType::U32, [1]);
        let t = g.state(StateSpec { name: "step".into(), ty, group: "counters".into(), init: Scalar::u32(0) });
        let next = t + g.fill(Scalar::u32(1), [1]);
        g.update(t, next);
        let time = next.cast(DType::F32).reshape([]);
        let (beta1, beta2) = (0.9_f32, 0.999_f32);
        let correct1 = -(time * beta1.ln()).expm1();
        let correct2 = -(time * beta2.ln()).expm1();
        for ((name, p), gradient) in parameters.iter().zip(gradients) {
            let shape = p.shape();
            let m = state(&g, &format!("m.{name}"), &shape, "moments");
            let v = state(&g, &format!("v.{name}"), &shape, "moments");
            let m_next = m * beta1 + gradient * (1.0 - beta1);
            let v_next = v * beta2 + gradient * gradient * (1.0 - beta2);
            let denominator = (v_next / correct2).sqrt() + 1e-8;
            let p_next = *p * (1.0 - 1e-3 * 0.01) - m_next / correct1 / denominator * 1e-3;
            g.update(m, m_next);
            g.update(v, v_next);
            g.update(*p, p_next);
        }
    });
    g.finish().unwrap()
}

fn numbers(count: usize, seed: u32) -> Vec<f64> {
    let word = |at: usize| meganeura_core::kernel::threefry([seed, 7], [at as u32, 0])[0];
    (0..count).map(|at| f64::from(word(at)) / 4_294_967_296.0 - 0.5).collect()
}

fn data(graph: &Graph, batch: usize, features: usize, classes: u32) -> [HashMap<String, Array>; 2] {
    let x = Array::new(TensorType::new(DType::F32, [batch, features]), numbers(batch * features, 1));
    let labels = (0..batch).map(|at| f64::from(at as u32 * 7 % classes)).collect();
    let labels = Array::new(TensorType::new(DType::U32, [batch]), labels);
    let inputs = HashMap::from([("x".to_string(), x), ("labels".to_string(), labels)]);
    let states = graph.states().iter().enumerate().map(|(at, state)| {
        let mut values = numbers(state.ty.elements(), at as u32 + 10);
        if state.group.as_ref() != "parameters" {
            values
                .iter_mut()
                .for_each(|value| *value = if state.ty.dtype == DType::U32 { 3.0 } else { value.abs() * 0.01 });
        }
        (state.name.to_string(), Array::new(state.ty.clone(), values))
    });
    [inputs, states.collect()]
}

fn assert_agrees(graph: &Graph, program: &Program, inputs: &HashMap<String, Array>, states: &HashMap<String, Array>) {
    let expected = oracle::run(graph, inputs, states).unwrap();
    let raw = |arrays: &HashMap<String, Array>| -> HashMap<String, Vec<f64>> {
        arrays.iter().map(|(name, array)| (name.clone(), array.data.clone())).collect()
    };
    let [outputs, new_states] = memory::interp(&program.plan, &raw(inputs), &raw(states)).unwrap();
    for (name, expected) in expected
        .outputs
        .iter()
        .map(|pair| (pair, &outputs))
        .chain(expected.states.iter().map(|pair| (pair, &new_states)))
        .map(|((name, expected), found)| (name, (expected, &found[name])))
    {
        let found = Array::new(expected.0.ty.clone(), expected.1.clone());
        assert!(found.distance(expected.0) < 1e-9, "{name}: off by {}", found.distance(expected.0));
    }
}

#[test]
fn classifier_step_agrees_with_the_oracle() {
    let graph = classifier(5, &[7, 6, 3]);
    let [inputs, states] = data(&graph, 5, 7, 3);
    for options in [Options { verify: true, ..Options::default() }, Options::plain()] {
        let program = compile(&graph, &options, &Caps::base(), None).unwrap();
        assert_agrees(&graph, &program, &inputs, &states);
    }
}

/// A product's sum is kept in f32; what goes on from it in the same kernel has the product's own type.
#[test]
fn halves_are_multiplied_and_go_on_as_halves() {
    let g = Builder::new();
    let [a, b, c] = [("a", [5, 7]), ("b", [7, 6]), ("c", [5, 6])]
        .map(|(name, shape)| g.input(name, TensorType::new(DType::F16, shape)));
    let y = a.matmul(b).tanh() * c;
    g.output("y", y);
    g.output("da", g.gradients(y.sum_all(), &[a])[0]);
    let graph = g.finish().unwrap();
    let values = |(seed, (name, shape)): (usize, (&str, [usize; 2]))| {
        let values = numbers(shape[0] * shape[1], seed as u32).into_iter().map(|x| DType::F16.round(x)).collect();
        (name.to_string(), Array::new(TensorType::new(DType::F16, shape), values))
    };
    let inputs = [("a", [5, 7]), ("b", [7, 6]), ("c", [5, 6])].into_iter().enumerate().map(values).collect();
    let options = Options { verify: true, ..Options::default() };
    let program = compile(&graph, &options, &Caps { f16: true, ..Caps::base() }, None).unwrap();
    assert_agrees(&graph, &program, &inputs, &HashMap::new());
}

#[test]
fn mnist_step_takes_few_dispatches() {
    let graph = classifier(64, &[784, 128, 10]);
    let program = compile(&graph, &Options { verify: true, ..Options::default() }, &Caps::base(), None).unwrap();
    let labels: Vec<&str> = program.plan.dispatches.iter().map(|dispatch| dispatch.label.as_str()).collect();
    assert!(labels.len() <= 16, "{} dispatches: {labels:#?}", labels.len());
}

/// `n` equal blocks `h := relu(h · wᵀ + b) + h`, their mean square as the loss, its gradients, and a step of SGD.
fn stack(n: usize) -> Graph {
    let g = Builder::new();
    let mut h = g.input("x", TensorType::new(DType::F32, [8, 16]));
    let mut parameters = Vec::new();
    for at in 0..n {
        let w = state(&g, &format!("{at}.weight"), &[16, 16], "parameters");
        let b = state(&g, &format!("{at}.bias"), &[16], "parameters");
        h = (h.matmul(w.transpose()) + b).relu() + h;
        parameters.extend([w, b]);
    }
    let loss = (h * h).mean_all();
    g.output("loss", loss);
    let gradients = g.gradients(loss, &parameters);
    g.in_phase(Phase::Update, || {
        for (&parameter, gradient) in parameters.iter().zip(gradients) {
            g.update(parameter, parameter - gradient * 0.01);
        }
    });
    g.finish().unwrap()
}

/// `n` blocks side by side on one input, whose updates share a counter: values with `n` readers, groups of `n` kernels.
fn fan(n: usize) -> Graph {
    let g = Builder::new();
    let x = g.input("x", TensorType::new(DType::F32, [8, 16]));
    let weights: Vec<Value<'_>> = (0..n).map(|at| state(&g, &format!("{at}"), &[16, 16], "parameters")).collect();
    let count = state(&g, "count", &[], "counters");
    g.update(count, count + 1.0);
    let losses: Vec<Value<'_>> = weights.iter().map(|w| x.matmul(w.transpose()).relu().mean_all()).collect();
    for (at, (&w, &loss)) in weights.iter().zip(&losses).enumerate() {
        g.output(format!("{at}"), loss);
        let gradient = g.gradients(loss, &[w])[0];
        g.update(w, w - gradient / (count + 1.0).sqrt());
    }
    g.finish().unwrap()
}

/// Seconds that building and compiling a program takes.
fn seconds_to_compile(program: fn(usize) -> Graph, n: usize) -> f64 {
    let start = std::time::Instant::now();
    compile(&program(n), &Options { verify: true, ..Options::default() }, &Caps::base(), None).unwrap();
    start.elapsed().as_secs_f64()
}

/// Whether each size takes at most twice the time of the one before, which is half as large: 2 ms for what does not grow,
/// 15 % for the machine.
fn grows_linearly(seconds: &[f64]) -> bool {
    seconds.windows(2).all(|pair| pair[1] <= 2.3 * pair[0] + 0.002)
}

#[test]
fn compilation_time_grows_with_the_program_only() {
    // Other work on the machine only ever adds time, so that the least of many samples nears what compilation takes by
    // itself. A few suffice on an idle machine; a busy one gets more before it is believed, and what grows faster
    // than the program does not come down to the bound however often it is repeated.
    const FEWEST: usize = 5;
    const MOST: usize = 60;
    let sizes = [8, 16, 32, 64, 128];
    for program in [stack, fan] {
        let mut least = [f64::INFINITY; 5];
        for round in 1..=MOST {
            least = std::array::from_fn(|at| least[at].min(seconds_to_compile(program, sizes[at])));
            if round >= FEWEST && grows_linearly(&least) {
                break;
            }
        }
        assert!(grows_linearly(&least), "{sizes:?} blocks take {least:?} s");
    }
    let quadratic = sizes.map(|n| 1e-4 * n as f64 + 4e-6 * (n * n) as f64);
    assert!(!grows_linearly(&quadratic), "the bound lets quadratic growth pass: {quadratic:?}");
}

#[test]
fn deep_programs_compile_on_a_small_stack() {
    let compiled = std::thread::Builder::new().stack_size(1 << 20).spawn(|| {
        let start = std::time::Instant::now();
        let options = Options { verify: true, ..Options::default() };
        let program = compile(&stack(2000), &options, &Caps::base(), None).unwrap();
        (program.report.dispatches, start.elapsed())
    });
    let (dispatches, elapsed) = compiled.unwrap().join().unwrap();
    assert!(dispatches >= 2000 * 3, "{dispatches} dispatches");
    assert!(elapsed.as_secs() < 60, "{elapsed:?}");
}

/// The graph as if built without scopes and phases, through its text form.
fn without_origins(graph: &Graph) -> Graph {
    let line = |line: &str| match line.strip_prefix('%').and_then(|_| line.rsplit_once(" in \"")) {
        Some((node, _)) => node.to_string(),
        None => line.to_string(),
    };
    let text: Vec<String> = graph.to_string().lines().map(line).collect();
    text.join("\n").parse().unwrap()
}

/// A plan without what is there for people only.
fn nameless(program: &Program) -> memory::Plan {
    let mut plan = memory::Plan::clone(&program.plan);
    for dispatch in &mut plan.dispatches {
        dispatch.label.clear();
        dispatch.provenance.origins.clear();
    }
    plan
}

#[test]
fn scopes_and_phases_decide_nothing() {
    let random = (0..20).map(|seed| meganeura_core::testing::random_graph(seed).graph);
    for graph in std::iter::once(classifier(16, &[20, 12, 10])).chain(random) {
        let bare = without_origins(&graph);
        for caps in [Caps::cpu(2), Caps::h200()] {
            let [named, bare] = [&graph, &bare].map(|graph| compile(graph, &Options::default(), &caps, None).unwrap());
            assert_eq!(format!("{:?}", nameless(&named)), format!("{:?}", nameless(&bare)));
            let origins = |program: &Program| {
                program.plan.dispatches.iter().all(|dispatch| !dispatch.provenance.origins.is_empty())
            };
            assert!(origins(&named) && origins(&bare));
        }
    }
}

#[test]
fn kernels_know_their_layer_and_phase() {
    let g = Builder::new();
    let x = g.input("x", TensorType::new(DType::F32, [64, 4096]));
    let weight = state(&g, "weight", &[64, 4096], "parameters");
    let loss = g.scoped("net", || g.scoped("fc", || x.matmul(weight.transpose())).relu().mean_all());
    g.output("loss", loss);
    let gradient = g.gradients(loss, &[weight])[0];
    g.in_phase(Phase::Update, || g.scoped("sgd", || g.update(weight, weight - gradient * 0.1)));
    let program = compile(&g.finish().unwrap(), &Options::default(), &Caps::h200(), None).unwrap();
    let charged: Vec<(String, String, Phase)> = program
        .plan
        .dispatches
        .iter()
        .map(|dispatch| {
            let origin = &dispatch.provenance.origins[0];
            (dispatch.family(&program.plan.kernels[dispatch.kernel]), origin.scope.to_string(), origin.phase)
        })
        .collect();
    let has = |family: &str, scope: &str, phase| {
        charged.iter().any(|own| own.0.starts_with(family) && own.1 == scope && own.2 == phase)
    };
    assert!(has("contract", "net.fc", Phase::Forward) && has("contract", "net.fc", Phase::Backward), "{charged:?}");
    assert!(charged.iter().any(|own| own.0.ends_with("split")), "{charged:?}");
    let updates = |origin: &meganeura_core::ir::Origin| origin.phase == Phase::Update && &*origin.scope == "sgd";
    let updating = program.plan.dispatches.iter().filter(|dispatch| dispatch.provenance.origins.iter().any(updates));
    assert!(updating.count() >= 1, "{charged:?}");
}
