//! Random graphs.

use meganeura_core::ir::verify;
use meganeura_core::ops::Op;
use meganeura_core::oracle::run;
use meganeura_core::testing::{cases_of_states, random_graph};
use std::collections::HashSet;

#[test]
fn a_thousand_random_graphs_build_verify_and_run() {
    let (mut ops, mut nodes, mut updates, mut losses) = (HashSet::new(), 0, 0, 0);
    for seed in 0..1000 {
        let case = random_graph(seed);
        verify(&case.graph).unwrap_or_else(|error| panic!("{}: {error}\n{}", case.name, case.graph));
        let result = run(&case.graph, &case.inputs, &case.states).unwrap();
        for (name, output) in result.outputs.iter().chain(&result.states) {
            let finite = output.data.iter().all(|x| x.is_finite());
            assert!(finite, "{}: {name} has a value that is not finite\n{}", case.name, case.graph);
        }
        ops.extend(case.graph.nodes().iter().map(|node| node.op.entry()));
        nodes += case.graph.nodes().len();
        updates += case.graph.updates().len();
        losses += usize::from(result.outputs.contains_key("loss"));
    }
    // The fuzz reaches every op, and graphs of the intended size.
    for (entry, _) in Op::registry() {
        assert!(ops.contains(entry), "no random graph has {entry}");
    }
    assert!((20_000..120_000).contains(&nodes), "{nodes} nodes");
    assert!(updates > 200 && losses > 300, "{updates} updates, {losses} losses");
}

#[test]
fn equal_seeds_give_equal_graphs() {
    for seed in [0, 7, 1 << 40] {
        let [a, b] = [random_graph(seed), random_graph(seed)];
        assert_eq!((a.graph, a.inputs, a.states), (b.graph, b.inputs, b.states));
    }
    assert_ne!(random_graph(1).graph, random_graph(1 << 32).graph);
}

#[test]
fn states_are_written_after_every_read_of_the_old_value() {
    for case in cases_of_states() {
        let result = run(&case.graph, &case.inputs, &case.states).unwrap();
        assert_eq!(result.states.len(), case.graph.updates().len(), "{}", case.name);
        if case.name.ends_with("an exchange") {
            assert_eq!((&result.states["s"], &result.states["t"]), (&case.states["t"], &case.states["s"]));
        }
        if let Some(old) = result.outputs.get("old") {
            assert_eq!(old, &case.states["s"]);
        }
    }
}
