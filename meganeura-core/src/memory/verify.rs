//! Invariants of memory plans.

use super::alias::may_share;
use super::evidence::{Before, Evidence, UpdateOf, verify_references};
use super::place::{Lifetime, Planned};
use super::plan::{Dispatch, Owner, Place, Plan};
use crate::fuse::Source;
use crate::ir::Graph;
use crate::kernel::Access;
use crate::schedule::Caps;
use std::collections::{HashMap, HashSet};

/// A broken invariant: always a defect of this library, never of a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// M1.
    #[error("M1: {first:?} and {second:?} live at the same time in the same storage")]
    Overlap {
        /// One tensor.
        first: Source,
        /// The other.
        second: Source,
    },
    /// M2.
    #[error("M2: a binding of dispatch {dispatch} begins at byte {offset} or leaves its buffer")]
    Alignment {
        /// The dispatch.
        dispatch: usize,
        /// The offset.
        offset: usize,
    },
    /// M3.
    #[error("M3: dispatch {dispatch} reads a scratch buffer that nothing has written")]
    NoWriter {
        /// The dispatch.
        dispatch: usize,
    },
    /// M5.
    #[error("M5: dispatch {dispatch} binds buffer {buffer} both read-only and writable")]
    MixedAccess {
        /// The dispatch.
        dispatch: usize,
        /// The buffer.
        buffer: usize,
    },
    /// M4: an input or arena is written by what is not an update, or an output is overwritten.
    #[error("M4: dispatch {dispatch} writes buffer {buffer}, which belongs to {owner:?}")]
    Pinned {
        /// The dispatch.
        dispatch: usize,
        /// The buffer.
        buffer: usize,
        /// Its owner.
        owner: Owner,
    },
    /// M7.
    #[error("M7: state `{state}` is overwritten in group {written}, but its old value is read in group {read}")]
    StateOrder {
        /// The state.
        state: String,
        /// Group of the write.
        written: usize,
        /// Group of the later (or simultaneous) read.
        read: usize,
    },
    /// M8.
    #[error("M8: the new value of state `{state}` never reaches its storage")]
    LostUpdate {
        /// The state.
        state: String,
    },
    /// M9.
    #[error("M9: {item} refers to {what} {index}, of which there are {len}")]
    Missing {
        /// Where.
        item: String,
        /// What it refers to.
        what: &'static str,
        /// The number it gives.
        index: usize,
        /// How many there are.
        len: usize,
    },
    /// Groups do not ascend.
    #[error("dispatch {dispatch} is in an earlier group than the one before it")]
    Groups {
        /// The dispatch.
        dispatch: usize,
    },
}

/// Checks M1 to M5 and M7 to M9; M6 is checked where buffers are allocated.
///
/// # Errors
/// The first broken invariant.
pub fn verify(graph: &Graph, planned: &Planned, caps: &Caps) -> Result<(), MemoryError> {
    verify_plan(&planned.plan, &Evidence::new(graph, planned.lifetimes.clone()), caps)
}

/// [`verify`] without the graph, for plans that come from elsewhere than the compiler: nothing in them is trusted.
///
/// # Errors
/// The first broken invariant.
pub fn verify_plan(plan: &Plan, evidence: &Evidence, caps: &Caps) -> Result<(), MemoryError> {
    verify_references(plan, evidence)?;
    verify_bindings(plan, caps)?;
    let touching = Touching::new(plan);
    verify_lifetimes(&evidence.lifetimes, &touching)?;
    verify_states(evidence, &touching)?;
    verify_updates(plan, evidence)
}

/// The dispatches that touch a place in a group.
struct Touching<'a> {
    plan: &'a Plan,
    dispatches: HashMap<(usize, Place), Vec<&'a Dispatch>>,
}

impl Touching<'_> {
    fn new(plan: &Plan) -> Touching<'_> {
        let mut dispatches: HashMap<(usize, Place), Vec<&Dispatch>> = HashMap::new();
        for dispatch in &plan.dispatches {
            let places: HashSet<Place> = dispatch.bindings.iter().map(|binding| binding.place).collect();
            places.into_iter().for_each(|place| dispatches.entry((dispatch.group, place)).or_default().push(dispatch));
        }
        Touching { plan, dispatches }
    }

    fn of(&self, group: usize, place: Place) -> &[&Dispatch] {
        self.dispatches.get(&(group, place)).map_or(&[], Vec::as_slice)
    }

    /// The arguments of a dispatch that lie at a place and are used in that way.
    fn args(&self, dispatch: &Dispatch, place: Place, access: Access) -> impl Iterator<Item = usize> {
        let args = self.plan.kernels[dispatch.kernel].args.iter().zip(&dispatch.arg_binding).enumerate();
        args.filter(move |(_, (arg, at))| arg.access == access && dispatch.bindings[**at].place == place)
            .map(|(at, _)| at)
    }

    /// Whether exactly one dispatch of the group touches the place, and its kernel may write there what it reads there.
    fn alone(&self, group: usize, place: Place) -> bool {
        let [dispatch] = self.of(group, place) else { return false };
        let kernel = &self.plan.kernels[dispatch.kernel];
        let may_share =
            |read| self.args(dispatch, place, Access::Write).all(|written| may_share(kernel, read, written));
        self.args(dispatch, place, Access::Read).all(may_share)
    }

    /// Whether a dispatch of the group uses the place in that way.
    fn uses(&self, group: usize, place: Place, access: Access) -> bool {
        self.of(group, place).iter().any(|dispatch| self.args(dispatch, place, access).next().is_some())
    }
}

fn verify_bindings(plan: &Plan, caps: &Caps) -> Result<(), MemoryError> {
    let mut written = vec![false; plan.buffers.len()];
    let mut group = 0;
    for (at, dispatch) in plan.dispatches.iter().enumerate() {
        if dispatch.group < group {
            return Err(MemoryError::Groups { dispatch: at });
        }
        group = dispatch.group;
        for binding in &dispatch.bindings {
            let Place { buffer, offset, bytes } = binding.place;
            let aligned = offset % caps.binding_alignment as usize == 0 && bytes % 4 == 0;
            if !aligned || offset.checked_add(bytes).is_none_or(|end| end > plan.buffers[buffer].bytes) {
                return Err(MemoryError::Alignment { dispatch: at, offset });
            }
            let agree = |other: &&super::Binding| other.place.buffer != buffer || other.writable == binding.writable;
            if !dispatch.bindings.iter().all(|other| agree(&other)) {
                return Err(MemoryError::MixedAccess { dispatch: at, buffer });
            }
        }
        let kernel = &plan.kernels[dispatch.kernel];
        let uses = |access: Access| {
            kernel.args.iter().zip(&dispatch.arg_binding).filter(move |(arg, _)| arg.access == access).map(|(_, &b)| b)
        };
        for binding in uses(Access::Read) {
            let buffer = dispatch.bindings[binding].place.buffer;
            if plan.buffers[buffer].owner == Owner::Scratch && !written[buffer] {
                return Err(MemoryError::NoWriter { dispatch: at });
            }
        }
        for binding in uses(Access::Write) {
            let buffer = dispatch.bindings[binding].place.buffer;
            if plan.buffers[buffer].owner == Owner::Input {
                return Err(MemoryError::Pinned { dispatch: at, buffer, owner: Owner::Input });
            }
            written[buffer] = true;
        }
    }
    Ok(())
}

/// M1 (and M4 for outputs, which live to the end): tensors in one scratch or output buffer follow each other; a tensor may begin in
/// the group in which another ends only if one kernel reads the one and writes the other.
fn verify_lifetimes(lifetimes: &[Lifetime], touching: &Touching<'_>) -> Result<(), MemoryError> {
    let mut by_buffer: HashMap<usize, Vec<usize>> = HashMap::new();
    for (at, lifetime) in lifetimes.iter().enumerate() {
        if matches!(touching.plan.buffers[lifetime.place.buffer].owner, Owner::Scratch | Owner::Output) {
            by_buffer.entry(lifetime.place.buffer).or_default().push(at);
        }
    }
    for tenants in by_buffer.values_mut() {
        tenants.sort_by_key(|&at| (lifetimes[at].from, lifetimes[at].to));
        for pair in tenants.windows(2) {
            let [first, second] = [pair[0], pair[1]].map(|at| &lifetimes[at]);
            let meets = first.to == second.from && first.from < second.from && touching.alone(second.from, first.place);
            if first.to >= second.from && !meets {
                return Err(MemoryError::Overlap { first: first.source, second: second.source });
            }
        }
    }
    Ok(())
}

fn verify_states(evidence: &Evidence, touching: &Touching<'_>) -> Result<(), MemoryError> {
    let tenants = || evidence.lifetimes.iter().zip(&evidence.before);
    let mut new_values: HashMap<Place, Vec<&Lifetime>> = HashMap::new();
    for (new, _) in tenants().filter(|(_, before)| **before == Before::Nothing) {
        new_values.entry(new.place).or_default().push(new);
    }
    for (old, before) in tenants() {
        let Before::State(state) = *before else { continue };
        let new_values = new_values.get(&old.place).into_iter().flatten();
        for new in new_values.filter(|new| touching.uses(new.from, new.place, Access::Write)) {
            let together = old.to == new.from && touching.alone(new.from, new.place);
            if old.to >= new.from && !together && touching.uses(old.to, old.place, Access::Read) {
                let state = touching.plan.states[state].name.clone();
                return Err(MemoryError::StateOrder { state, written: new.from, read: old.to });
            }
        }
    }
    Ok(())
}

/// M8: each update's value is computed in, or copied to, its state's storage. M4: nothing else is written to arenas.
fn verify_updates(plan: &Plan, evidence: &Evidence) -> Result<(), MemoryError> {
    let mut written: HashSet<Place> = HashSet::new();
    let place = |update: &UpdateOf| plan.states[update.state].place;
    let updated: HashSet<Place> = evidence.updates.iter().map(place).collect();
    for (at, dispatch) in plan.dispatches.iter().enumerate() {
        let args = plan.kernels[dispatch.kernel].args.iter().zip(&dispatch.arg_binding);
        for (_, &binding) in args.filter(|(arg, _)| arg.access != Access::Read) {
            let place = dispatch.bindings[binding].place;
            let owner = plan.buffers[place.buffer].owner;
            if matches!(owner, Owner::Arena(_)) && !updated.contains(&place) {
                return Err(MemoryError::Pinned { dispatch: at, buffer: place.buffer, owner });
            }
            written.insert(place);
        }
    }
    match evidence.updates.iter().find(|update| !update.keeps && !written.contains(&place(update))) {
        Some(update) => Err(MemoryError::LostUpdate { state: plan.states[update.state].name.clone() }),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
