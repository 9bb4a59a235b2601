//! Kernels at the shapes of real networks, through the whole compiler: time, rates, and shares of what the device can do.
//!
//! ```text
//! cargo bench --bench kernels                                   # the best GPU
//! cargo bench --bench kernels -- --device llvmpipe --quick softmax norm
//! cargo bench --bench kernels -- --shapes 4096:nt,8192x8192x1:f16 --json products.json
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "kernels/attention.rs"]
mod attention;
#[path = "kernels/cases.rs"]
mod cases;
mod common;
#[path = "kernels/convolution.rs"]
mod convolution;
#[path = "kernels/operands.rs"]
mod operands;
#[path = "kernels/product.rs"]
mod product;

use attention::ATTENTIONS;
use cases::{Built, CASES};
use clap::Parser;
use common::{Common, Failure, clocks_down, median, queued_seconds, spin};
use convolution::{CONVOLUTIONS, Direction};
use meganeura::cost::Cost;
use meganeura::prelude::*;
use meganeura::profile::Ceilings;
use operands::Operands;
use product::Product;
use serde_json::{Value as Json, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Products of the networks: each linear layer as `rows × depth × cols` with its weights stored `[cols, depth]`, gradients of
/// the largest one, products with a vector, and large squares.
const SHAPES: &str = "128x576x576:nt,128x576x192:nt,128x576x1536:nt,128x1536x576:nt,128x576x49152:nt,1x576x49152:nt,\
    49152x128x576:tn,128x49152x576,1500x384x384:nt,1500x384x1536:nt,1500x1536x384:nt,77x768x256:nt,256x128x512:nt,\
    4x2048x1000:nt,1024,2048,4096,4096:nt,4096:f16,4096:accelerated,4096x4096x1,8192x8192x1,8192x8192x1:tn";
/// The same layouts and types, small enough for a software GPU.
const QUICK: &str = "64,128,256,256:nt,256:f16,256:accelerated,32x72x192,256x256x1,256x256x1:tn";
/// The most work of a program that is not left out with `--quick`.
const QUICK_COST: Cost = Cost { flops: 200_000_000, bytes_read: 50_000_000, bytes_written: 50_000_000 };
/// How long a program runs before it is timed.
const SPIN_TIME: Duration = Duration::from_millis(300);

/// Measures kernels through graph, compiler and session.
#[derive(Debug, Parser)]
#[command(name = "kernels")]
struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Families or parts of names: product, convolution, attention, softmax, norm, rope, loss, sum, map, gather, permute
    /// [default: all]
    only: Vec<String>,
    /// Only these products, as ROWSxDEPTHxCOLS or a side, with `:nt`, `:tn` or `:tt` for operands that are stored transposed,
    /// `:f16` for f16 operands and an f32 result, `:accelerated` for f32 operands that may be rounded
    #[arg(long, value_delimiter = ',')]
    shapes: Vec<Product>,
    /// Samples of each time, of which the median counts [default: 15, with --quick 3]
    #[arg(long)]
    repeats: Option<usize>,
    /// Steps that are queued for one sample of the wall time [default: 20, with --quick 2]
    #[arg(long)]
    steps: Option<usize>,
}

fn main() -> ExitCode {
    common::exit(run(&Arguments::parse()))
}

/// One program to measure.
struct Subject {
    family: &'static str,
    name: String,
    built: Built,
    product: Option<Product>,
}

/// Whether all products were right.
fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let device = arguments.common.device()?;
    let subjects = subjects(arguments, &device)?;
    let matrix_units = subjects.iter().filter_map(|subject| subject.product.as_ref());
    let matrix_units =
        matrix_units.into_iter().any(|product| product.operand == DType::F16 || product.is_accelerated());
    let ceilings = Ceilings::measure(&device, matrix_units)?;
    println!("device: {}", device.info());
    println!(
        "ceilings: {:.1} GFLOP/s f32, {:.1} GB/s\n\n{}",
        ceilings.flops * 1e-9,
        ceilings.bytes * 1e-9,
        Cell::HEADER
    );
    let (mut cells, mut left_out) = (Vec::new(), 0);
    for subject in subjects {
        let name = subject.name.clone();
        match measure(&device, subject, arguments).map_err(|error| format!("{name}: {error}"))? {
            Some(cell) => {
                println!("{}", cell.row(&ceilings));
                cells.push(cell);
            }
            None => left_out += 1,
        }
    }
    if left_out > 0 {
        println!("{left_out} large programs left out (--quick)");
    }
    if cells.iter().any(|cell| cell.subject.family == "attention") {
        println!("{}", attention::memory(&device)?);
    }
    arguments.common.write(&json!({
        "device": device.info().to_string(), "driver": device.info().driver,
        "ceilings": {
            "flops_per_second": ceilings.flops, "matrix_flops_per_second": ceilings.matrix_flops,
            "bytes_per_second": ceilings.bytes,
        },
        "cells": cells.iter().map(|cell| cell.json(&ceilings)).collect::<Vec<_>>(),
    }))?;
    Ok(cells.iter().all(Cell::is_right))
}

/// What is asked for and the device can do.
fn subjects(arguments: &Arguments, device: &Device) -> Result<Vec<Subject>, Failure> {
    let defaults = if arguments.common.quick { QUICK } else { SHAPES }.split(',').map(str::parse);
    let shapes: Vec<Product> =
        if arguments.shapes.is_empty() { defaults.collect::<Result<_, _>>()? } else { arguments.shapes.clone() };
    let mut subjects = Vec::new();
    for product in shapes.into_iter().filter(|product| product.operand != DType::F16 || device.caps().f16) {
        let built = Built { graph: product.graph()?, limits: Vec::new() };
        subjects.push(Subject { family: "product", name: product.to_string(), built, product: Some(product) });
    }
    if arguments.shapes.is_empty() {
        let directions =
            [("", Direction::Forward), (", to input", Direction::Input), (", to weight", Direction::Weight)];
        for conv in CONVOLUTIONS {
            for (suffix, direction) in directions {
                let built = Built::new(|tensors| conv.build(tensors, direction))?;
                let name = format!("{}{suffix}", conv.name);
                subjects.push(Subject { family: "convolution", name, built, product: None });
            }
        }
        for attention in ATTENTIONS {
            for (suffix, backward) in [("", false), (", backward", true)] {
                let built = Built::new(|tensors| attention.build(tensors, backward))?;
                let name = format!("{}{suffix}", attention.name);
                subjects.push(Subject { family: "attention", name, built, product: None });
            }
        }
        for case in CASES {
            let built = Built::new(case.build)?;
            subjects.push(Subject { family: case.family, name: case.name.to_owned(), built, product: None });
        }
    }
    let wanted = |subject: &Subject| {
        let asked = |only: &String| subject.family == only.as_str() || subject.name.contains(only.as_str());
        arguments.only.is_empty() || arguments.only.iter().any(asked)
    };
    Ok(subjects.into_iter().filter(wanted).collect())
}

/// Nothing if the program is left out.
fn measure(device: &Device, subject: Subject, arguments: &Arguments) -> Result<Option<Cell>, Error> {
    let quick = arguments.common.quick;
    let repeats = arguments.repeats.unwrap_or(if quick { 3 } else { 15 }).max(1);
    let steps = arguments.steps.unwrap_or(if quick { 2 } else { 20 }).max(1);
    let numerics = subject.product.as_ref().map(|product| product.numerics).unwrap_or_default();
    let start = Instant::now();
    let program = compile(&subject.built.graph, &Options { numerics, ..Options::default() }, device.caps(), None)?;
    let planned = program.report.planned_bytes;
    let kernels = program.plan.dispatches.iter().map(|dispatch| &program.plan.kernels[dispatch.kernel]);
    let cost: Cost = kernels.map(Cost::of).sum();
    if quick && (cost.flops > QUICK_COST.flops || cost.bytes() > QUICK_COST.bytes()) {
        return Ok(None);
    }
    let store = StateStore::for_program(device, &program)?;
    let operands = subject.product.as_ref().map(Operands::random);
    let compiled = start.elapsed().as_secs_f64();
    match &operands {
        Some(operands) => operands.write(&store)?,
        None => cases::fill(&store, &program, &subject.built.limits)?,
    }
    let start = Instant::now();
    let mut session = Session::new(device, program.plan, &store)?;
    let compile = [compiled, start.elapsed().as_secs_f64()];
    session.step()?;
    spin(&mut session, if clocks_down(device) { SPIN_TIME } else { Duration::ZERO })?;
    let gpu = common::dispatch_seconds(&mut session, repeats)?.map(|seconds| seconds.iter().sum());
    let wall = (0..repeats).map(|_| queued_seconds(&mut session, steps)).collect::<Result<_, _>>()?;
    let error = match &operands {
        Some(operands) => Some(operands.error(session.read(product::RESULT)?.as_f32()?)),
        None => None,
    };
    let plan = session.plan();
    let kernels = plan.dispatches.iter().map(|dispatch| (dispatch, &plan.kernels[dispatch.kernel]));
    let families = kernels.clone().map(|(dispatch, kernel)| dispatch.family(kernel)).collect();
    let specs = kernels.map(|(dispatch, _)| format!("{:?}", dispatch.spec)).collect();
    Ok(Some(Cell { subject, families, specs, compile, cost, planned, gpu, wall: median(wall), error }))
}

/// What was measured of one program.
struct Cell {
    subject: Subject,
    /// Kind of kernel and schedule of each dispatch.
    families: Vec<String>,
    specs: Vec<String>,
    /// Seconds from graph to plan, and from plan to session.
    compile: [f64; 2],
    cost: Cost,
    /// Bytes of all buffers.
    planned: usize,
    /// Seconds of a step by the device's timestamps.
    gpu: Option<f64>,
    /// Seconds of a step when several are queued.
    wall: f64,
    /// Largest error of a product's sampled elements, relative to the sum of their terms' magnitudes.
    error: Option<f64>,
}

impl Cell {
    const HEADER: &str = "family      kernel                                     gpu µs    wall µs     GFLOP/s share        GB/s share ceiling  dispatches";

    fn is_right(&self) -> bool {
        match (self.error, &self.subject.product) {
            (Some(error), Some(product)) => error <= product.tolerance(),
            _ => true,
        }
    }

    /// The device's time, else the host's.
    fn seconds(&self) -> f64 {
        self.gpu.unwrap_or(self.wall)
    }

    fn rates(&self) -> [f64; 2] {
        [self.cost.flops, self.cost.bytes()].map(|work| work as f64 / self.seconds())
    }

    /// Shares of the ceilings of arithmetic and traffic.
    fn shares(&self, ceilings: &Ceilings) -> [f64; 2] {
        let coop = self.families.iter().any(|family| family.starts_with("contract coop"));
        let flops = ceilings.matrix_flops.filter(|_| coop).unwrap_or(ceilings.flops);
        let [own_flops, own_bytes] = self.rates();
        [own_flops / flops, own_bytes / ceilings.bytes]
    }

    fn row(&self, ceilings: &Ceilings) -> String {
        let [flops, bytes] = self.rates();
        let [flops_share, bytes_share] = self.shares(ceilings).map(|share| share * 100.0);
        let gpu = self.gpu.map_or_else(|| "–".to_owned(), |seconds| format!("{:.1}", seconds * 1e6));
        let error = self.error.map_or_else(String::new, |error| format!(" error {error:.1e}"));
        let verdict = if self.is_right() { "" } else { " WRONG" };
        format!(
            "{:<11} {:<38} {gpu:>10} {:>10.1} {:>11.1} {flops_share:>3.0} % {:>11.1} {bytes_share:>3.0} % {:>5.0} %  {}{error}{verdict}",
            self.subject.family,
            self.subject.name,
            self.wall * 1e6,
            flops * 1e-9,
            bytes * 1e-9,
            flops_share.max(bytes_share),
            self.families.join(" + "),
        )
    }

    fn json(&self, ceilings: &Ceilings) -> Json {
        let ([plan, session], [flops, bytes], shares) = (self.compile, self.rates(), self.shares(ceilings));
        json!({
            "family": self.subject.family, "kernel": self.subject.name, "dispatches": self.families, "specs": self.specs,
            "plan_seconds": plan, "session_seconds": session, "gpu_seconds": self.gpu, "wall_seconds": self.wall,
            "flops": self.cost.flops, "bytes_read": self.cost.bytes_read, "bytes_written": self.cost.bytes_written,
            "gflop_per_second": flops * 1e-9, "gb_per_second": bytes * 1e-9, "share_of_flops": shares[0],
            "share_of_bytes": shares[1], "planned_bytes": self.planned, "error": self.error, "right": self.is_right(),
        })
    }
}
