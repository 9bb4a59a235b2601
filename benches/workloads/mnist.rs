//! The network of the example `mnist`, on random images: one step alone, many queued, many with inputs uploaded before each.

#[path = "mnist_cell.rs"]
mod cell;
// The benchmark trains only.
#[allow(dead_code)]
#[path = "../../examples/mnist/model.rs"]
mod model;

use crate::common::{Failure, PATHS, Path, Random, clocks_down, dispatch_seconds, median, queued_seconds, spin};
use crate::{Arguments, WARMUP_CALLS, repeats, warmup};
use cell::MnistCell;
use meganeura::prelude::*;
use meganeura::{DeviceError, SessionOptions};
use model::Model;
use serde_json::Value as Json;
use std::time::Instant;

/// A training step: learns one batch by heart.
struct Training {
    graph: Graph,
    parameters: Vec<ParameterSpec>,
    /// What each input is.
    batch: Vec<(&'static str, Tensor)>,
    /// The output that must fall.
    loss: &'static str,
}

/// Measures all batches on both paths; the cells, and whether every program learned.
pub fn run(arguments: &Arguments) -> Result<(Vec<Json>, bool), Failure> {
    let mut cells: Vec<MnistCell> = Vec::new();
    for &batch in &arguments.batches {
        for path in PATHS {
            // A device of its own, so that no program finds pipelines made. The driver may keep a cache on disk.
            let device = arguments.common.device()?;
            match measure(&device, batch, path, arguments) {
                Err(Error::Device(DeviceError::Unsupported { .. })) => {
                    println!("{}: the device does not have it", path.0)
                }
                Err(error) => return Err(format!("mnist {batch}, {}: {error}", path.0).into()),
                Ok(cell) => {
                    cell.print_profile();
                    cells.push(cell);
                }
            }
        }
    }
    println!("\n{}", MnistCell::HEADER);
    cells.iter().for_each(|cell| println!("{}", cell.row()));
    Ok((cells.iter().map(MnistCell::json).collect(), cells.iter().all(MnistCell::learned)))
}

/// A step of AdamW on a batch of images.
fn training(batch: usize) -> Result<Training, Error> {
    let Model { graph, parameters } = model::training(batch)?;
    let mut random = Random(batch as u64);
    let images = (0..batch * Mnist::PIXELS).map(|_| random.uniform() + 0.5).collect();
    let labels = (0..batch).map(|_| random.below(Mnist::CLASSES) as u32).collect();
    let batch = vec![
        ("images", Tensor::from_f32([batch, Mnist::PIXELS], images)?),
        ("labels", Tensor::from_u32([batch], labels)?),
        ("rate", Tensor::scalar(0.001)),
    ];
    Ok(Training { graph, parameters, batch, loss: "loss" })
}

/// A program that is ready, and seconds of building the graph, compiling it, filling the store, making the session.
struct Ready {
    session: Session,
    training: Training,
    planned_bytes: usize,
    stages: [f64; 4],
}

impl Ready {
    fn new(device: &Device, batch: usize, options: &SessionOptions) -> Result<Ready, Error> {
        let mut clock = Instant::now();
        let mut lap = || std::mem::replace(&mut clock, Instant::now()).elapsed().as_secs_f64();
        let training = training(batch)?;
        let built = lap();
        let program = compile(&training.graph, &Options::default(), device.caps(), None)?;
        let compiled = lap();
        let store = StateStore::for_program(device, &program)?;
        initialize(&store, &training.parameters, 0)?;
        let filled = lap();
        let planned_bytes = program.report.planned_bytes;
        let session = Session::with_options(device, program.plan, &store, options)?;
        let mut ready = Ready { session, training, planned_bytes, stages: [built, compiled, filled, lap()] };
        ready.feed()?;
        Ok(ready)
    }

    fn feed(&mut self) -> Result<(), Error> {
        Ok(self.training.batch.iter().try_for_each(|(name, tensor)| self.session.write(name, tensor))?)
    }

    /// The loss before the last step; waits for it.
    fn loss(&mut self) -> Result<f32, Error> {
        Ok(self.session.read(self.training.loss)?.as_f32()?.iter().sum())
    }

    /// Seconds of one step alone.
    fn alone(&mut self) -> Result<f64, Error> {
        let start = Instant::now();
        self.session.step()?;
        self.session.wait()?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Seconds of a step with its inputs written before it, when several are queued.
    fn fed(&mut self, steps: usize) -> Result<f64, Error> {
        let start = Instant::now();
        for _ in 0..steps {
            self.feed()?;
            self.session.step()?;
        }
        self.session.wait()?;
        Ok(start.elapsed().as_secs_f64() / steps as f64)
    }
}

fn measure(device: &Device, batch: usize, path: Path, arguments: &Arguments) -> Result<MnistCell, Error> {
    let mut ready = Ready::new(device, batch, &path.options())?;
    ready.session.step()?;
    let first_loss = ready.loss()?;
    for _ in 0..WARMUP_CALLS {
        ready.session.step()?;
    }
    let warm = |ready: &mut Ready| match clocks_down(device) {
        true => spin(&mut ready.session, warmup(arguments)),
        false => Ok(ready.session.wait()?),
    };
    warm(&mut ready)?;
    let (repeats, steps) =
        (repeats(arguments), arguments.steps.unwrap_or(if arguments.common.quick { 5 } else { 100 }).max(1));
    let samples = (0..repeats).map(|_| ready.alone()).collect::<Result<Vec<f64>, _>>()?;
    let dispatches = dispatch_seconds(&mut ready.session, repeats)?;
    warm(&mut ready)?;
    let few = repeats.min(15);
    let queued = median((0..few).map(|_| queued_seconds(&mut ready.session, steps)).collect::<Result<_, _>>()?);
    let fed = median((0..few).map(|_| ready.fed(steps)).collect::<Result<_, _>>()?);
    let losses = [first_loss, ready.loss()?];
    let plan = ready.session.plan();
    let family = |dispatch: &meganeura::memory::Dispatch| dispatch.family(&plan.kernels[dispatch.kernel]);
    let labels = plan.dispatches.iter().map(|dispatch| format!("{} [{}]", dispatch.label, family(dispatch))).collect();
    let path = path.0;
    let (peak_bytes, stages) = (ready.planned_bytes, ready.stages);
    Ok(MnistCell { path, batch, stages, peak_bytes, labels, samples, dispatches, queued, fed, losses })
}
