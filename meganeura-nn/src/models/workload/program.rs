//! The programs of a workload.

use super::{Feed, Workload};
use crate::optim::{AdamW, Training};
use crate::params::{ParameterSpec, Parameters};
use meganeura_core::ir::{BuildErrors, Builder, Graph, Value};

/// What a program of a workload computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The output `output` of the full inputs.
    Inference,
    /// The output `output` of the minimal inputs.
    Minimal,
    /// `loss`, and the gradient `grad.NAME` of every trained parameter.
    Gradients,
    /// `loss`, and an update of every trained parameter by AdamW.
    Step,
}

impl Phase {
    /// All of them.
    pub const ALL: [Phase; 4] = [Phase::Inference, Phase::Minimal, Phase::Gradients, Phase::Step];

    /// Its name in tables and files; `flb` is forward, loss and backward.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Inference => "inference",
            Phase::Minimal => "minimal",
            Phase::Gradients => "flb",
            Phase::Step => "step",
        }
    }
}

/// A graph, its parameters, and what its inputs are.
#[derive(Clone, Debug)]
pub struct WorkloadProgram {
    /// The graph.
    pub graph: Graph,
    /// Its parameters.
    pub parameters: Vec<ParameterSpec>,
    /// Its inputs.
    pub feeds: Vec<Feed>,
}

/// Learning rate of [`Phase::Step`].
const RATE: f32 = 1e-3;
/// The optimiser of [`Phase::Step`]; all parameters decay.
const OPTIMIZER: AdamW = AdamW { betas: [0.9, 0.95], epsilon: 1e-8, weight_decay: 0.1 };

/// Builds the program of a phase.
///
/// # Errors
/// [`BuildErrors`] if the sizes of the workload do not fit each other.
pub fn program(workload: &dyn Workload, phase: Phase) -> Result<WorkloadProgram, BuildErrors> {
    scaled_program(workload, phase, 1.0)
}

/// As [`program`], with a [`loss_scale`](Training::loss_scale): for arithmetic whose products round their operands to f16.
///
/// # Errors
/// [`BuildErrors`] if the sizes of the workload do not fit each other.
pub fn scaled_program(workload: &dyn Workload, phase: Phase, loss_scale: f32) -> Result<WorkloadProgram, BuildErrors> {
    let builder = Builder::new();
    let inference = matches!(phase, Phase::Inference | Phase::Minimal);
    let parameters = if inference { Parameters::inference(&builder) } else { Parameters::new(&builder) };
    let mut feeds = workload.inputs(phase == Phase::Minimal);
    let input = |feed: &Feed| builder.input(feed.name, feed.ty.clone());
    let inputs: Vec<Value<'_>> = feeds.iter().map(input).collect();
    let output = workload.output(&parameters.root(), &inputs);
    if inference {
        builder.output("output", output);
    } else {
        let target = workload.target();
        let loss = workload.loss(output, target.as_ref().map(input));
        feeds.extend(target);
        builder.output("loss", loss);
        let training = Training::new(&parameters, &OPTIMIZER, builder.constant(RATE)).loss_scale(loss_scale);
        if phase == Phase::Step {
            training.minimize(loss);
        } else {
            for ((name, _), gradient) in parameters.trainable().iter().zip(training.gradients(loss)) {
                builder.output(format!("grad.{name}"), gradient);
            }
        }
    }
    let parameters = parameters.specs();
    Ok(WorkloadProgram { graph: builder.finish()?, parameters, feeds })
}
