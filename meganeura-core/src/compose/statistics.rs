//! Means, variances, norms, and positions of extrema.

use crate::ir::{Value, Violation};
use crate::scalar::{Monoid, Scalar, Unary};
use crate::shape::Shape;

impl<'g> Value<'g> {
    /// Mean over `axes`, which disappear; of nothing `NaN`.
    #[track_caller]
    pub fn mean(self, axes: impl Into<Vec<usize>>) -> Value<'g> {
        let axes: Vec<usize> = axes.into();
        let x = self.floating("mean");
        let count = x.count(&axes);
        let sum = x.sum(axes);
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
        self.floating("variance").var(axes, 0.0)
    }

    /// `Σ(x − mean(x))² / (n − correction)` over the `n` elements of `axes`, which disappear; `correction` 1 is Bessel's.
    /// Where `n` is not above it, the divisor is 0, as in PyTorch.
    #[track_caller]
    pub fn var(self, axes: impl Into<Vec<usize>>, correction: f64) -> Value<'g> {
        let axes: Vec<usize> = axes.into();
        let x = self.floating("var");
        let centred = x - x.mean(axes.clone()).kept_all(x, &axes);
        let divisor = (x.count(&axes) as f64 - correction).max(0.0);
        (centred * centred).sum(axes) * x.like(1.0 / divisor)
    }

    /// Square root of [`Value::var`]; derivative 0 where it is 0.
    #[track_caller]
    pub fn std(self, axes: impl Into<Vec<usize>>, correction: f64) -> Value<'g> {
        self.floating("std").var(axes, correction).root(2.0)
    }

    /// `(Σ|x|ᵖ)^(1/p)` over `axes`, which disappear; `p` is positive, `∞` gives the largest magnitude. Derivative 0 where
    /// it is 0.
    #[track_caller]
    pub fn norm(self, p: f64, axes: impl Into<Vec<usize>>) -> Value<'g> {
        let (x, axes): (_, Vec<usize>) = (self.floating("norm"), axes.into());
        match p {
            1.0 => x.abs().sum(axes),
            2.0 => (x * x).sum(axes).root(2.0),
            f64::INFINITY => x.abs().max(axes),
            _ if p > 0.0 => {
                // |x|ᵖ has no finite slope at 0 for p < 1; PyTorch takes 0.
                let at_zero = x.eq(x.like(0.0));
                let powers = at_zero.select(x.like(1.0), x.abs()).powf(p);
                at_zero.select(x.like(0.0), powers).sum(axes).root(p)
            }
            _ => x.builder().refuse("norm", &[x], Violation::new("the order is positive", p.to_string())),
        }
    }

    /// `Σ a·b / (max(‖a‖, ε) · max(‖b‖, ε))` along `axis`, which disappears; broadcasting.
    #[track_caller]
    pub fn cosine_similarity(self, other: Value<'g>, axis: usize, epsilon: f64) -> Value<'g> {
        let a = self.floating("cosine_similarity");
        let product = a * other;
        let length = |value: Value<'g>| {
            let norm = value.broadcast(product.shape()).norm(2.0, [axis]);
            norm.maximum(norm.like(epsilon))
        };
        product.sum([axis]) / (length(a) * length(other))
    }

    /// Position of the largest element along `axis`, which disappears, as `u32`: of the first of equal ones; of the first
    /// `NaN` if there is one. Of nothing `u32::MAX`.
    #[track_caller]
    pub fn argmax(self, axis: usize) -> Value<'g> {
        self.position_of(Monoid::Max, axis)
    }

    /// Position of the smallest element along `axis`; otherwise as [`Value::argmax`].
    #[track_caller]
    pub fn argmin(self, axis: usize) -> Value<'g> {
        self.position_of(Monoid::Min, axis)
    }

    #[track_caller]
    fn position_of(self, extremum: Monoid, axis: usize) -> Value<'g> {
        let x = self.stop_gradient();
        let mut hit = x.eq(x.reduce(extremum, [axis]).kept(x, axis));
        if x.dtype().is_float() {
            hit = hit.or(x.unary(Unary::IsNan).ne(x.like(0.0)));
        }
        let (builder, shape) = (x.builder(), x.shape());
        let nowhere = builder.fill(Scalar::u32(u32::MAX), Shape::scalar());
        hit.select(builder.iota(shape, axis), nowhere).min([axis])
    }

    /// Number of elements along `axes`.
    fn count(self, axes: &[usize]) -> usize {
        let shape = self.shape();
        axes.iter().filter_map(|&axis| shape.get(axis)).product()
    }

    /// This value, a fold of `of` over `axes`, with those back at extent 1.
    #[track_caller]
    pub(super) fn kept_all(self, of: Value<'g>, axes: &[usize]) -> Value<'g> {
        let shape = of.shape();
        self.reshape((0..shape.rank()).map(|dim| if axes.contains(&dim) { 1 } else { shape[dim] }).collect::<Shape>())
    }

    /// `x^(1/p)` of what is not negative, with derivative 0 at 0, where the root's own is infinite.
    #[track_caller]
    fn root(self, p: f64) -> Value<'g> {
        let at_zero = self.eq(self.like(0.0));
        at_zero.select(self.like(0.0), at_zero.select(self.like(1.0), self).powf(1.0 / p))
    }
}
