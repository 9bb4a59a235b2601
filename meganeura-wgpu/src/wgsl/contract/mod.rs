//! Contractions: tiled products on scalar units or cooperative matrices, and products of a matrix with few vectors.

mod context;
mod epilogue;
mod operand;
mod order;
mod quad;
mod space;
mod tile;

use super::bindings::Bindings;
use super::writer::Writer;
use super::{Launch, Needs, PARAMETERS, PrintError, mismatch};
use context::Context;
use meganeura_core::kernel::Kernel;
use meganeura_core::schedule::{Caps, ContractSpec, Spec, Unit};
use order::Order;

/// Prints the body of a contraction.
///
/// # Errors
/// If the kernel is none, or the schedule does not fit the device.
pub(super) fn print(
    kernel: &Kernel,
    spec: &Spec,
    bindings: &mut Bindings,
    caps: &Caps,
    w: &mut Writer,
) -> Result<Launch, PrintError> {
    let context = Context::new(kernel, bindings).ok_or_else(|| mismatch(kernel, spec))?;
    match spec {
        Spec::Contract(contract) => tiled(&context, contract, caps, w),
        _ => Err(mismatch(kernel, spec)),
    }
}

fn tiled(context: &Context<'_>, spec: &ContractSpec, caps: &Caps, w: &mut Writer) -> Result<Launch, PrintError> {
    let [height, width, _] = spec.tile.map(|extent| extent as usize);
    let tiles =
        [context.cols.points().div_ceil(width), context.rows.points().div_ceil(height), context.batch.points()];
    let order = Order::new(tiles, spec.row_group, caps)?;
    let launch = Launch {
        workgroup_size: [spec.threads(), 1, 1],
        grid: order.grid.size,
        parameters: PARAMETERS.to_vec(),
        needs: Needs::default(),
    };
    match spec.unit {
        Unit::Scalar { thread } => tile::print(context, w, spec, thread, &order),
        Unit::Cooperative { .. } => return Err(PrintError::FeatureMissing { feature: "cooperative matrices" }),
    }
    Ok(launch)
}
