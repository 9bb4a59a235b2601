//! The network of the example `mnist`, on random images.

// The benchmark trains only.
#[allow(dead_code)]
#[path = "../../examples/mnist/model.rs"]
mod model;

use crate::Training;
use crate::common::Random;
use meganeura::prelude::*;
use model::Model;

/// A step of AdamW on a batch of images.
pub fn training(batch: usize) -> Result<Training, Error> {
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
