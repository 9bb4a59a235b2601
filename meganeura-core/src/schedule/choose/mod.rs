//! The schedule of a kernel on a device, by rule: a pure function of both (S3), so that equal programs are scheduled
//! alike everywhere.

mod contract;
mod map;
mod row;
#[cfg(test)]
mod tests;

pub use contract::contract;

use super::{Caps, Spec};
use crate::kernel::{Kernel, Role};

/// Which arithmetic products may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Numerics {
    /// Operands are multiplied in their own type: `f32` operands never go to units that round them to `f16`.
    #[default]
    Strict,
    /// `f32` operands may be rounded to `f16` for matrix units; sums stay `f32`.
    Accelerated,
}

/// How a kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Choice {
    /// Into how many parts the folded axes are split first, by [`super::expand`]; 1 = not. The expansion may make fewer.
    pub parts: usize,
    /// The schedule of the kernel, or of the parts' kernel if there are several.
    pub spec: Spec,
}

/// The schedule of a kernel that is not expanded, in its own arithmetic; satisfies [`verify`](super::verify) on every device with at least WebGPU's default limits.
pub fn choose(kernel: &Kernel, caps: &Caps) -> Spec {
    match kernel.is_contraction() {
        true => contract(kernel, caps, Numerics::Strict).spec,
        false if kernel.axes_of(Role::Reduce).is_empty() => map::choose(kernel, caps),
        false => row::choose(kernel, caps),
    }
}

/// Invocations that keep a device busy: eight subgroups of 32 on each multiprocessor, with which loads' latency starts
/// to be hidden.
fn fill(caps: &Caps) -> u64 {
    u64::from(caps.multiprocessors) * 256
}

/// Invocations of the largest workgroup.
fn most_threads(caps: &Caps) -> u32 {
    caps.max_invocations.min(caps.max_workgroup_size[0]).max(1)
}

/// The greatest power of two not above `value`; 1 for 0.
fn power_below(value: u64) -> u32 {
    if value == 0 { 1 } else { 1 << value.ilog2().min(31) }
}
