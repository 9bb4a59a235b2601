//! Programs on a device: one that learns, one that only classifies.

use crate::model::{self, Model};
use meganeura::Profile;
use meganeura::nn::data::LabelledImages;
use meganeura::prelude::*;
use std::path::Path;

/// The network with its optimiser.
pub struct Learner {
    device: Device,
    session: Session,
    parameters: Vec<ParameterSpec>,
    batch: usize,
    summary: String,
}

impl Learner {
    /// A fresh network for steps of `batch` images.
    pub fn new(device: &Device, batch: usize, seed: u64) -> Result<Learner, Error> {
        let Model { graph, parameters } = model::training(batch)?;
        let program = device.compile(&graph, &Options::default(), None)?;
        let store = StateStore::for_program(device, &program)?;
        initialize(&store, &parameters, seed)?;
        let (session, summary) = ready(device, program, &store, "training")?;
        Ok(Learner { device: device.clone(), session, parameters, batch, summary })
    }

    /// What was compiled.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// Learns from a batch; its loss before the step.
    pub fn step(&mut self, (pixels, labels): (Vec<f32>, Vec<u32>), rate: f32) -> Result<f32, Error> {
        self.session.write("images", &Tensor::from_f32([self.batch, Mnist::PIXELS], pixels)?)?;
        self.session.write("labels", &Tensor::from_u32([self.batch], labels)?)?;
        self.session.write("rate", &Tensor::scalar(rate))?;
        self.session.step()?;
        Ok(self.session.read("loss")?.as_f32()?.iter().sum())
    }

    /// What a step on the last batch spends its time on. These steps learn like others.
    pub fn profile(&mut self, steps: usize) -> Result<Profile, Error> {
        Ok(self.session.profile(steps)?)
    }

    /// Writes the weights, without what the optimiser keeps.
    pub fn save(&self, file: &Path) -> Result<(), Error> {
        save_states(file, self.session.store(), self.parameters.iter().map(|spec| spec.name.as_str()))?;
        Ok(())
    }
}

/// The network without its optimiser.
pub struct Classifier {
    session: Session,
    batch: usize,
    summary: String,
}

impl Classifier {
    /// On the weights that a learner is changing.
    pub fn beside(learner: &Learner, batch: usize) -> Result<Classifier, Error> {
        let Model { graph, .. } = model::inference(batch)?;
        let store = learner.session.store();
        let program = learner.device.compile(&graph, &Options::default(), Some(store.layout()))?;
        let (session, summary) = ready(&learner.device, program, store, "evaluation")?;
        Ok(Classifier { session, batch, summary })
    }

    /// On weights from a file.
    pub fn load(device: &Device, batch: usize, file: &Path) -> Result<Classifier, Error> {
        let Model { graph, parameters } = model::inference(batch)?;
        let program = device.compile(&graph, &Options::default(), None)?;
        let store = StateStore::for_program(device, &program)?;
        let names = parameters.iter().map(|spec| spec.name.as_str());
        Checkpoint::open(file)?.load_states(&store, names)?;
        let (session, summary) = ready(device, program, &store, "inference")?;
        Ok(Classifier { session, batch, summary })
    }

    /// What was compiled.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// The likeliest class of each of some images, with its probability.
    pub fn classify(&mut self, images: &LabelledImages, items: &[usize]) -> Result<Vec<(usize, f32)>, Error> {
        let mut classes = Vec::with_capacity(items.len());
        for (padded, valid) in Batches::new(items, self.batch).padded() {
            let (pixels, _) = images.batch(&padded);
            self.session.write("images", &Tensor::from_f32([self.batch, Mnist::PIXELS], pixels)?)?;
            self.session.step()?;
            let probabilities = self.session.read("probabilities")?;
            let rows = probabilities.as_f32()?.chunks_exact(Mnist::CLASSES).take(valid);
            classes.extend(rows.map(likeliest));
        }
        Ok(classes)
    }

    /// Percentage of all images whose likeliest class is their label.
    pub fn accuracy(&mut self, images: &LabelledImages) -> Result<f64, Error> {
        let all: Vec<usize> = (0..images.len()).collect();
        let classes = self.classify(images, &all)?;
        let right = classes.iter().zip(images.labels()).filter(|((class, _), label)| *class == usize::from(**label));
        Ok(100.0 * right.count() as f64 / images.len() as f64)
    }
}

/// Position and value of the largest element.
fn likeliest(row: &[f32]) -> (usize, f32) {
    let larger =
        |best: (usize, f32), (class, &value): (usize, &f32)| if value > best.1 { (class, value) } else { best };
    row.iter().enumerate().fold((0, f32::NEG_INFINITY), larger)
}

/// A session for a compiled program, and a line about it.
fn ready(device: &Device, program: Program, store: &StateStore, what: &str) -> Result<(Session, String), Error> {
    let report = program.report;
    let start = std::time::Instant::now();
    let session = Session::new(device, program.plan, store)?;
    let seconds = (report.elapsed + start.elapsed()).as_secs_f64();
    let summary = format!(
        "{what}: {} nodes, {} kernels, {} dispatches, {} bytes planned, ready in {seconds:.2} s",
        report.nodes, report.kernels, report.dispatches, report.planned_bytes
    );
    Ok((session, summary))
}
