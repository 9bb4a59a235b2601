//! What compiling one program took, and what came of it.

use crate::debug::Log;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Figures about one compilation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Nodes of the graph as built.
    pub nodes: usize,
    /// Nodes after simplification.
    pub simplified: usize,
    /// Distinct kernels.
    pub kernels: usize,
    /// Dispatches of one step.
    pub dispatches: usize,
    /// Groups of dispatches that barriers separate.
    pub groups: usize,
    /// Bytes of all buffers, states included.
    pub planned_bytes: usize,
    /// Whether the program came out of a cache rather than through the compiler's stages.
    pub cached: bool,
    /// Wall-clock time of each stage, in order; stages that did not run are absent.
    pub stages: Vec<StageTime>,
    /// Wall-clock time of the stages together, building and differentiating the graph not included.
    pub elapsed: Duration,
}

/// The time of one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageTime {
    /// Which stage.
    pub stage: Stage,
    /// Wall-clock time, repetitions added.
    pub time: Duration,
}

/// The stages from a model's calls to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stage {
    /// The model's calls until [`Builder::finish`](crate::ir::Builder::finish), differentiation not included.
    Build,
    /// [`Builder::gradients`](crate::ir::Builder::gradients).
    Differentiate,
    /// Looking the program up in a cache: hashing, reading, verifying.
    Load,
    /// Rewriting the graph.
    Simplify,
    /// Choosing dimension orders.
    Layout,
    /// Partitioning the graph into kernels.
    Partition,
    /// Choosing and expanding schedules.
    Schedule,
    /// Ordering dispatches.
    Order,
    /// Placing tensors in memory.
    Place,
    /// All verifiers together.
    Verify,
    /// Writing the program to a cache.
    Save,
}

impl Stage {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Build => "build",
            Stage::Differentiate => "differentiate",
            Stage::Load => "load",
            Stage::Simplify => "simplify",
            Stage::Layout => "layout",
            Stage::Partition => "partition",
            Stage::Schedule => "schedule",
            Stage::Order => "order",
            Stage::Place => "place",
            Stage::Verify => "verify",
            Stage::Save => "save",
        }
    }
}

impl Report {
    /// Seconds of a stage; 0 if it did not run.
    pub fn seconds(&self, stage: Stage) -> f64 {
        self.stages.iter().filter(|entry| entry.stage == stage).map(|entry| entry.time.as_secs_f64()).sum()
    }

    /// Adds the time of a stage that ran outside of the compiler proper, such as a cache's.
    pub fn add(&mut self, stage: Stage, time: Duration) {
        self.stages.push(StageTime { stage, time });
        self.elapsed += time;
    }
}

impl Report {
    /// Counts and the whole time, as one line.
    pub fn counts(&self) -> String {
        let Report { nodes, simplified, kernels, dispatches, groups, planned_bytes, .. } = self;
        let source = if self.cached { "from the cache" } else { "compiled" };
        format!(
            "{nodes} nodes, {simplified} simplified, {kernels} kernels, {dispatches} dispatches in {groups} groups, \
             {planned_bytes} bytes planned, {source} in {:.2} ms",
            milliseconds(self.elapsed)
        )
    }

    /// The time of each stage, as one line.
    pub fn times(&self) -> String {
        let time = |entry: &StageTime| format!("{} {:.2} ms", entry.stage.name(), milliseconds(entry.time));
        self.stages.iter().map(time).collect::<Vec<_>>().join(", ")
    }

    /// Tells people, if they asked for it.
    pub fn tell(&self, log: &Log) {
        log.say(1, || self.counts());
        log.say(2, || self.times());
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.counts())?;
        writeln!(f, "{}", self.times())
    }
}

/// How long a graph took to make. No part of what the graph is: all are equal.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MakingTime {
    pub build: Duration,
    pub differentiate: Duration,
}

impl PartialEq for MakingTime {
    fn eq(&self, _: &MakingTime) -> bool {
        true
    }
}
