//! Storage: every tensor gets a range of a buffer.

use super::alias::may_share;
use super::order::Order;
use super::plan::{Binding, Buffer, Dispatch, Owner, Place, Plan, Port, StateLayout};
use crate::dtype::DType;
use crate::fuse::Source;
use crate::ir::{Graph, NodeId, StateId};
use crate::kernel::{Access, Kernel};
use crate::ops::Op;
use crate::schedule::{Caps, Step};
use crate::shape::TensorType;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Why a program cannot be placed on a device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A tensor is larger than the device's buffers or bindings may be.
    #[error("{what} needs {need} bytes, but the device's {limit} is {have} bytes")]
    TooLarge {
        /// The tensor.
        what: String,
        /// Its size.
        need: u64,
        /// Which limit.
        limit: &'static str,
        /// The limit.
        have: u64,
    },
    /// A kernel binds more tensors than the device allows.
    #[error("{kernel} binds {need} tensors, but the device binds at most {have}")]
    Bindings {
        /// What the kernel computes.
        kernel: String,
        /// Tensors that it binds.
        need: usize,
        /// The limit.
        have: usize,
    },
    /// The state store that the program is planned against lacks a state, or has it with another type.
    #[error("the program's state `{name}` is {expected}, but the store has {found}")]
    StateMismatch {
        /// The state.
        name: String,
        /// Its type in the program.
        expected: TensorType,
        /// Its type in the store, or `no such state`.
        found: String,
    },
}

/// From which group to which a tensor's storage holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifetime {
    /// The tensor.
    pub source: Source,
    /// Where it lies.
    pub place: Place,
    /// The group that writes it; 0 for what is there before.
    pub from: usize,
    /// The last group that reads it; `usize::MAX` for what is read after the program.
    pub to: usize,
}

/// A plan and what its verifier needs besides.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// Every tensor with its storage and lifetime.
    pub lifetimes: Vec<Lifetime>,
}

/// Places the tensors of ordered kernels.
///
/// # Errors
/// [`PlanError`] if a tensor exceeds a limit of the device, or `layout` does not have the program's states.
pub fn plan(graph: &Graph, order: &Order, layout: &StateLayout, caps: &Caps) -> Result<Planned, PlanError> {
    let mut placer = Placer::new(graph, order, layout, caps)?;
    placer.place_leaves()?;
    placer.place_results()?;
    for group in 0..=order.groups.last().copied().unwrap_or(0) {
        placer.place_group(group)?;
    }
    placer.finish()
}

struct Placer<'a> {
    graph: &'a Graph,
    order: &'a Order,
    layout: &'a StateLayout,
    caps: &'a Caps,
    buffers: Vec<Buffer>,
    places: HashMap<Source, Place>,
    /// Group of the last read; `usize::MAX` for results.
    last_read: HashMap<Source, usize>,
    written: HashMap<Source, usize>,
    /// Scratch buffers that no living tensor uses: size in bytes and number.
    free: BTreeSet<(usize, usize)>,
}

impl<'a> Placer<'a> {
    fn new(
        graph: &'a Graph,
        order: &'a Order,
        layout: &'a StateLayout,
        caps: &'a Caps,
    ) -> Result<Placer<'a>, PlanError> {
        let (mut last_read, mut written) = (HashMap::new(), HashMap::new());
        for (step, &group) in order.steps.iter().zip(&order.groups) {
            last_read.extend(step.reads().map(|source| (source, group)));
            written.extend(step.writes().map(|source| (source, group)));
        }
        // The old value of a state leaves by a copy; everything else that leaves stays until the host has read it.
        let stays = |root: &NodeId| !matches!(graph.node(*root).op, Op::State(_));
        last_read.extend(graph.roots().filter(stays).map(|root| (Source::Value(root), usize::MAX)));
        for (at, _) in graph.outputs().iter().enumerate() {
            last_read.insert(Source::Output(at), usize::MAX);
        }
        let arena = |(at, &bytes): (usize, &usize)| Buffer { bytes: bytes.max(4), owner: Owner::Arena(at) };
        let buffers = layout.arenas.iter().enumerate().map(arena).collect();
        let (places, free) = (HashMap::new(), BTreeSet::new());
        Ok(Placer { graph, order, layout, caps, buffers, places, last_read, written, free })
    }

    fn place_leaves(&mut self) -> Result<(), PlanError> {
        for id in self.graph.ids() {
            let node = self.graph.node(id);
            match &node.op {
                Op::Input(input) => {
                    let place = self.buffer(node.ty.bytes(), Owner::Input, &input.name)?;
                    self.places.insert(Source::Value(id), place);
                }
                Op::State(state) => {
                    let place = self.state_place(state.id)?;
                    self.places.insert(Source::Value(id), place);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Storage of states' new values and of outputs.
    fn place_results(&mut self) -> Result<(), PlanError> {
        for (&id, &state) in &self.order.in_place {
            let place = self.state_place(state)?;
            self.places.insert(Source::Value(id), place);
        }
        for update in self.graph.updates() {
            let place = self.state_place(update.state)?;
            self.places.insert(Source::State(update.state), place);
        }
        for (at, output) in self.graph.outputs().iter().enumerate() {
            let own = Source::Output(at);
            let source = if self.written.contains_key(&own) { own } else { Source::Value(output.value) };
            if !self.places.contains_key(&source) {
                let bytes = self.graph.node(output.value).ty.bytes();
                let place = self.buffer(bytes, Owner::Output, &output.name)?;
                self.places.insert(source, place);
            }
        }
        Ok(())
    }

    fn state_place(&self, id: StateId) -> Result<Place, PlanError> {
        let state = self.graph.state(id);
        let mismatch = |found: String| PlanError::StateMismatch {
            name: state.name.to_string(),
            expected: state.ty.clone(),
            found,
        };
        let slot = self.layout.slot(&state.name).ok_or_else(|| mismatch("no such state".to_string()))?;
        if slot.ty != state.ty {
            return Err(mismatch(slot.ty.to_string()));
        }
        // Arenas are the first buffers, in order.
        Ok(Place { buffer: slot.arena, offset: slot.offset, bytes: padded(state.ty.bytes()) })
    }

    /// Scratch for what the group's steps write, then release of what they read last.
    fn place_group(&mut self, group: usize) -> Result<(), PlanError> {
        let order = self.order;
        // Groups ascend: a scan for each would be quadratic in the number of steps.
        let [from, to] = [group, group + 1].map(|group| order.groups.partition_point(|&own| own < group));
        let steps = &order.steps[from..to];
        let mut users: HashMap<Source, usize> = HashMap::new();
        for step in steps {
            let own: HashSet<Source> = step.args.iter().copied().collect();
            own.into_iter().for_each(|source| *users.entry(source).or_default() += 1);
        }
        let mut inherited: HashSet<Source> = HashSet::new();
        for step in steps {
            for (at, source) in
                step.args.iter().enumerate().filter(|(at, _)| step.kernel.args[*at].access == Access::Write)
            {
                if self.places.contains_key(source) {
                    continue;
                }
                let place = match self.reusable(step, at, group, &users, &inherited) {
                    Some(read) => {
                        inherited.insert(read);
                        self.places[&read]
                    }
                    None => self.scratch(tensor_bytes(&step.kernel, at), &step.label)?,
                };
                self.places.insert(*source, place);
            }
        }
        for source in users.into_keys().filter(|source| !inherited.contains(source)) {
            let place = self.places[&source];
            // Written but never read: an expansion's leftover; free at once.
            let over = self.last_read.get(&source).is_none_or(|&last| last <= group);
            let buffer = &self.buffers[place.buffer];
            if over && buffer.owner == Owner::Scratch {
                self.free.insert((buffer.bytes, place.buffer));
            }
        }
        Ok(())
    }

    /// A scratch tensor that the step reads for the last time, alone in its group, and may write over. `users` has the
    /// number of the group's steps that touch each source.
    fn reusable(
        &self,
        step: &Step,
        written: usize,
        group: usize,
        users: &HashMap<Source, usize>,
        taken: &HashSet<Source>,
    ) -> Option<Source> {
        let read = (0..step.args.len()).filter(|&at| step.kernel.args[at].access == Access::Read);
        read.filter(|&read| may_share(&step.kernel, read, written)).map(|read| step.args[read]).find(|source| {
            let alone = users.get(source) == Some(&1);
            let last = self.last_read.get(source) == Some(&group);
            let scratch = |place: &Place| self.buffers[place.buffer].owner == Owner::Scratch;
            alone && last && !taken.contains(source) && self.places.get(source).is_some_and(scratch)
        })
    }

    /// The smallest free scratch buffer that is large enough; else the largest, grown; else a new one.
    fn scratch(&mut self, bytes: usize, what: &str) -> Result<Place, PlanError> {
        let bytes = padded(bytes);
        self.check_size(bytes, what)?;
        let enough = self.free.range((bytes, 0)..).next();
        let Some(&best) = enough.or(self.free.last()) else { return self.buffer(bytes, Owner::Scratch, what) };
        self.free.remove(&best);
        let (have, buffer) = best;
        self.buffers[buffer].bytes = have.max(bytes);
        Ok(Place { buffer, offset: 0, bytes })
    }

    fn buffer(&mut self, bytes: usize, owner: Owner, what: &str) -> Result<Place, PlanError> {
        let bytes = padded(bytes);
        self.check_size(bytes, what)?;
        self.buffers.push(Buffer { bytes, owner });
        Ok(Place { buffer: self.buffers.len() - 1, offset: 0, bytes })
    }

    fn check_size(&self, bytes: usize, what: &str) -> Result<(), PlanError> {
        let limits = [("largest binding", self.caps.max_binding_bytes), ("largest buffer", self.caps.max_buffer_bytes)];
        match limits.into_iter().find(|(_, have)| bytes as u64 > *have) {
            Some((limit, have)) => Err(PlanError::TooLarge { what: what.to_string(), need: bytes as u64, limit, have }),
            None => Ok(()),
        }
    }

    fn finish(self) -> Result<Planned, PlanError> {
        let mut kernels: Vec<Kernel> = Vec::new();
        let mut known: HashMap<Kernel, usize> = HashMap::new();
        let mut dispatches = Vec::with_capacity(self.order.steps.len());
        let busy = self.order.steps.iter().zip(&self.order.groups).filter(|(step, _)| !step.kernel.is_idle());
        for (step, &group) in busy {
            let kernel = *known.entry(step.kernel.clone()).or_insert_with(|| {
                kernels.push(step.kernel.clone());
                kernels.len() - 1
            });
            let (bindings, arg_binding) = self.bind(step);
            let (need, have) = (bindings.len(), self.caps.max_bindings as usize);
            if need > have {
                return Err(PlanError::Bindings { kernel: step.label.clone(), need, have });
            }
            let (spec, label, provenance) = (step.spec, step.label.clone(), step.provenance.clone());
            dispatches.push(Dispatch { kernel, spec, bindings, arg_binding, group, label, provenance });
        }
        let port = |name: &str, id: NodeId, source: Source| Port {
            name: name.to_string(),
            ty: self.graph.node(id).ty.clone(),
            place: self.places[&source],
        };
        let inputs = self.graph.ids().filter_map(|id| match &self.graph.node(id).op {
            Op::Input(input) => Some(port(&input.name, id, Source::Value(id))),
            _ => None,
        });
        let outputs = self.graph.outputs().iter().enumerate().map(|(at, output)| {
            let own = Source::Output(at);
            let source = if self.places.contains_key(&own) { own } else { Source::Value(output.value) };
            port(&output.name, output.value, source)
        });
        let states = (0..self.graph.states().len() as u32).map(StateId).map(|id| {
            let state = self.graph.state(id);
            Ok(Port { name: state.name.to_string(), ty: state.ty.clone(), place: self.state_place(id)? })
        });
        let plan = Plan {
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            states: states.collect::<Result<_, PlanError>>()?,
            kernels,
            dispatches,
            buffers: self.buffers.clone(),
        };
        Ok(Planned { plan, lifetimes: self.lifetimes() })
    }

    /// Places of a step's arguments; equal places share a binding, and all bindings of a buffer that is written are
    /// writable (M5).
    fn bind(&self, step: &Step) -> (Vec<Binding>, Vec<usize>) {
        let mut bindings: Vec<Binding> = Vec::new();
        let mut arg_binding = Vec::with_capacity(step.args.len());
        for source in &step.args {
            let place = self.places[source];
            let at = bindings.iter().position(|binding| binding.place == place).unwrap_or_else(|| {
                bindings.push(Binding { place, writable: false });
                bindings.len() - 1
            });
            arg_binding.push(at);
        }
        let written: Vec<usize> = (0..step.args.len())
            .filter(|&at| step.kernel.args[at].access != Access::Read)
            .map(|at| self.places[&step.args[at]].buffer)
            .collect();
        bindings.iter_mut().for_each(|binding| binding.writable = written.contains(&binding.place.buffer));
        (bindings, arg_binding)
    }

    fn lifetimes(&self) -> Vec<Lifetime> {
        let lifetime = |(&source, &place): (&Source, &Place)| {
            let from = self.written.get(&source).copied().unwrap_or(0);
            Lifetime { source, place, from, to: self.last_read.get(&source).copied().unwrap_or(from) }
        };
        let mut lifetimes: Vec<Lifetime> = self.places.iter().map(lifetime).collect();
        lifetimes.sort_by_key(|lifetime| lifetime.source);
        lifetimes
    }
}

/// Bytes of a tensor in memory: never 0, whole words.
fn padded(bytes: usize) -> usize {
    bytes.max(4).next_multiple_of(4)
}

fn tensor_bytes(kernel: &Kernel, arg: usize) -> usize {
    let dtype: DType = kernel.args[arg].dtype;
    kernel.args[arg].elements * dtype.bytes()
}
