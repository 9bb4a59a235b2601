//! Invariants S1 (sizes within the device's limits) and S2 (features the device has) of a schedule.

use super::{Adjacent, Caps, ContractSpec, Spec, Staging, StreamSpec, Unit};
use crate::dtype::DType;
use crate::kernel::{Body, Expr, Kernel, Role};

/// How a schedule breaks an invariant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The schedule is of another family than the kernel.
    #[error("S1: {spec:?} is no schedule for this kind of kernel")]
    Family {
        /// The schedule.
        spec: Spec,
    },
    /// Some count is 0, or a number of lanes is no power of two.
    #[error("S1: {field} is {value}")]
    Field {
        /// Which field.
        field: &'static str,
        /// Its value.
        value: u32,
    },
    /// A size exceeds a limit of the device.
    #[error("S1: {need} {what}, but the device has {have}")]
    Limit {
        /// What is limited.
        what: &'static str,
        /// What the schedule takes.
        need: u64,
        /// What the device offers.
        have: u64,
    },
    /// A feature that the device lacks.
    #[error("S2: the device has no {feature}")]
    Feature {
        /// The feature.
        feature: &'static str,
    },
}

/// Checks a kernel's schedule against a device.
///
/// # Errors
/// The first invariant that does not hold.
pub fn verify(kernel: &Kernel, spec: &Spec, caps: &Caps) -> Result<(), SpecError> {
    family(kernel, spec)?;
    fields(spec)?;
    let limit = |what, need: u64, have: u64| match need <= have {
        true => Ok(()),
        false => Err(SpecError::Limit { what, need, have }),
    };
    let threads = u64::from(spec.threads());
    limit("invocations of a workgroup", threads, u64::from(caps.max_invocations.min(caps.max_workgroup_size[0])))?;
    limit("bytes of workgroup memory", workgroup_bytes(kernel, spec), u64::from(caps.workgroup_bytes))?;
    features(kernel, spec, caps)
}

fn family(kernel: &Kernel, spec: &Spec) -> Result<(), SpecError> {
    let folds = !kernel.axes_of(Role::Reduce).is_empty();
    let fits = match spec {
        Spec::Map { .. } => !folds && kernel.body == Body::Loop,
        Spec::Row(_) => folds && kernel.body == Body::Loop,
        Spec::Stream(_) => kernel.stream().is_some(),
        Spec::Contract(_) | Spec::Gemv(_) => kernel.is_contraction(),
    };
    if fits { Ok(()) } else { Err(SpecError::Family { spec: *spec }) }
}

fn fields(spec: &Spec) -> Result<(), SpecError> {
    let counts = match spec {
        Spec::Map { threads, per_thread } => vec![("threads", *threads), ("per_thread", *per_thread)],
        Spec::Row(row) => vec![("lanes", row.lanes), ("rows", row.rows)],
        Spec::Gemv(gemv) => vec![("lanes", gemv.lanes), ("results", gemv.results)],
        Spec::Contract(contract) => return contract_fields(contract),
        Spec::Stream(stream) => return stream_fields(stream),
    };
    let bad = |&(field, value): &(&str, u32)| value == 0 || field == "lanes" && !value.is_power_of_two();
    match counts.into_iter().find(bad) {
        Some((field, value)) => Err(SpecError::Field { field, value }),
        None => Ok(()),
    }
}

/// A tile must consist of whole vectors and of whole parts of its invocations or subgroups.
fn contract_fields(contract: &ContractSpec) -> Result<(), SpecError> {
    let [rows, cols, depth] = contract.tile;
    let divides = |field, value: u32, extent: u32| match value > 0 && extent > 0 && extent.is_multiple_of(value) {
        true => Ok(()),
        false => Err(SpecError::Field { field, value }),
    };
    divides("row_group", 1, contract.row_group)?;
    if let Staging::Pad(pad) = contract.staging
        && !pad.is_multiple_of(4)
    {
        return Err(SpecError::Field { field: "pad", value: pad });
    }
    [rows, cols, depth].into_iter().try_for_each(|extent| divides("tile", 4, extent))?;
    let (part, unit) = match contract.unit {
        Unit::Scalar { thread } => (thread, 4),
        Unit::Cooperative { size, subgroup, lanes, .. } => {
            divides("lanes", 1, lanes)?;
            divides("size", size, depth)?;
            (subgroup, size)
        }
    };
    for (extent, part) in [rows, cols].into_iter().zip(part) {
        divides("thread or subgroup", part, extent)?;
        divides("thread or subgroup", unit, part)
            .map_err(|_| SpecError::Field { field: "thread or subgroup", value: part })?;
    }
    Ok(())
}

/// Tiles must consist of whole parts of the invocations.
fn stream_fields(stream: &StreamSpec) -> Result<(), SpecError> {
    let fields = [("rows", stream.rows, 4), ("elements", stream.elements, 4), ("depth", stream.depth, 4)];
    let bad = |&(_, value, unit): &(&str, u32, u32)| value == 0 || !value.is_multiple_of(unit);
    let bad = fields.into_iter().find(bad).map(|(field, value, _)| (field, value));
    let cols = ("cols", stream.cols, 4 * stream.lanes().max(1));
    match bad.or((cols.1 == 0 || !cols.1.is_multiple_of(cols.2)).then_some((cols.0, cols.1))) {
        Some((field, value)) => Err(SpecError::Field { field, value }),
        None => Ok(()),
    }
}

fn features(kernel: &Kernel, spec: &Spec, caps: &Caps) -> Result<(), SpecError> {
    if !caps.f16 && (kernel.dtypes.contains(&DType::F16) || kernel.args.iter().any(|arg| arg.dtype == DType::F16)) {
        return Err(SpecError::Feature { feature: "f16" });
    }
    if let Spec::Contract(contract) = spec
        && let Unit::Cooperative { size, operand, .. } = contract.unit
        && !caps.cooperative.iter().any(|unit| unit.size == size && unit.operand == operand)
    {
        return Err(SpecError::Feature { feature: "cooperative matrix of that size and type" });
    }
    Ok(())
}

/// Bytes of workgroup memory that a schedule takes for staged operands and partial folds.
pub fn workgroup_bytes(kernel: &Kernel, spec: &Spec) -> u64 {
    match spec {
        Spec::Map { .. } => 0,
        // Partial folds are of four bytes whatever the type: f16 is folded in f32.
        Spec::Row(row) if row.lanes == 1 => 0,
        Spec::Row(row) => u64::from(row.lanes * row.rows) * 4 * folds_at_once(kernel) as u64,
        // Neighbouring results are summed four at a time.
        Spec::Gemv(gemv) if gemv.adjacent == Adjacent::Rows => u64::from(gemv.lanes * gemv.results) * 16,
        Spec::Gemv(gemv) => u64::from(gemv.lanes * gemv.results) * 4,
        Spec::Contract(contract) => u64::from(contract.staged_bytes() + contract.scratch_bytes()),
        Spec::Stream(stream) => u64::from(stream.bytes()),
    }
}

/// The most folds that one pass of a row program combines.
pub fn folds_at_once(kernel: &Kernel) -> usize {
    let passes = kernel.passes();
    let is_fold = |at: &usize| matches!(kernel.exprs[*at], Expr::Reduce(..));
    let folds: Vec<usize> = (0..passes.len()).filter(is_fold).map(|at| passes[at]).collect();
    folds.iter().map(|pass| folds.iter().filter(|other| *other == pass).count()).max().unwrap_or(0)
}
