//! Schedules of streams.

use super::super::{Caps, Spec, StreamSpec, workgroup_bytes};
use super::power_below;
use crate::kernel::{Kernel, Role, Stream};

/// Elements of a tile: eight invocations with four each share a row.
const ELEMENTS: u32 = 32;

/// Tiles as large as workgroup memory allows, but of fewer rows where otherwise multiprocessors had no workgroup.
///
/// Not tuned on any device yet: measured kernels of this kind keep rows in registers and exchange partial products by
/// shuffles.
pub fn choose(kernel: &Kernel, stream: &Stream, caps: &Caps) -> Spec {
    let extent = |axis: usize| kernel.axes[axis].extent as u64;
    let columns = (0..stream.totals.len()).filter_map(|total| stream.column(kernel, total));
    let widest = columns.map(extent).max().unwrap_or(1);
    let deepest = kernel.axes_of(Role::Depth).into_iter().map(extent).max().unwrap_or(1);
    // Each invocation keeps four rows of a column block for each total: more would leave the registers.
    let sums = stream.totals.iter().filter(|total| total.value.is_some()).count();
    let most = if sums > 1 { 64 } else { 128 };
    let cols = (widest.next_multiple_of(32) as u32).next_power_of_two().clamp(32, most);
    let depth = (deepest.next_power_of_two() as u32).clamp(8, 32);
    let mut spec = StreamSpec { rows: 64, elements: ELEMENTS, depth, cols };
    let fits = |spec: &StreamSpec| {
        let bytes = workgroup_bytes(kernel, &Spec::Stream(*spec));
        bytes <= u64::from(caps.workgroup_bytes) && spec.threads() <= super::most_threads(caps)
    };
    while !fits(&spec) && spec.rows > 16 {
        match spec {
            StreamSpec { cols: 128, .. } => spec.cols = 64,
            StreamSpec { depth: 32, .. } => spec.depth = 16,
            _ => spec.rows /= 2,
        }
    }
    let rows = kernel.points(Role::Row) as u64;
    let others = kernel.points(Role::Parallel) as u64 * widest.div_ceil(u64::from(spec.cols));
    let workgroups = |rows_of_tile: u32| rows.div_ceil(u64::from(rows_of_tile)) * others;
    while spec.rows > 16 && workgroups(spec.rows) < u64::from(caps.multiprocessors) {
        spec.rows /= 2;
    }
    // No more rows than there are, in whole parts of a workgroup.
    spec.rows = spec.rows.min(power_below(rows.next_power_of_two()).max(16));
    Spec::Stream(spec)
}
