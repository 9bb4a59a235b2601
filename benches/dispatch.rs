//! What a dispatch costs besides its work: programs of many tiny ones.
//!
//! ```text
//! cargo bench --bench dispatch                                  # the best GPU
//! cargo bench --bench dispatch -- --device llvmpipe --quick
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod common;

use clap::Parser;
use common::{Common, Failure, PATHS, clocks_down, dispatch_seconds, median, queued_seconds, spin};
use meganeura::prelude::*;
use meganeura::{DeviceError, SessionOptions};
use serde_json::{Value as Json, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How dispatches depend on each other: a name, and into how many chains they are dealt (no more than there are).
const SHAPES: [(&str, usize); 3] = [("dependent", 1), ("grouped by four", 4), ("independent", usize::MAX)];
/// Elements of every tensor: less than a workgroup's.
const ELEMENTS: usize = 64;
/// How long a program runs before it is timed.
const SPIN_TIME: Duration = Duration::from_millis(300);

/// Measures what a dispatch costs the CPU to record and submit, and what it costs in all.
#[derive(Debug, Parser)]
#[command(name = "dispatch")]
struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Dispatches of a step
    #[arg(long, default_value_t = 400)]
    dispatches: usize,
    /// Samples of each time, of which the median counts
    #[arg(long, default_value_t = 30)]
    repeats: usize,
}

fn main() -> ExitCode {
    common::exit(run(&Arguments::parse()))
}

/// Whether every program computed what it should.
fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let device = arguments.common.device()?;
    let (dispatches, repeats) =
        if arguments.common.quick { (40, 3) } else { (arguments.dispatches.max(4), arguments.repeats.max(1)) };
    println!("device: {}\nµs a dispatch, {dispatches} dispatches a step\n", device.info());
    println!("path    dispatches       groups   CPU record+submit   total, queued   total, one step   device");
    let mut cells = Vec::new();
    for path in PATHS {
        for (shape, chains) in SHAPES {
            let program = chains_program(&device, chains.min(dispatches), dispatches)?;
            let mut session = match ready(&device, &program, &path.options()) {
                Err(Error::Device(DeviceError::Unsupported { .. })) => {
                    println!("{:<7} the device does not have it", path.0);
                    break;
                }
                session => session?,
            };
            let cell = Cell { path: path.0, shape, ..measure(&device, &mut session, repeats)? };
            println!("{}", cell.row());
            cells.push(cell);
        }
    }
    arguments.common.write(&json!({
        "device": device.info().to_string(), "driver": device.info().driver, "dispatches": dispatches,
        "cells": cells.iter().map(Cell::json).collect::<Vec<_>>(),
    }))?;
    Ok(cells.iter().all(|cell| cell.right))
}

/// `dispatches` products of tiny tensors, each a dispatch of its own, in so many chains.
fn chains_program(device: &Device, chains: usize, dispatches: usize) -> Result<Program, Error> {
    let builder = Builder::new();
    let ty = TensorType::new(DType::F32, [ELEMENTS]);
    let x = builder.input("x", ty);
    let mut ends: Vec<Value<'_>> = vec![x; chains];
    for at in 0..dispatches {
        let end = &mut ends[at % chains];
        *end = *end * x;
    }
    for (at, end) in ends.into_iter().enumerate() {
        builder.output(format!("y{at}"), end);
    }
    // Without rewriting and fusion each op is a kernel.
    Ok(compile(&builder.finish()?, &Options::plain(), device.caps(), None)?)
}

/// A session on −1s.
fn ready(device: &Device, program: &Program, options: &SessionOptions) -> Result<Session, Error> {
    let store = StateStore::for_program(device, program)?;
    let mut session = Session::with_options(device, program.plan.clone(), &store, options)?;
    session.write("x", &Tensor::from_f32([ELEMENTS], vec![-1.0; ELEMENTS])?)?;
    session.step()?;
    session.wait()?;
    Ok(session)
}

/// What one program takes; times in µs a dispatch.
#[derive(Default)]
struct Cell {
    path: &'static str,
    shape: &'static str,
    groups: usize,
    /// Until the call that runs a step returns, with nothing in flight. The CPU device's includes the work.
    cpu: f64,
    /// Of queued steps, the last one's end included.
    queued: f64,
    /// From the call to the end of a step alone.
    alone: f64,
    /// By the device's timestamps, on the safe path.
    device: Option<f64>,
    right: bool,
}

fn measure(device: &Device, session: &mut Session, repeats: usize) -> Result<Cell, Error> {
    let dispatches = session.plan().dispatches.len();
    let groups = session.plan().dispatches.last().map_or(0, |last| last.group + 1);
    let micros = |samples: Vec<f64>| median(samples) * 1e6 / dispatches as f64;
    let device_seconds = dispatch_seconds(session, repeats)?;
    spin(session, if clocks_down(device) { SPIN_TIME } else { Duration::ZERO })?;
    let (mut cpu, mut alone, mut queued) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..repeats {
        let start = Instant::now();
        session.step()?;
        cpu.push(start.elapsed().as_secs_f64());
        session.wait()?;
        alone.push(start.elapsed().as_secs_f64());
    }
    for _ in 0..repeats {
        queued.push(queued_seconds(session, 8)?);
    }
    let right = session.plan().outputs.clone().iter().enumerate().all(|(at, port)| {
        // Of the first chains each has one product more where they do not divide the number.
        let chains = session.plan().outputs.len();
        let length = dispatches / chains + usize::from(at < dispatches % chains);
        let expected = if length.is_multiple_of(2) { -1.0 } else { 1.0 };
        session.read(&port.name).is_ok_and(|y| y.as_f32().is_ok_and(|y| y.iter().all(|&y| y == expected)))
    });
    let device = device_seconds.map(|seconds| seconds.iter().sum::<f64>() * 1e6 / dispatches as f64);
    let (cpu, alone, queued) = (micros(cpu), micros(alone), micros(queued));
    Ok(Cell { groups, cpu, alone, queued, device, right, ..Cell::default() })
}

impl Cell {
    fn row(&self) -> String {
        let device = self.device.map_or_else(|| "–".to_owned(), |micros| format!("{micros:.2}"));
        let verdict = if self.right { "" } else { " WRONG" };
        format!(
            "{:<7} {:<16} {:>6} {:>19.2} {:>15.2} {:>17.2} {device:>8}{verdict}",
            self.path, self.shape, self.groups, self.cpu, self.queued, self.alone
        )
    }

    fn json(&self) -> Json {
        json!({
            "path": self.path, "shape": self.shape, "groups": self.groups, "cpu_us": self.cpu, "queued_us": self.queued,
            "alone_us": self.alone, "device_us": self.device, "right": self.right,
        })
    }
}
