//! Maps: each invocation computes some consecutive points.

use super::bindings::Bindings;
use super::expr::Exprs;
use super::grid::{Grid, unflatten};
use super::quads::{Quads, store_point};
use super::writer::Writer;
use super::{Launch, Needs, PARAMETERS, PrintError};
use meganeura_core::kernel::Kernel;
use meganeura_core::schedule::{Caps, VECTOR};

/// Writes the body for `threads` invocations of `per_thread` points. Fours of points along the last axis use vectors
/// where the accesses allow.
pub fn print(
    kernel: &Kernel,
    [threads, per_thread]: [u32; 2],
    bindings: &mut Bindings,
    caps: &Caps,
    w: &mut Writer,
) -> Result<Launch, PrintError> {
    let points = kernel.extents().iter().product::<usize>() as u64;
    let (threads, per_thread) = (threads.max(1), per_thread.max(1));
    let axis = (0..kernel.axes.len()).rev().find(|&axis| kernel.axes[axis].extent != 1);
    let quads = match axis {
        Some(axis) if per_thread.is_multiple_of(VECTOR as u32) => Quads::plan(kernel, axis, bindings),
        _ => None,
    };
    let bindings = &*bindings;
    let per_workgroup = u64::from(threads) * u64::from(per_thread);
    let grid = Grid::new(points.div_ceil(per_workgroup), caps)?;
    grid.bind(w);
    w.bind("first", format!("(tile * {threads}u + local) * {per_thread}u"));
    let step = if quads.is_some() { VECTOR as u32 } else { 1 };
    let stores: Vec<usize> = (0..kernel.stores.len()).collect();
    for offset in (0..per_thread).step_by(step as usize) {
        let guard = format!("if first + {offset}u < {points}u");
        w.open(if points.is_multiple_of(per_workgroup) { "" } else { guard.as_str() });
        w.bind("point", format!("first + {offset}u"));
        let mut exprs = Exprs::new(kernel, bindings, coordinates(kernel, w));
        match (&quads, axis) {
            (Some(quads), Some(axis)) => quads.stores(kernel, &mut exprs, w, &format!("i{axis}"), &stores),
            _ => store_point(kernel, &mut exprs, w, &stores),
        }
        w.close();
    }
    let workgroup_size = [threads, 1, 1];
    Ok(Launch { workgroup_size, grid: grid.size, parameters: PARAMETERS.to_vec(), needs: Needs::default() })
}

/// Splits the number of a point in the variable `point` into the coordinates along all axes.
fn coordinates(kernel: &Kernel, w: &mut Writer) -> Vec<String> {
    let named = |(axis, extent)| (format!("i{axis}"), extent);
    unflatten(w, "point", &kernel.extents().into_iter().enumerate().map(named).collect::<Vec<_>>())
}
