//! From fragments to steps.

use super::{Caps, Spec, SpecError, Step, Target, choose};
use crate::dtype::DType;
use crate::fuse::Fragment;
use crate::kernel::{self, Kernel};

/// A broken invariant: always a defect of this library, never of a user.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// A kernel breaks K1 to K4.
    #[error("{label}: {error}")]
    Kernel {
        /// What the kernel computes.
        label: String,
        /// What is wrong.
        error: kernel::VerifyError,
    },
    /// A schedule breaks S1 or S2.
    #[error("{label}: {error}")]
    Spec {
        /// What the kernel computes.
        label: String,
        /// What is wrong.
        error: SpecError,
    },
}

/// Chooses a schedule for each fragment; with `expand`, some become several steps that pass temporaries on.
pub fn schedule(
    fragments: Vec<Fragment>,
    temporaries: Vec<(DType, usize)>,
    caps: &Caps,
    expand: bool,
) -> (Vec<Step>, Vec<(DType, usize)>) {
    let _ = expand;
    let steps = fragments.into_iter().map(|fragment| {
        let spec = spec_of(&fragment.kernel, caps);
        Step::new(fragment, spec)
    });
    (steps.collect(), temporaries)
}

fn spec_of(kernel: &Kernel, caps: &Caps) -> Spec {
    match caps.target {
        // The CPU device blocks and threads each kernel by itself.
        Target::Cpu => Spec::Map { threads: 1, per_thread: 1 },
        Target::Gpu => choose(kernel, caps),
    }
}

impl Step {
    /// A kernel that copies, scheduled; its tensors are filled in by the caller.
    pub fn copying(kernel: Kernel, caps: &Caps) -> Step {
        let spec = spec_of(&kernel, caps);
        Step { kernel, spec, args: Vec::new(), label: String::new() }
    }
}

/// Checks K1 to K4 of every kernel, and S1 and S2 of its schedule.
///
/// # Errors
/// The first broken invariant.
pub fn verify_steps(steps: &[Step], caps: &Caps) -> Result<(), ScheduleError> {
    for step in steps {
        let label = || step.label.clone();
        kernel::verify(&step.kernel).map_err(|error| ScheduleError::Kernel { label: label(), error })?;
        if caps.target == Target::Gpu {
            super::verify(&step.kernel, &step.spec, caps)
                .map_err(|error| ScheduleError::Spec { label: label(), error })?;
        }
    }
    Ok(())
}
