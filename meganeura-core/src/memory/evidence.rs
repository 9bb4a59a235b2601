//! What the memory verifier needs besides the plan, so that a plan can be verified without the graph that it was made from.

use super::place::Lifetime;
use super::plan::{Binding, Plan};
use super::verify::MemoryError;
use crate::fuse::Source;
use crate::ir::{Graph, Update};
use crate::ops::Op;
use serde::{Deserialize, Serialize};

/// When each tensor lives and where, and what the graph says of states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Every tensor with its storage and lifetime.
    pub lifetimes: Vec<Lifetime>,
    /// For each lifetime what its storage holds before the program runs.
    pub before: Vec<Before>,
    /// The updates that must reach their state's storage, as positions in [`Plan::states`], and those whose new value is
    /// the old one.
    pub updates: Vec<UpdateOf>,
}

/// What a tensor's storage holds before the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Before {
    /// Nothing of use: the tensor is computed.
    Nothing,
    /// An input.
    Input,
    /// The old value of the state at that position of [`Plan::states`].
    State(usize),
}

/// An update of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateOf {
    /// Position in [`Plan::states`].
    pub state: usize,
    /// Whether the new value is the old one, so that nothing needs to be written.
    pub keeps: bool,
}

impl Evidence {
    /// What a graph says about the tensors of its plan.
    pub fn new(graph: &Graph, lifetimes: Vec<Lifetime>) -> Evidence {
        let before = |lifetime: &Lifetime| match lifetime.source {
            Source::Value(id) => match &graph.node(id).op {
                Op::Input(_) => Before::Input,
                Op::State(state) => Before::State(state.id.index()),
                _ => Before::Nothing,
            },
            _ => Before::Nothing,
        };
        let update = |update: &Update| UpdateOf {
            state: update.state.index(),
            keeps: matches!(&graph.node(update.value).op, Op::State(state) if state.id == update.state),
        };
        let (before, updates) = (lifetimes.iter().map(before).collect(), graph.updates().iter().map(update).collect());
        Evidence { lifetimes, before, updates }
    }
}

/// M9: everything that a plan and its evidence refer to exists, and every place lies in its buffer.
///
/// # Errors
/// The first that does not.
pub(super) fn verify_references(plan: &Plan, evidence: &Evidence) -> Result<(), MemoryError> {
    let within = |item: &dyn Fn() -> String, what: &'static str, index: usize, len: usize| match index < len {
        true => Ok(()),
        false => Err(MemoryError::Missing { item: item(), what, index, len }),
    };
    let place = |item: &dyn Fn() -> String, place: &super::Place| {
        within(item, "buffer", place.buffer, plan.buffers.len())?;
        within(
            item,
            "byte",
            place.offset.saturating_add(place.bytes),
            plan.buffers[place.buffer].bytes.saturating_add(1),
        )
    };
    for (at, dispatch) in plan.dispatches.iter().enumerate() {
        let item: &dyn Fn() -> String = &|| format!("dispatch {at}");
        within(item, "kernel", dispatch.kernel, plan.kernels.len())?;
        // That it lies in its buffer is M2.
        let buffers = |binding: &Binding| within(item, "buffer", binding.place.buffer, plan.buffers.len());
        dispatch.bindings.iter().try_for_each(buffers)?;
        let (args, bound) = (&plan.kernels[dispatch.kernel].args, dispatch.arg_binding.len());
        within(item, "argument", args.len().max(bound), args.len().min(bound) + 1)?;
        for (arg, &binding) in args.iter().zip(&dispatch.arg_binding) {
            within(item, "binding", binding, dispatch.bindings.len())?;
            let bytes = arg.elements.saturating_mul(arg.dtype.bytes());
            within(item, "byte", bytes, dispatch.bindings[binding].place.bytes.saturating_add(1))?;
        }
    }
    for port in [&plan.inputs, &plan.outputs, &plan.states].into_iter().flatten() {
        place(&|| port.name.clone(), &port.place)?;
        within(&|| port.name.clone(), "byte", port.ty.bytes(), port.place.bytes.saturating_add(1))?;
    }
    let item: &dyn Fn() -> String = &|| "the evidence".to_string();
    let (lifetimes, before) = (evidence.lifetimes.len(), evidence.before.len());
    within(item, "lifetime", lifetimes.max(before), lifetimes.min(before) + 1)?;
    evidence.lifetimes.iter().try_for_each(|lifetime| place(item, &lifetime.place))?;
    let states = evidence.before.iter().filter_map(|before| match before {
        Before::State(state) => Some(*state),
        _ => None,
    });
    let mut states = states.chain(evidence.updates.iter().map(|update| update.state));
    states.try_for_each(|state| within(item, "state", state, plan.states.len()))
}
