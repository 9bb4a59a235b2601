//! What holds for every op of the table.

use meganeura_core::dtype::DType;
use meganeura_core::ops::{BinaryOp, CompareOp, Op, Operation, Reduce, Sample, Ties, UnaryOp};
use meganeura_core::oracle::{Array, run};
use meganeura_core::scalar::{Binary, Compare, Monoid, Unary};
use meganeura_core::shape::TensorType;
use meganeura_core::testing::{Lack, Variant, cases_of_op_table, lacks};
use std::collections::HashSet;

/// Leaves are not computed, so there is nothing to sample.
const LEAVES: [&str; 2] = ["Input", "State"];

fn operand_types(sample: &Sample) -> Vec<TensorType> {
    sample.operands.iter().map(|operand| operand.ty.clone()).collect()
}

#[test]
fn samples_reach_size_one_primes_tile_edges_and_views() {
    for (entry, samples) in Op::registry().into_iter().filter(|(entry, _)| !LEAVES.contains(entry)) {
        assert_eq!(lacks(&samples), [], "{entry}");
    }
}

#[test]
fn incomplete_samples_are_found() {
    let (_, samples) = Op::registry().into_iter().find(|(entry, _)| *entry == "Gather").unwrap();
    let without = |drop: &dyn Fn(&Sample) -> bool| {
        lacks(&samples.iter().filter(|sample| !drop(sample)).cloned().collect::<Vec<_>>())
    };
    let any_extent = |sample: &Sample, extents: &[usize]| {
        let mut types = operand_types(sample);
        types.push(sample.op.infer(&types).unwrap());
        types.iter().any(|ty| ty.shape.iter().any(|extent| extents.contains(extent)))
    };
    assert_eq!(without(&|_| false), []);
    assert_eq!(without(&|_| true), [Lack::SizeOne, Lack::Prime, Lack::TilePlusOne, Lack::Broadcast][..3]);
    assert_eq!(without(&|sample| any_extent(sample, &[17, 33, 65])), [Lack::TilePlusOne]);
    assert_eq!(without(&|sample| any_extent(sample, &[5, 7, 11, 13])), [Lack::Prime]);
    let one = |sample: &Sample| {
        let types = operand_types(sample);
        types.iter().chain([&sample.op.infer(&types).unwrap()]).any(|ty| ty.elements() == 1)
    };
    assert_eq!(without(&one), [Lack::SizeOne]);
    let flat = |sample: &Sample| operand_types(sample).iter().any(|ty| ty.shape.rank() > 1);
    assert!(without(&flat).contains(&Lack::Permuted));
    assert!(without(&|sample| Variant::Broadcast.applies_to(sample)).contains(&Lack::Broadcast));
}

#[test]
fn eval_gives_the_inferred_type() {
    for case in cases_of_op_table() {
        meganeura_core::ir::verify(&case.graph).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let values = run(&case.graph, &case.inputs, &case.states).unwrap().values;
        for (node, value) in case.graph.nodes().iter().zip(values) {
            assert_eq!(value.ty, node.ty, "{}", case.name);
            assert_eq!(value.data.len(), node.ty.elements(), "{}", case.name);
            let exact = |x: &f64| node.ty.dtype.is_float() || node.ty.dtype.round(*x) == *x;
            assert!(value.data.iter().all(exact), "{}: a value that {} does not hold", case.name, node.ty.dtype);
        }
    }
}

/// The permuted variant is the same function of a permuted operand: guards the harness itself.
#[test]
fn variants_restore_their_operands() {
    for case in cases_of_op_table() {
        let values = run(&case.graph, &case.inputs, &case.states).unwrap();
        let node = case.graph.nodes().last().unwrap();
        let operands: Vec<&Array> = node.operands.iter().map(|id| &values.values[id.index()]).collect();
        assert_eq!(values.outputs["y"].distance(&node.op.eval(&operands, &node.ty)), 0.0, "{}", case.name);
    }
}

#[test]
fn entries_and_names_are_distinct() {
    let entries: Vec<&str> = Op::registry().iter().map(|(entry, _)| *entry).collect();
    assert_eq!(entries.iter().collect::<HashSet<_>>().len(), entries.len());
    let mut names: std::collections::HashMap<&str, &str> = std::collections::HashMap::new();
    for (entry, samples) in Op::registry() {
        for sample in samples {
            assert_eq!(sample.op.entry(), entry);
            let printable = |text: &str| text.chars().all(|c| !c.is_control());
            assert!(printable(sample.op.name()) && printable(&sample.op.attributes()), "{:?}", sample.op);
            assert!(!sample.op.name().is_empty());
            assert_eq!(*names.entry(sample.op.name()).or_insert(entry), entry, "two entries share a name");
        }
    }
}

#[test]
fn every_function_has_a_sample_of_every_type_it_takes() {
    let mut sampled: HashSet<(Op, DType)> = HashSet::new();
    for sample in Op::samples() {
        // Attributes besides the function do not matter here.
        let key = match &sample.op {
            Op::Reduce(reduce) => Op::Reduce(Reduce { monoid: reduce.monoid, axes: vec![], ties: Ties::Shared }),
            op => op.clone(),
        };
        let dtype = sample.operands.first().map_or(DType::F32, |operand| operand.ty.dtype);
        sampled.insert((key, dtype));
    }
    // Not f16: not every device has it.
    for dtype in [DType::F32, DType::U32, DType::I32, DType::Bool] {
        let unary = Unary::ALL.iter().filter(|f| f.takes(dtype)).map(|&f| Op::Unary(UnaryOp(f)));
        let binary = Binary::ALL.iter().filter(|f| f.takes(dtype)).map(|&f| Op::Binary(BinaryOp(f)));
        let compare = Compare::ALL.iter().filter(|f| f.takes(dtype)).map(|&f| Op::Compare(CompareOp(f)));
        let fold = |&monoid: &Monoid| Op::Reduce(Reduce { monoid, axes: vec![], ties: Ties::Shared });
        let reduce = Monoid::ALL.iter().filter(|f| f.takes(dtype)).map(fold);
        for op in unary.chain(binary).chain(compare).chain(reduce) {
            assert!(sampled.contains(&(op.clone(), dtype)), "no sample of {op:?} on {dtype}");
        }
    }
}
