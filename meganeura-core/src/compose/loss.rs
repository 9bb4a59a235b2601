//! Losses: one of each row, or of each element; `mean_all` is the usual end.

use crate::dtype::DType;
use crate::ir::{Value, Violation};
use crate::scalar::Scalar;
use crate::shape::{Shape, TensorType};

/// How [`Value::cross_entropy_with`] and [`Value::cross_entropy_of`] differ from the plain cross-entropy.
#[derive(Clone, Copy, Debug, Default)]
pub struct CrossEntropy<'g> {
    /// Rows of this label have loss 0 and no gradient.
    pub ignored: Option<u32>,
    /// The part of each target that is spread evenly over all classes. Szegedy et al., arXiv 1512.00567.
    pub smoothing: f64,
    /// A factor of each class' term, `f32[classes]`.
    pub weights: Option<Value<'g>>,
}

/// Losses of rows, and what their mean divides by.
#[derive(Clone, Copy, Debug)]
pub struct RowLosses<'g> {
    /// One loss a row.
    pub losses: Value<'g>,
    /// One weight a row: of its label's class, 0 where ignored.
    pub weights: Value<'g>,
}

impl<'g> RowLosses<'g> {
    /// `Σ losses / Σ weights`, PyTorch's mean; `NaN` if every row is ignored.
    #[track_caller]
    pub fn mean(self) -> Value<'g> {
        self.losses.sum_all() / self.weights.sum_all()
    }
}

impl<'g> Value<'g> {
    /// Cross-entropy of logits `[…, classes]` with class indices (`u32[…]`), one loss a row:
    /// `logsumexp(logits) − logits[label]`. A label out of range gives `NaN`.
    #[track_caller]
    pub fn cross_entropy(self, labels: Value<'g>) -> Value<'g> {
        self.cross_entropy_with(labels, CrossEntropy::default()).losses
    }

    /// [`Value::cross_entropy`] with ignored rows, smoothed labels and weighted classes: for `p = softmax(logits)`,
    /// `−(1 − s) w[label] ln p[label] − s/classes Σ w[c] ln p[c]`, as PyTorch has it.
    #[track_caller]
    pub fn cross_entropy_with(self, labels: Value<'g>, options: CrossEntropy<'g>) -> RowLosses<'g> {
        let (shape, builder) = (self.shape(), self.builder());
        // Not left to the ops below: labels of another shape could broadcast with the losses.
        let expected = shape.rank().checked_sub(1).map(|axis| TensorType::new(DType::U32, &shape[..axis]));
        if !self.dtype().is_float() || expected.as_ref() != Some(&labels.ty()) {
            let rule = "logits are floats, labels are u32 of the logits' shape without its last dimension";
            let found = format!("{} and {}", self.ty(), labels.ty());
            let poison = builder.refuse("cross_entropy", &[self, labels], Violation::new(rule, found));
            return RowLosses { losses: poison, weights: poison };
        }
        let axis = shape.rank() - 1;
        let shifted = self - self.max_kept(axis);
        let normaliser = shifted.exp().sum([axis]).log();
        let hit = labels.kept(self, axis).eq(builder.iota(shape.clone(), axis));
        let chosen = hit.select(shifted, self.like(0.0)).sum([axis]);
        let scalar = |value: u32| builder.fill(Scalar::u32(value), Shape::scalar());
        let mut weights = match options.weights {
            Some(weights) => weights.gather(labels, 0),
            None => builder.fill(Scalar::one(self.dtype()), labels.shape()),
        };
        let mut losses = normaliser - chosen;
        if options.weights.is_some() {
            losses = losses * weights;
        }
        if options.smoothing != 0.0 {
            let spread = -weighted(shifted - normaliser.kept(self, axis), options.weights).mean([axis]);
            losses = losses * self.like(1.0 - options.smoothing) + spread * self.like(options.smoothing);
        }
        losses = labels.lt(scalar(shape[axis] as u32)).select(losses, losses.like(f64::NAN));
        if let Some(ignored) = options.ignored {
            let counted = labels.ne(scalar(ignored));
            losses = counted.select(losses, losses.like(0.0));
            weights = counted.select(weights, weights.like(0.0));
        }
        RowLosses { losses, weights }
    }

    /// Cross-entropy of logits with probabilities of the same type, one loss a row: `−Σ w[c] t[c] ln softmax(x)[c]`, where
    /// `t` is `(1 − s) target + s/classes`. There are no ignored rows.
    #[track_caller]
    pub fn cross_entropy_of(self, target: Value<'g>, options: CrossEntropy<'g>) -> Value<'g> {
        if let Some(poison) = self.unlike(target, "cross_entropy_of") {
            return poison;
        }
        let Some(axis) = self.shape().rank().checked_sub(1) else {
            return self.builder().refuse("cross_entropy_of", &[self], Violation::new("rows of classes", "a scalar"));
        };
        let even = options.smoothing / self.shape()[axis] as f64;
        let target = match options.smoothing {
            0.0 => target,
            smoothing => target * self.like(1.0 - smoothing) + self.like(even),
        };
        -weighted(self.log_softmax(axis), options.weights).mul_sum(target, axis)
    }

    /// Cross-entropy of a logit with the probability `target`, of each element:
    /// `−t ln σ(x) − (1 − t) ln(1 − σ(x))`, without cancellation.
    #[track_caller]
    pub fn bce_with_logits(self, target: Value<'g>) -> Value<'g> {
        match self.unlike(target, "bce_with_logits") {
            Some(poison) => poison,
            None => target * (-self).softplus() + (1.0 - target) * self.softplus(),
        }
    }

    /// Mean of squared differences of all elements.
    #[track_caller]
    pub fn mean_squared_error(self, target: Value<'g>) -> Value<'g> {
        match self.unlike(target, "mean_squared_error") {
            Some(poison) => poison,
            None => (self - target).powf(2.0).mean_all(),
        }
    }

    /// `|x − target|` of each element.
    #[track_caller]
    pub fn l1_loss(self, target: Value<'g>) -> Value<'g> {
        self.unlike(target, "l1_loss").unwrap_or_else(|| (self - target).abs())
    }

    /// `d²/2` where `d = |x − target|` is at most `delta`, `delta (d − delta/2)` elsewhere, of each element. Huber 1964.
    #[track_caller]
    pub fn huber_loss(self, target: Value<'g>, delta: f64) -> Value<'g> {
        if let Some(poison) = self.unlike(target, "huber_loss") {
            return poison;
        }
        let distance = (self - target).abs();
        let straight = (distance - distance.like(delta / 2.0)) * distance.like(delta);
        distance.le(distance.like(delta)).select(distance * distance * 0.5, straight)
    }

    /// [`Value::huber_loss`] over `beta`: slope 1 far from the target. Girshick, arXiv 1504.08083. `beta` 0 is
    /// [`Value::l1_loss`].
    #[track_caller]
    pub fn smooth_l1_loss(self, target: Value<'g>, beta: f64) -> Value<'g> {
        match beta {
            0.0 => self.l1_loss(target),
            _ => {
                let loss = self.huber_loss(target, beta);
                loss * loss.like(1.0 / beta)
            }
        }
    }

    /// Kullback–Leibler divergence of log-probabilities `[…, classes]` from probabilities of that type, one a row:
    /// `Σ t (ln t − x)`, where `0 ln 0 = 0`.
    #[track_caller]
    pub fn kl_divergence(self, target: Value<'g>) -> Value<'g> {
        if let Some(poison) = self.unlike(target, "kl_divergence") {
            return poison;
        }
        let Some(axis) = self.shape().rank().checked_sub(1) else {
            return self.builder().refuse("kl_divergence", &[self], Violation::new("rows of classes", "a scalar"));
        };
        let impossible = target.eq(target.like(0.0));
        let entropy = target * impossible.select(target.like(1.0), target).log();
        (entropy - target * self).sum([axis])
    }

    /// A poisoned value if the two have not one float type. Broadcasting hides a missing dimension: `[n, 1]` and `[n]`
    /// would give `n²` differences.
    #[track_caller]
    fn unlike(self, target: Value<'g>, op: &'static str) -> Option<Value<'g>> {
        if self.ty() == target.ty() && self.dtype().is_float() {
            return None;
        }
        let found = format!("{} and {}", self.ty(), target.ty());
        let violation = Violation::new("prediction and target have one float type", found);
        Some(self.builder().refuse(op, &[self, target], violation))
    }

    #[track_caller]
    fn mul_sum(self, other: Value<'g>, axis: usize) -> Value<'g> {
        (self * other).sum([axis])
    }
}

#[track_caller]
fn weighted<'g>(terms: Value<'g>, weights: Option<Value<'g>>) -> Value<'g> {
    weights.map_or(terms, |weights| terms * weights)
}
