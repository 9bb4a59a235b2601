//! Trains a network on MNIST, saves its weights, loads them into a program for inference alone, and tests that.
//!
//! `cargo run --release --example mnist` needs nothing else; `-- --help` lists the options.

#[path = "mnist/arguments.rs"]
mod arguments;
#[path = "mnist/console.rs"]
mod console;
#[path = "mnist/digits.rs"]
mod digits;
#[path = "mnist/model.rs"]
mod model;
#[path = "mnist/network.rs"]
mod network;
#[path = "mnist/plot.rs"]
mod plot;

use arguments::Arguments;
use clap::Parser;
use console::{Progress, line};
use meganeura::HostSpans;
use meganeura::prelude::*;
use network::{Classifier, Learner};
use std::error::Error as StdError;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tracing_subscriber::layer::SubscriberExt;

/// Images of one evaluation step; 10,000 is no multiple of it, so the last step is padded.
const TEST_BATCH: usize = 256;
/// Steps at the start in which the learning rate rises, as a share of all steps.
const WARMUP: f64 = 0.05;
/// Steps that `--profile` times.
const PROFILED_STEPS: usize = 20;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has enough of it.
        Err(error) if is_closed_pipe(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut text = format!("error: {error}");
            let mut source = error.source();
            while let Some(cause) = source {
                // Errors that print their cause themselves are not repeated.
                if !text.ends_with(&cause.to_string()) {
                    let _ = write!(text, ": {cause}");
                }
                source = cause.source();
            }
            let _ = io::Write::write_all(&mut io::stderr(), format!("{text}\n").as_bytes());
            ExitCode::FAILURE
        }
    }
}

fn is_closed_pipe(error: &(dyn StdError + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn StdError>> {
    let spans = HostSpans::default();
    if arguments.trace().is_some() {
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(spans.clone()))?;
    }
    let mnist = Mnist::load(&arguments.data())?;
    let batch = arguments.batch_size as usize;
    let images = mnist.train.len();
    if batch > images {
        return Err(format!("--batch-size {batch}: expected at most the {images} training images").into());
    }
    let device = match &arguments.device {
        Some(selector) => Device::from_selector(selector)?,
        None => Device::best(),
    };
    line(format_args!("device: {}", device.info()))?;
    if let Some(notice) = device.notice() {
        line(notice)?;
    }
    claim_outputs(arguments)?;
    let learner = Learner::new(&device, batch, arguments.seed)?;
    line(learner.summary())?;
    if images % batch != 0 {
        line(format_args!("each epoch leaves out {} of {images} images, other ones each time", images % batch))?;
    }
    let losses = train(arguments, &mnist, learner, &spans)?;
    report_losses(arguments, &losses)?;
    test(&arguments.weights(), &device, &mnist)
}

/// Trains, tests after each epoch, saves the weights. The loss of every step.
fn train(
    arguments: &Arguments,
    mnist: &Mnist,
    mut learner: Learner,
    spans: &HostSpans,
) -> Result<Vec<f32>, Box<dyn StdError>> {
    let batch = arguments.batch_size as usize;
    let mut evaluation = Classifier::beside(&learner, TEST_BATCH)?;
    let per_epoch = mnist.train.len() / batch;
    let steps = per_epoch * arguments.epochs as usize;
    let warmup = (steps as f64 * WARMUP) as usize;
    let mut losses = Vec::with_capacity(steps.min(1 << 20));
    for epoch in 0..arguments.epochs {
        let mut progress = Progress::new(format!("epoch {}/{}", epoch + 1, arguments.epochs), per_epoch);
        let order = shuffled(mnist.train.len(), arguments.seed, u64::from(epoch));
        for items in Batches::new(&order, batch).full() {
            let rate = cosine_rate(arguments.lr, losses.len(), steps, warmup);
            let loss = learner.step(mnist.train.batch(items), rate)?;
            losses.push(loss);
            if !loss.is_finite() {
                report_losses(arguments, &losses)?;
                let step = losses.len();
                return Err(format!("the loss of step {step} is {loss}, expected a number; try a lower --lr").into());
            }
            progress.step(loss)?;
        }
        let recent = &losses[losses.len() - per_epoch..];
        let mean = recent.iter().sum::<f32>() / per_epoch as f32;
        let accuracy = evaluation.accuracy(&mnist.test)?;
        progress.finish(format_args!("mean loss {mean:.4}, test accuracy {accuracy:.2} %"))?;
    }
    let weights = arguments.weights();
    learner.save(&weights)?;
    line(format_args!("weights: {}", weights.display()))?;
    // After saving: the steps that are timed would change the weights.
    profile(arguments, spans, &mut learner)?;
    Ok(losses)
}

/// Prints what a step spends its time on, and writes the trace.
fn profile(arguments: &Arguments, spans: &HostSpans, learner: &mut Learner) -> Result<(), Box<dyn StdError>> {
    let Some(file) = &arguments.profile else { return Ok(()) };
    let profile = learner.profile(PROFILED_STEPS)?;
    line(&profile)?;
    let Some(file) = file else { return Ok(()) };
    let text = profile.trace(&spans.take()).to_string();
    std::fs::write(file, text).map_err(|error| format!("{}: cannot be written: {error}", file.display()).into())
}

/// Makes the folder and the files to write, so that a wrong path is told before the training and not after it.
fn claim_outputs(arguments: &Arguments) -> Result<(), Box<dyn StdError>> {
    let weights = arguments.weights();
    let folder = weights.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: cannot be made: {error}", folder.display()))?;
    if weights.is_dir() {
        return Err(format!("{}: is a folder, expected a file or nothing", weights.display()).into());
    }
    let mut claimed = vec![weights];
    for file in [arguments.losses.as_ref(), arguments.plot.as_ref(), arguments.trace()].into_iter().flatten() {
        // Opened, but neither emptied nor made anew before there is something to write.
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(file);
        opened.map_err(|error| format!("{}: cannot be written: {error}", file.display()))?;
        claimed.push(file.clone());
    }
    refuse_clashes(&claimed, &arguments.data())
}

/// Each output is a file of its own, and none is a file of the data set.
fn refuse_clashes(outputs: &[PathBuf], data: &Path) -> Result<(), Box<dyn StdError>> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    for (at, output) in outputs.iter().enumerate() {
        if outputs[..at].iter().any(|other| real(other) == real(output)) {
            return Err(format!("{}: named for two outputs, expected a file each", output.display()).into());
        }
        let of_the_set = |name: &str| name.ends_with("-ubyte") || name.ends_with("-ubyte.gz");
        let named_so = output.file_name().is_some_and(|name| of_the_set(&name.to_string_lossy()));
        if named_so && real(output).parent() == Some(real(data).as_path()) {
            return Err(format!("{}: is a file of the data set, expected another name", output.display()).into());
        }
    }
    Ok(())
}

fn report_losses(arguments: &Arguments, losses: &[f32]) -> Result<(), Box<dyn StdError>> {
    if let Some(path) = &arguments.losses {
        let text: String = losses.iter().map(|loss| format!("{loss}\n")).collect();
        std::fs::write(path, text).map_err(|error| format!("{}: cannot be written: {error}", path.display()))?;
    }
    match &arguments.plot {
        Some(path) => plot::draw(path, losses),
        None => Ok(()),
    }
}

/// Tests what was saved, in a program that knows no training and a store of its own.
fn test(weights: &Path, device: &Device, mnist: &Mnist) -> Result<(), Box<dyn StdError>> {
    let mut network = Classifier::load(device, TEST_BATCH, weights)?;
    line(network.summary())?;
    let shown: Vec<usize> = (0..mnist.test.len().min(3)).collect();
    let images: Vec<&[u8]> = shown.iter().map(|&item| mnist.test.image(item)).collect();
    digits::draw(&images).iter().try_for_each(line)?;
    for (item, (class, probability)) in shown.iter().zip(network.classify(&mnist.test, &shown)?) {
        let (label, sure) = (mnist.test.labels()[*item], probability * 100.0);
        line(format_args!("image {item} is a {label}, taken for a {class} ({sure:.1} % sure)"))?;
    }
    let accuracy = network.accuracy(&mnist.test)?;
    line(format_args!("test accuracy: {accuracy:.2} %"))?;
    Ok(())
}
