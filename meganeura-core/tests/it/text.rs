//! The text form of graphs, both ways.

use meganeura_core::dtype::DType;
use meganeura_core::ir::{Builder, Graph, ParseError, Phase, StateSpec};
use meganeura_core::scalar::Scalar;
use meganeura_core::shape::TensorType;
use meganeura_core::testing::{Draws, cases_of_op_table, random_graph};

#[track_caller]
fn round_trip(graph: &Graph) {
    let text = graph.to_string();
    let read: Graph = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(read, *graph, "{text}");
    assert_eq!(read.to_string(), text);
}

#[test]
fn every_op_comes_back() {
    cases_of_op_table().iter().for_each(|case| round_trip(&case.graph));
}

#[test]
fn random_graphs_come_back() {
    (0..200).for_each(|seed| round_trip(&random_graph(seed).graph));
}

#[test]
fn names_scopes_and_odd_numbers_come_back() {
    let builder = Builder::new();
    let ty = TensorType::new(DType::F32, [2]);
    let spec = |name: &str, init| StateSpec { name: name.into(), ty: ty.clone(), group: "a \"b\"".into(), init };
    let weight = builder.state(spec("layer 0] \n .weight", Scalar::f32(f32::NAN)));
    builder.state(spec("unread", Scalar::f32(-0.0)));
    let x = builder.input("%0 = add(\"x\\\", [é\u{200b}", ty.clone());
    let sum = builder.scoped("enc \"0\"", || builder.scoped("fc", || weight + x));
    let padded = sum.pad([1], [0], f64::NEG_INFINITY).maximum(sum.like(f64::NAN)).sum_all();
    let new = builder.in_phase(Phase::Update, || weight - 1e-45);
    builder.update(weight, new);
    builder.output("", padded);
    builder.output("two\nlines", padded);
    round_trip(&builder.finish().unwrap());
}

#[test]
fn the_text_form_is_legible() {
    let builder = Builder::new();
    let x = builder.input("x", TensorType::new(DType::F32, [2, 3]));
    let y = builder.scoped("norm", || x.sum([1]));
    builder.output("y", y);
    let text = "%0 = input[\"x\"]() : f32[2, 3]\n\
                %1 = reduce[monoid=sum, axes=[1]](%0) : f32[2] in \"norm\" forward\n\
                output \"y\" = %1\n";
    let graph = builder.finish().unwrap();
    assert_eq!(graph.to_string(), text);
    assert_eq!(format!("# a comment\n\n{text}").parse(), Ok(graph));
}

#[track_caller]
fn refused(text: &str) -> ParseError {
    text.parse::<Graph>().expect_err("a broken text is refused")
}

#[test]
fn every_mistake_has_its_error_and_line() {
    let x = "%0 = input[\"x\"]() : f32[2, 3]\n";
    assert!(matches!(refused("%0 input"), ParseError::Syntax { line: 1, expected: "=", .. }));
    assert!(matches!(refused(&format!("{x}output y = %0")), ParseError::Syntax { line: 2, .. }));
    assert!(matches!(refused(&format!("{x}output \"y\" = %0 %0")), ParseError::Syntax { line: 2, .. }));
    let unknown = refused(&format!("{x}%1 = relu6[k=1](%0) : f32[2, 3]"));
    assert_eq!(unknown, ParseError::UnknownOp { line: 2, name: "relu6".into(), attributes: "k=1".into() });
    assert!(matches!(refused(&format!("{x}%1 = permute[](%0) : f32[3, 2]")), ParseError::UnknownOp { line: 2, .. }));
    let number = refused(&format!("{x}\n%2 = exp(%0) : f32[2, 3]"));
    assert_eq!(number, ParseError::Number { line: 3, expected: 1, found: 2 });
    assert_eq!(refused(&format!("{x}%1 = exp(%1) : f32[2, 3]")), ParseError::Undefined { line: 2, found: "%1".into() });
    assert_eq!(refused("update @0 = %0"), ParseError::Undefined { line: 1, found: "@0".into() });
    assert!(matches!(refused(&format!("{x}%1 = not(%0) : f32[2, 3]")), ParseError::Operands { line: 2, .. }));
    assert!(matches!(refused(&format!("{x}%1 = exp(%0, %0) : f32[2, 3]")), ParseError::Operands { line: 2, .. }));
    let huge = "%0 = input[\"x\"]() : f32[4294967296, 4294967296, 4294967296]";
    assert!(matches!(refused(huge), ParseError::Operands { line: 1, .. }));
    assert!(matches!(refused(&format!("{x}%1 = exp(%0) : f32[6]")), ParseError::ResultType { line: 2, .. }));
    assert!(matches!(refused(&format!("{x}{}", x.replace("%0", "%1"))), ParseError::Graph(_)));
    let message = refused(&format!("{x}%1 = exp(%0) : f32[6]")).to_string();
    assert_eq!(message, "line 2: the result is f32[2, 3], but f32[6] is written");
}

/// Text with one to three characters deleted, replaced, doubled or exchanged.
fn mutated(text: &str, draws: &mut Draws) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    let alphabet: Vec<char> = "%@[](){}=:,.\"\\ \n-0123456789aefinuxé".chars().collect();
    for _ in 0..=draws.below(3) {
        let at = draws.below(chars.len());
        let other = draws.below(chars.len());
        match draws.below(4) {
            0 if chars.len() > 1 => drop(chars.remove(at)),
            1 => chars[at] = draws.pick(&alphabet),
            2 => chars.insert(at, draws.pick(&alphabet)),
            _ => chars.swap(at, other),
        }
    }
    chars.into_iter().collect()
}

#[test]
fn mutated_text_never_panics() {
    let mut draws = Draws::new(3);
    let mut texts: Vec<String> = cases_of_op_table().iter().map(|case| case.graph.to_string()).collect();
    texts.extend((0..50).map(|seed| random_graph(seed).graph.to_string()));
    let (mut refusals, mut graphs) = (0, 0);
    for text in &texts {
        for _ in 0..20 {
            match mutated(text, &mut draws).parse::<Graph>() {
                // What is accepted is a graph like any other.
                Ok(graph) => {
                    round_trip(&graph);
                    graphs += 1;
                }
                Err(_) => refusals += 1,
            }
        }
    }
    assert!(refusals > 1000 && graphs > 100, "{refusals} refused, {graphs} accepted");
}
