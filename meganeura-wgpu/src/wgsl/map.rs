//! Maps: each invocation computes some consecutive points.

use super::bindings::Bindings;
use super::expr::Exprs;
use super::grid::{Grid, unflatten};
use super::writer::Writer;
use super::{Launch, Needs, PARAMETERS, PrintError};
use meganeura_core::kernel::Kernel;
use meganeura_core::schedule::Caps;

/// Writes the body for `threads` invocations of `per_thread` points.
pub fn print(
    kernel: &Kernel,
    [threads, per_thread]: [u32; 2],
    bindings: &mut Bindings,
    caps: &Caps,
    w: &mut Writer,
) -> Result<Launch, PrintError> {
    let points = kernel.extents().iter().product::<usize>() as u64;
    let (threads, per_thread) = (threads.max(1), per_thread.max(1));
    let grid = Grid::new(points.div_ceil(u64::from(threads) * u64::from(per_thread)), caps)?;
    grid.bind(w);
    w.bind("first", format!("(tile * {threads}u + local) * {per_thread}u"));
    for lane in 0..per_thread {
        let exact = points % (u64::from(threads) * u64::from(per_thread)) == 0;
        w.open(if exact { String::new() } else { format!("if first + {lane}u < {points}u") });
        w.bind("point", format!("first + {lane}u"));
        point(kernel, bindings, w);
        w.close();
    }
    Ok(Launch {
        workgroup_size: [threads, 1, 1],
        grid: grid.size,
        parameters: PARAMETERS.to_vec(),
        needs: Needs::default(),
    })
}

/// Everything at the point whose number is in the variable `point`.
fn point(kernel: &Kernel, bindings: &Bindings, w: &mut Writer) {
    let axes: Vec<(String, usize)> =
        kernel.axes.iter().enumerate().map(|(axis, own)| (format!("i{axis}"), own.extent)).collect();
    let coordinates = unflatten(w, "point", &axes);
    let mut exprs = Exprs::new(kernel, bindings, coordinates);
    let values: Vec<_> = kernel.stores.iter().map(|store| store.value).collect();
    let indices = kernel.stores.iter().flat_map(|store| store.index.values());
    exprs.emit(w, &values.iter().copied().chain(indices).collect::<Vec<_>>());
    for store in &kernel.stores {
        let at = exprs.index_text(&store.index);
        w.line(bindings.store(store.arg, &at, &exprs.text(store.value)));
    }
}
