//! Losses: scalars to differentiate.

use meganeura_core::ir::Value;

/// Cross-entropy of class indices: the mean over all rows of `logsumexp(logits) − logits[label]`.
///
/// `logits` is `f32[…, classes]`, `labels` is `u32[…]`; the result is `f32[]`. A label that is no class makes the loss
/// `NaN`; [`check_labels`] finds it on the host. As PyTorch's `cross_entropy` without weights.
#[track_caller]
pub fn cross_entropy<'g>(logits: Value<'g>, labels: Value<'g>) -> Value<'g> {
    logits.cross_entropy(labels).mean_all()
}

/// Mean of `losses · weights`, `f32[]`, where `losses` is `f32[batch, …]` and `weights` `f32[batch]`: the mean over the items of
/// a batch that was filled up, by [its weights](field@crate::data::Batch::weights).
#[track_caller]
pub fn weighted_mean<'g>(losses: Value<'g>, weights: Value<'g>) -> Value<'g> {
    (losses * weights.along(0, losses)).mean_all()
}

/// Mean of the squared differences of all elements, `f32[]`.
#[track_caller]
pub fn mean_squared_error<'g>(output: Value<'g>, target: Value<'g>) -> Value<'g> {
    output.mean_squared_error(target)
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
