//! Each invariant of partitions, broken.

use super::*;
use crate::dtype::DType;
use crate::fuse::{FuseOptions, partition};
use crate::ir::{Builder, StateSpec};
use crate::kernel::{Access, Expr, ExprId};
use crate::layout::Layouts;
use crate::scalar::{Monoid, Scalar};
use crate::shape::TensorType;

/// `y = exp(x · w)` in one kernel for each op, `w := w + Σ y`.
fn sound() -> (Graph, Partition) {
    let builder = Builder::new();
    let ty = TensorType::new(DType::F32, [4, 4]);
    let spec = StateSpec { name: "w".into(), ty: ty.clone(), group: "parameters".into(), init: Scalar::f32(0.0) };
    let (x, w) = (builder.input("x", ty), builder.state(spec));
    let y = x.matmul(w).exp();
    builder.output("y", y);
    builder.update(w, w + y.sum([0]));
    let graph = builder.finish().unwrap();
    let options = FuseOptions { elementwise: false, rows: false, epilogues: false };
    let partition = partition(&graph, &Layouts::row_major(&graph), options, 8);
    (graph, partition)
}

#[track_caller]
fn broken(max_bindings: usize, damage: impl FnOnce(&mut Partition)) -> PartitionError {
    let (graph, mut partition) = sound();
    verify(&graph, &partition, 8).unwrap();
    damage(&mut partition);
    verify(&graph, &partition, max_bindings).unwrap_err()
}

fn written(fragment: &Fragment) -> Source {
    fragment.writes().next().unwrap()
}

#[test]
fn p1_each_value_is_stored_once() {
    let twice = broken(8, |partition| {
        let again = partition.fragments[1].clone();
        partition.fragments.insert(2, again);
    });
    assert_eq!(twice, PartitionError::StoredTwice(written(&sound().1.fragments[1])));
    let over_input = broken(8, |partition| {
        let x = partition.fragments[0].args[0];
        let written = partition.fragments[1].kernel.args.iter().position(|arg| arg.access == Access::Write).unwrap();
        partition.fragments[1].args[written] = x;
    });
    assert!(matches!(over_input, PartitionError::StoredTwice(_)), "{over_input}");
}

#[test]
fn p2_what_is_read_is_stored_before() {
    let missing = written(&sound().1.fragments[0]);
    let reversed = broken(8, |partition| partition.fragments.swap(0, 1));
    assert_eq!(reversed, PartitionError::NotStored { kernel: 0, missing });
    let absent = broken(8, |partition| drop(partition.fragments.remove(0)));
    assert_eq!(absent, PartitionError::NotStored { kernel: 0, missing });
}

#[test]
fn p3_exactly_what_is_used_is_stored() {
    let (graph, partition) = sound();
    let last = partition.fragments.len() - 1;
    let unused = broken(8, |partition| {
        let mut extra = partition.fragments[last].clone();
        for (source, arg) in extra.args.iter_mut().zip(&extra.kernel.args) {
            if arg.access == Access::Write {
                *source = Source::Temporary(0);
            }
        }
        partition.fragments.push(extra);
    });
    assert_eq!(unused, PartitionError::Unused(Source::Temporary(0)));
    // Without the update and the sum that only it reads.
    let lost = broken(8, |partition| partition.fragments.truncate(last - 1));
    assert!(matches!(lost, PartitionError::Lost(id) if id == graph.updates()[0].value), "{lost}");
}

#[test]
fn p4_at_most_one_contraction_and_no_fold_beside_it() {
    let is_product = |fragment: &Fragment| fragment.kernel.is_contraction();
    let at = sound().1.fragments.iter().position(is_product).unwrap();
    let folds = broken(8, |partition| {
        partition.fragments[at].kernel.exprs.push(Expr::Reduce(Monoid::Sum, ExprId(0)));
    });
    assert_eq!(folds, PartitionError::Contractions { kernel: at });
    let no_product = broken(8, |partition| partition.fragments[at].kernel.body = crate::kernel::Body::Loop);
    assert_eq!(no_product, PartitionError::Contractions { kernel: at });
}

#[test]
fn p5_bindings_within_the_limit() {
    assert_eq!(broken(2, |_| ()), PartitionError::Bindings { kernel: 0, found: 3, limit: 2 });
}
