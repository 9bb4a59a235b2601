//! The slow meaning of a plan, in f64: what every executor must compute. Storage is poisoned with `NaN`, so a value that
//! is read before it is written, or not written whole, shows.

use super::plan::{Place, Plan};
use crate::kernel::{Access, InterpError, interp as interp_kernel};
use std::collections::HashMap;

/// Runs a plan once on inputs and states by name (absent ones are `NaN`); gives outputs and new states by name.
///
/// # Errors
/// [`InterpError`] if a kernel accesses memory out of bounds.
pub fn interp(
    plan: &Plan,
    inputs: &HashMap<String, Vec<f64>>,
    states: &HashMap<String, Vec<f64>>,
) -> Result<[HashMap<String, Vec<f64>>; 2], InterpError> {
    let key = |place: Place| (place.buffer, place.offset);
    let mut storage: HashMap<(usize, usize), Vec<f64>> = HashMap::new();
    for (ports, given) in [(&plan.inputs, inputs), (&plan.states, states)] {
        for port in ports {
            let poison = || vec![f64::NAN; port.ty.elements()];
            storage.insert(key(port.place), given.get(&port.name).cloned().unwrap_or_else(poison));
        }
    }
    for dispatch in &plan.dispatches {
        let kernel = &plan.kernels[dispatch.kernel];
        let place = |arg: usize| key(dispatch.bindings[dispatch.arg_binding[arg]].place);
        let tensor = |(at, arg): (usize, &crate::kernel::Arg)| match arg.access {
            Access::Write => vec![f64::NAN; arg.elements],
            _ => storage.get(&place(at)).cloned().unwrap_or_else(|| vec![f64::NAN; arg.elements]),
        };
        let mut args: Vec<Vec<f64>> = kernel.args.iter().enumerate().map(tensor).collect();
        interp_kernel(kernel, &mut args)?;
        for (at, (arg, value)) in kernel.args.iter().zip(args).enumerate() {
            if arg.access != Access::Read {
                storage.insert(place(at), value);
            }
        }
    }
    let read = |ports: &[super::Port]| {
        let value =
            |port: &super::Port| (port.name.clone(), storage.get(&key(port.place)).cloned().unwrap_or_default());
        ports.iter().map(value).collect()
    };
    Ok([read(&plan.outputs), read(&plan.states)])
}
