//! What was measured of one program, and how it is shown.

use crate::common::{Failure, dispatch_seconds, spin};
use crate::numerics::Numbers;
use crate::ready::First;
use crate::work::{Item, Work};
use crate::{Arguments, WARMUP_CALLS, repeats, warmup};
use meganeura::nn::models::workload::Phase;
use meganeura::prelude::*;
use serde_json::{Value as Json, json};
use std::time::Instant;

/// One workload, mode and phase.
pub struct Cell {
    workload: &'static str,
    mode: &'static str,
    phase: Phase,
    execution: &'static str,
    /// Seconds of building the graph, compiling it, making the session, the first step.
    stages: [f64; 4],
    /// Bytes planned, weights included.
    planned_bytes: usize,
    dispatches: usize,
    groups: usize,
    pipelines: usize,
    work: Work,
    /// Milliseconds of single steps, each waited for.
    samples: Vec<f64>,
    /// Seconds of all dispatches by the device's timestamps, and the kernels that take the most.
    device: Option<(f64, Vec<Item>)>,
    loss: Option<f32>,
}

/// Steps whose dispatches are timed.
const TIMED: usize = 10;
/// Kernels that are shown.
const SHOWN: usize = 3;

impl Cell {
    /// Makes a program ready, reads what it computes and times it.
    pub fn measure(first: &First<'_>, numbers: &mut Numbers, arguments: &Arguments) -> Result<Cell, Failure> {
        // A device of its own, so that no program finds pipelines made. The driver may keep a cache on disk.
        let device = arguments.common.device()?;
        let mut ready = first.ready(&device)?;
        numbers.read(first, &mut ready)?;
        let session = &mut ready.session;
        let samples = samples(session, arguments)?;
        let has_loss = matches!(first.phase, Phase::Gradients | Phase::Step);
        let loss = if has_loss { Some(session.read("loss")?.as_f32()?.iter().sum()) } else { None };
        let device = dispatch_seconds(session, TIMED.min(repeats(arguments)))?.map(|seconds| {
            let items = Item::largest(session.plan(), &seconds).into_iter().take(SHOWN);
            (seconds.iter().sum(), items.collect())
        });
        let report = session.report();
        Ok(Cell {
            workload: first.workload.name(),
            mode: first.mode.name(),
            phase: first.phase,
            execution: match report.native {
                true => "native",
                // The CPU device makes no pipelines.
                false if report.pipelines == 0 => "cpu",
                false => "safe",
            },
            stages: ready.stages,
            planned_bytes: ready.report.planned_bytes,
            dispatches: ready.report.dispatches,
            groups: ready.report.groups,
            pipelines: report.pipelines,
            work: Work::of(session.plan()),
            samples,
            device,
            loss,
        })
    }

    pub fn print(&self) {
        let [graph, compile, session, first] = self.stages;
        let sorted = self.sorted();
        println!(
            "{:8} {:11} {:9} {:10.3} ms ({:.3}–{:.3}), {} dispatches in {} groups, {} pipelines, {:.1} MB, {:.1} GFLOP, {:.1} % on matrix units; \
             graph {graph:.2}, compile {compile:.2}, session {session:.2}, first step {first:.2} s{}",
            self.workload,
            self.mode,
            self.phase.name(),
            quantile(&sorted, 0.5),
            quantile(&sorted, 0.0),
            quantile(&sorted, 1.0),
            self.dispatches,
            self.groups,
            self.pipelines,
            self.planned_bytes as f64 / 1e6,
            self.work.flops as f64 / 1e9,
            100.0 * self.work.matrix_share(),
            self.loss.map_or_else(String::new, |loss| format!("; loss {loss:.5}")),
        );
        let Some((seconds, items)) = &self.device else { return };
        println!("    dispatches alone {:.3} ms", seconds * 1e3);
        for item in items {
            let share = 100.0 * item.seconds / seconds;
            println!("    {:8.3} ms {share:5.1} % in {:3} × {}", item.seconds * 1e3, item.dispatches, item.label);
        }
    }

    pub fn json(&self) -> Json {
        let [graph, compile, session, first] = self.stages;
        let sorted = self.sorted();
        let (device_seconds, largest) = match &self.device {
            Some((seconds, items)) => (Some(seconds), items.iter().map(Item::json).collect()),
            None => (None, Vec::new()),
        };
        json!({
            "workload": self.workload, "mode": self.mode, "phase": self.phase.name(), "execution": self.execution,
            "median_ms": quantile(&sorted, 0.5), "iqr_ms": quantile(&sorted, 0.75) - quantile(&sorted, 0.25),
            "min_ms": quantile(&sorted, 0.0), "max_ms": quantile(&sorted, 1.0), "samples_ms": self.samples,
            "compile_s": graph + compile + session + first, "peak_bytes": self.planned_bytes, "loss": self.loss,
            "stages_s": { "graph": graph, "compile": compile, "session": session, "first_step": first },
            "dispatches": self.dispatches, "groups": self.groups, "pipelines": self.pipelines,
            "flops": self.work.flops, "matrix_units_share": self.work.matrix_share(),
            "device_seconds": device_seconds, "largest": largest,
        })
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}

/// Milliseconds of single steps, each waited for, after the warm-up.
fn samples(session: &mut Session, arguments: &Arguments) -> Result<Vec<f64>, Failure> {
    for _ in 0..WARMUP_CALLS {
        session.step()?;
    }
    // An idle GPU lowers its clock: what is timed comes right after.
    spin(session, warmup(arguments))?;
    let mut samples = Vec::with_capacity(repeats(arguments));
    for _ in 0..repeats(arguments) {
        let start = Instant::now();
        session.step()?;
        session.wait()?;
        samples.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(samples)
}

/// The number below which a share of sorted ones lies, between two by their distance (the inclusive method).
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = share * sorted.len().saturating_sub(1) as f64;
    let pick = |at: f64| sorted.get(at as usize).copied().unwrap_or(f64::NAN);
    pick(at.floor()) + (pick(at.ceil()) - pick(at.floor())) * at.fract()
}
