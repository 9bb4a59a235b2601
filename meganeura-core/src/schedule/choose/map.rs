//! Schedules of maps.

use super::super::{Caps, Spec, VECTOR, wide_arguments};
use super::{fill, most_threads, power_below};
use crate::kernel::Kernel;

/// One point an invocation; four where that makes vectors of some accesses and still leaves every multiprocessor busy.
///
/// Workgroups have 256 invocations, or fewer (at least 32) if otherwise some multiprocessors would get none.
pub fn choose(kernel: &Kernel, caps: &Caps) -> Spec {
    let points = kernel.extents().iter().map(|&extent| extent as u64).product::<u64>();
    let last = (0..kernel.axes.len()).rev().find(|&axis| kernel.axes[axis].extent != 1);
    let vectors = last.is_some_and(|axis| wide_arguments(kernel, axis).contains(&true));
    let per_thread = if vectors && points >= VECTOR as u64 * fill(caps) { VECTOR as u32 } else { 1 };
    let invocations = points.div_ceil(u64::from(per_thread));
    let share = power_below(invocations / u64::from(caps.multiprocessors.max(1)));
    let threads = share.clamp(32, 256).min(most_threads(caps));
    Spec::Map { threads, per_thread }
}
