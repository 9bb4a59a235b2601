//! Losses.

use crate::dtype::DType;
use crate::ir::{Value, Violation};
use crate::scalar::Scalar;
use crate::shape::{Shape, TensorType};

impl<'g> Value<'g> {
    /// Cross-entropy of logits `[…, classes]` with class indices (`u32[…]`), one loss a row:
    /// `logsumexp(logits) − logits[label]`. A label out of range gives `NaN`.
    #[track_caller]
    pub fn cross_entropy(self, labels: Value<'g>) -> Value<'g> {
        let (shape, builder) = (self.shape(), self.builder());
        // Not left to the ops below: labels of another shape could broadcast with the losses.
        let expected = shape.rank().checked_sub(1).map(|axis| TensorType::new(DType::U32, &shape[..axis]));
        if !self.dtype().is_float() || expected.as_ref() != Some(&labels.ty()) {
            let rule = "logits are floats, labels are u32 of the logits' shape without its last dimension";
            let found = format!("{} and {}", self.ty(), labels.ty());
            return builder.refuse("cross_entropy", &[self, labels], Violation::new(rule, found));
        }
        let axis = shape.rank() - 1;
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
        if self.ty() != target.ty() || !self.dtype().is_float() {
            // Broadcasting here hides a missing dimension: [n, 1] and [n] would give n² differences.
            let found = format!("{} and {}", self.ty(), target.ty());
            let violation = Violation::new("prediction and target have one float type", found);
            return self.builder().refuse("mean_squared_error", &[self, target], violation);
        }
        let difference = self - target;
        (difference * difference).mean_all()
    }
}
