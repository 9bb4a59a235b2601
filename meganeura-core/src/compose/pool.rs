//! Pooling over windows of `[batch, channels, spatial…]`.

use super::conv::each;
use crate::ir::{Value, Violation};
use crate::ops::{Unfold, Window};
use crate::scalar::Scalar;
use crate::shape::Shape;

/// Windows of pooling. Each list has one entry for each spatial dimension, or one for all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolOptions {
    /// Elements of a window.
    pub size: Vec<usize>,
    /// Steps from one window to the next; none: the size.
    pub stride: Vec<usize>,
    /// Border before the first and after the last element.
    pub padding: Vec<[usize; 2]>,
    /// Steps from one element of a window to the next; averages have none but 1.
    pub dilation: Vec<usize>,
    /// Whether a last window may run beyond the border, as long as it begins before it (PyTorch's `ceil_mode`).
    pub partial: bool,
    /// Whether averages count the border's zeros (PyTorch's `count_include_pad`).
    pub count_padding: bool,
}

impl PoolOptions {
    /// Windows of that size side by side, without a border.
    pub fn new(size: impl Into<Vec<usize>>) -> PoolOptions {
        PoolOptions {
            size: size.into(),
            stride: Vec::new(),
            padding: vec![[0, 0]],
            dilation: vec![1],
            partial: false,
            count_padding: true,
        }
    }

    /// The same steps from window to window along every dimension.
    #[must_use]
    pub fn stride(self, stride: usize) -> PoolOptions {
        PoolOptions { stride: vec![stride], ..self }
    }

    /// The same border on every side.
    #[must_use]
    pub fn padding(self, padding: usize) -> PoolOptions {
        PoolOptions { padding: vec![[padding, padding]], ..self }
    }

    /// The windows over a tensor's spatial dimensions, with the border after each dimension.
    fn windows(&self, shape: &Shape) -> Option<Vec<(Window, usize)>> {
        let rank = shape.rank().checked_sub(2)?;
        let size = each(&self.size, rank)?;
        let stride = if self.stride.is_empty() { size.clone() } else { each(&self.stride, rank)? };
        let (padding, dilation) = (each(&self.padding, rank)?, each(&self.dilation, rank)?);
        let window = |at: usize| {
            let elements = shape[2 + at];
            let [before, after] = padding[at];
            let mut window = Window::sliding(elements, size[at], stride[at], dilation[at], padding[at])?;
            let room = elements + before + after - dilation[at] * (size[at] - 1) - 1;
            // The window that begins after the last whole one, if it begins inside.
            if self.partial && !room.is_multiple_of(stride[at]) && window.extent * stride[at] < elements + before {
                window.extent += 1;
            }
            Some((window, after))
        };
        (0..rank).map(window).collect()
    }
}

impl<'g> Value<'g> {
    /// The largest element of each window, `[n, c, x…] → [n, c, y…]`; the border is `−∞`, and the derivative goes to the
    /// first of equal elements in row-major order. Up to two spatial dimensions.
    #[track_caller]
    pub fn max_pool(self, options: &PoolOptions) -> Value<'g> {
        let x = self.floating("max_pool");
        let Some(windows) = options.windows(&x.shape()) else { return x.refuse_pool("max_pool", options) };
        let (windows, axes) = (windows.into_iter().map(|(window, _)| window).collect(), taps(&x.shape()));
        x.windows(windows, f64::NEG_INFINITY).max_first(axes)
    }

    /// The mean of each window, `[n, c, x…] → [n, c, y…]`; what of a window lies beyond the border never counts. Up to two
    /// spatial dimensions.
    #[track_caller]
    pub fn avg_pool(self, options: &PoolOptions) -> Value<'g> {
        let x = self.floating("avg_pool");
        let shape = x.shape();
        let plain = options.dilation.iter().all(|&dilation| dilation == 1);
        let Some(windows) = plain.then(|| options.windows(&shape)).flatten() else {
            return x.refuse_pool("avg_pool", options);
        };
        let unpadded = windows.iter().all(|(window, after)| window.offset == 0 && *after == 0);
        let whole = !options.partial && (options.count_padding || unpadded);
        let sliding = windows.iter().map(|(window, _)| *window).collect();
        let sum = x.windows(sliding, 0.0).sum(taps(&shape));
        if whole {
            let size: usize = windows.iter().map(|(window, _)| window.taps).product();
            return sum * sum.like(1.0 / size as f64);
        }
        let counts = windows.iter().enumerate().map(|(at, (window, after))| {
            let after = if options.count_padding { *after } else { 0 };
            sum.counted(at, window, shape[2 + at], if options.count_padding { -window.offset } else { 0 }, after)
        });
        counts.fold(sum, |mean, count| mean / count)
    }

    /// The mean of all spatial elements, `[n, c, x…] → [n, c, 1…]`.
    #[track_caller]
    pub fn global_avg_pool(self) -> Value<'g> {
        self.adaptive_avg_pool([1])
    }

    /// Means of windows that tile the spatial dimensions into `extents` (one for each or one for all): window `o` of an
    /// extent `e` over `x` elements is `⌊o · x / e⌋ … ⌈(o + 1) · x / e⌉`, as in PyTorch.
    #[track_caller]
    pub fn adaptive_avg_pool(self, extents: impl Into<Vec<usize>>) -> Value<'g> {
        let (x, extents) = (self.floating("adaptive_avg_pool"), extents.into());
        x.adaptive("adaptive_avg_pool", &extents, &|x, axis, extent| {
            let elements = x.shape()[axis];
            if elements.is_multiple_of(extent) {
                return x.dealt(axis, extent).mean([axis + 1]);
            }
            let (elements, lengths) = x.adaptive_windows(axis, extent, 0.0);
            elements.sum([axis + 1]) / lengths
        })
    }

    /// The largest elements of windows as those of [`Value::adaptive_avg_pool`]; derivatives as in [`Value::max_pool`].
    #[track_caller]
    pub fn adaptive_max_pool(self, extents: impl Into<Vec<usize>>) -> Value<'g> {
        let (x, extents) = (self.floating("adaptive_max_pool"), extents.into());
        // One dimension after the other, the last one first: then of equal elements the first in row-major order is found.
        x.adaptive("adaptive_max_pool", &extents, &|x, axis, extent| {
            if x.shape()[axis].is_multiple_of(extent) {
                return x.dealt(axis, extent).max_first([axis + 1]);
            }
            x.adaptive_windows(axis, extent, f64::NEG_INFINITY).0.max_first([axis + 1])
        })
    }

    #[track_caller]
    fn refuse_pool(self, op: &'static str, options: &PoolOptions) -> Value<'g> {
        let rule = "[n, c, x…] and windows that fit, one entry for each spatial dimension or one for all";
        self.builder().refuse(op, &[self], Violation::new(rule, format!("{} with {options:?}", self.ty())))
    }

    /// Windows over the spatial dimensions as further dimensions.
    #[track_caller]
    fn windows(self, windows: Vec<Window>, fill: f64) -> Value<'g> {
        let (dims, fill) = ((2..2 + windows.len()).collect(), Scalar::new(self.dtype(), fill));
        self.unfold(Unfold { dims, windows, tapped: false, fill })
    }

    /// For spatial dimension `at` how many elements each window has, as a tensor that broadcasts with this one. Counted
    /// are `elements` and `before` and `after` more.
    #[track_caller]
    fn counted(self, at: usize, window: &Window, elements: usize, before: i64, after: usize) -> Value<'g> {
        let inner = self.shape().rank() - 3 - at;
        let first =
            self.places(window.extent, inner) * self.like(window.stride as f64) + self.like(window.offset as f64);
        let last = (first + self.like(window.taps as f64)).minimum(self.like((elements + after) as f64));
        last - first.maximum(self.like(-before as f64))
    }

    /// `0, 1, … extent − 1` along a dimension that `inner` others follow, as numbers of this tensor's type.
    #[track_caller]
    pub(super) fn places(self, extent: usize, inner: usize) -> Value<'g> {
        self.builder().iota([&[extent][..], &vec![1; inner]].concat(), 0).cast(self.dtype())
    }

    /// A dimension as two: `extent` parts of equal length.
    #[track_caller]
    fn dealt(self, axis: usize, extent: usize) -> Value<'g> {
        let shape = self.shape();
        let parts = [extent, shape[axis] / extent.max(1)];
        self.reshape([&shape[..axis], &parts, &shape[axis + 1..]].concat())
    }

    /// Pools each spatial dimension to its extent, the last one first.
    #[track_caller]
    fn adaptive(
        self,
        op: &'static str,
        extents: &[usize],
        pool: &dyn Fn(Value<'g>, usize, usize) -> Value<'g>,
    ) -> Value<'g> {
        let shape = self.shape();
        let extents = shape.rank().checked_sub(2).and_then(|rank| each(extents, rank));
        let full = |extents: &Vec<usize>| !extents.contains(&0) && !shape[2..].contains(&0);
        let Some(extents) = extents.filter(full) else {
            let rule = "[n, c, x…] with elements, and an extent for each spatial dimension or one for all";
            return self.builder().refuse(op, &[self], Violation::new(rule, self.ty().to_string()));
        };
        let mut pooled = self;
        for (at, extent) in extents.into_iter().enumerate().rev() {
            if pooled.is_poisoned() {
                return pooled;
            }
            if shape[2 + at] != extent {
                pooled = pool(pooled, 2 + at, extent);
            }
        }
        pooled
    }

    /// Windows of uneven length along a dimension as a further one after it, `fill` where a window is shorter than the
    /// longest; and their lengths, which broadcast with what is folded over that dimension.
    #[track_caller]
    fn adaptive_windows(self, axis: usize, extent: usize, fill: f64) -> (Value<'g>, Value<'g>) {
        let (builder, elements) = (self.builder(), self.shape()[axis]);
        let first = |window: usize| window * elements / extent;
        let length = |window: usize| ((window + 1) * elements).div_ceil(extent) - first(window);
        let longest = (0..extent).map(length).max().unwrap_or(1);
        let (window, tap) = (builder.iota([extent, longest], 0), builder.iota([extent, longest], 1));
        let whole = |number: usize| window.like(number as f64);
        let start = window * whole(elements) / whole(extent);
        let end = ((window + whole(1)) * whole(elements) + whole(extent - 1)) / whole(extent);
        let place = start + tap;
        let seen = self.gather(place.minimum(whole(elements - 1)), axis);
        let inner = self.shape().rank() - axis - 1;
        let mask = place.lt(end).reshape([&[extent, longest][..], &vec![1; inner]].concat());
        let lengths = (end - start).slice([0, 0], [extent, 1]).reshape([&[extent][..], &vec![1; inner]].concat());
        (mask.select(seen, seen.like(fill)), lengths.cast(self.dtype()))
    }
}

/// The dimensions of taps behind those of a tensor.
fn taps(shape: &Shape) -> Vec<usize> {
    (shape.rank()..2 * shape.rank() - 2).collect()
}
