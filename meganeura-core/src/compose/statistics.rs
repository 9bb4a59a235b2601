//! Means and variances.

use crate::ir::Value;
use crate::shape::Shape;

impl<'g> Value<'g> {
    /// Mean over `axes`, which disappear; of nothing `NaN`.
    #[track_caller]
    pub fn mean(self, axes: impl Into<Vec<usize>>) -> Value<'g> {
        let axes: Vec<usize> = axes.into();
        let shape = self.shape();
        let count: usize = axes.iter().filter_map(|&axis| shape.get(axis)).product();
        let sum = self.sum(axes);
        // Of nothing: 0 · ∞.
        sum * sum.like(1.0 / count as f64)
    }

    /// Mean of all elements.
    #[track_caller]
    pub fn mean_all(self) -> Value<'g> {
        self.mean((0..self.shape().rank()).collect::<Vec<_>>())
    }

    /// Sum of all elements.
    #[track_caller]
    pub fn sum_all(self) -> Value<'g> {
        self.sum((0..self.shape().rank()).collect::<Vec<_>>())
    }

    /// Biased variance over `axes`, `mean((x − mean(x))²)`; the axes disappear.
    #[track_caller]
    pub fn variance(self, axes: impl Into<Vec<usize>>) -> Value<'g> {
        let axes: Vec<usize> = axes.into();
        let shape = self.shape();
        let kept: Shape = (0..shape.rank()).map(|dim| if axes.contains(&dim) { 1 } else { shape[dim] }).collect();
        let centred = self - self.mean(axes.clone()).reshape(kept);
        (centred * centred).mean(axes)
    }
}
