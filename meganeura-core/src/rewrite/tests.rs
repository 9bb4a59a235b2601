//! The rulebook as a test: each rule with graphs on which it fires and graphs that it must leave alone.

use super::*;
use crate::dtype::DType;
use crate::ir::{self, Builder, Graph, GraphError, NodeId, StateSpec, Value};
use crate::ops::{BinaryOp, Bitcast, Broadcast, Cast, Constant, Fill, Op, Pad, Reduce, Reshape, Slice, Ties, UnaryOp};
use crate::oracle::{self, Array};
use crate::scalar::{Binary, Monoid, Scalar, Unary};
use crate::shape::TensorType;
use crate::testing::Draws;
use std::collections::{HashMap, HashSet};

type Build = for<'g> fn(&'g Builder) -> Value<'g>;

struct Entry {
    rule: &'static str,
    /// On each of these the rule fires.
    examples: &'static [Build],
    /// On these, which look alike, it does not.
    near_misses: &'static [Build],
}

fn input<'g>(g: &'g Builder, name: &str, dtype: DType, shape: &[usize]) -> Value<'g> {
    g.input(name, TensorType::new(dtype, shape))
}

fn x(g: &Builder) -> Value<'_> {
    input(g, "x", DType::F32, &[3, 4])
}

fn y(g: &Builder) -> Value<'_> {
    input(g, "y", DType::F32, &[3, 4])
}

fn condition(g: &Builder) -> Value<'_> {
    input(g, "c", DType::Bool, &[3, 4])
}

fn filled(g: &Builder, value: f32) -> Value<'_> {
    g.fill(Scalar::f32(value), [3, 4])
}

/// Every rule, in the order of [`RULES`].
const RULEBOOK: &[Entry] = &[
    Entry {
        rule: "fold-constants",
        examples: &[
            |g| filled(g, 2.0).exp(),
            |g| filled(g, 2.0) + filled(g, 3.0),
            |g| filled(g, 2.0).lt(filled(g, 3.0)),
            |g| filled(g, 2.7).cast(DType::I32),
        ],
        near_misses: &[
            |g| x(g) + filled(g, 3.0),
            // Each device may round f16 its own way.
            |g| g.fill(Scalar::new(DType::F16, 2.0), [3]).exp(),
        ],
    },
    Entry {
        rule: "view-of-constant",
        examples: &[
            |g| g.fill(Scalar::f32(2.0), [4]).broadcast([3, 4]),
            |g| filled(g, 2.0).reshape([12]),
            |g| filled(g, 2.0).transpose(),
            |g| filled(g, 2.0).slice([1, 1], [2, 2]),
            |g| filled(g, 2.0).pad([1, 0], [0, 1], 2.0),
        ],
        near_misses: &[|g| filled(g, 2.0).pad([1, 0], [0, 1], 0.0), |g| x(g).reshape([12])],
    },
    Entry {
        rule: "neutral-element",
        examples: &[
            |g| x(g) + filled(g, 0.0),
            |g| filled(g, 0.0) + x(g),
            |g| x(g) - filled(g, 0.0),
            |g| x(g) * filled(g, 1.0),
            |g| filled(g, 1.0) * x(g),
            |g| x(g) / filled(g, 1.0),
            |g| x(g).pow(filled(g, 1.0)),
        ],
        near_misses: &[
            |g| filled(g, 0.0) - x(g),
            |g| filled(g, 1.0) / x(g),
            |g| filled(g, 1.0).pow(x(g)),
            // 0 · NaN is NaN.
            |g| x(g) * filled(g, 0.0),
        ],
    },
    Entry {
        rule: "double-negation",
        examples: &[|g| -(-x(g)), |g| condition(g).not().not()],
        near_misses: &[|g| -(x(g).abs()), |g| -(input(g, "i", DType::I32, &[3]).not())],
    },
    Entry {
        rule: "negated-summand",
        examples: &[|g| x(g) + -y(g), |g| -x(g) + y(g), |g| x(g) - -y(g)],
        near_misses: &[|g| -x(g) - y(g), |g| x(g) * -y(g)],
    },
    Entry {
        rule: "minus-one",
        examples: &[|g| x(g) * filled(g, -1.0), |g| filled(g, -1.0) * x(g)],
        near_misses: &[|g| x(g) * filled(g, -2.0), |g| x(g) + filled(g, -1.0)],
    },
    Entry {
        rule: "needless-choice",
        examples: &[
            |g| {
                let x = x(g);
                condition(g).select(x, x)
            },
            |g| condition(g).not().select(x(g), y(g)),
            |g| g.fill(Scalar::one(DType::Bool), [3, 4]).select(x(g), y(g)),
            |g| g.fill(Scalar::zero(DType::Bool), [3, 4]).select(x(g), y(g)),
        ],
        near_misses: &[|g| condition(g).select(x(g), y(g))],
    },
    Entry { rule: "stop-gradient", examples: &[|g| x(g).stop_gradient()], near_misses: &[|g| x(g).abs()] },
    Entry {
        rule: "view-without-effect",
        examples: &[
            |g| g.push(Op::Reshape(Reshape { shape: [3, 4].into() }), &[x(g)]),
            |g| g.push(Op::Broadcast(Broadcast { shape: [3, 4].into() }), &[x(g)]),
            |g| g.push(Op::Slice(Slice { starts: vec![0, 0], extents: vec![3, 4] }), &[x(g)]),
            |g| g.push(Op::Pad(Pad { before: vec![0; 2], after: vec![0; 2], fill: Scalar::f32(1.0) }), &[x(g)]),
            |g| g.push(Op::Cast(Cast(DType::F32)), &[x(g)]),
            |g| g.push(Op::Bitcast(Bitcast(DType::F32)), &[x(g)]),
            |g| x(g).permute([0, 1]),
            |g| g.push(Op::Reduce(Reduce { monoid: Monoid::Sum, axes: vec![], ties: Ties::Shared }), &[x(g)]),
        ],
        near_misses: &[
            // The type is the same, the elements are not.
            |g| input(g, "x", DType::F32, &[3, 3]).transpose(),
            |g| x(g).reshape([4, 3]),
            |g| x(g).cast(DType::F16),
        ],
    },
    Entry {
        rule: "view-of-view",
        examples: &[
            |g| x(g).reshape([12]).reshape([2, 6]),
            |g| input(g, "x", DType::F32, &[4]).broadcast([3, 4]).broadcast([2, 3, 4]),
            |g| input(g, "x", DType::F32, &[2, 3, 4]).permute([1, 2, 0]).permute([2, 1, 0]),
            |g| x(g).slice([1, 1], [2, 3]).slice([1, 0], [1, 2]),
        ],
        near_misses: &[|g| x(g).transpose().reshape([12]), |g| x(g).slice([1, 1], [2, 3]).reshape([6])],
    },
    Entry {
        rule: "fold-of-single-elements",
        examples: &[
            |g| input(g, "x", DType::F32, &[3, 1]).sum([1]),
            |g| input(g, "x", DType::F32, &[1, 4, 1]).max([0, 2]),
        ],
        near_misses: &[|g| input(g, "x", DType::F32, &[3, 1, 2]).sum([1, 2]), |g| x(g).sum([1])],
    },
];

fn graph_of(build: Build) -> Graph {
    let builder = Builder::new();
    let value = build(&builder);
    builder.output("out", value);
    builder.finish().unwrap()
}

/// The rule and every firing example.
fn examples() -> impl Iterator<Item = (Rule, Graph)> {
    let of = |entry: &'static Entry| entry.examples.iter().map(|build| (rule_of(entry), graph_of(*build)));
    RULEBOOK.iter().flat_map(of)
}

fn rule_of(entry: &Entry) -> Rule {
    RuleSet::only(entry.rule).unwrap_or_else(|| panic!("no rule `{}`", entry.rule)).rules()[0]
}

fn fires(rule: Rule, graph: &Graph) -> bool {
    simplify(graph, &[rule]).unwrap() != simplify(graph, &[]).unwrap()
}

/// A value for each input: random, with some zeros, ones and signs that rules ask for.
fn inputs(graph: &Graph) -> HashMap<String, Array> {
    let mut draws = Draws::new(1);
    let values = |node: &ir::Node| match &node.op {
        Op::Input(input) => {
            let fill = if node.ty.dtype == DType::Bool { Fill::Bool } else { Fill::Uniform(-2.0, 2.0) };
            Some((input.name.to_string(), draws.fill(&node.ty, fill)))
        }
        _ => None,
    };
    graph.nodes().iter().filter_map(values).collect()
}

#[test]
fn r5_every_rule_has_a_name_an_example_and_a_near_miss() {
    let names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(RULEBOOK.iter().map(|entry| entry.rule).collect::<Vec<_>>(), names);
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len(), "names are unique");
    let readme = include_str!("README.md");
    for entry in RULEBOOK {
        assert!(!entry.examples.is_empty() && !entry.near_misses.is_empty(), "{}", entry.rule);
        assert!(readme.contains(&format!("| `{}` |", entry.rule)), "README.md lacks `{}`", entry.rule);
        for (at, build) in entry.examples.iter().enumerate() {
            assert!(fires(rule_of(entry), &graph_of(*build)), "{}: example {at} does not fire", entry.rule);
        }
        for (at, build) in entry.near_misses.iter().enumerate() {
            assert!(!fires(rule_of(entry), &graph_of(*build)), "{}: near miss {at} fires", entry.rule);
        }
    }
}

#[test]
fn r1_both_sides_have_one_type() {
    for (rule, graph) in examples() {
        let after = simplify(&graph, &[rule]).unwrap();
        ir::verify(&after).and_then(|()| ir::verify_same_boundary(&graph, &after)).unwrap();
    }
}

#[test]
fn r1_a_rule_that_changes_the_type_is_found() {
    let wrong = |site: &Site<'_>| match site.op {
        Op::Unary(_) => Some(Rewrite::Node(Op::Cast(Cast(DType::I32)), site.operands.to_vec())),
        _ => None,
    };
    let after = simplify(&graph_of(|g| x(g).exp()), &[Rule { name: "wrong", apply: wrong }]).unwrap();
    assert!(matches!(ir::verify(&after), Err(GraphError::StoredType { .. })));
    let operand = |site: &Site<'_>| matches!(site.op, Op::Reduce(_)).then(|| Rewrite::Value(site.operands[0]));
    let graph = graph_of(|g| x(g).sum([1]));
    let after = simplify(&graph, &[Rule { name: "wrong", apply: operand }]).unwrap();
    assert!(matches!(ir::verify_same_boundary(&graph, &after), Err(GraphError::Boundary { .. })));
}

#[test]
fn r2_a_rule_whose_measure_does_not_fall_is_stopped() {
    let swap = |site: &Site<'_>| match (site.op, site.operands) {
        (Op::Binary(BinaryOp(Binary::Sub)), [a, b]) => {
            Some(Rewrite::Node(Op::Binary(BinaryOp(Binary::Sub)), vec![*b, *a]))
        }
        _ => None,
    };
    let endless = simplify(&graph_of(|g| x(g) - y(g)), &[Rule { name: "swap", apply: swap }]).unwrap_err();
    assert_eq!(endless, GraphError::EndlessRewrite { node: NodeId(2), rewrites: 64, rule: "swap" });
}

#[test]
fn r3_rules_drop_operands_but_neither_inputs_nor_states() {
    let builder = Builder::new();
    let ty = TensorType::new(DType::F32, [3, 4]);
    let spec = StateSpec { name: "s".into(), ty, group: "parameters".into(), init: Scalar::f32(3.0) };
    let state = builder.state(spec);
    let never = builder.fill(Scalar::zero(DType::Bool), [3, 4]);
    builder.output("out", never.select(x(&builder) + state, y(&builder)));
    let graph = builder.finish().unwrap();
    let after = simplify(&graph, RULES).unwrap();
    assert_eq!((after.nodes().len(), after.states()), (2, graph.states()), "{after}");
    assert!(after.nodes().iter().all(|node| matches!(node.op, Op::Input(_))), "{after}");
}

#[test]
fn r4_values_agree() {
    for (rule, graph) in examples() {
        let after = simplify(&graph, &[rule]).unwrap();
        let inputs = inputs(&graph);
        let [expected, found] =
            [&graph, &after].map(|graph| oracle::run(graph, &inputs, &HashMap::new()).unwrap().outputs);
        // A folded constant is rounded to f32, by at most half a unit in the last place.
        let distance = found["out"].distance(&expected["out"]);
        assert!(distance <= f64::from(f32::EPSILON), "{}: off by {distance}\n{graph}\n{after}", rule.name);
    }
}

#[test]
fn r4_nan_and_infinity_survive() {
    let data = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0];
    fn four(g: &Builder) -> Value<'_> {
        input(g, "x", DType::F32, &[4])
    }
    let graphs: [Build; 4] = [
        |g| four(g) * 0.0,
        |g| {
            let x = four(g);
            x - x
        },
        |g| {
            let x = four(g);
            x / x
        },
        |g| -(-(four(g) * 1.0)) + 0.0,
    ];
    for graph in graphs.map(graph_of) {
        let inputs = HashMap::from([("x".into(), Array::new(TensorType::new(DType::F32, [4]), data.to_vec()))]);
        let after = simplify(&graph, RULES).unwrap();
        let [expected, found] =
            [&graph, &after].map(|graph| oracle::run(graph, &inputs, &HashMap::new()).unwrap().outputs);
        let same = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
        assert!(expected["out"].data.iter().zip(&found["out"].data).all(same), "{graph}\n{after}");
    }
}

#[test]
fn rules_are_switched_off_by_name() {
    assert_eq!(RuleSet::ALL.rules().len(), RULES.len());
    assert_eq!(RuleSet::default().without("no such rule"), None);
    for entry in RULEBOOK {
        let others = RuleSet::ALL.without(entry.rule).unwrap().rules();
        assert_eq!(others.len(), RULES.len() - 1);
        assert!(others.iter().all(|rule| rule.name != entry.rule));
    }
}

#[test]
fn g6_nothing_dead_and_nothing_twice_after_cleaning() {
    let graph = graph_of(|g| (x(g).exp() + y(g)).abs());
    verify_clean(&graph).unwrap();
    let mut dead = graph.clone();
    dead.outputs[0].value = NodeId(3);
    assert_eq!(verify_clean(&dead), Err(GraphError::Unclean { node: NodeId(4), what: "dead" }));
    let mut twice = graph_of(|g| {
        let x = x(g);
        x.exp() + x.abs()
    });
    verify_clean(&twice).unwrap();
    twice.nodes[2].op = Op::Unary(UnaryOp(Unary::Exp));
    assert_eq!(verify_clean(&twice), Err(GraphError::Unclean { node: NodeId(2), what: "a duplicate" }));
    verify_clean(&simplify(&twice, &[]).unwrap()).unwrap();
}

#[test]
fn constants_keep_their_type() {
    let graph = simplify(&graph_of(|g| g.fill(Scalar::u32(7), [2]).cast(DType::F32) * 2.0), RULES).unwrap();
    let constant = Constant { value: Scalar::f32(14.0), shape: [2].into() };
    assert_eq!(graph.nodes()[0].op, Op::Constant(constant));
}
