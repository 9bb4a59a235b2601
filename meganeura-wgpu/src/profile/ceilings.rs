//! What a device can do at most, measured with ordinary programs: a copy for memory, a large product for arithmetic.

use super::{ProfileError, median};
use crate::device::{Device, DeviceKind};
use crate::error::DeviceError;
use crate::session::Session;
use crate::store::StateStore;
use meganeura_core::cost::Cost;
use meganeura_core::dtype::DType;
use meganeura_core::ir::{BuildErrors, Builder, Graph, StateSpec, Value};
use meganeura_core::memory::Dispatch;
use meganeura_core::options::Options;
use meganeura_core::pipeline::compile;
use meganeura_core::scalar::Scalar;
use meganeura_core::schedule::{ContractSpec, Numerics, Spec, Unit};
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use web_time::{Duration, Instant};

/// What a device can do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Floating-point operations a second of an `f32` product.
    pub flops: f64,
    /// The same of a product on matrix units, if it was measured: for programs that use them.
    pub matrix_flops: Option<f64>,
    /// Bytes a second, read and written, of a copy that no cache holds.
    pub bytes: f64,
}

/// A kernel that takes this long is large enough to be timed.
const LONG_ENOUGH: f64 = 2e-3;
/// Sides of the products that are tried, in this order.
const SIDES: [usize; 5] = [256, 512, 1024, 2048, 4096];
/// Elements of the copies that are tried.
const ELEMENTS: [usize; 3] = [1 << 22, 1 << 24, 1 << 26];
/// How long a program runs before it is timed: an idle GPU lowers its clock.
const SPIN: Duration = Duration::from_millis(200);
/// Steps whose median counts.
const STEPS: usize = 5;

impl Ceilings {
    /// Measures a device, in about a second; products on matrix units only if asked for.
    ///
    /// # Errors
    /// [`ProfileError`] if not even the smallest programs run.
    pub fn measure(device: &Device, matrix_units: bool) -> Result<Ceilings, ProfileError> {
        let _span = tracing::info_span!("measure ceilings").entered();
        let product = |numerics| {
            let cost = |cost: Cost| cost.flops;
            largest(device, &SIDES, &|side| product(side), Options { numerics, ..Options::default() }, &cost)
        };
        let flops = product(Numerics::Strict)?;
        let matrix_flops = if matrix_units { Some(product(Numerics::Accelerated)?) } else { None };
        let bytes = largest(device, &ELEMENTS, &copy, Options::default(), &|cost| cost.bytes())?;
        Ok(Ceilings { flops, matrix_flops, bytes })
    }
}

/// Whether a dispatch multiplies on matrix units.
pub(super) fn uses_matrix_units(dispatch: &Dispatch) -> bool {
    matches!(dispatch.spec, Spec::Contract(ContractSpec { unit: Unit::Cooperative { .. }, .. }))
}

/// Work a second of the first program that takes long enough, or of the largest that fits the device.
fn largest(
    device: &Device,
    sizes: &[usize],
    graph: &dyn Fn(usize) -> Result<Graph, BuildErrors>,
    options: Options,
    work: &dyn Fn(Cost) -> u64,
) -> Result<f64, ProfileError> {
    let mut rate = 0.0;
    for &size in sizes {
        let (seconds, cost) = match run(device, &graph(size)?, &options) {
            Ok(measured) => measured,
            // The device is too small for this size; the last one was large.
            Err(ProfileError::Compile(_) | ProfileError::Device(_)) if rate > 0.0 && !device.is_lost() => break,
            Err(error) => return Err(error),
        };
        rate = work(cost) as f64 / seconds.max(1e-9);
        if seconds >= LONG_ENOUGH {
            break;
        }
    }
    Ok(rate)
}

/// Seconds of a step of a program on random states, and its cost.
fn run(device: &Device, graph: &Graph, options: &Options) -> Result<(f64, Cost), ProfileError> {
    let program = compile(graph, options, device.caps(), None)?;
    let store = StateStore::for_program(device, &program)?;
    for port in &program.plan.states {
        store.write(&port.name, &random(&port.ty)?)?;
    }
    let plan = program.plan;
    let cost = plan.dispatches.iter().map(|dispatch| Cost::of(&plan.kernels[dispatch.kernel])).sum();
    let mut session = Session::new(device, plan, &store)?;
    let clocks_down = !matches!(device.info().kind, DeviceKind::Cpu | DeviceKind::SoftwareGpu);
    let start = Instant::now();
    session.step()?;
    while clocks_down && start.elapsed() < SPIN {
        session.step()?;
    }
    let times = session.time(STEPS)?;
    Ok((median(times.iter().map(|step| step.seconds().sum()).collect()), cost))
}

/// Numbers in (−½, ½) of which no two neighbours are alike: of zeros, GPUs multiply faster.
fn random(ty: &TensorType) -> Result<Tensor, DeviceError> {
    let number = |at: u32| (at.wrapping_mul(0x9e37_79b1) >> 8) as f32 / (1 << 24) as f32 - 0.5;
    let values = (0..ty.elements() as u32).map(number).collect();
    Tensor::from_f32(ty.shape.clone(), values)
        .map_err(|error| DeviceError::Refused { action: "fill a tensor", message: error.to_string() })
}

fn product(side: usize) -> Result<Graph, BuildErrors> {
    let builder = Builder::new();
    let product = state(&builder, "lhs", &[side, side]).matmul(state(&builder, "rhs", &[side, side]));
    builder.output("product", product);
    builder.finish()
}

fn copy(elements: usize) -> Result<Graph, BuildErrors> {
    let builder = Builder::new();
    builder.output("copy", state(&builder, "from", &[elements]));
    builder.finish()
}

/// A state in a group of its own: together they might exceed what one binding holds.
fn state<'g>(builder: &'g Builder, name: &str, shape: &[usize]) -> Value<'g> {
    let (name, group) = (name.to_owned(), name.to_owned());
    builder.state(StateSpec { name, ty: TensorType::new(DType::F32, shape), group, init: Scalar::f32(0.0) })
}
