//! Kernels printed as WGSL.
//!
//! [`print()`] turns a device-free [`Kernel`] and a schedule into one module with one entry point, `main`. Sizes are
//! constants of the text; equal kernels and specs give equal bytes. Modules may be created without runtime checks: every
//! access is in bounds by the kernel's invariants or masked, workgroup memory is written before it is read, and
//! barriers stand in uniform control flow.

pub mod bindings;
mod contract;
pub mod expr;
mod functions;
pub mod grid;
mod map;
pub mod math;
pub mod quads;
mod random;
mod row;
mod scalar;
mod stream;
pub mod writer;

use bindings::Bindings;
use meganeura_core::dtype::DType;
use meganeura_core::index::ExprId;
use meganeura_core::kernel::{Body, Kernel};
use meganeura_core::schedule::{self, Caps, Spec, SpecError};
use writer::Writer;

/// A printed kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The WGSL text; its entry point is `main`.
    pub source: String,
    /// Invocations of a workgroup along each dimension.
    pub workgroup_size: [u32; 3],
    /// Workgroups to dispatch along each dimension.
    pub grid: [u32; 3],
    /// Device features the text uses.
    pub needs: Needs,
}

/// Optional device features that a module uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Needs {
    /// `f16` arithmetic and storage.
    pub f16: bool,
    /// Subgroup operations.
    pub subgroup: bool,
    /// Cooperative matrices.
    pub cooperative: bool,
}

/// How the body that a family printed is to be launched.
pub(crate) struct Launch {
    pub workgroup_size: [u32; 3],
    pub grid: [u32; 3],
    /// Parameters of the entry point, with their `@builtin`s.
    pub parameters: Vec<&'static str>,
    pub needs: Needs,
}

/// The entry point's parameters that every family uses.
pub(crate) const PARAMETERS: [&str; 2] =
    ["@builtin(workgroup_id) group: vec3<u32>", "@builtin(local_invocation_index) local: u32"];

/// Why a kernel could not be printed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrintError {
    /// The schedule is of another family than the kernel.
    #[error("schedule {spec:?} does not fit a kernel with body {body:?} and {reduce_axes} reduce axes")]
    SpecMismatch {
        /// The schedule.
        spec: Spec,
        /// The kernel's body.
        body: Body,
        /// How many of its axes are folded.
        reduce_axes: usize,
    },
    /// The schedule does not fit the kernel or the device.
    #[error(transparent)]
    Schedule(#[from] SpecError),
    /// A kernel argument is not bound.
    #[error("argument {arg} has none of the {bindings} bindings")]
    ArgumentWithoutBinding {
        /// Position of the argument.
        arg: usize,
        /// Number of bindings.
        bindings: usize,
    },
    /// Arguments of different types share a binding.
    #[error("binding {binding} holds both {first} and {second}")]
    BindingTypes {
        /// Position of the binding.
        binding: usize,
        /// Type of the first argument there.
        first: DType,
        /// Type of another argument there.
        second: DType,
    },
    /// A kernel stores to an argument whose binding is read-only.
    #[error("argument {arg} is stored to, but its binding {binding} is read-only")]
    BindingNotWritable {
        /// Position of the argument.
        arg: usize,
        /// Position of its binding.
        binding: usize,
    },
    /// A fold or accumulator was used where it has no value yet.
    #[error("expression {expr:?} is used before it has a value")]
    NoValueYet {
        /// The expression.
        expr: ExprId,
    },
    /// A function that the operand's type does not have.
    #[error("{function} does not take {dtype}")]
    TypeNotTaken {
        /// Name of the function.
        function: &'static str,
        /// Type of the operand.
        dtype: DType,
    },
    /// Some count exceeds what a shader's 32-bit indices or the device's dispatch can express.
    #[error("{count} {what} exceed the limit of {limit}")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        count: u64,
        /// How many there may be.
        limit: u64,
    },
    /// The device lacks a feature that the kernel needs.
    #[error("the device has no {feature}")]
    FeatureMissing {
        /// The feature.
        feature: &'static str,
    },
}

/// Prints a kernel for a schedule.
///
/// `writable[b]` tells whether binding `b` is declared `read_write`; `arg_binding[a]` is the binding of the kernel's
/// argument `a`. Several arguments of one type may share a binding: they lie at the same place.
///
/// # Errors
/// If the schedule is of another family, the bindings do not fit, or something exceeds what the device can do.
pub fn print(
    kernel: &Kernel,
    spec: &Spec,
    writable: &[bool],
    arg_binding: &[usize],
    caps: &Caps,
) -> Result<Module, PrintError> {
    check_limits(kernel, spec, caps)?;
    let mut bindings = Bindings::new(kernel, writable, arg_binding)?;
    let mut writer = Writer::new();
    let launch = match spec {
        Spec::Map { threads, per_thread } => {
            map::print(kernel, [*threads, *per_thread], &mut bindings, caps, &mut writer)?
        }
        Spec::Row(row) => row::print(kernel, row, &mut bindings, caps, &mut writer)?,
        Spec::Stream(stream) => stream::print(kernel, stream, &mut bindings, caps, &mut writer)?,
        Spec::Contract(_) | Spec::Gemv(_) => contract::print(kernel, spec, &mut bindings, caps, &mut writer)?,
    };
    let f16 = bindings.has_f16() || kernel.dtypes.contains(&DType::F16) || launch.needs.f16;
    let needs = Needs { f16, ..launch.needs };
    let head = format!("{}{}", extensions(needs), bindings.declarations());
    let source = writer.finish(&head, launch.workgroup_size, &launch.parameters)?;
    Ok(Module { source, workgroup_size: launch.workgroup_size, grid: launch.grid, needs })
}

pub(crate) fn mismatch(kernel: &Kernel, spec: &Spec) -> PrintError {
    let reduce_axes = kernel.axes_of(meganeura_core::kernel::Role::Reduce).len();
    PrintError::SpecMismatch { spec: *spec, body: kernel.body.clone(), reduce_axes }
}

fn extensions(needs: Needs) -> String {
    let mut lines = String::new();
    if needs.f16 {
        lines.push_str("enable f16;\n");
    }
    if needs.cooperative {
        lines.push_str("enable wgpu_cooperative_matrix;\n");
    }
    lines
}

fn check_limits(kernel: &Kernel, spec: &Spec, caps: &Caps) -> Result<(), PrintError> {
    // Indices and flattened points are u32; one bit is spared so that sums of an index and a stride do not wrap.
    let limit = u64::from(u32::MAX / 2);
    let points = kernel.axes.iter().map(|axis| axis.extent as u64).product::<u64>();
    let elements = kernel.args.iter().map(|arg| arg.elements as u64).max().unwrap_or(0);
    // Contractions and streams count rows, columns and what is folded apart.
    if kernel.body == Body::Loop && points > limit {
        return Err(PrintError::TooMany { what: "points", count: points, limit });
    }
    if elements > limit {
        return Err(PrintError::TooMany { what: "elements", count: elements, limit });
    }
    Ok(schedule::verify(kernel, spec, caps)?)
}
