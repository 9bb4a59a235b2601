//! What a workload's programs computed, in samples.

use crate::common::Failure;
use crate::ready::{First, Ready};
use meganeura::nn::models::workload::{Phase, Workload};
use serde_json::{Map, Value as Json, json};

const OUTPUT_SAMPLES: usize = 256;
const GRADIENT_SAMPLES: usize = 64;

/// What was read of the sessions of one workload and mode.
#[derive(Default)]
pub struct Numbers(Map<String, Json>);

impl Numbers {
    /// Reads what the first step of a program computed.
    pub fn read(&mut self, first: &First<'_>, ready: &mut Ready) -> Result<(), Failure> {
        match first.phase {
            Phase::Inference => self.output(ready, "output"),
            Phase::Minimal => self.output(ready, "minimal_output"),
            Phase::Gradients => self.gradients(ready),
            Phase::Step => Ok(()),
        }
    }

    fn output(&mut self, ready: &mut Ready, name: &str) -> Result<(), Failure> {
        let output = ready.session.read("output")?;
        self.0.insert(format!("{name}_shape"), json!(output.shape().to_vec()));
        self.0.insert(format!("{name}_samples"), json!(evenly(output.as_f32()?, OUTPUT_SAMPLES)));
        Ok(())
    }

    fn gradients(&mut self, ready: &mut Ready) -> Result<(), Failure> {
        let (mut parameters, mut total) = (Map::new(), 0.0);
        for name in &ready.trained {
            let gradient = ready.session.read(&format!("grad.{name}"))?;
            let values = gradient.as_f32()?;
            let square: f64 = values.iter().map(|&value| f64::from(value).powi(2)).sum();
            total += square;
            let samples = evenly(values, GRADIENT_SAMPLES);
            let shape = gradient.shape().to_vec();
            parameters.insert(name.clone(), json!({ "shape": shape, "norm": square.sqrt(), "samples": samples }));
        }
        let loss: f32 = ready.session.read("loss")?.as_f32()?.iter().sum();
        self.0.insert("loss".to_owned(), json!(loss));
        self.0.insert("grad_total_norm".to_owned(), json!(total.sqrt()));
        self.0.insert("params".to_owned(), Json::Object(parameters));
        Ok(())
    }

    /// The block, if the programs ran whose results it must have.
    pub fn json(mut self, workload: &dyn Workload, mode: &str) -> Option<Json> {
        let complete = ["output_samples", "params"].iter().all(|field| self.0.contains_key(*field));
        let labels = [("workload", workload.name()), ("variant", workload.variant().name()), ("mode", mode)];
        self.0.extend(labels.map(|(field, text)| (field.to_owned(), json!(text))));
        complete.then_some(Json::Object(self.0))
    }
}

/// Elements `⌊k · n / m⌋`, `k < m = min(count, n)`.
fn evenly(values: &[f32], count: usize) -> Vec<f32> {
    let taken = count.min(values.len());
    (0..taken).filter_map(|k| values.get(k * values.len() / taken).copied()).collect()
}
