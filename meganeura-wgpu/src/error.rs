//! What can go wrong between a planned program and the device that runs it.

use crate::device::Selector;
use crate::wgsl::PrintError;
use meganeura_core::cpu::RunError;
use meganeura_core::kernel::VerifyError;
use meganeura_core::shape::TensorType;
use std::time::Duration;
use thiserror::Error;

/// Why a device, a store or a session could not do what was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// No adapter fits.
    #[error("no adapter for {wanted} among {searched}; there are: {}", listed(found))]
    NoAdapter {
        /// What was asked for.
        wanted: Selector,
        /// The graphics APIs that were searched.
        searched: &'static str,
        /// The adapters that exist, by index and name.
        found: Vec<String>,
    },
    /// Different adapters fit one selector.
    #[error("{wanted} fits several adapters: {}; name one by its index", listed(matches))]
    AmbiguousAdapter {
        /// What was asked for.
        wanted: Selector,
        /// The adapters that fit, by index and name.
        matches: Vec<String>,
    },
    /// The adapter refused to open.
    #[error("adapter {adapter} could not be opened: {message}")]
    Open {
        /// Its name.
        adapter: String,
        /// What the driver or wgpu said.
        message: String,
    },
    /// The program needs more than the device offers.
    #[error("{item} needs {need} of {limit}, but the device has {have}")]
    LimitTooSmall {
        /// What asks for it: a buffer or a dispatch.
        item: String,
        /// The name of the limit, as in [`Caps`](meganeura_core::schedule::Caps).
        limit: &'static str,
        /// What is needed.
        need: u64,
        /// What there is.
        have: u64,
    },
    /// The device has no memory left.
    #[error("the device has no memory left for {item} of {bytes} bytes")]
    OutOfMemory {
        /// What was being allocated.
        item: String,
        /// Its size in bytes; 0 if unknown.
        bytes: u64,
    },
    /// The device is gone: a driver reset, an unplugged card, or `destroy`. Nothing made on it works any more.
    #[error("the device was lost: {message}")]
    Lost {
        /// What the driver or wgpu said.
        message: String,
    },
    /// A kernel breaks an invariant, so that it may not run unchecked. Always a mistake of the compiler.
    #[error("the kernel of {label} is invalid")]
    Kernel {
        /// The first dispatch that uses it.
        label: String,
        /// The invariant and the place.
        #[source]
        source: VerifyError,
    },
    /// A kernel could not be printed as a shader.
    #[error("the kernel of {label} cannot be printed as WGSL")]
    Print {
        /// The first dispatch that needs it.
        label: String,
        /// The reason.
        #[source]
        source: PrintError,
    },
    /// A shader or its pipeline was refused.
    #[error("the shader of {label} was refused: {message}\n{source_text}")]
    Shader {
        /// The first dispatch that needs it.
        label: String,
        /// What wgpu, naga or the driver said.
        message: String,
        /// The WGSL text.
        source_text: String,
    },
    /// wgpu refused a call: a bug of this crate, or of whoever shares the device.
    #[error("wgpu refused to {action}: {message}")]
    Refused {
        /// What was being done.
        action: &'static str,
        /// What wgpu said.
        message: String,
    },
    /// The device did not finish in time.
    #[error("the device did not finish within {} s ({action})", after.as_secs_f64())]
    TimeOut {
        /// What was waited for.
        action: &'static str,
        /// How long.
        after: Duration,
    },
    /// The device cannot do this at all.
    #[error("the device cannot {action}: it lacks {feature}")]
    Unsupported {
        /// What was asked for.
        action: &'static str,
        /// What is missing.
        feature: &'static str,
    },
    /// No tensor has that name.
    #[error("there is no {kind} named {name:?}; there are: {}", listed(known))]
    UnknownTensor {
        /// `input`, `output` or `state`.
        kind: &'static str,
        /// The name given.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// A tensor has another type than the program expects.
    #[error("{name:?} is {expected}, but a tensor {found} was given")]
    WrongType {
        /// The tensor's name.
        name: String,
        /// What the program expects.
        expected: TensorType,
        /// What was given.
        found: TensorType,
    },
    /// A step was asked for before these inputs were ever written.
    #[error("inputs were never written: {}", listed(names))]
    MissingInputs {
        /// Their names.
        names: Vec<String>,
    },
    /// An output was read before the first step.
    #[error("output {name:?} has no value before the first step")]
    NoStep {
        /// Its name.
        name: String,
    },
    /// The state store belongs to another device than the session's.
    #[error("the state store lies on {store}, the session on {session}")]
    OtherDevice {
        /// The store's device.
        store: String,
        /// The session's device.
        session: String,
    },
    /// The plan was made for another state layout than the store's.
    #[error("the plan does not fit the state store: {mismatch}")]
    OtherLayout {
        /// The first difference.
        mismatch: LayoutMismatch,
    },
    /// The plan refers to something that it does not have. Its verifier would have refused it.
    #[error("malformed plan: {item} refers to {what} {index}, of which there are {len}")]
    Malformed {
        /// Where.
        item: String,
        /// What it refers to.
        what: &'static str,
        /// The number it gives.
        index: usize,
        /// How many there are.
        len: usize,
    },
    /// The CPU device stopped inside a step, as at an index out of bounds.
    #[error("the CPU device stopped")]
    Run(#[from] RunError),
    /// Allocated memory is not what was planned (M6).
    #[error("{allocated} bytes were allocated where {planned} were planned")]
    Unplanned {
        /// Bytes planned.
        planned: u64,
        /// Bytes allocated.
        allocated: u64,
    },
}

/// How a plan and a state store disagree.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayoutMismatch {
    /// Sizes of an arena; 0 where there is none.
    #[error("arena {arena} has {planned} bytes in the plan and {stored} in the store")]
    Arena {
        /// Its number.
        arena: usize,
        /// Bytes in the plan.
        planned: usize,
        /// Bytes in the store.
        stored: usize,
    },
    /// A state of the plan is not in the store, or has another type or place there.
    #[error("state {name:?} of the plan is missing in the store, or has another type or place there")]
    State {
        /// Its name.
        name: String,
    },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
