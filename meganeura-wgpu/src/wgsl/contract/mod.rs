//! Contractions: tiled products on scalar units or cooperative matrices, and products of a matrix with few vectors.

mod context;
mod coop;
mod epilogue;
mod gemv;
mod operand;
mod order;
mod quad;
mod space;
mod tile;
mod walk;

use super::bindings::Bindings;
use super::writer::Writer;
use super::{Launch, Needs, PARAMETERS, PrintError, mismatch};
use context::Context;
use meganeura_core::dtype::DType;
use meganeura_core::kernel::{Kernel, Role};
use meganeura_core::schedule::{Adjacent, Caps, ContractSpec, Spec, Unit};
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
    let narrow = stored_as_scalars(kernel, spec);
    let context = Context::new(kernel, bindings, &narrow).ok_or_else(|| mismatch(kernel, spec))?;
    match spec {
        Spec::Contract(contract) => tiled(&context, contract, caps, w),
        Spec::Gemv(gemv) if context.rows.points() == 1 || context.cols.points() == 1 => Ok(Launch {
            workgroup_size: [spec.threads(), 1, 1],
            grid: gemv::print(&context, w, gemv, caps)?.size,
            parameters: PARAMETERS.to_vec(),
            needs: Needs::default(),
        }),
        _ => Err(mismatch(kernel, spec)),
    }
}

/// Arguments that must stay arrays of scalars: matrices are stored to, or each invocation stores one result.
fn stored_as_scalars(kernel: &Kernel, spec: &Spec) -> Vec<usize> {
    let stored = || kernel.stores.iter().map(|store| store.arg).collect();
    match spec {
        Spec::Contract(contract) if matches!(contract.unit, Unit::Cooperative { .. }) => {
            coop::direct_store(kernel, contract).map(|direct| direct.arg).into_iter().collect()
        }
        Spec::Gemv(gemv) if gemv.adjacent == Adjacent::Elements => stored(),
        Spec::Gemv(_) if kernel.points(Role::Row) > 1 => stored(),
        _ => Vec::new(),
    }
}

fn tiled(context: &Context<'_>, spec: &ContractSpec, caps: &Caps, w: &mut Writer) -> Result<Launch, PrintError> {
    let [height, width, _] = spec.tile.map(|extent| extent as usize);
    let tiles = [context.cols.points().div_ceil(width), context.rows.points().div_ceil(height), context.batch.points()];
    let order = Order::new(tiles, spec.row_group, caps)?;
    let mut launch = Launch {
        workgroup_size: [spec.threads(), 1, 1],
        grid: order.grid.size,
        parameters: PARAMETERS.to_vec(),
        needs: Needs::default(),
    };
    match spec.unit {
        Unit::Scalar { thread } => tile::print(context, w, spec, thread, &order),
        Unit::Cooperative { size, subgroup, lanes, operand } => {
            launch.parameters.push("@builtin(subgroup_id) subgroup: u32");
            launch.needs = Needs { f16: operand == DType::F16, subgroup: true, cooperative: true };
            let subgroup = subgroup.map(|extent| extent as usize);
            let sizes = coop::Sizes { size: size as usize, subgroup, lanes: lanes as usize, operand };
            coop::print(context, w, spec, &sizes, &order)?;
        }
    }
    Ok(launch)
}
