//! A scheduled kernel.

use super::spec::Spec;
use crate::fuse::{Fragment, Provenance, Source};
use crate::kernel::{Access, Kernel};
use serde::{Deserialize, Serialize};

/// A kernel with its schedule and tensors, not yet placed in memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What is computed.
    pub kernel: Kernel,
    /// How it is spread over the device.
    pub spec: Spec,
    /// What each of the kernel's arguments is.
    pub args: Vec<Source>,
    /// For people.
    pub label: String,
    /// For profiles.
    pub provenance: Provenance,
}

impl Step {
    /// A fragment with a schedule.
    pub fn new(fragment: Fragment, spec: Spec) -> Step {
        let Fragment { kernel, args, label, provenance } = fragment;
        Step { kernel, spec, args, label, provenance }
    }

    /// Sources that the kernel reads.
    pub fn reads(&self) -> impl Iterator<Item = Source> + '_ {
        self.with_access(Access::Read)
    }

    /// Sources that the kernel writes.
    pub fn writes(&self) -> impl Iterator<Item = Source> + '_ {
        self.with_access(Access::Write)
    }

    /// The argument that is `source` with that access.
    pub fn position(&self, source: Source, access: Access) -> Option<usize> {
        (0..self.args.len()).find(|&at| self.args[at] == source && self.kernel.args[at].access == access)
    }

    fn with_access(&self, access: Access) -> impl Iterator<Item = Source> + '_ {
        self.args.iter().zip(&self.kernel.args).filter(move |(_, arg)| arg.access == access).map(|(source, _)| *source)
    }
}
