//! The command line.

use clap::Parser;
use std::path::{Path, PathBuf};

/// Trains a network to read handwritten digits, saves its weights, and tests what was saved.
#[derive(Debug, Parser)]
#[command(name = "mnist", version, allow_negative_numbers = true)]
pub struct Arguments {
    /// Folder with the four IDX files of MNIST, or of a set of that format such as Fashion-MNIST, raw or gzip [default: data/mnist of this repository]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Passes over the training images
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub epochs: u32,
    /// Images of one step; those that do not fill a batch at the end of an epoch are left out of it
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    pub batch_size: u32,
    /// Peak learning rate; it falls to 0 along a cosine
    #[arg(long, default_value_t = 0.003, value_parser = positive)]
    pub lr: f32,
    /// Seed of the initial weights and the order of the images
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// `cpu`, `gpu`, a number in the list of adapters or a part of an adapter's name [default: the best there is]
    #[arg(long)]
    pub device: Option<String>,
    /// Folder for the weights [default: target/mnist of this repository]
    #[arg(long, value_name = "DIR")]
    checkpoint: Option<PathBuf>,
    /// Draws the losses as an SVG file
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Writes the loss of every step, one a line
    #[arg(long, value_name = "FILE")]
    pub losses: Option<PathBuf>,
    /// Tells what a training step spends its time on, after the training; with a file also as a trace for
    /// chrome://tracing and ui.perfetto.dev
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub profile: Option<Option<PathBuf>>,
}

impl Arguments {
    /// The folder of the data set.
    pub fn data(&self) -> PathBuf {
        self.data.clone().unwrap_or_else(|| beside("data/mnist"))
    }

    /// The file for the trace.
    pub fn trace(&self) -> Option<&PathBuf> {
        self.profile.as_ref()?.as_ref()
    }

    /// The file for the weights.
    pub fn weights(&self) -> PathBuf {
        self.checkpoint.clone().unwrap_or_else(|| beside("target/mnist")).join("mnist.safetensors")
    }
}

/// A path in the repository: from the working directory if it is one, else from where the example was built.
fn beside(path: &str) -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    if Path::new("data/mnist").is_dir() || !repository.is_dir() { PathBuf::from(path) } else { repository.join(path) }
}

fn positive(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("expected a positive number, such as 0.003".to_owned()),
    }
}
