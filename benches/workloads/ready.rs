//! Programs of workloads, ready to run.

use crate::Mode;
use crate::common::Failure;
use meganeura::nn::models::workload::{Phase, Workload, program, scaled_program, weights};
use meganeura::pipeline::Report;
use meganeura::prelude::*;
use serde_json::{Value as Json, json};
use std::time::Instant;

/// First weights by name, made once for all programs of a workload.
pub struct Weights(Vec<(String, Tensor)>);

impl Weights {
    pub fn of(workload: &dyn Workload) -> Result<Weights, Failure> {
        let parameters = program(workload, Phase::Inference)?.parameters;
        let tensor =
            |spec: &ParameterSpec| Ok((spec.name.clone(), Tensor::from_f32(&spec.ty.shape, weights(workload, spec))?));
        Ok(Weights(parameters.iter().map(tensor).collect::<Result<_, Failure>>()?))
    }
}

/// What a cell measures.
pub struct First<'a> {
    pub workload: &'a dyn Workload,
    pub mode: Mode,
    pub phase: Phase,
    pub weights: &'a Weights,
}

/// A program that ran once.
pub struct Ready {
    pub session: Session,
    /// Names of the parameters that have gradients.
    pub trained: Vec<String>,
    /// What compiling it took.
    pub report: Report,
    /// Seconds of building the graph, compiling it, making the session (pipelines included), the first step.
    pub stages: [f64; 4],
}

impl First<'_> {
    /// Builds, compiles, fills and runs the program once.
    pub fn ready(&self, device: &Device) -> Result<Ready, Failure> {
        let mut clock = Instant::now();
        let mut lap = || std::mem::replace(&mut clock, Instant::now()).elapsed().as_secs_f64();
        let built = scaled_program(self.workload, self.phase, self.mode.loss_scale())?;
        let graph = lap();
        let compiled = compile(&built.graph, &self.mode.options(), device.caps(), None)?;
        let compile = lap();
        let store = StateStore::for_program(device, &compiled)?;
        self.weights.0.iter().try_for_each(|(name, tensor)| store.write(name, tensor))?;
        lap();
        let mut session = Session::new(device, compiled.plan, &store)?;
        let pipelines = lap();
        for feed in &built.feeds {
            session.write(feed.name, &feed.tensor()?)?;
        }
        session.wait()?;
        lap();
        session.step()?;
        session.wait()?;
        let stages = [graph, compile, pipelines, lap()];
        let trained = built.parameters.iter().filter(|spec| spec.trainable).map(|spec| spec.name.clone());
        Ok(Ready { session, trained: trained.collect(), report: compiled.report, stages })
    }

    /// The cell of a program that did not run.
    pub fn failed(&self, error: &Failure) -> Json {
        json!({
            "workload": self.workload.name(), "mode": self.mode.name(), "phase": self.phase.name(),
            "execution": "none", "median_ms": null, "error": error.to_string(),
        })
    }
}
