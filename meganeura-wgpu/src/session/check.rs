//! What a plan must satisfy before buffers are made for it: its kernels are verified, it refers to what it has, the
//! device is large enough, and its states are those of the store. Shaders run unchecked on the strength of this.

use crate::error::{DeviceError, LayoutMismatch};
use meganeura_core::kernel::{self, Kernel};
use meganeura_core::memory::{Binding, Dispatch, Owner, Place, Plan, Port, StateLayout};
use meganeura_core::schedule::{Caps, Target};
use rayon::prelude::*;

/// Verifies a plan's kernels, in parallel.
pub(super) fn verify(plan: &Plan) -> Result<(), DeviceError> {
    let verify = |(kernel, body): (usize, &Kernel)| {
        kernel::verify(body).map_err(|source| {
            let user = plan.dispatches.iter().find(|dispatch| dispatch.kernel == kernel);
            DeviceError::Kernel { label: user.map(|dispatch| dispatch.label.clone()).unwrap_or_default(), source }
        })
    };
    plan.kernels.par_iter().enumerate().try_for_each(verify)
}

/// Checks a plan against a device's limits and a store's layout.
pub(super) fn check(plan: &Plan, layout: &StateLayout, caps: &Caps) -> Result<(), DeviceError> {
    for (at, buffer) in plan.buffers.iter().enumerate() {
        fits(|| format!("buffer {at}"), "max_buffer_bytes", buffer.bytes as u64, caps.max_buffer_bytes)?;
        if let Owner::Arena(arena) = buffer.owner {
            let stored = layout.arenas.get(arena).copied().unwrap_or(0);
            if stored != buffer.bytes {
                let mismatch = LayoutMismatch::Arena { arena, planned: buffer.bytes, stored };
                return Err(DeviceError::OtherLayout { mismatch });
            }
        }
    }
    plan.dispatches.iter().try_for_each(|dispatch| check_dispatch(plan, dispatch, caps))?;
    for port in [&plan.inputs, &plan.outputs, &plan.states].into_iter().flatten() {
        check_place(plan, &port.place, &port.name)?;
        within(|| port.name.clone(), "byte", port.ty.bytes(), port.place.bytes + 1)?;
    }
    plan.states.iter().try_for_each(|state| check_state(plan, state, layout))
}

fn check_dispatch(plan: &Plan, dispatch: &Dispatch, caps: &Caps) -> Result<(), DeviceError> {
    let label = || dispatch.label.clone();
    within(label, "kernel", dispatch.kernel, plan.kernels.len())?;
    fits(label, "max_bindings", dispatch.bindings.len() as u64, u64::from(caps.max_bindings))?;
    // The CPU device spreads kernels its own way.
    if caps.target == Target::Gpu {
        fits(label, "max_invocations", u64::from(dispatch.spec.threads()), u64::from(caps.max_invocations))?;
    }
    for Binding { place, .. } in &dispatch.bindings {
        check_place(plan, place, &dispatch.label)?;
        fits(label, "max_binding_bytes", place.bytes as u64, caps.max_binding_bytes)?;
    }
    let args = &plan.kernels[dispatch.kernel].args;
    within(label, "argument", args.len(), dispatch.arg_binding.len() + 1)?;
    args.iter().zip(&dispatch.arg_binding).try_for_each(|(arg, &binding)| {
        within(label, "binding", binding, dispatch.bindings.len())?;
        let place = dispatch.bindings[binding].place;
        within(label, "byte", arg.elements.saturating_mul(arg.dtype.bytes()), place.bytes + 1)
    })
}

fn check_place(plan: &Plan, place: &Place, item: &str) -> Result<(), DeviceError> {
    let item = || item.to_owned();
    within(item, "buffer", place.buffer, plan.buffers.len())?;
    within(item, "byte", place.offset.saturating_add(place.bytes), plan.buffers[place.buffer].bytes + 1)
}

fn check_state(plan: &Plan, state: &Port, layout: &StateLayout) -> Result<(), DeviceError> {
    let stored = layout.slot(&state.name).is_some_and(|slot| {
        slot.ty == state.ty
            && slot.offset == state.place.offset
            && plan.buffers[state.place.buffer].owner == Owner::Arena(slot.arena)
    });
    if stored {
        return Ok(());
    }
    Err(DeviceError::OtherLayout { mismatch: LayoutMismatch::State { name: state.name.clone() } })
}

fn fits(item: impl Fn() -> String, limit: &'static str, need: u64, have: u64) -> Result<(), DeviceError> {
    if need <= have { Ok(()) } else { Err(DeviceError::LimitTooSmall { item: item(), limit, need, have }) }
}

fn within(item: impl Fn() -> String, what: &'static str, index: usize, len: usize) -> Result<(), DeviceError> {
    if index < len { Ok(()) } else { Err(DeviceError::Malformed { item: item(), what, index, len }) }
}
