//! Losses: scalars to differentiate.

use meganeura_core::dtype::DType;
use meganeura_core::ir::Value;

/// Cross-entropy of class indices: the mean over the rows of `logsumexp(logits) − logits[label]`.
///
/// `logits` is `f32[rows, classes]`, `labels` is `u32[rows]`; the result is `f32[]`. A label that is no class makes the
/// loss `NaN`; [`check_labels`] finds it on the host. As PyTorch's `cross_entropy` without weights.
#[track_caller]
pub fn cross_entropy<'g>(logits: Value<'g>, labels: Value<'g>) -> Value<'g> {
    let shape = logits.shape();
    // A poisoned operand has rank 0; any shape will do then.
    let [rows, classes] = *shape else { return logits + labels.cast(DType::F32) };
    let builder = logits.builder();
    let peak = logits.max([1]).stop_gradient().reshape([rows, 1]);
    let shifted = logits - peak;
    let log_sum = shifted.exp().sum([1]).log();
    let labels = labels.reshape([rows, 1]);
    let own = builder.iota([rows, classes], 1).eq(labels);
    let picked = own.select(shifted, shifted.like(0.0)).sum([1]);
    let is_class = labels.reshape([rows]).lt(labels.like(classes as f64));
    let losses = is_class.select(log_sum - picked, picked.like(f64::NAN));
    losses.sum([0]) * (1.0 / rows as f32)
}

/// A label is no class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("label {index} is {found}, expected less than {classes}")]
pub struct LabelError {
    /// Position of the label, from 0.
    pub index: usize,
    /// The label.
    pub found: u32,
    /// Number of classes.
    pub classes: usize,
}

/// Checks labels on the host, before they are uploaded.
///
/// # Errors
/// [`LabelError`] for the first label that is not below `classes`.
pub fn check_labels(labels: &[u32], classes: usize) -> Result<(), LabelError> {
    match labels.iter().enumerate().find(|&(_, &label)| label as usize >= classes) {
        Some((index, &found)) => Err(LabelError { index, found, classes }),
        None => Ok(()),
    }
}
