//! The schedule of a kernel on a device, by rule: a pure function of both (S3), so that equal programs are scheduled
//! alike everywhere.

mod map;
mod row;
#[cfg(test)]
mod tests;

use super::{Caps, ContractSpec, Spec, Staging, Unit};
use crate::kernel::{Kernel, Role};

/// The schedule of a kernel; satisfies [`verify`](super::verify) on every device with at least WebGPU's default limits.
pub fn choose(kernel: &Kernel, caps: &Caps) -> Spec {
    match kernel.is_contraction() {
        true => small_tile(),
        false if kernel.axes_of(Role::Reduce).is_empty() => map::choose(kernel, caps),
        false => row::choose(kernel, caps),
    }
}

/// A tile that every device can hold.
fn small_tile() -> Spec {
    Spec::Contract(ContractSpec {
        tile: [32, 32, 16],
        unit: Unit::Scalar { thread: [2, 2] },
        prefetch: false,
        staging: Staging::Pad(4),
        row_group: 1,
    })
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
