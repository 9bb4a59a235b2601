//! Networks, built of this crate's layers. Parameters have the names and shapes of PyTorch's state dictionaries.
//!
//! A model is a struct of its sizes with a method `forward`; see [`params`](crate::params). [`workload`] has the same models
//! as benchmark workloads: with weights, inputs and losses that are the same numbers everywhere.

mod resnet;
mod smollm2;
mod smolvla;
mod unet;
mod whisper;
pub mod workload;

pub use resnet::ResNet;
pub use smollm2::SmolLm2;
pub use smolvla::SmolVla;
pub use unet::UNet;
pub use whisper::WhisperEncoder;
