//! From a model's calls to a session that can run, by stage: with nothing kept from before (cold), and by another device of
//! the process with the program, and what the driver made of it where it can be kept, on disk (warm).
//!
//! ```text
//! cargo bench --bench compile
//! cargo bench --bench compile -- --device cpu --quick
//! __GL_SHADER_DISK_CACHE=0 cargo bench --bench compile    # NVIDIA's driver keeps shaders of its own
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod common;
#[path = "compile/naga_time.rs"]
mod naga_time;
#[path = "compile/programs.rs"]
mod programs;

use clap::Parser;
use common::{Common, Failure};
use meganeura::pipeline::{Report, Stage};
use meganeura::prelude::*;
use meganeura::{Cache, DeviceKind};
use programs::Model;
use serde_json::{Map, Value as Json, json};
use std::process::ExitCode;
use std::time::Instant;

/// Stages of the compiler, in order.
const STAGES: [Stage; 11] = [
    Stage::Build,
    Stage::Differentiate,
    Stage::Load,
    Stage::Simplify,
    Stage::Layout,
    Stage::Partition,
    Stage::Schedule,
    Stage::Order,
    Stage::Place,
    Stage::Verify,
    Stage::Save,
];

/// Measures what it takes to make a training program ready, by stage.
#[derive(Debug, Parser)]
#[command(name = "compile")]
struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Times that each program is made cold and warm; the times of the run with the middle total count
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// Only programs whose name contains this
    #[arg(default_value = "")]
    only: String,
}

fn main() -> ExitCode {
    common::exit(run(&Arguments::parse()))
}

/// Whether warm programs came from the cache and are those that were compiled.
fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let device = arguments.common.device()?;
    println!("device: {}\n", device.info());
    let models = programs::models(arguments.common.quick).into_iter();
    let repeats = if arguments.common.quick { 1 } else { arguments.repeats.max(1) };
    let mut cells: Vec<Cell> = Vec::new();
    for model in models.filter(|model| model.name.contains(&arguments.only)) {
        let pair = measure(&arguments.common, &model, repeats)?;
        println!("{}: {}", model.name, pair[0].report.counts());
        cells.extend(pair);
    }
    print_table(&cells);
    arguments.common.write(&json!({
        "device": device.info().to_string(), "driver": device.info().driver,
        "threads": std::thread::available_parallelism().map_or(1, usize::from),
        "cells": cells.iter().map(Cell::json).collect::<Vec<_>>(),
    }))?;
    Ok(cells.iter().all(|cell| cell.right))
}

/// A program made in one way.
struct Cell {
    program: String,
    mode: &'static str,
    report: Report,
    pipelines: usize,
    /// Milliseconds by stage.
    stages: Vec<(&'static str, f64)>,
    /// Milliseconds from the model's first call until a step can run, naga's own measurement not included.
    total: f64,
    right: bool,
}

/// The cold and the warm run with the middle totals.
fn measure(common: &Common, model: &Model, repeats: usize) -> Result<[Cell; 2], Failure> {
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for _ in 0..repeats {
        let folder = tempfile::TempDir::new()?;
        // Pipelines stay with a device, so each time is another device's.
        let device = || Ok::<Device, Error>(common.device()?.with_cache(Cache::open(folder.path())));
        let (first, program) = once(&device()?, model, "cold")?;
        let (mut second, again) = once(&device()?, model, "warm")?;
        second.right = again.report.cached && again.plan == program.plan;
        cold.push(first);
        warm.push(second);
    }
    Ok([middle(cold)?, middle(warm)?])
}

fn middle(mut cells: Vec<Cell>) -> Result<Cell, Failure> {
    cells.sort_by(|one, two| one.total.total_cmp(&two.total));
    let at = cells.len() / 2;
    cells.into_iter().nth(at).ok_or_else(|| "nothing was measured".into())
}

fn once(device: &Device, model: &Model, mode: &'static str) -> Result<(Cell, Program), Failure> {
    let start = Instant::now();
    let graph = (model.build)()?;
    let program = device.compile(&graph, &Options::default(), None)?;
    let compiled = start.elapsed().as_secs_f64();
    let store = StateStore::for_program(device, &program)?;
    let stored = start.elapsed().as_secs_f64();
    let session = Session::new(device, program.plan.clone(), &store)?;
    let total = start.elapsed().as_secs_f64();
    let naga = match device.info().kind {
        DeviceKind::Cpu => 0.0,
        _ => naga_time::seconds(&program.plan, device.caps())?,
    };
    let seconds = session.report().seconds;
    let of_session = [
        ("store", stored - compiled),
        ("verify again", seconds.verify),
        ("WGSL", seconds.print),
        ("pipelines", seconds.compile),
        ("naga, one thread", naga),
        ("allocate", seconds.allocate),
        ("bind", seconds.bind),
    ];
    let of_compiler = STAGES.map(|stage| (stage.name(), program.report.seconds(stage)));
    let stages = of_compiler.into_iter().chain(of_session).map(|(name, seconds)| (name, seconds.abs() * 1e3)).collect();
    let (report, pipelines) = (program.report.clone(), session.report().pipelines);
    let name = model.name.clone();
    Ok((Cell { program: name, mode, report, pipelines, stages, total: total * 1e3, right: true }, program))
}

/// Stages as rows, programs as columns; what took no time is left out.
fn print_table(cells: &[Cell]) {
    let row = |name: &str, texts: Vec<String>| {
        println!("{name:<17}{}", texts.iter().map(|text| format!("{text:>13}")).collect::<String>());
    };
    let times = |of: &dyn Fn(&Cell) -> f64| cells.iter().map(|cell| format!("{:.2}", of(cell))).collect::<Vec<_>>();
    println!("\nmilliseconds; naga's part of the pipelines' time is measured apart, in one thread");
    row("", cells.iter().map(|cell| cell.program.clone()).collect());
    row("stage", cells.iter().map(|cell| cell.mode.to_owned()).collect());
    let Some(first) = cells.first() else { return };
    for (at, (name, _)) in first.stages.iter().enumerate() {
        if cells.iter().any(|cell| cell.stages[at].1 > 0.0) {
            row(name, times(&|cell| cell.stages[at].1));
        }
    }
    row("in all", times(&|cell| cell.total));
    row("dispatches", cells.iter().map(|cell| cell.report.dispatches.to_string()).collect());
    row("pipelines made", cells.iter().map(|cell| cell.pipelines.to_string()).collect());
}

impl Cell {
    fn json(&self) -> Json {
        let Report { nodes, simplified, kernels, dispatches, groups, planned_bytes, cached, .. } = self.report;
        let stages: Map<String, Json> = self.stages.iter().map(|(name, ms)| ((*name).to_owned(), json!(ms))).collect();
        json!({
            "program": self.program, "mode": self.mode, "nodes": nodes, "simplified": simplified, "kernels": kernels,
            "dispatches": dispatches, "groups": groups, "planned_bytes": planned_bytes, "cached": cached,
            "pipelines": self.pipelines, "stages_ms": stages, "total_ms": self.total, "right": self.right,
        })
    }
}
