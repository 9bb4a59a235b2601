//! Matrix products through the whole compiler: a graph of one `dot`, compiled, planned and run by a session.
//!
//! ```text
//! cargo bench --bench products                                  # the best GPU
//! cargo bench --bench products -- --device llvmpipe --quick
//! cargo bench --bench products -- --shapes 4096:nt,8192x8192x1:f16 --json products.json
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod common;
#[path = "products/operands.rs"]
mod operands;
#[path = "products/product.rs"]
mod product;

use clap::Parser;
use common::{clocks_down, dispatch_seconds, median, spin};
use meganeura::prelude::*;
use operands::Operands;
use product::Product;
use serde_json::{Value as Json, json};
use std::error::Error as StdError;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What is measured unless `--shapes` says otherwise.
const SHAPES: &str =
    "1024,2048,4096,4096:nt,4096:f16,4096:accelerated,128x576x1536,4096x4096x1,8192x8192x1,8192x8192x1:tn";
/// The same layouts and types, small enough for a software GPU.
const QUICK: &str = "64,128,256,256:nt,256:f16,256:accelerated,32x72x192,256x256x1,256x256x1:tn";
/// What runs before each timing. No cell has this shape, so that none finds its pipeline made.
const SPIN: &str = "2048x2080x2048";
/// How long that runs.
const SPIN_TIME: Duration = Duration::from_millis(500);

/// Measures matrix products through graph, compiler and session.
#[derive(Debug, Parser)]
#[command(name = "products")]
struct Arguments {
    /// Products as ROWSxDEPTHxCOLS or a side, with `:nt`, `:tn` or `:tt` for operands that are stored transposed,
    /// `:f16` for f16 operands and an f32 result, `:accelerated` for f32 operands that may be rounded
    #[arg(long, value_delimiter = ',')]
    shapes: Vec<Product>,
    /// `cpu`, `gpu`, a number in the list of adapters or a part of an adapter's name [default: the best there is]
    #[arg(long)]
    device: Option<String>,
    /// Samples of each time, of which the median counts
    #[arg(long, default_value_t = 15)]
    repeats: usize,
    /// Steps that are queued for one sample of the wall time
    #[arg(long, default_value_t = 20)]
    steps: usize,
    /// Small shapes, for software GPUs
    #[arg(long)]
    quick: bool,
    /// Writes what was measured
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// What `cargo bench` passes
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all products were right.
fn run(arguments: &Arguments) -> Result<bool, Box<dyn StdError>> {
    let device = common::device(arguments.device.as_deref())?;
    println!("device: {}", device.info());
    let defaults = if arguments.quick { QUICK } else { SHAPES }.split(',').map(str::parse);
    let shapes: Vec<Product> =
        if arguments.shapes.is_empty() { defaults.collect::<Result<_, _>>()? } else { arguments.shapes.clone() };
    let mut warmth = if clocks_down(&device) { Some(Bench::new(&device, &SPIN.parse()?)?) } else { None };
    let mut cells = Vec::new();
    for product in &shapes {
        if product.operand == DType::F16 && !device.caps().f16 {
            println!("{product}: skipped, the device has no f16");
            continue;
        }
        let cell =
            measure(&device, product, arguments, warmth.as_mut()).map_err(|error| format!("{product}: {error}"))?;
        println!("{product}: {} {}", cell.verdict(), cell.specs.join(" + "));
        cells.push(cell);
    }
    println!("\n{}", Cell::HEADER);
    cells.iter().for_each(|cell| println!("{}", cell.row()));
    let json = json!({
        "device": device.info().to_string(), "driver": device.info().driver,
        "cells": cells.iter().map(Cell::json).collect::<Vec<_>>(),
    });
    common::write_json(arguments.json.as_deref(), &json)?;
    Ok(cells.iter().all(Cell::is_right))
}

/// A product's session on random operands.
struct Bench {
    session: Session,
    operands: Operands,
    /// Seconds from graph to plan, and from plan to session.
    compile: [f64; 2],
}

impl Bench {
    fn new(device: &Device, product: &Product) -> Result<Bench, Error> {
        let graph = product.graph()?;
        let options = Options { numerics: product.numerics, ..Options::default() };
        let start = Instant::now();
        let program = compile(&graph, &options, device.caps(), None)?;
        let planned = start.elapsed().as_secs_f64();
        let store = StateStore::new(device, &program.layout)?;
        let operands = Operands::random(product);
        operands.write(&store)?;
        let start = Instant::now();
        let mut session = Session::new(device, program.plan, &store)?;
        let compile = [planned, start.elapsed().as_secs_f64()];
        session.step()?;
        settle(&session)?;
        Ok(Bench { session, operands, compile })
    }

    /// Seconds of a step when `steps` are queued, the final wait included.
    fn queued_seconds(&mut self, steps: usize) -> Result<f64, Error> {
        let start = Instant::now();
        for _ in 0..steps {
            self.session.step()?;
        }
        settle(&self.session)?;
        Ok(start.elapsed().as_secs_f64() / steps as f64)
    }
}

/// Waits for all steps, by reading a state of one number that no dispatch touches.
fn settle(session: &Session) -> Result<(), Error> {
    session.store().read(product::FENCE)?;
    Ok(())
}

fn measure(
    device: &Device,
    product: &Product,
    arguments: &Arguments,
    mut warmth: Option<&mut Bench>,
) -> Result<Cell, Error> {
    let mut bench = Bench::new(device, product)?;
    let mut warm = || -> Result<(), Error> {
        let Some(bench) = &mut warmth else { return Ok(()) };
        spin(&mut bench.session, SPIN_TIME)?;
        settle(&bench.session)
    };
    warm()?;
    let gpu = dispatch_seconds(&mut bench.session, arguments.repeats)?.map(|seconds| seconds.iter().sum());
    warm()?;
    let samples = (0..arguments.repeats.max(1)).map(|_| bench.queued_seconds(arguments.steps.max(1)));
    let wall = median(samples.collect::<Result<_, _>>()?);
    let error = bench.operands.error(bench.session.read(product::RESULT)?.as_f32()?);
    let dispatches = &bench.session.plan().dispatches;
    let specs = dispatches.iter().map(|dispatch| format!("{:?}", dispatch.spec)).collect();
    Ok(Cell { product: product.clone(), specs, compile: bench.compile, gpu, wall, error })
}

/// What was measured of one product.
struct Cell {
    product: Product,
    /// The schedule of each dispatch.
    specs: Vec<String>,
    /// Seconds from graph to plan, and from plan to session.
    compile: [f64; 2],
    /// Seconds of a step by the device's timestamps.
    gpu: Option<f64>,
    /// Seconds of a step when several are queued.
    wall: f64,
    /// Largest error of the sampled elements, relative to the sum of their products' magnitudes.
    error: f64,
}

impl Cell {
    const HEADER: &str = "product                  dispatches  compile s     gpu µs    wall µs        gpu rate       wall rate      error";

    fn is_right(&self) -> bool {
        self.error <= self.product.tolerance()
    }

    fn verdict(&self) -> &'static str {
        if self.is_right() { "right" } else { "WRONG" }
    }

    /// Arithmetic of products, traffic of products with a vector: what bounds them.
    fn rate(&self, seconds: f64) -> String {
        if self.product.has_vector() {
            format!("{:.1} GB/s", self.product.bytes() / seconds * 1e-9)
        } else {
            format!("{:.3} TFLOP/s", self.product.flops() / seconds * 1e-12)
        }
    }

    fn row(&self) -> String {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        format!(
            "{:<24} {:>10} {:>10.3} {:>10} {:>10.1} {:>15} {:>15} {:>10.1e} {}",
            self.product.to_string(),
            self.specs.len(),
            self.compile.iter().sum::<f64>(),
            or_none(self.gpu.map(|seconds| format!("{:.1}", seconds * 1e6))),
            self.wall * 1e6,
            or_none(self.gpu.map(|seconds| self.rate(seconds))),
            self.rate(self.wall),
            self.error,
            self.verdict(),
        )
    }

    fn json(&self) -> Json {
        let [plan, session] = self.compile;
        let rates = |seconds: f64| {
            json!({
                "seconds": seconds, "tflop_per_second": self.product.flops() / seconds * 1e-12,
                "gb_per_second": self.product.bytes() / seconds * 1e-9,
            })
        };
        json!({
            "product": self.product.to_string(), "specs": self.specs, "dispatches": self.specs.len(),
            "plan_seconds": plan, "session_seconds": session, "gpu": self.gpu.map(rates), "wall": rates(self.wall),
            "error": self.error, "tolerance": self.product.tolerance(), "right": self.is_right(),
        })
    }
}
