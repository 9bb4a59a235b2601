//! Each invariant of memory plans, broken, and each error of planning.

use super::*;
use crate::dtype::DType;
use crate::ir::{Builder, Graph, StateSpec};
use crate::memory::{Binding, PlanError, StateLayout};
use crate::options::Options;
use crate::pipeline::{CompileError, compile, planned_as_built};
use crate::scalar::Scalar;
use crate::shape::TensorType;

fn matrix() -> TensorType {
    TensorType::new(DType::F32, [8, 8])
}

/// `y = x · w · w · w · w`, `w := w + x`: three products in two scratch buffers, one in an output, and an update that waits
/// for them all. Each is a dispatch and a group.
fn chain() -> Graph {
    let builder = Builder::new();
    let spec = StateSpec { name: "w".into(), ty: matrix(), group: "parameters".into(), init: Scalar::f32(0.0) };
    let (x, w) = (builder.input("x", matrix()), builder.state(spec));
    builder.output("y", x.matmul(w).matmul(w).matmul(w).matmul(w));
    builder.update(w, w + x);
    builder.finish().unwrap()
}

/// The error that damage to the plan of [`chain`] gives.
#[track_caller]
fn broken(damage: impl FnOnce(&mut Planned)) -> MemoryError {
    let (graph, caps) = (chain(), Caps::base());
    let mut planned = planned_as_built(&graph, &caps).unwrap();
    assert_eq!(planned.plan.dispatches.len(), 5);
    verify(&graph, &planned, &caps).unwrap();
    damage(&mut planned);
    verify(&graph, &planned, &caps).unwrap_err()
}

/// Changes a place wherever it occurs.
fn relocate(planned: &mut Planned, from: Place, to: Place) {
    let places = planned.lifetimes.iter_mut().map(|lifetime| &mut lifetime.place);
    places.filter(|place| **place == from).for_each(|place| *place = to);
    for dispatch in &mut planned.plan.dispatches {
        dispatch.bindings.iter_mut().filter(|binding| binding.place == from).for_each(|binding| binding.place = to);
        // Bindings of one buffer agree.
        let here = |binding: &&mut Binding| binding.place.buffer == to.buffer;
        let written = dispatch.bindings.iter_mut().filter(here).any(|binding| binding.writable);
        dispatch.bindings.iter_mut().filter(here).for_each(|binding| binding.writable = written);
    }
}

/// The place that a dispatch writes.
fn result(planned: &Planned, dispatch: usize) -> Place {
    planned.plan.dispatches[dispatch].bindings.iter().find(|binding| binding.writable).unwrap().place
}

#[test]
fn m1_what_lives_together_shares_nothing() {
    let longer = broken(|planned| {
        assert_eq!(result(planned, 0), result(planned, 2), "the first and third product share storage");
        let first = result(planned, 0);
        let tenant = planned.lifetimes.iter_mut().find(|lifetime| lifetime.place == first).unwrap();
        tenant.to = tenant.to.max(3);
    });
    assert!(matches!(longer, MemoryError::Overlap { .. }), "{longer}");
    // A product may not be written over its own factor.
    let in_place = broken(|planned| relocate(planned, result(planned, 1), result(planned, 0)));
    assert!(matches!(in_place, MemoryError::Overlap { .. }), "{in_place}");
}

#[test]
fn m2_bindings_are_aligned_and_inside() {
    let shifted = broken(|planned| planned.plan.dispatches[0].bindings[0].place.offset = 4);
    assert_eq!(shifted, MemoryError::Alignment { dispatch: 0, offset: 4 });
    let outside = broken(|planned| planned.plan.dispatches[0].bindings[0].place.bytes = 1 << 20);
    assert_eq!(outside, MemoryError::Alignment { dispatch: 0, offset: 0 });
}

#[test]
fn m3_what_is_read_has_a_writer() {
    let unwritten = broken(|planned| drop(planned.plan.dispatches.remove(0)));
    assert_eq!(unwritten, MemoryError::NoWriter { dispatch: 0 });
}

#[test]
fn m4_inputs_stay_and_states_are_written_by_updates_only() {
    let input = broken(|planned| relocate(planned, result(planned, 0), planned.plan.inputs[0].place));
    assert!(matches!(input, MemoryError::Pinned { dispatch: 0, owner: Owner::Input, .. }), "{input}");
    let state = broken(|planned| {
        planned.plan.buffers[0].bytes += 256;
        let beside = Place { offset: 256, ..planned.plan.states[0].place };
        relocate(planned, result(planned, 3), beside);
    });
    assert!(matches!(state, MemoryError::Pinned { dispatch: 3, owner: Owner::Arena(0), .. }), "{state}");
}

#[test]
fn m5_a_buffer_is_bound_in_one_way() {
    let mixed = broken(|planned| {
        let first = planned.plan.dispatches[0].bindings[0];
        planned.plan.dispatches[0].bindings.push(Binding { writable: !first.writable, ..first });
    });
    assert!(matches!(mixed, MemoryError::MixedAccess { dispatch: 0, .. }), "{mixed}");
}

#[test]
fn m7_states_are_written_after_every_read() {
    let early = broken(|planned| {
        // The update runs first of all, the last product reads the state.
        let (mut update, place) = (planned.plan.dispatches.remove(4), planned.plan.states[0].place);
        update.group = 0;
        planned.plan.dispatches.insert(0, update);
        let tenants = planned.lifetimes.iter_mut().filter(|lifetime| lifetime.place == place);
        tenants.for_each(|tenant| (tenant.from, tenant.to) = (0, 3));
    });
    assert_eq!(early, MemoryError::StateOrder { state: "w".into(), written: 0, read: 3 });
}

#[test]
fn m8_every_update_reaches_its_state() {
    let lost = broken(|planned| drop(planned.plan.dispatches.pop()));
    assert_eq!(lost, MemoryError::LostUpdate { state: "w".into() });
}

#[test]
fn groups_ascend() {
    let descending = broken(|planned| planned.plan.dispatches[0].group = 9);
    assert_eq!(descending, MemoryError::Groups { dispatch: 1 });
}

fn refused(graph: &Graph, caps: &Caps, layout: Option<&StateLayout>) -> PlanError {
    match compile(graph, &Options::default(), caps, layout).unwrap_err() {
        CompileError::Plan(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn tensors_too_large_for_the_device_are_errors() {
    let small = Caps { max_binding_bytes: 128, ..Caps::base() };
    let error = refused(&chain(), &small, None);
    let expected = PlanError::TooLarge { what: "x".into(), need: 256, limit: "largest binding", have: 128 };
    assert_eq!(error, expected);
    let small = Caps { max_buffer_bytes: 128, ..Caps::base() };
    assert!(matches!(refused(&chain(), &small, None), PlanError::TooLarge { limit: "largest buffer", .. }));
}

#[test]
fn states_that_the_store_lacks_are_errors() {
    let caps = Caps::base();
    let error = refused(&chain(), &caps, Some(&StateLayout::default()));
    let mismatch = |found: &str| PlanError::StateMismatch { name: "w".into(), expected: matrix(), found: found.into() };
    assert_eq!(error, mismatch("no such state"));
    let mut layout = StateLayout::of_graph(&chain(), &caps);
    layout.states[0].ty.shape = [64].into();
    assert_eq!(refused(&chain(), &caps, Some(&layout)), mismatch("f32[64]"));
}

#[test]
fn kernels_that_bind_too_much_are_errors() {
    let error = refused(&chain(), &Caps { max_bindings: 2, ..Caps::base() }, None);
    assert!(matches!(error, PlanError::Bindings { need: 3, have: 2, .. }), "{error}");
}
