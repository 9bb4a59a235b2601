//! A program on a GPU.

use super::{Report, SessionOptions};
use crate::buffers::Buffers;
use crate::device::{Gpu, MAY_WAIT};
use crate::error::DeviceError;
use crate::pipelines::PipelineKey;
use crate::profile::{StepTimes, timestamps};
use crate::record::{Commands, Pipelines, Recorded, Route};
use crate::transfer::{self, PendingRead};
use crate::wgsl::{self, Module};
use meganeura_core::debug::Log;
use meganeura_core::memory::{Binding, Dispatch, Plan, Port};
use meganeura_core::schedule::Spec;
use meganeura_core::tensor::Tensor;
use rayon::prelude::*;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use web_time::{Duration, Instant};
use wgpu::SubmissionIndex;

/// Steps that may be unfinished at once. The next one waits for the oldest, so that a host which runs ahead does not
/// pile up command buffers and staged inputs without bound.
const MAX_IN_FLIGHT: usize = 8;

/// Buffers and a recording.
pub(super) struct GpuProgram {
    gpu: Arc<Gpu>,
    buffers: Buffers,
    commands: Commands,
    in_flight: VecDeque<SubmissionIndex>,
    watchdog: Duration,
}

impl GpuProgram {
    /// Prints and compiles what the plan dispatches, allocates its buffers and binds them.
    pub fn new(
        gpu: &Arc<Gpu>,
        plan: &Plan,
        arenas: &[wgpu::Buffer],
        options: &SessionOptions,
        report: &mut Report,
        log: &Log,
    ) -> Result<GpuProgram, DeviceError> {
        gpu.check()?;
        let mut clock = Instant::now();
        let mut lap = || std::mem::replace(&mut clock, Instant::now()).elapsed().as_secs_f64();
        let route = options.recording.route(gpu)?;
        report.native = route == Route::Native;
        let printed = tracing::info_span!("print").in_scope(|| print(gpu, plan))?;
        report.seconds.print = lap();
        printed.show(log);
        let (pipelines, pipeline_of) =
            tracing::info_span!("compile pipelines").in_scope(|| compile(gpu, plan, &printed, options, route))?;
        report.pipelines = pipelines.len();
        report.seconds.compile = lap();
        let buffers = tracing::info_span!("allocate").in_scope(|| Buffers::allocate(gpu, plan, arenas))?;
        report.allocated_bytes = buffers.allocated;
        report.seconds.allocate = lap();
        let (firsts, group_of) = distinct(plan.dispatches.iter().map(|dispatch| dispatch.bindings.as_slice()));
        let examples: Vec<&Dispatch> = firsts.into_iter().map(|first| &plan.dispatches[first]).collect();
        let recorded = |at: usize| Recorded {
            pipeline: pipeline_of[printed.module_of[at]],
            group: group_of[at],
            grid: printed.modules[printed.module_of[at]].grid,
            barrier: at > 0 && plan.dispatches[at].group != plan.dispatches[at - 1].group,
        };
        let dispatches = (0..plan.dispatches.len()).map(recorded).collect();
        let bind = || pipelines.bind(gpu, &buffers.all, &examples, dispatches);
        let commands = tracing::info_span!("bind").in_scope(bind)?;
        report.seconds.bind = lap();
        let (gpu, watchdog) = (Arc::clone(gpu), options.watchdog);
        Ok(GpuProgram { gpu, buffers, commands, in_flight: VecDeque::new(), watchdog })
    }

    pub fn write(&mut self, port: &Port, tensor: &Tensor) -> Result<(), DeviceError> {
        transfer::upload(&self.gpu, &self.buffers.all[port.place.buffer], port.place.offset, tensor)
    }

    pub fn read(&mut self, port: &Port) -> Result<Tensor, DeviceError> {
        let buffer = &self.buffers.all[port.place.buffer];
        let tensor = transfer::download(&self.gpu, buffer, port.place.offset, &port.ty, self.watchdog)?;
        self.in_flight.clear();
        Ok(tensor)
    }

    pub fn read_later(&self, port: &Port) -> Result<PendingRead, DeviceError> {
        let buffer = &self.buffers.all[port.place.buffer];
        transfer::download_later(&self.gpu, buffer, port.place.offset, &port.ty, self.watchdog)
    }

    pub fn step(&mut self) -> Result<(), DeviceError> {
        while self.in_flight.len() >= MAX_IN_FLIGHT {
            // After a time-out it is still in flight. Where nobody may wait, who runs ahead is held back by the results that
            // he awaits.
            if let Some(oldest) = self.in_flight.front().filter(|_| MAY_WAIT) {
                self.gpu.wait(oldest.clone(), "finish a step", self.watchdog)?;
            }
            self.in_flight.pop_front();
        }
        self.in_flight.push_back(self.commands.submit(&self.gpu)?);
        Ok(())
    }

    /// Waits for all steps.
    pub fn wait(&mut self) -> Result<(), DeviceError> {
        if let Some(last) = self.in_flight.back() {
            self.gpu.wait(last.clone(), "finish a step", self.watchdog)?;
        }
        self.in_flight.clear();
        Ok(())
    }

    /// Runs one step alone, to its end, and times its dispatches.
    pub fn time(&mut self) -> Result<StepTimes, DeviceError> {
        self.wait()?;
        timestamps::time(&self.gpu, &self.commands, self.watchdog)
    }
}

/// The distinct modules of a plan.
struct Printed<'p> {
    modules: Vec<Module>,
    /// A dispatch of each module.
    examples: Vec<&'p Dispatch>,
    /// The module of each dispatch.
    module_of: Vec<usize>,
}

impl Printed<'_> {
    /// Shows the text of each module, under the label of a dispatch of it.
    fn show(&self, log: &Log) {
        for (at, (module, example)) in self.modules.iter().zip(&self.examples).enumerate() {
            log.show(5, &["kernel-", &at.to_string(), ".wgsl"], || format!("// {}\n{}", example.label, module.source));
        }
    }
}

/// Prints each distinct combination of kernel, schedule and bindings once, in parallel.
fn print<'p>(gpu: &Gpu, plan: &'p Plan) -> Result<Printed<'p>, DeviceError> {
    let variant = |dispatch: &'p Dispatch| -> (usize, Spec, Vec<bool>, &'p [usize]) {
        (dispatch.kernel, dispatch.spec, writable(&dispatch.bindings), &dispatch.arg_binding)
    };
    let (firsts, module_of) = distinct(plan.dispatches.iter().map(variant));
    let examples: Vec<&Dispatch> = firsts.into_iter().map(|first| &plan.dispatches[first]).collect();
    let print_one = |dispatch: &&Dispatch| {
        let kernel = &plan.kernels[dispatch.kernel];
        wgsl::print(kernel, &dispatch.spec, &writable(&dispatch.bindings), &dispatch.arg_binding, &gpu.caps)
            .map_err(|source| DeviceError::Print { label: dispatch.label.clone(), source })
    };
    let modules = examples.par_iter().map(print_one).collect::<Result<Vec<_>, _>>()?;
    Ok(Printed { modules, examples, module_of })
}

/// The distinct pipelines, and for each module its one: modules of equal text may differ in their grid.
fn compile(
    gpu: &Gpu,
    plan: &Plan,
    printed: &Printed<'_>,
    options: &SessionOptions,
    route: Route,
) -> Result<(Pipelines, Vec<usize>), DeviceError> {
    let key = |(module, dispatch): (&Module, &&Dispatch)| {
        let source = module.source.clone();
        Arc::new(PipelineKey { source, writable: writable(&dispatch.bindings), checks: options.shader_checks })
    };
    let keys: Vec<Arc<PipelineKey>> = printed.modules.iter().zip(&printed.examples).map(key).collect();
    let (firsts, pipeline_of) = distinct(keys.iter().cloned());
    let named: Vec<(Arc<PipelineKey>, &str)> =
        firsts.into_iter().map(|at| (Arc::clone(&keys[at]), printed.examples[at].label.as_str())).collect();
    let pipelines = Pipelines::compile(gpu, route, &named)?;
    tracing::debug!("{} pipelines for {} dispatches", pipelines.len(), plan.dispatches.len());
    Ok((pipelines, pipeline_of))
}

fn writable(bindings: &[Binding]) -> Vec<bool> {
    bindings.iter().map(|binding| binding.writable).collect()
}

/// The position of the first of each set of equal items, and for each item the number of its set.
fn distinct<K: Hash + Eq>(items: impl Iterator<Item = K>) -> (Vec<usize>, Vec<usize>) {
    let mut sets: HashMap<K, usize> = HashMap::new();
    let mut firsts = Vec::new();
    let set_of = items
        .enumerate()
        .map(|(at, item)| {
            *sets.entry(item).or_insert_with(|| {
                firsts.push(at);
                firsts.len() - 1
            })
        })
        .collect();
    (firsts, set_of)
}
