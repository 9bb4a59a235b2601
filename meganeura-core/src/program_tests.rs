//! Programs that are not what they should be, one damage at a time and at random.

use super::*;
use crate::ir::{Builder, StateSpec};
use crate::kernel::threefry;
use crate::memory::Owner;
use crate::options::Options;
use crate::pipeline::compile;
use crate::testing::cases_of_op_table;

/// A step with a product, a row program and an update.
fn graph(classes: usize) -> Graph {
    let builder = Builder::new();
    let ty = |shape: &[usize]| TensorType::new(crate::dtype::DType::F32, shape);
    let init = Scalar::f32(0.5);
    let spec = StateSpec { name: "w".into(), ty: ty(&[7, classes]), group: "parameters".into(), init };
    let (x, w) = (builder.input("x", ty(&[5, 7])), builder.state(spec));
    let loss = x.matmul(w).softmax(1).mean_all();
    builder.output("loss", loss);
    let gradient = builder.gradients(loss, &[w])[0];
    builder.update(w, w - gradient * 0.1);
    builder.finish().unwrap()
}

#[track_caller]
fn broken(damage: impl FnOnce(&mut Program, &mut Plan, &mut Evidence)) -> ProgramError {
    let (graph, caps) = (graph(3), Caps::base());
    let mut program = compile(&graph, &Options::default(), &caps, None).unwrap();
    program.verify(&graph, &caps, None).unwrap();
    let (mut plan, mut evidence) = ((*program.plan).clone(), (*program.evidence).clone());
    damage(&mut program, &mut plan, &mut evidence);
    let (plan, evidence) = (Arc::new(plan), Arc::new(evidence));
    Program { plan, evidence, ..program }.verify(&graph, &caps, None).unwrap_err()
}

fn boundary(what: &'static str) -> ProgramError {
    ProgramError::Boundary { what }
}

#[test]
fn programs_of_other_graphs_are_refused() {
    assert_eq!(broken(|_, plan, _| plan.inputs[0].name = "z".into()), boundary("inputs"));
    assert_eq!(broken(|_, plan, _| plan.outputs[0].ty.shape = [2].into()), boundary("outputs"));
    assert_eq!(broken(|_, plan, _| plan.states.clear()), boundary("states"));
    assert_eq!(broken(|_, _, evidence| evidence.updates.clear()), boundary("updates"));
    assert_eq!(broken(|program, _, _| program.initial[0].1 = Scalar::f32(0.25)), boundary("initial values"));
    assert_eq!(broken(|program, _, _| program.layout.states[0].offset = 256), boundary("places of states"));
    let (caps, program) = (Caps::base(), compile(&graph(3), &Options::default(), &Caps::base(), None).unwrap());
    assert_eq!(program.verify(&graph(4), &caps, None), Err(boundary("states")));
    assert_eq!(program.verify(&graph(3), &caps, Some(&program.layout)), Ok(()));
    assert_eq!(program.verify(&graph(3), &caps, Some(&StateLayout::default())), Err(boundary("places of states")));
}

#[test]
fn programs_whose_parts_break_invariants_are_refused() {
    let kernel = broken(|_, plan, _| plan.kernels[0].args[0].elements = 1);
    assert!(matches!(kernel, ProgramError::Kernel { kernel: 0, .. }), "{kernel}");
    let spec = schedule::Spec::Map { threads: 1 << 20, per_thread: 1 };
    let threads = broken(|_, plan, _| plan.dispatches.iter_mut().for_each(|dispatch| dispatch.spec = spec));
    assert!(matches!(threads, ProgramError::Schedule { .. }), "{threads}");
    let early = broken(|_, plan, _| plan.dispatches[0].group = 99);
    assert!(matches!(early, ProgramError::Memory(MemoryError::Groups { .. })), "{early}");
    let pinned = broken(|_, plan, _| {
        let written = plan.dispatches[0].bindings.iter().find(|binding| binding.writable).unwrap().place.buffer;
        plan.buffers[written].owner = Owner::Input;
    });
    assert!(matches!(pinned, ProgramError::Memory(MemoryError::Pinned { .. })), "{pinned}");
}

#[test]
fn m9_what_is_referred_to_exists() {
    let what = |error: ProgramError| match error {
        ProgramError::Memory(MemoryError::Missing { what, .. }) => what,
        other => panic!("{other}"),
    };
    assert_eq!(what(broken(|_, plan, _| plan.dispatches[0].kernel = 99)), "kernel");
    assert_eq!(what(broken(|_, plan, _| plan.dispatches[0].bindings[0].place.buffer = 99)), "buffer");
    assert_eq!(what(broken(|_, plan, _| plan.dispatches[0].arg_binding[0] = 99)), "binding");
    assert_eq!(what(broken(|_, plan, _| plan.dispatches[0].arg_binding.truncate(1))), "argument");
    assert_eq!(what(broken(|_, plan, _| plan.dispatches[0].bindings[0].place.bytes = 4)), "byte");
    assert_eq!(what(broken(|_, plan, _| plan.outputs[0].place.offset = usize::MAX)), "byte");
    assert_eq!(what(broken(|_, _, evidence| evidence.lifetimes[0].place.buffer = 99)), "buffer");
    assert_eq!(what(broken(|_, _, evidence| evidence.before.truncate(1))), "lifetime");
    assert_eq!(what(broken(|_, _, evidence| evidence.before[0] = memory::Before::State(9))), "state");
}

#[test]
fn indices_that_nest_without_end_are_not_read() {
    // Div(Index { offset: 0, terms: [Div(…) …
    let bytes = [0, 1, 1].repeat(1 << 20);
    assert!(postcard::from_bytes::<crate::index::Index>(&bytes).is_err());
    let mut index = crate::index::Index::axis(0);
    for _ in 0..9 {
        index = crate::index::Index {
            offset: 1,
            terms: vec![crate::index::Term { atom: crate::index::Atom::Mod(Box::new(index), 3), stride: 2 }],
        };
    }
    assert_eq!(postcard::from_bytes(&postcard::to_stdvec(&index).unwrap()), Ok(index));
}

#[test]
fn no_damage_at_random_makes_verification_panic() {
    let caps = Caps::base();
    for (at, case) in cases_of_op_table().into_iter().enumerate() {
        let program = compile(&case.graph, &Options::default(), &caps, None).unwrap();
        let sound = postcard::to_stdvec(&program).unwrap();
        for round in 0..200_u32 {
            let mut bytes = sound.clone();
            let [place, value] = threefry([at as u32, 1], [round, 0]);
            let place = place as usize % bytes.len();
            bytes[place] = if round % 2 == 0 { value as u8 } else { bytes[place] ^ (1 << (value % 8)) };
            if let Ok(program) = postcard::from_bytes::<Program>(&bytes) {
                // Much of it is harmless: labels, times. What matters is that nothing panics or allocates without bound.
                let _ = program.verify(&case.graph, &caps, None);
            }
        }
    }
}
