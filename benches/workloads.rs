//! Whole training steps: how long one takes, where its time goes, and how long until it can run.
//!
//! ```text
//! cargo bench --bench workloads                                 # the best GPU
//! cargo bench --bench workloads -- --device cpu --batches 128 --json results.json
//! ```
//!
//! The file that `--json` writes has the format `bench-v1`: one cell for each workload, batch and path. A sample is one step on
//! inputs that are on the device, from before its submission until the device is idle, by the host's clock.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "workloads/cell.rs"]
mod cell;
mod common;
#[path = "workloads/mnist.rs"]
mod mnist;

use cell::Cell;
use clap::Parser;
use common::{Common, Failure, PATHS, Path, clocks_down, dispatch_seconds, median, queued_seconds, spin};
use meganeura::prelude::*;
use meganeura::{DeviceError, SessionOptions};
use serde_json::json;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Measures training steps on random data.
#[derive(Debug, Parser)]
#[command(name = "workloads")]
struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Items of a step
    #[arg(long, value_delimiter = ',', default_values_t = [64, 128, 1024])]
    batches: Vec<usize>,
    /// Samples of each time [default: 30, with --quick 3]
    #[arg(long)]
    repeats: Option<usize>,
    /// Steps that are queued for one sample of the throughput [default: 100, with --quick 5]
    #[arg(long)]
    steps: Option<usize>,
}

/// A network: its name and how it is built for a batch size.
struct Workload {
    name: &'static str,
    build: fn(usize) -> Result<Training, Error>,
}

/// Every workload.
const WORKLOADS: &[Workload] = &[Workload { name: "mnist", build: mnist::training }];

/// A training step: learns one batch by heart.
pub struct Training {
    graph: Graph,
    parameters: Vec<ParameterSpec>,
    /// What each input is.
    batch: Vec<(&'static str, Tensor)>,
    /// The output that must fall.
    loss: &'static str,
}

fn main() -> ExitCode {
    common::exit(run(&Arguments::parse()))
}

/// Whether every program learned.
fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let mut cells: Vec<Cell> = Vec::new();
    for workload in WORKLOADS {
        for &batch in &arguments.batches {
            for path in PATHS {
                // A device of its own, so that no program finds pipelines made. The driver may keep a cache on disk.
                let device = arguments.common.device()?;
                let cell = measure(&device, workload, batch, path, arguments);
                match cell {
                    Err(Error::Device(DeviceError::Unsupported { .. })) => {
                        println!("{}: the device does not have it", path.0)
                    }
                    Err(error) => return Err(format!("{} {batch}, {}: {error}", workload.name, path.0).into()),
                    Ok(cell) => {
                        cell.print_profile();
                        cells.push(cell);
                    }
                }
            }
        }
    }
    println!("\n{}", Cell::HEADER);
    cells.iter().for_each(|cell| println!("{}", cell.row()));
    let device = arguments.common.device()?;
    arguments.common.write(&json!({
        "schema": "bench-v1", "variant": if arguments.common.quick { "tiny" } else { "full" },
        "engine": { "name": "meganeura", "version": env!("CARGO_PKG_VERSION") },
        "device": { "name": device.info().name, "backend": device.info().backend },
        "environment": { "driver": device.info().driver, "peak_bytes": "planned, which is what is allocated" },
        "protocol": {
            "warmup_calls_min": WARMUP_CALLS, "warmup_seconds_min": warmup(arguments).as_secs_f64(),
            "samples": repeats(arguments), "clock": "host, waited for after every call", "compile_cache": "cold",
        },
        "cells": cells.iter().map(Cell::json).collect::<Vec<_>>(), "numerics": [],
    }))?;
    Ok(cells.iter().all(Cell::learned))
}

/// Untimed calls before the samples.
const WARMUP_CALLS: usize = 5;

fn warmup(arguments: &Arguments) -> Duration {
    if arguments.common.quick { Duration::ZERO } else { Duration::from_millis(500) }
}

fn repeats(arguments: &Arguments) -> usize {
    arguments.repeats.unwrap_or(if arguments.common.quick { 3 } else { 30 }).max(1)
}

/// A program that is ready, and seconds of building the graph, compiling it, filling the store, making the session.
struct Ready {
    session: Session,
    training: Training,
    planned_bytes: usize,
    stages: [f64; 4],
}

impl Ready {
    fn new(device: &Device, workload: &Workload, batch: usize, options: &SessionOptions) -> Result<Ready, Error> {
        let mut clock = Instant::now();
        let mut lap = || std::mem::replace(&mut clock, Instant::now()).elapsed().as_secs_f64();
        let training = (workload.build)(batch)?;
        let built = lap();
        let program = compile(&training.graph, &Options::default(), device.caps(), None)?;
        let compiled = lap();
        let store = StateStore::for_program(device, &program)?;
        initialize(&store, &training.parameters, 0)?;
        let filled = lap();
        let planned_bytes = program.report.planned_bytes;
        let session = Session::with_options(device, program.plan, &store, options)?;
        let mut ready = Ready { session, training, planned_bytes, stages: [built, compiled, filled, lap()] };
        ready.feed()?;
        Ok(ready)
    }

    fn feed(&mut self) -> Result<(), Error> {
        Ok(self.training.batch.iter().try_for_each(|(name, tensor)| self.session.write(name, tensor))?)
    }

    /// The loss before the last step; waits for it.
    fn loss(&mut self) -> Result<f32, Error> {
        Ok(self.session.read(self.training.loss)?.as_f32()?.iter().sum())
    }

    /// Seconds of one step alone.
    fn alone(&mut self) -> Result<f64, Error> {
        let start = Instant::now();
        self.session.step()?;
        self.session.wait()?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Seconds of a step with its inputs written before it, when several are queued.
    fn fed(&mut self, steps: usize) -> Result<f64, Error> {
        let start = Instant::now();
        for _ in 0..steps {
            self.feed()?;
            self.session.step()?;
        }
        self.session.wait()?;
        Ok(start.elapsed().as_secs_f64() / steps as f64)
    }
}

fn measure(
    device: &Device,
    workload: &Workload,
    batch: usize,
    path: Path,
    arguments: &Arguments,
) -> Result<Cell, Error> {
    let mut ready = Ready::new(device, workload, batch, &path.options())?;
    ready.session.step()?;
    let first_loss = ready.loss()?;
    for _ in 0..WARMUP_CALLS {
        ready.session.step()?;
    }
    let warm = |ready: &mut Ready| match clocks_down(device) {
        true => spin(&mut ready.session, warmup(arguments)),
        false => Ok(ready.session.wait()?),
    };
    warm(&mut ready)?;
    let (repeats, steps) =
        (repeats(arguments), arguments.steps.unwrap_or(if arguments.common.quick { 5 } else { 100 }).max(1));
    let samples = (0..repeats).map(|_| ready.alone()).collect::<Result<Vec<f64>, _>>()?;
    let dispatches = dispatch_seconds(&mut ready.session, repeats)?;
    warm(&mut ready)?;
    let few = repeats.min(15);
    let queued = median((0..few).map(|_| queued_seconds(&mut ready.session, steps)).collect::<Result<_, _>>()?);
    let fed = median((0..few).map(|_| ready.fed(steps)).collect::<Result<_, _>>()?);
    let losses = [first_loss, ready.loss()?];
    let plan = ready.session.plan();
    let family = |dispatch: &meganeura::memory::Dispatch| dispatch.family(&plan.kernels[dispatch.kernel]);
    let labels = plan.dispatches.iter().map(|dispatch| format!("{} [{}]", dispatch.label, family(dispatch))).collect();
    let path = path.0;
    let (workload, peak_bytes, stages) = (workload.name, ready.planned_bytes, ready.stages);
    Ok(Cell { workload, path, batch, stages, peak_bytes, labels, samples, dispatches, queued, fed, losses })
}
