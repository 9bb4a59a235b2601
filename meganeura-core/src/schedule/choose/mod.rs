//! The schedule of a kernel on a device, by rule: a pure function of kernel, device and wanted numerics (S3), so that
//! equal programs are scheduled alike everywhere.

mod contract;
mod map;
mod row;
mod stream;
#[cfg(test)]
mod tests;

use super::{Caps, Spec, Target};
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

/// The schedule of a kernel; satisfies [`verify`](super::verify) on every device with at least WebGPU's default limits.
pub fn choose(kernel: &Kernel, caps: &Caps, numerics: Numerics) -> Choice {
    let whole = |spec| Choice { parts: 1, spec };
    match caps.target {
        // The CPU device blocks and threads each kernel by itself.
        Target::Cpu => whole(Spec::Map { threads: 1, per_thread: 1 }),
        Target::Gpu if kernel.is_contraction() => contract::choose(kernel, caps, numerics),
        Target::Gpu if let Some(body) = kernel.stream() => whole(stream::choose(kernel, body, caps)),
        Target::Gpu if kernel.axes_of(Role::Reduce).is_empty() => whole(map::choose(kernel, caps)),
        Target::Gpu => Choice { parts: row::parts(kernel, caps), spec: row::choose(kernel, caps) },
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
