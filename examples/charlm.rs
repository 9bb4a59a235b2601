//! Trains a small transformer to continue text, character by character, compares it with a bigram model on text that
//! neither has seen, and lets it write.
//!
//! `cargo run --release --example charlm` needs nothing else; `-- --help` lists the options.

#[path = "charlm/bigram.rs"]
mod bigram;
#[path = "charlm/model.rs"]
mod model;

use bigram::Bigram;
use clap::Parser;
use meganeura::nn::data::{TextWindows, Vocabulary, read_text};
use meganeura::nn::random::Random;
use meganeura::prelude::*;
use model::{Model, WINDOW};
use std::error::Error as StdError;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Windows of a training step.
const BATCH: usize = 32;
/// Windows of an evaluation step.
const EVALUATION_BATCH: usize = 64;
/// Highest learning rate.
const RATE: f32 = 3e-3;
/// The most bytes of text that are read.
const LIMIT: u64 = 1 << 28;

/// Trains a small transformer to continue text and lets it write.
#[derive(Debug, Parser)]
#[command(name = "charlm", version, allow_negative_numbers = true, args_override_self = true)]
struct Arguments {
    /// Text to learn from, raw or gzip [default: Moby-Dick, in data/moby-dick of this repository]
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Training steps
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    steps: u32,
    /// Seed of the initial weights, the order of the text and the sample
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// `cpu`, `gpu`, a number in the list of adapters or a part of an adapter's name [default: the best there is]
    #[arg(long)]
    device: Option<String>,
    /// Writes the weights after training
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Reads weights that were saved, instead of training
    #[arg(long, value_name = "FILE", conflicts_with_all = ["steps", "save"])]
    load: Option<PathBuf>,
    /// What the sample begins with
    #[arg(long, default_value = "Call me ")]
    prompt: String,
    /// Characters to write
    #[arg(long, default_value_t = 400)]
    length: usize,
    /// How bold the sample is: 0 takes the likeliest character, 1 draws as often as the network expects
    #[arg(long, default_value_t = 0.7, value_parser = temperature)]
    temperature: f64,
    /// Tells what a training step spends its time on
    #[arg(long, conflicts_with = "load")]
    profile: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn StdError>> {
    let mut out = io::stdout();
    let text = read_text(&arguments.text.clone().unwrap_or_else(moby_dick), LIMIT)?;
    let vocabulary = Vocabulary::of(&text);
    let mut tokens = vocabulary.encode(&text)?;
    // The last tenth is held out.
    let held_out = tokens.split_off(tokens.len() - tokens.len() / 10);
    vocabulary.encode(&arguments.prompt)?;
    let device = match &arguments.device {
        Some(selector) => Device::from_selector(selector)?,
        None => Device::best(),
    };
    writeln!(out, "device: {}", device.info())?;
    writeln!(out, "text: {} characters, {} different ones", tokens.len() + held_out.len(), vocabulary.size())?;

    let bigram = Bigram::new(&tokens, vocabulary.size());
    let store = match &arguments.load {
        Some(file) => load(&device, vocabulary.size(), file)?,
        None => train(arguments, &device, tokens, vocabulary.size())?,
    };
    let (loss, bigram_loss) = evaluate(&device, &store, &bigram, held_out, vocabulary.size())?;
    writeln!(out, "held-out loss: {loss:.4} nats a character, {bigram_loss:.4} of a bigram model")?;
    let sample = generate(arguments, &device, &store, &vocabulary)?;
    writeln!(out, "\n{sample}")?;
    Ok(())
}

/// Trains a network from random weights; where its weights lie.
fn train(
    arguments: &Arguments,
    device: &Device,
    tokens: Vec<u32>,
    vocabulary: usize,
) -> Result<StateStore, Box<dyn StdError>> {
    let (mut out, steps) = (io::stdout(), arguments.steps);
    let schedule = Schedule::warmup_cosine(steps, steps / 20, RATE);
    let Model { graph, parameters } = model::training(vocabulary, BATCH, schedule)?;
    let program = device.compile(&graph, &Options::default(), None)?;
    let store = StateStore::for_program(device, &program)?;
    initialize(&store, &parameters, arguments.seed)?;
    let mut session = Session::new(device, program.plan, &store)?;

    let windows = TextWindows::new(tokens, WINDOW, 1);
    let options = LoaderOptions { batch: BATCH, seed: arguments.seed, ..LoaderOptions::default() };
    let mut loader = Loader::new(windows, options)?;
    let (start, mut step, mut losses) = (Instant::now(), 0, Vec::new());
    let report = (steps / 10).max(1);
    while step < steps {
        // Nothing comes at the end of an epoch, once.
        let Some(batch) = loader.next_batch()? else { continue };
        batch.write(&mut session)?;
        session.step()?;
        // Looked at when they are reported, so that the device need not wait for the host after each step.
        losses.push(session.read_later("loss")?);
        step += 1;
        if step % report == 0 {
            let mut sum = 0.0;
            for loss in losses.drain(..) {
                sum += loss.wait()?.as_f32()?[0];
            }
            writeln!(out, "step {step}/{steps}: loss {:.6}", sum / report as f32)?;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    writeln!(out, "trained in {seconds:.1} s, {:.1} steps/s", f64::from(steps) / seconds)?;
    if let Some(file) = &arguments.save {
        save_states(file, &store, parameters.iter().map(|spec| spec.name.as_str()))?;
    }
    if arguments.profile {
        writeln!(out, "{}", session.profile(10)?)?;
    }
    Ok(store)
}

/// Weights from a file.
fn load(device: &Device, vocabulary: usize, file: &Path) -> Result<StateStore, Box<dyn StdError>> {
    let Model { graph, parameters } = model::generation(vocabulary)?;
    let program = device.compile(&graph, &Options::default(), None)?;
    let store = StateStore::for_program(device, &program)?;
    Checkpoint::open(file)?.load_states(&store, parameters.iter().map(|spec| spec.name.as_str()))?;
    Ok(store)
}

/// Mean loss of the network, and of a bigram model, on the same characters of a text.
fn evaluate(
    device: &Device,
    store: &StateStore,
    bigram: &Bigram,
    tokens: Vec<u32>,
    vocabulary: usize,
) -> Result<(f64, f64), Box<dyn StdError>> {
    let Model { graph, .. } = model::evaluation(vocabulary, EVALUATION_BATCH)?;
    let program = device.compile(&graph, &Options::default(), Some(store.layout()))?;
    let mut session = Session::new(device, program.plan, store)?;
    let windows = TextWindows::new(tokens.clone(), WINDOW, WINDOW);
    let count = windows.len();
    let options =
        LoaderOptions { batch: EVALUATION_BATCH, shuffle: false, partial: Partial::Pad, ..LoaderOptions::default() };
    let mut loader = Loader::new(windows, options)?;
    let mut sum = 0.0;
    while let Some(batch) = loader.next_batch()? {
        batch.write(&mut session)?;
        session.step()?;
        // Rows that only fill the last batch up do not count.
        let losses = session.read("losses")?;
        sum += losses.as_f32()?[..batch.items.len()].iter().map(|&loss| f64::from(loss)).sum::<f64>();
    }
    let pairs = tokens.windows(2).take(count * WINDOW).map(|pair| (pair[0], pair[1]));
    Ok((sum / count as f64, bigram.loss(pairs)))
}

/// Continues the prompt, a character at a time: the program has one shape, so the whole window is computed for each.
fn generate(
    arguments: &Arguments,
    device: &Device,
    store: &StateStore,
    vocabulary: &Vocabulary,
) -> Result<String, Box<dyn StdError>> {
    let Model { graph, .. } = model::generation(vocabulary.size())?;
    let program = device.compile(&graph, &Options::default(), Some(store.layout()))?;
    let mut session = Session::new(device, program.plan, store)?;
    let mut random = Random::new(arguments.seed, "sample");
    // Without a prompt the text goes on after a line's end.
    let mut tokens = vocabulary.encode(if arguments.prompt.is_empty() { "\n" } else { &arguments.prompt })?;
    for _ in 0..arguments.length {
        let start = tokens.len().saturating_sub(WINDOW);
        let mut window = tokens[start..].to_vec();
        let last = window.len() - 1;
        // What comes after the last character is not seen by it.
        window.resize(WINDOW, 0);
        session.write("tokens", &Tensor::from_u32([1, WINDOW], window)?)?;
        session.step()?;
        let logits = session.read("logits")?;
        let row = &logits.as_f32()?[last * vocabulary.size()..][..vocabulary.size()];
        tokens.push(draw(row, arguments.temperature, random.uniform()));
    }
    Ok(vocabulary.decode(&tokens))
}

/// A character by the network's expectation: `uniform`, of `[0, 1)`, decides.
fn draw(logits: &[f32], temperature: f64, uniform: f64) -> u32 {
    let likeliest = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or(0);
    if temperature == 0.0 {
        return likeliest as u32;
    }
    let weight = |&logit: &f32| (f64::from(logit - logits[likeliest]) / temperature).exp();
    let mut rest = uniform * logits.iter().map(weight).sum::<f64>();
    let drawn = logits.iter().position(|logit| {
        rest -= weight(logit);
        rest < 0.0
    });
    drawn.unwrap_or(likeliest) as u32
}

/// The text in the repository: from the working directory if it is one, else from where the example was built.
fn moby_dick() -> PathBuf {
    let path = Path::new("data/moby-dick/moby-dick.txt.gz");
    if path.is_file() { path.into() } else { Path::new(env!("CARGO_MANIFEST_DIR")).join(path) }
}

fn temperature(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok(value),
        _ => Err("expected a number of at least 0, such as 0.7".to_owned()),
    }
}
