//! Schedules of row programs.

use super::super::{Adjacent, Caps, RowSpec, Spec, VECTOR, wide_arguments, workgroup_bytes};
use super::{fill, most_threads, power_below};
use crate::index::Index;
use crate::kernel::{Expr, Kernel, Role};

/// Rows up to this length are walked by one invocation: combining lanes would cost as much as the row.
const SHORT: u64 = 16;

/// Elements (or vectors) that one lane should at least have, so that combining lanes is a small part.
const SHARE: u64 = 4;

/// Invocations of a workgroup unless there are too few rows.
const THREADS: u32 = 256;

/// Neighbouring invocations walk whatever most accesses have adjacent in memory; the lanes of a row are as many as its
/// length deserves, or more if otherwise the device would not be filled.
pub fn choose(kernel: &Kernel, caps: &Caps) -> Spec {
    let rows = kernel.points(Role::Parallel) as u64;
    let length = kernel.points(Role::Reduce) as u64;
    let spec = match adjacent(kernel) {
        Adjacent::Elements => contiguous(kernel, rows, length, caps),
        Adjacent::Rows => columns(rows, length, caps),
    };
    Spec::Row(shrink(kernel, spec, caps))
}

/// Into how many chunks long rows are cut, to be folded by a second kernel: enough to fill the device where rows times
/// lanes do not, each of at least [`CHUNK`] elements.
pub fn parts(kernel: &Kernel, caps: &Caps) -> usize {
    let rows = kernel.points(Role::Parallel).max(1) as u64;
    let length = kernel.points(Role::Reduce) as u64;
    let Spec::Row(spec) = choose(kernel, caps) else { return 1 };
    let busy = rows * u64::from(spec.lanes);
    (fill(caps) / busy.max(1)).min(length / CHUNK).max(1) as usize
}

/// Elements of a row that are worth a pass of their own: a second dispatch costs some microseconds.
const CHUNK: u64 = 4096;

/// The axis along which more loads and stores of elements have unit stride: the last reduce axis, or the last parallel
/// one.
fn adjacent(kernel: &Kernel) -> Adjacent {
    let last = |role: Role| kernel.axes_of(role).into_iter().rev().find(|&axis| kernel.axes[axis].extent != 1);
    let (Some(element), Some(row)) = (last(Role::Reduce), last(Role::Parallel)) else {
        return Adjacent::Elements;
    };
    let varies = kernel.varies_in_row();
    let loads = kernel.exprs.iter().zip(&varies).filter_map(|(expr, varies)| match expr {
        Expr::Load { index, .. } if *varies => Some(index),
        _ => None,
    });
    let stores = kernel.stores.iter().filter(|store| store.per_element).map(|store| &store.index);
    let accesses: Vec<&Index> = loads.chain(stores).collect();
    let along = |axis: usize| accesses.iter().filter(|index| index.stride(axis) == Some(1)).count();
    if along(row) > along(element) { Adjacent::Rows } else { Adjacent::Elements }
}

fn contiguous(kernel: &Kernel, rows: u64, length: u64, caps: &Caps) -> RowSpec {
    let last = kernel.axes_of(Role::Reduce).into_iter().rev().find(|&axis| kernel.axes[axis].extent != 1);
    let vectors = last.is_some_and(|axis| wide_arguments(kernel, axis).contains(&true));
    let items = length.div_ceil(if vectors { VECTOR as u64 } else { 1 });
    let deserved = if length <= SHORT { 1 } else { power_below(items.div_ceil(SHARE)) };
    // Few long rows: more lanes than one workgroup of the usual size.
    let wanted = power_below(fill(caps) / rows.max(1)).min(power_below(items / SHARE)).min(1024);
    let lanes = deserved.min(THREADS).max(if length <= SHORT { 1 } else { wanted });
    RowSpec { lanes, rows: rows_of_workgroup(rows, lanes, caps), adjacent: Adjacent::Elements }
}

/// Rows that fill a workgroup, fewer where that leaves multiprocessors without one, but at least a subgroup's worth.
fn rows_of_workgroup(rows: u64, lanes: u32, caps: &Caps) -> u32 {
    let share = power_below(rows / u64::from(caps.multiprocessors.max(1)));
    let least = (32 / lanes).max(1);
    share.clamp(least, (THREADS / lanes).max(least))
}

/// Columns: 32 neighbouring rows are read together (a cache line of `f32`), lanes split the elements until the device is
/// filled.
fn columns(rows: u64, length: u64, caps: &Caps) -> RowSpec {
    let wanted = power_below(fill(caps).div_ceil(rows.max(1)));
    let lanes = wanted.min(power_below(length / SHARE)).min(32);
    let rows = 32.max(THREADS / lanes).min(power_below(rows.next_power_of_two()).max(1));
    RowSpec { lanes, rows, adjacent: Adjacent::Rows }
}

/// Halves the rows, then the lanes, until the device takes it.
fn shrink(kernel: &Kernel, mut spec: RowSpec, caps: &Caps) -> RowSpec {
    let fits = |spec: &RowSpec| {
        let bytes = workgroup_bytes(kernel, &Spec::Row(*spec));
        spec.lanes * spec.rows <= most_threads(caps) && bytes <= u64::from(caps.workgroup_bytes)
    };
    while !fits(&spec) && spec.lanes * spec.rows > 1 {
        let halved = if spec.rows > 1 { &mut spec.rows } else { &mut spec.lanes };
        *halved /= 2;
    }
    spec
}
