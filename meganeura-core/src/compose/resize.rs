//! Images of another size.

use super::border::joined;
use super::conv::each;
use crate::ir::{Value, Violation};
use crate::shape::Shape;

/// How elements between those of a tensor are made, as in `torch.nn.functional.interpolate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resize {
    /// The element at `⌊o · x / y⌋`, for `y` elements made of `x`.
    Nearest,
    /// Linear between both neighbours along each dimension (bilinear for images).
    Linear {
        /// Whether the outermost elements stay where they are: `o · (x − 1) / (y − 1)`. If not, elements are cells whose
        /// outer edges stay: `(o + ½) · x / y − ½`, and beyond the middle of the outermost ones nothing changes.
        align_corners: bool,
    },
}

impl<'g> Value<'g> {
    /// `[n, c, x…] → [n, c, extents…]`, one extent for each spatial dimension or one for all.
    ///
    /// By whole factors, each element is made of its neighbours without computed indices, and so are derivatives; for
    /// others, derivatives look through all elements of a dimension.
    #[track_caller]
    pub fn resize(self, extents: impl Into<Vec<usize>>, how: Resize) -> Value<'g> {
        let (x, extents) = (self.floating("resize"), extents.into());
        let shape = x.shape();
        // Products of extents are computed in u32.
        let few = |extent: &usize| (1..1 << 15).contains(extent);
        let extents = shape.rank().checked_sub(2).and_then(|rank| each(&extents, rank));
        let Some(extents) = extents.filter(|extents| extents.iter().chain(&shape[2..]).all(few)) else {
            let rule = "[n, c, x…], and for each spatial dimension an extent, of 1 to 32767";
            return x.builder().refuse("resize", &[x], Violation::new(rule, x.ty().to_string()));
        };
        let mut resized = x;
        for (at, extent) in extents.into_iter().enumerate() {
            if resized.is_poisoned() {
                return resized;
            }
            if shape[2 + at] != extent {
                resized = match how {
                    Resize::Nearest => resized.nearest(2 + at, extent),
                    Resize::Linear { align_corners } => resized.linear(2 + at, extent, align_corners),
                };
            }
        }
        resized
    }

    #[track_caller]
    fn nearest(self, axis: usize, extent: usize) -> Value<'g> {
        let shape = self.shape();
        let elements = shape[axis];
        let along = |extents: &[usize]| Shape::new([&shape[..axis], extents, &shape[axis + 1..]].concat());
        if extent.is_multiple_of(elements) {
            let factor = extent / elements;
            return self.reshape(along(&[elements, 1])).broadcast(along(&[elements, factor])).reshape(along(&[extent]));
        }
        if elements.is_multiple_of(extent) {
            let parts = self.reshape(along(&[extent, elements / extent]));
            return parts.slice(vec![0; shape.rank() + 1], along(&[extent, 1]).to_vec()).reshape(along(&[extent]));
        }
        let place = self.builder().iota([extent], 0);
        self.gather(place * place.like(elements as f64) / place.like(extent as f64), axis)
    }

    #[track_caller]
    fn linear(self, axis: usize, extent: usize, align_corners: bool) -> Value<'g> {
        let elements = self.shape()[axis];
        if !align_corners && extent.is_multiple_of(elements) {
            return self.linear_by_factor(axis, extent / elements);
        }
        // Twice the place, over a common divisor, in whole numbers: ⌊·⌋ and the rest are exact.
        let place = self.builder().iota([extent], 0);
        let whole = |number: usize| place.like(number as f64);
        let (numerator, divisor) = match align_corners {
            true if extent == 1 => (whole(0) * place, 1),
            true => (place * whole(elements - 1), extent - 1),
            // 2 · y times the place; negative ones are cut off.
            false => {
                let shifted = (place * whole(2) + whole(1)) * whole(elements);
                (shifted.maximum(whole(extent)) - whole(extent), 2 * extent)
            }
        };
        let lower = numerator / whole(divisor);
        let upper = (lower + whole(1)).minimum(whole(elements - 1));
        let inner = vec![1; self.shape().rank() - axis - 1];
        let rest = (numerator % whole(divisor)).cast(self.dtype()) * self.like(1.0 / divisor as f64);
        let rest = rest.reshape([&[extent][..], &inner].concat());
        let (below, above) = (self.gather(lower, axis), self.gather(upper, axis));
        below * (1.0 - rest) + above * rest
    }

    /// Cells cut into `factor` parts each: part `r` lies `(r + ½) / factor − ½` from its cell's middle, towards one of both
    /// neighbours.
    #[track_caller]
    fn linear_by_factor(self, axis: usize, factor: usize) -> Value<'g> {
        let shape = self.shape();
        let elements = shape[axis];
        let along = |extents: &[usize]| Shape::new([&shape[..axis], extents, &shape[axis + 1..]].concat());
        let block = |start: usize, count: usize| {
            let mut starts = vec![0; shape.rank()];
            starts[axis] = start;
            (self.slice(starts, along(&[count]).to_vec()), count)
        };
        let rest = elements - 1;
        let before = joined(axis, &[block(0, 1), block(0, rest)]);
        let after = joined(axis, &[block(1, rest), block(rest, 1)]);
        let apart = |value: Value<'g>| value.reshape(along(&[elements, 1]));
        let distance = (self.places(factor, shape.rank() - axis - 1) + 0.5) * self.like(1.0 / factor as f64) - 0.5;
        let (down, up) = ((-distance).relu(), distance.relu());
        let middle = 1.0 - down - up;
        (apart(before) * down + apart(self) * middle + apart(after) * up).reshape(along(&[elements * factor]))
    }
}
