//! Losses.

use crate::ir::Value;
use crate::scalar::Scalar;
use crate::shape::Shape;

impl<'g> Value<'g> {
    /// Cross-entropy of logits `[…, classes]` with class indices (`u32[…]`), one loss a row:
    /// `logsumexp(logits) − logits[label]`. A label out of range gives `NaN`.
    #[track_caller]
    pub fn cross_entropy(self, labels: Value<'g>) -> Value<'g> {
        let shape = self.shape();
        let Some(axis) = shape.rank().checked_sub(1) else {
            // No class dimension: let the op that needs it say so.
            return self.max([0]);
        };
        let builder = self.builder();
        let class = builder.iota(shape.clone(), axis);
        let hit = labels.kept(self, axis).eq(class);
        let chosen = hit.select(self, self.like(0.0)).sum([axis]);
        let bound = builder.fill(Scalar::u32(shape[axis] as u32), Shape::scalar());
        let loss = self.logsumexp(axis) - chosen;
        labels.lt(bound).select(loss, loss.like(f64::NAN))
    }

    /// Mean of squared differences of all elements.
    #[track_caller]
    pub fn mean_squared_error(self, target: Value<'g>) -> Value<'g> {
        let difference = self - target;
        (difference * difference).mean_all()
    }
}
