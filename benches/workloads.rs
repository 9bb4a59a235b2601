//! The five workloads: time, memory and exactness of their programs; and the step of the example `mnist`.
//!
//! ```text
//! cargo bench --bench workloads -- --variant tiny --device cpu
//! cargo bench --bench workloads -- --workloads smollm2,whisper --modes strict --phases inference,step --json results.json
//! cargo bench --bench workloads -- --workloads mnist --batches 64,128,1024
//! ```
//!
//! The file that `--json` writes has the format `bench-v1`: one cell for each workload, mode and phase. A sample is one step on
//! inputs that are on the device, from before its submission until the device is idle, by the host's clock. Outputs, loss and
//! gradients are read from the sessions that are timed, before they are.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "workloads/cell.rs"]
mod cell;
mod common;
#[path = "workloads/mnist.rs"]
mod mnist;
#[path = "workloads/numerics.rs"]
mod numerics;
#[path = "workloads/ready.rs"]
mod ready;
#[path = "workloads/work.rs"]
mod work;

use cell::Cell;
use clap::{Parser, ValueEnum};
use common::{Common, Failure};
use meganeura::nn::models::workload::{self, Phase, Variant, Workload};
use meganeura::prelude::*;
use meganeura::schedule::Numerics;
use numerics::Numbers;
use ready::{First, Weights};
use serde_json::{Value as Json, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Measures the programs of whole models.
#[derive(Debug, Parser)]
#[command(name = "workloads")]
struct Arguments {
    #[command(flatten)]
    common: Common,
    /// `all` (the five), or some of smollm2, smolvla, unet, resnet50, whisper, mnist
    #[arg(long, value_delimiter = ',', default_value = "all")]
    workloads: Vec<String>,
    /// Sizes [default: full, with --quick tiny]
    #[arg(long, value_enum)]
    variant: Option<Size>,
    /// Arithmetic of products
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["strict", "accelerated"])]
    modes: Vec<Mode>,
    /// Of inference, minimal, flb (forward, loss and backward), step
    #[arg(long, value_delimiter = ',', default_values = ["inference", "minimal", "flb", "step"])]
    phases: Vec<String>,
    /// Starts no cell after so many seconds
    #[arg(long, value_name = "SECONDS")]
    budget: Option<u64>,
    /// Samples of each time [default: 30, with --quick 3]
    #[arg(long)]
    repeats: Option<usize>,
    /// mnist: items of a step
    #[arg(long, value_delimiter = ',', default_values_t = [64, 128, 1024])]
    batches: Vec<usize>,
    /// mnist: steps that are queued for one sample of the throughput [default: 100, with --quick 5]
    #[arg(long)]
    steps: Option<usize>,
}

/// How large the workloads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Size {
    Tiny,
    Full,
}

/// Which arithmetic products may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    Strict,
    Accelerated,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Strict => "strict",
            Mode::Accelerated => "accelerated",
        }
    }

    fn options(self) -> Options {
        let numerics = match self {
            Mode::Strict => Numerics::Strict,
            Mode::Accelerated => Numerics::Accelerated,
        };
        Options { numerics, ..Options::default() }
    }

    /// Accelerated products round to f16, in whose range derivatives would vanish: of means over many outputs they are 1e-6.
    fn loss_scale(self) -> f32 {
        match self {
            Mode::Strict => 1.0,
            Mode::Accelerated => 1024.0,
        }
    }
}

/// Untimed calls before the samples.
const WARMUP_CALLS: usize = 5;

fn warmup(arguments: &Arguments) -> Duration {
    if arguments.common.quick { Duration::ZERO } else { Duration::from_millis(500) }
}

fn repeats(arguments: &Arguments) -> usize {
    arguments.repeats.unwrap_or(if arguments.common.quick { 3 } else { 30 }).max(1)
}

fn main() -> ExitCode {
    common::exit(run(&Arguments::parse()))
}

/// Whether every cell has a time, and what should learn did.
fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let mut results = Results { start: Instant::now(), cells: Vec::new(), numerics: Vec::new(), right: true };
    for workload in chosen(arguments)? {
        let weights = Weights::of(&*workload)?;
        for &mode in &arguments.modes {
            results.measure(&*workload, mode, &weights, arguments)?;
            results.write(arguments)?;
        }
    }
    if arguments.workloads.iter().any(|name| name == "mnist") {
        let (cells, learned) = mnist::run(arguments)?;
        results.cells.extend(cells);
        results.right &= learned;
        results.write(arguments)?;
    }
    Ok(results.right)
}

fn variant(arguments: &Arguments) -> Variant {
    match arguments.variant {
        Some(Size::Tiny) => Variant::Tiny,
        None if arguments.common.quick => Variant::Tiny,
        Some(Size::Full) | None => Variant::Full,
    }
}

/// The workloads asked for, other than `mnist`.
fn chosen(arguments: &Arguments) -> Result<Vec<Box<dyn Workload>>, Failure> {
    let variant = variant(arguments);
    let mut chosen = Vec::new();
    for name in &arguments.workloads {
        match name.as_str() {
            "all" => chosen.extend(workload::all(variant)),
            "mnist" => {}
            name => chosen.push(workload::find(name, variant).ok_or_else(|| format!("there is no workload {name:?}"))?),
        }
    }
    Ok(chosen)
}

/// What was measured so far.
struct Results {
    start: Instant,
    cells: Vec<Json>,
    numerics: Vec<Json>,
    right: bool,
}

impl Results {
    /// The phases of one workload and mode, and what they compute.
    fn measure(
        &mut self,
        workload: &dyn Workload,
        mode: Mode,
        weights: &Weights,
        arguments: &Arguments,
    ) -> Result<(), Failure> {
        let mut numbers = Numbers::default();
        for phase in phases(arguments)? {
            if arguments.budget.is_some_and(|budget| self.start.elapsed() > Duration::from_secs(budget)) {
                println!("{} {} {}: no time left", workload.name(), mode.name(), phase.name());
                continue;
            }
            let first = First { workload, mode, phase, weights };
            match Cell::measure(&first, &mut numbers, arguments) {
                Ok(cell) => {
                    cell.print();
                    self.cells.push(cell.json());
                }
                Err(error) => {
                    println!("{} {} {}: {error}", workload.name(), mode.name(), phase.name());
                    self.cells.push(first.failed(&error));
                    self.right = false;
                }
            }
        }
        self.numerics.extend(numbers.json(workload, mode.name()));
        Ok(())
    }

    fn write(&self, arguments: &Arguments) -> Result<(), Failure> {
        let device = arguments.common.device()?;
        arguments.common.write(&json!({
            "schema": "bench-v1", "variant": variant(arguments).name(),
            "engine": { "name": "meganeura", "version": env!("CARGO_PKG_VERSION") },
            "device": { "name": device.info().name, "backend": device.info().backend },
            "environment": {
                "driver": device.info().driver, "peak_bytes": "planned, which is what is allocated",
                "accelerated_loss_scale": Mode::Accelerated.loss_scale(),
            },
            "protocol": {
                "warmup_calls_min": WARMUP_CALLS, "warmup_seconds_min": warmup(arguments).as_secs_f64(),
                "samples": repeats(arguments), "clock": "host, waited for after every call", "compile_cache": "cold",
            },
            "cells": self.cells, "numerics": self.numerics,
        }))
    }
}

fn phases(arguments: &Arguments) -> Result<Vec<Phase>, Failure> {
    let find = |name: &String| {
        Phase::ALL.into_iter().find(|phase| phase.name() == name).ok_or_else(|| format!("there is no phase {name:?}"))
    };
    Ok(arguments.phases.iter().map(find).collect::<Result<_, _>>()?)
}
