//! From fragments to steps.

use super::expand::{self, Expansion};
use super::{Caps, Numerics, Spec, SpecError, Step, Target, choose};
use crate::dtype::DType;
use crate::fuse::{Fragment, Part, Partition, Provenance, Source};
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

/// What scheduling a program depends on besides its kernels.
#[derive(Clone, Copy, Debug)]
pub struct Scheduler<'a> {
    /// The device.
    pub caps: &'a Caps,
    /// Which arithmetic products may use.
    pub numerics: Numerics,
    /// Whether kernels that would leave the device idle are split into several.
    pub expand: bool,
}

impl Scheduler<'_> {
    /// Chooses a schedule for each kernel of a partition; some become several steps that pass temporaries on.
    pub fn schedule(&self, partition: Partition) -> (Vec<Step>, Vec<(DType, usize)>) {
        let mut temporaries = partition.temporaries;
        let mut steps = Vec::with_capacity(partition.fragments.len());
        for fragment in partition.fragments {
            match self.expanded(&fragment.kernel) {
                Some((expansion, spec)) => steps.extend(self.parts(fragment, expansion, spec, &mut temporaries)),
                None => steps.push(self.step(fragment)),
            }
        }
        (steps, temporaries)
    }

    /// One kernel as one step.
    pub fn step(&self, fragment: Fragment) -> Step {
        let spec = choose(&fragment.kernel, self.caps, self.numerics).spec;
        Step::new(fragment, spec)
    }

    /// The kernels that together do what one does, where the rules say that this is faster, and the first one's schedule.
    fn expanded(&self, kernel: &Kernel) -> Option<(Expansion, Spec)> {
        let choice = choose(kernel, self.caps, self.numerics);
        if !self.expand || choice.parts <= 1 {
            return None;
        }
        let expansion = match kernel.is_contraction() {
            true => expand::split_contraction(kernel, choice.parts),
            false => expand::split_rows(kernel, choice.parts),
        };
        expansion.map(|expansion| {
            let first = &expansion.steps[0].kernel;
            // A contraction's schedule was chosen for its parts; chunks of rows are rows of their own.
            let spec = if kernel.is_contraction() { choice.spec } else { choose(first, self.caps, self.numerics).spec };
            (expansion, spec)
        })
    }

    fn parts(
        &self,
        fragment: Fragment,
        expansion: Expansion,
        first: Spec,
        temporaries: &mut Vec<(DType, usize)>,
    ) -> Vec<Step> {
        let base = temporaries.len();
        temporaries.extend(expansion.temporaries.iter().map(|temporary| (temporary.dtype, temporary.elements)));
        let source = |arg: &expand::Source| match *arg {
            expand::Source::Arg(at) => fragment.args[at],
            expand::Source::Temporary(at) => Source::Temporary(base + at),
        };
        let count = expansion.steps.len();
        let step = |(at, part): (usize, expand::Step)| {
            let spec = if at == 0 { first } else { choose(&part.kernel, self.caps, self.numerics).spec };
            let label = format!("{} ({} of {count})", fragment.label, at + 1);
            let provenance = Provenance { part: Some(Part { at, of: count }), ..fragment.provenance.clone() };
            Step { args: part.args.iter().map(source).collect(), kernel: part.kernel, spec, label, provenance }
        };
        expansion.steps.into_iter().enumerate().map(step).collect()
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
