//! Normalisations, without weight and bias: [`Value::along`] aligns those.
//!
//! Means are subtracted before squares are summed, so that rows of large mean keep their variance.

use crate::ir::{Value, Violation};
use crate::shape::Shape;

/// What [`Value::batch_norm`] gives.
#[derive(Clone, Copy, Debug)]
pub struct BatchNorm<'g> {
    /// The normalised tensor.
    pub value: Value<'g>,
    /// The batch's mean of each channel, `[channels]`: for a running mean.
    pub mean: Value<'g>,
    /// The batch's unbiased variance of each channel, `[channels]`: for a running variance.
    pub variance: Value<'g>,
}

impl<'g> Value<'g> {
    /// `(x − mean) / √(variance + ε)` over the last `dims` dimensions. Ba et al., arXiv 1607.06450.
    #[track_caller]
    pub fn layer_norm(self, dims: usize, epsilon: f64) -> Value<'g> {
        let x = self.floating("layer_norm");
        match x.trailing(dims) {
            Some(axes) => x.standardised(&axes, epsilon),
            None => x.too_few("layer_norm", dims),
        }
    }

    /// `x / √(mean(x²) + ε)` over the last `dims` dimensions. Zhang and Sennrich, arXiv 1910.07467.
    #[track_caller]
    pub fn rms_norm(self, dims: usize, epsilon: f64) -> Value<'g> {
        let x = self.floating("rms_norm");
        let Some(axes) = x.trailing(dims) else { return x.too_few("rms_norm", dims) };
        let square = (x * x).mean(axes.clone());
        x * (square + square.like(epsilon)).rsqrt().kept_all(x, &axes)
    }

    /// `[batch, channels, …]` normalised over each of `groups` groups of neighbouring channels and all further dimensions.
    /// Wu and He, arXiv 1803.08494.
    #[track_caller]
    pub fn group_norm(self, groups: usize, epsilon: f64) -> Value<'g> {
        let (x, shape) = (self.floating("group_norm"), self.shape());
        let fits = shape.rank() >= 2 && groups > 0 && shape[1].is_multiple_of(groups);
        if !fits {
            let violation = Violation::new("the groups divide dimension 1", format!("{groups} groups of {shape}"));
            return x.builder().refuse("group_norm", &[self], violation);
        }
        let size = shape[1..].iter().product::<usize>() / groups;
        x.reshape([shape[0], groups, size]).standardised(&[2], epsilon).reshape(shape)
    }

    /// `[batch, channels, …]` normalised over all dimensions but these two. Ulyanov et al., arXiv 1607.08022.
    #[track_caller]
    pub fn instance_norm(self, epsilon: f64) -> Value<'g> {
        let x = self.floating("instance_norm");
        if x.shape().rank() < 2 {
            return x.too_few("instance_norm", 2);
        }
        x.standardised(&(2..x.shape().rank()).collect::<Vec<_>>(), epsilon)
    }

    /// `[batch, channels, …]` normalised over all dimensions but dimension 1, and the statistics of this batch. Ioffe and
    /// Szegedy, arXiv 1502.03167. For inference see [`Value::batch_norm_with`].
    #[track_caller]
    pub fn batch_norm(self, epsilon: f64) -> BatchNorm<'g> {
        let x = self.floating("batch_norm");
        let rank = x.shape().rank();
        if rank < 2 {
            let value = x.too_few("batch_norm", 2);
            return BatchNorm { value, mean: value, variance: value };
        }
        let axes: Vec<usize> = (0..rank).filter(|&dim| dim != 1).collect();
        let count = (x.shape().elements() / x.shape()[1].max(1)) as f64;
        let (mean, variance) = (x.mean(axes.clone()), x.variance(axes));
        let value = x.batch_norm_with(mean, variance, epsilon);
        let (mean, variance) = (mean.stop_gradient(), variance.stop_gradient());
        BatchNorm { value, mean, variance: variance * variance.like(count / (count - 1.0)) }
    }

    /// `[batch, channels, …]` less `mean[channel]`, over `√(variance[channel] + ε)`: batch normalisation by running
    /// statistics.
    #[track_caller]
    pub fn batch_norm_with(self, mean: Value<'g>, variance: Value<'g>, epsilon: f64) -> Value<'g> {
        let x = self.floating("batch_norm");
        let scale = (variance + variance.like(epsilon)).rsqrt();
        (x - mean.along(1, x)) * scale.along(1, x)
    }

    /// This vector with extents of 1 around it, so that it broadcasts along dimension `axis` of `of`: a weight or bias of
    /// each channel.
    #[track_caller]
    pub fn along(self, axis: usize, of: Value<'g>) -> Value<'g> {
        let shape = of.shape();
        if self.shape().rank() != 1 || shape.get(axis) != Some(&self.shape()[0]) {
            let found = format!("{} along {axis} of {}", self.ty(), of.ty());
            let violation = Violation::new("a vector as long as the dimension", found);
            return self.builder().refuse("along", &[self, of], violation);
        }
        self.reshape((0..shape.rank()).map(|dim| if dim == axis { shape[dim] } else { 1 }).collect::<Shape>())
    }

    #[track_caller]
    fn standardised(self, axes: &[usize], epsilon: f64) -> Value<'g> {
        let centred = self - self.mean(axes).kept_all(self, axes);
        let variance = (centred * centred).mean(axes);
        centred * (variance + variance.like(epsilon)).rsqrt().kept_all(self, axes)
    }

    /// The last dimensions, if there are as many.
    fn trailing(self, dims: usize) -> Option<Vec<usize>> {
        let rank = self.shape().rank();
        rank.checked_sub(dims).map(|first| (first..rank).collect())
    }

    #[track_caller]
    fn too_few(self, op: &'static str, dims: usize) -> Value<'g> {
        let violation = Violation::new("the tensor has the dimensions", format!("{} without {dims}", self.ty()));
        self.builder().refuse(op, &[self], violation)
    }
}
