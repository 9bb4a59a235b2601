//! Five models as benchmark workloads: sizes, weights, inputs and losses by formulas, so that every implementation computes
//! the same numbers.
//!
//! ```
//! use meganeura_nn::models::workload::{self, Phase, Variant};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let workload = workload::find("resnet50", Variant::Tiny).ok_or("no such workload")?;
//! let step = workload::program(&*workload, Phase::Step)?;
//! assert_eq!(step.graph.outputs().len(), 1);
//! # Ok(())
//! # }
//! ```

mod feed;
mod program;
mod resnet;
mod rule;
mod smollm2;
mod smolvla;
mod unet;
mod whisper;

pub use feed::{Feed, Fill};
pub use program::{Phase, WorkloadProgram, program, scaled_program};
pub use rule::{scaled_uniform, weights};

use crate::params::Scope;
use meganeura_core::ir::Value;

/// How large a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// For tests: less than a second of one processor.
    Tiny,
    /// What is measured.
    Full,
}

impl Variant {
    /// Both.
    pub const ALL: [Variant; 2] = [Variant::Tiny, Variant::Full];

    /// Its name in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Variant::Tiny => "tiny",
            Variant::Full => "full",
        }
    }

    /// Input formulas advance ten times as fast in the tiny variant.
    const fn pace(self) -> f64 {
        match self {
            Variant::Tiny => 10.0,
            Variant::Full => 1.0,
        }
    }
}

/// A model with its first weights, its inputs and its loss.
pub trait Workload: Send + Sync {
    /// Its name in tables and files.
    fn name(&self) -> &'static str;

    /// Its size.
    fn variant(&self) -> Variant;

    /// What goes in; the smallest that makes sense if `minimal`.
    fn inputs(&self, minimal: bool) -> Vec<Feed>;

    /// What the output of the full inputs is compared with, if anything.
    fn target(&self) -> Option<Feed>;

    /// The model, applied to one value for each of the inputs.
    #[track_caller]
    fn output<'g>(&self, g: &Scope<'_, 'g>, inputs: &[Value<'g>]) -> Value<'g>;

    /// A scalar; `target` is there if [`Workload::target`] is.
    #[track_caller]
    fn loss<'g>(&self, output: Value<'g>, target: Option<Value<'g>>) -> Value<'g>;

    /// The bound of its first weights; see [`weights`].
    fn weight_scale(&self) -> f32;

    /// How far the weights of the norm of that name are from 1; see [`weights`].
    fn norm_spread(&self, _: &str) -> f32 {
        0.0
    }
}

/// The bound of most first weights: `√6e-4`.
const FULL_SCALE: f32 = 0.024_494_898;
/// The bound in tiny variants, whose sums have few terms.
const TINY_SCALE: f32 = 0.2;

/// The scale of most workloads.
const fn usual_scale(variant: Variant) -> f32 {
    match variant {
        Variant::Tiny => TINY_SCALE,
        Variant::Full => FULL_SCALE,
    }
}

/// All workloads.
pub fn all(variant: Variant) -> Vec<Box<dyn Workload>> {
    vec![
        Box::new(smollm2::SmolLm2Workload::new(variant)),
        Box::new(smolvla::SmolVlaWorkload::new(variant)),
        Box::new(unet::UNetWorkload::new(variant)),
        Box::new(resnet::ResNetWorkload::new(variant)),
        Box::new(whisper::WhisperWorkload::new(variant)),
    ]
}

/// The workload of that name.
pub fn find(name: &str, variant: Variant) -> Option<Box<dyn Workload>> {
    all(variant).into_iter().find(|workload| workload.name() == name)
}
