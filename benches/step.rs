//! The training step of the `mnist` example: steps a second, what its dispatches take, and how long until it can run.
//!
//! ```text
//! cargo bench --bench step                                      # the best GPU
//! cargo bench --bench step -- --device cpu --batches 128
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod common;
// The benchmark trains only.
#[allow(dead_code)]
#[path = "../examples/mnist/model.rs"]
mod model;

use clap::Parser;
use common::{Random, clocks_down, dispatch_seconds, median, spin};
use meganeura::prelude::*;
use model::Model;
use serde_json::{Value as Json, json};
use std::error::Error as StdError;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long the program runs before each timing.
const SPIN_TIME: Duration = Duration::from_millis(500);

/// Measures a training step of the network of the `mnist` example on random images.
#[derive(Debug, Parser)]
#[command(name = "step")]
struct Arguments {
    /// Images of a step
    #[arg(long, value_delimiter = ',', default_values_t = [64, 128, 1024])]
    batches: Vec<usize>,
    /// `cpu`, `gpu`, a number in the list of adapters or a part of an adapter's name [default: the best there is]
    #[arg(long)]
    device: Option<String>,
    /// Samples of each time, of which the median counts
    #[arg(long, default_value_t = 15)]
    repeats: usize,
    /// Steps that are queued for one sample of the wall time [default: 100, with --quick 5]
    #[arg(long)]
    steps: Option<usize>,
    /// Few steps and samples, for software GPUs
    #[arg(long)]
    quick: bool,
    /// Writes what was measured
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// What `cargo bench` passes
    #[arg(long, hide = true)]
    bench: bool,
}

impl Arguments {
    fn steps(&self) -> usize {
        self.steps.unwrap_or(if self.quick { 5 } else { 100 }).max(1)
    }

    fn repeats(&self) -> usize {
        if self.quick { self.repeats.clamp(1, 3) } else { self.repeats.max(1) }
    }
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

/// Whether every program learned.
fn run(arguments: &Arguments) -> Result<bool, Box<dyn StdError>> {
    let mut cells = Vec::new();
    for &batch in &arguments.batches {
        // A device of its own, so that no program finds pipelines made. The driver may keep a cache on disk.
        let device = common::device(arguments.device.as_deref())?;
        if cells.is_empty() {
            println!("device: {}", device.info());
        }
        let cell = measure(&device, batch, arguments).map_err(|error| format!("batch {batch}: {error}"))?;
        cell.print_profile();
        cells.push(cell);
    }
    println!(
        "\nbatch  dispatches  graph s  compile s  store s  session s  ready s    gpu µs   queued/s      fed/s  loss"
    );
    cells.iter().for_each(|cell| println!("{}", cell.row()));
    common::write_json(arguments.json.as_deref(), &json!(cells.iter().map(Cell::json).collect::<Vec<_>>()))?;
    Ok(cells.iter().all(Cell::learned))
}

/// A program that learns one batch of random images by heart.
struct Bench {
    session: Session,
    batch: [(&'static str, Tensor); 3],
    /// Seconds of building the graph, compiling it, filling the store, making the session.
    stages: [f64; 4],
}

impl Bench {
    fn new(device: &Device, batch: usize) -> Result<Bench, Error> {
        let mut clock = Instant::now();
        let mut lap = || std::mem::replace(&mut clock, Instant::now()).elapsed().as_secs_f64();
        let Model { graph, parameters } = model::training(batch)?;
        let built = lap();
        let program = compile(&graph, &Options::default(), device.caps(), None)?;
        let compiled = lap();
        let store = StateStore::new(device, &program.layout)?;
        initialize(&store, &parameters, 0)?;
        let filled = lap();
        let session = Session::new(device, program.plan, &store)?;
        let stages = [built, compiled, filled, lap()];
        let mut random = Random(batch as u64);
        let images = (0..batch * Mnist::PIXELS).map(|_| random.uniform() + 0.5).collect();
        let labels = (0..batch).map(|_| random.below(Mnist::CLASSES) as u32).collect();
        let batch = [
            ("images", Tensor::from_f32([batch, Mnist::PIXELS], images)?),
            ("labels", Tensor::from_u32([batch], labels)?),
            ("rate", Tensor::scalar(0.001)),
        ];
        Ok(Bench { session, batch, stages })
    }

    fn feed(&mut self) -> Result<(), Error> {
        Ok(self.batch.iter().try_for_each(|(name, tensor)| self.session.write(name, tensor))?)
    }

    /// The loss before the last step; waits for it.
    fn loss(&mut self) -> Result<f32, Error> {
        Ok(self.session.read("loss")?.as_f32()?.iter().sum())
    }

    /// Steps a second when `steps` are queued, the final wait included; with all inputs written before each, or not.
    fn rate(&mut self, steps: usize, feed: bool) -> Result<f64, Error> {
        let start = Instant::now();
        for _ in 0..steps {
            if feed {
                self.feed()?;
            }
            self.session.step()?;
        }
        self.loss()?;
        Ok(steps as f64 / start.elapsed().as_secs_f64())
    }
}

fn measure(device: &Device, batch: usize, arguments: &Arguments) -> Result<Cell, Error> {
    let mut bench = Bench::new(device, batch)?;
    bench.feed()?;
    bench.session.step()?;
    let first_loss = bench.loss()?;
    let spin_time = if clocks_down(device) { SPIN_TIME } else { Duration::ZERO };
    spin(&mut bench.session, spin_time)?;
    let dispatches = dispatch_seconds(&mut bench.session, arguments.repeats())?;
    let mut rate = |feed: bool| -> Result<f64, Error> {
        spin(&mut bench.session, spin_time)?;
        bench.loss()?;
        let samples = (0..arguments.repeats()).map(|_| bench.rate(arguments.steps(), feed));
        Ok(median(samples.collect::<Result<_, _>>()?))
    };
    let (queued, fed) = (rate(false)?, rate(true)?);
    let losses = [first_loss, bench.loss()?];
    let plan = &bench.session.plan().dispatches;
    let labels = plan.iter().map(|dispatch| format!("{} {:?}", dispatch.label, dispatch.spec)).collect();
    Ok(Cell { batch, stages: bench.stages, labels, dispatches, queued, fed, losses })
}

/// What was measured of one batch size.
struct Cell {
    batch: usize,
    stages: [f64; 4],
    /// Label and schedule of each dispatch.
    labels: Vec<String>,
    /// Seconds of each dispatch by the device's timestamps.
    dispatches: Option<Vec<f64>>,
    /// Steps a second on unchanged inputs.
    queued: f64,
    /// Steps a second with inputs written before each.
    fed: f64,
    /// Of the first and the last step.
    losses: [f32; 2],
}

impl Cell {
    fn learned(&self) -> bool {
        self.losses[1] < self.losses[0]
    }

    fn gpu_seconds(&self) -> Option<f64> {
        self.dispatches.as_ref().map(|seconds| seconds.iter().sum())
    }

    fn print_profile(&self) {
        println!("\nbatch {}: {} dispatches", self.batch, self.labels.len());
        let (Some(seconds), Some(all)) = (&self.dispatches, self.gpu_seconds()) else {
            println!("  the device has no timestamps for dispatches");
            return self.labels.iter().for_each(|label| println!("  {label}"));
        };
        println!("        µs   share  dispatch");
        for (label, seconds) in self.labels.iter().zip(seconds) {
            println!("{:>10.2} {:>5.1} %  {label}", seconds * 1e6, 100.0 * seconds / all);
        }
    }

    fn row(&self) -> String {
        let [built, compiled, filled, bound] = self.stages;
        let gpu = self.gpu_seconds().map_or_else(|| "–".to_owned(), |seconds| format!("{:.1}", seconds * 1e6));
        let ready: f64 = self.stages.iter().sum();
        let [first, last] = self.losses;
        let verdict = if self.learned() { "" } else { " DID NOT LEARN" };
        format!(
            "{:>5} {:>11} {built:>8.4} {compiled:>10.4} {filled:>8.4} {bound:>10.4} {ready:>8.4} {gpu:>9} {:>10.1} {:>10.1}  {first:.4} → {last:.4}{verdict}",
            self.batch,
            self.labels.len(),
            self.queued,
            self.fed,
        )
    }

    fn json(&self) -> Json {
        let [graph, compile, store, session] = self.stages;
        json!({
            "batch": self.batch, "labels": self.labels, "dispatch_seconds": self.dispatches,
            "gpu_seconds": self.gpu_seconds(), "queued_steps_per_second": self.queued,
            "fed_steps_per_second": self.fed, "losses": self.losses,
            "ready_seconds": { "graph": graph, "compile": compile, "store": store, "session": session },
        })
    }
}
