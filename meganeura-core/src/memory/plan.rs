//! A planned program as plain data: all that an executor needs.

use crate::fuse::Provenance;
use crate::kernel::{Kernel, Role};
use crate::schedule::Spec;
use crate::shape::TensorType;
use serde::{Deserialize, Serialize};

/// A buffer that an executor allocates or borrows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Buffer {
    /// Size in bytes; a multiple of 4, at least 4.
    pub bytes: usize,
    /// Who owns it.
    pub owner: Owner,
}

/// Who owns a buffer, hence how long its contents live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Owner {
    /// The session: intermediate results, free between steps.
    Scratch,
    /// The session: written by the host between steps.
    Input,
    /// The session: read by the host after a step.
    Output,
    /// The [`StateLayout`]'s arena of this number, owned by the state store.
    Arena(usize),
}

/// A range of a buffer that holds one tensor, row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// Position in [`Plan::buffers`].
    pub buffer: usize,
    /// First byte; a multiple of the device's binding alignment.
    pub offset: usize,
    /// Bytes, rounded up to a multiple of 4.
    pub bytes: usize,
}

/// A place bound to a dispatch. Kernel arguments at the same place share one binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Binding {
    /// What is bound.
    pub place: Place,
    /// Whether the shader may write it. On wgpu's safe path all bindings of one buffer in one dispatch agree (M5).
    pub writable: bool,
}

/// One dispatch of a planned program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    /// Position in [`Plan::kernels`].
    pub kernel: usize,
    /// How it is spread over the device.
    pub spec: Spec,
    /// Places bound, in binding order.
    pub bindings: Vec<Binding>,
    /// For each kernel argument its position in `bindings`.
    pub arg_binding: Vec<usize>,
    /// Dispatches of one group do not depend on each other; a barrier separates groups. Groups ascend in order.
    pub group: usize,
    /// What it computes, for people: layer names and ops.
    pub label: String,
    /// Where it comes from, for profiles.
    pub provenance: Provenance,
}

impl Dispatch {
    /// The kind of its kernel, for profiles: the schedule's, and whether it does a part of the work or combines parts.
    pub fn family(&self, kernel: &Kernel) -> String {
        // The CPU device has one schedule for all kinds.
        let family = match self.spec {
            Spec::Map { .. } if kernel.is_contraction() => "contract",
            Spec::Map { .. } if kernel.stream().is_some() => "stream",
            Spec::Map { .. } if kernel.axes.iter().any(|axis| axis.role == Role::Reduce) => "row",
            spec => spec.family(),
        };
        match self.provenance.part {
            None => family.to_string(),
            Some(part) if part.at + 1 < part.of => format!("{family} split"),
            Some(_) => format!("{family} combine"),
        }
    }
}

/// A named tensor of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Name given by the model.
    pub name: String,
    /// Its type.
    pub ty: TensorType,
    /// Where it lies.
    pub place: Place,
}

/// A planned program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Distinct kernels.
    pub kernels: Vec<Kernel>,
    /// All buffers that the dispatches touch.
    pub buffers: Vec<Buffer>,
    /// In execution order.
    pub dispatches: Vec<Dispatch>,
    /// Written by the host before a step.
    pub inputs: Vec<Port>,
    /// Read by the host after a step.
    pub outputs: Vec<Port>,
    /// The states the program reads or updates; their places lie in arenas.
    pub states: Vec<Port>,
}

impl Plan {
    /// Bytes of all buffers that a session allocates, arenas of the state store not included.
    pub fn session_bytes(&self) -> usize {
        self.buffers.iter().filter(|buffer| !matches!(buffer.owner, Owner::Arena(_))).map(|buffer| buffer.bytes).sum()
    }

    /// Bytes of all buffers: the peak of device memory while the program runs.
    pub fn total_bytes(&self) -> usize {
        self.buffers.iter().map(|buffer| buffer.bytes).sum()
    }
}

/// Where each state of a store lies. A store makes it from the first program's states; later programs that share the
/// store are planned against it.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StateLayout {
    /// Bytes of each arena.
    pub arenas: Vec<usize>,
    /// Every state, sorted by name.
    pub states: Vec<StateSlot>,
}

/// One state of a [`StateLayout`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateSlot {
    /// Unique name.
    pub name: String,
    /// Its type.
    pub ty: TensorType,
    /// Position in [`StateLayout::arenas`].
    pub arena: usize,
    /// First byte in the arena.
    pub offset: usize,
}
