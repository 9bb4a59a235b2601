//! Losses.

use crate::ir::{Value, Violation};
use crate::scalar::Scalar;
use crate::shape::Shape;

impl<'g> Value<'g> {
    /// Cross-entropy of logits `[…, classes]` with class indices (`u32[…]`), one loss a row:
    /// `logsumexp(logits) − logits[label]`. A label out of range gives `NaN`.
    #[track_caller]
    pub fn cross_entropy(self, labels: Value<'g>) -> Value<'g> {
        let (shape, builder) = (self.shape(), self.builder());
        let axis = match shape.rank().checked_sub(1) {
            Some(axis) if shape[..axis] == *labels.shape() => axis,
            // Not left to the ops below: labels of another shape could broadcast with the losses.
            _ => {
                let found = format!("{} for logits {shape}", labels.shape());
                let violation = Violation::new("labels have the logits' shape without its last dimension", found);
                return builder.refuse("cross_entropy", &[self, labels], violation);
            }
        };
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
        if self.shape() != target.shape() {
            // Broadcasting here hides a missing dimension: [n, 1] and [n] would give n² differences.
            let found = format!("{} and {}", self.shape(), target.shape());
            let violation = Violation::new("prediction and target have one shape", found);
            return self.builder().refuse("mean_squared_error", &[self, target], violation);
        }
        let difference = self - target;
        (difference * difference).mean_all()
    }
}
