//! Convolutions as PyTorch has them: `[batch, channels, spatial…]`, weights `[outputs, channels, taps…]`.

use crate::ir::{Value, Violation};
use crate::ops::{Conv, Window};
use crate::shape::Shape;

/// How a convolution's windows slide. Each list has one entry for each spatial dimension, or one for all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvOptions {
    /// Steps from one position to the next.
    pub stride: Vec<usize>,
    /// Zeros before the first and after the last element.
    pub padding: Vec<[usize; 2]>,
    /// Steps from one tap to the next.
    pub dilation: Vec<usize>,
    /// Channels are dealt to so many independent convolutions.
    pub groups: usize,
}

impl Default for ConvOptions {
    /// Stride and dilation 1, no padding, one group.
    fn default() -> ConvOptions {
        ConvOptions { stride: vec![1], padding: vec![[0, 0]], dilation: vec![1], groups: 1 }
    }
}

impl ConvOptions {
    /// The same steps from position to position along every dimension.
    #[must_use]
    pub fn stride(self, stride: usize) -> ConvOptions {
        ConvOptions { stride: vec![stride], ..self }
    }

    /// As many zeros on every side.
    #[must_use]
    pub fn padding(self, padding: usize) -> ConvOptions {
        ConvOptions { padding: vec![[padding, padding]], ..self }
    }

    /// The same steps from tap to tap along every dimension.
    #[must_use]
    pub fn dilation(self, dilation: usize) -> ConvOptions {
        ConvOptions { dilation: vec![dilation], ..self }
    }

    /// So many groups.
    #[must_use]
    pub fn groups(self, groups: usize) -> ConvOptions {
        ConvOptions { groups, ..self }
    }

    /// Stride, padding and dilation along each of `rank` dimensions; `None` if a list has another length.
    fn along(&self, rank: usize) -> Option<Vec<(usize, [usize; 2], usize)>> {
        let [stride, dilation] = [&self.stride, &self.dilation].map(|list| each(list, rank));
        let lists = stride?.into_iter().zip(each(&self.padding, rank)?).zip(dilation?);
        Some(lists.map(|((stride, padding), dilation)| (stride, padding, dilation)).collect())
    }
}

/// One entry for each of `rank` dimensions, of a list that has as many, or one for all.
pub(super) fn each<T: Clone>(list: &[T], rank: usize) -> Option<Vec<T>> {
    match list {
        [one] => Some(vec![one.clone(); rank]),
        list => (list.len() == rank).then(|| list.to_vec()),
    }
}

impl<'g> Value<'g> {
    /// `[n, c, x…] ∗ [o, c / groups, k…] → [n, o, y…]`, where `y = ⌊(x + padding − dilation · (k − 1) − 1) / stride⌋ + 1`
    /// for each spatial dimension: `Σ x[n, c, y · stride + k · dilation − padding] · w[o, c, k]` over the group's channels
    /// and taps. Any number of spatial dimensions.
    #[track_caller]
    pub fn conv(self, weight: Value<'g>, options: &ConvOptions) -> Value<'g> {
        let (x, w) = (self.shape(), weight.shape());
        let windows = || {
            let rank = x.rank().checked_sub(2)?;
            let along = options.along(rank)?.into_iter().zip(x[2..].iter().zip(&w[2..]));
            along
                .map(|((stride, padding, dilation), (&x, &k))| Window::sliding(x, k, stride, dilation, padding))
                .collect()
        };
        let agree = agree(&x, &w, options.groups, |w| w[1].checked_mul(options.groups));
        let Some(windows) = agree.then(windows).flatten() else {
            let rule = "[n, c, x…] and [o, c / groups, k…], where groups divide o, and windows that fit";
            return self.builder().refuse("conv", &[self, weight], Violation::new(rule, found(&x, &w, options)));
        };
        apply(self, weight, options.groups, [&x, &w], |grouped| Conv::channels_first(grouped, windows, self.dtype()))
    }

    /// The transposed convolution, `[n, c, x…] ∗ [c, o / groups, k…] → [n, o, y…]`, where
    /// `y = (x − 1) · stride − padding + dilation · (k − 1) + output_padding + 1` for each spatial dimension: the derivative
    /// of a convolution with the same options with respect to its operand. `output_padding`, one for each dimension or for
    /// all, chooses among the extents that the convolution maps to one.
    #[track_caller]
    pub fn conv_transpose(self, weight: Value<'g>, options: &ConvOptions, output_padding: &[usize]) -> Value<'g> {
        let (x, w) = (self.shape(), weight.shape());
        let windows = || {
            let rank = x.rank().checked_sub(2)?;
            let along = options.along(rank)?.into_iter().zip(each(output_padding, rank)?);
            let of = |(along, (&x, &k))| transposed(x, k, along);
            along.zip(x[2..].iter().zip(&w[2..])).map(of).collect::<Option<Vec<(Window, usize)>>>()
        };
        let agree = agree(&x, &w, options.groups, |w| Some(w[0]));
        let Some(windows) = agree.then(windows).flatten() else {
            let rule = "[n, c, x…] and [c, o / groups, k…], where groups divide c, and a result that is not empty";
            return self.builder().refuse(
                "conv_transpose",
                &[self, weight],
                Violation::new(rule, found(&x, &w, options)),
            );
        };
        apply(self, weight, options.groups, [&x, &w], |grouped| {
            let (windows, extents): (Vec<Window>, Vec<usize>) = windows.into_iter().unzip();
            Conv::channels_first(grouped, windows, self.dtype()).toward_lhs(&extents)
        })
    }
}

/// Whether both shapes have batch, channels and spatial dimensions that agree, the weight's first one in parts of groups;
/// `channels` are those of the operand that the weight takes.
fn agree(x: &Shape, w: &Shape, groups: usize, channels: impl Fn(&Shape) -> Option<usize>) -> bool {
    let ranks = x.rank() >= 2 && x.rank() == w.rank();
    ranks && groups > 0 && w[0].is_multiple_of(groups) && channels(w) == Some(x[1])
}

fn found(x: &Shape, w: &Shape, options: &ConvOptions) -> String {
    format!("{x} and {w} with {options:?}")
}

/// The convolution from a result of a transposed one, and that result's extent.
fn transposed(
    x: usize,
    taps: usize,
    ((stride, [before, after], dilation), more): ((usize, [usize; 2], usize), usize),
) -> Option<(Window, usize)> {
    let reach = taps.checked_sub(1)?.checked_mul(dilation)?.checked_add(more)?.checked_add(1)?;
    let whole = x.checked_sub(1)?.checked_mul(stride)?.checked_add(reach)?;
    let extent = whole.checked_sub(before.checked_add(after)?).filter(|&extent| extent > 0)?;
    let window = Window {
        extent: x,
        taps,
        stride: i64::try_from(stride).ok()?,
        dilation: i64::try_from(dilation).ok()?,
        offset: -i64::try_from(before).ok()?,
        spread: 1,
    };
    (stride > 0 && dilation > 0).then_some((window, extent))
}

/// Splits the channels into groups where there are several, and joins them again.
#[track_caller]
fn apply<'g>(
    x: Value<'g>,
    weight: Value<'g>,
    groups: usize,
    [x_shape, w_shape]: [&Shape; 2],
    conv: impl FnOnce(bool) -> Conv,
) -> Value<'g> {
    if groups == 1 {
        return x.conv_general(weight, conv(false));
    }
    let x = x.reshape([&[x_shape[0], groups, x_shape[1] / groups], &x_shape[2..]].concat());
    let weight = weight.reshape([&[groups, w_shape[0] / groups], &w_shape[1..]].concat());
    let y = x.conv_general(weight, conv(true));
    let shape = y.shape();
    if y.is_poisoned() {
        return y;
    }
    y.reshape([&[shape[0], groups * shape[2]], &shape[3..]].concat())
}
