//! Joining, cutting, repeating and masking: other coordinates of the same elements.

use crate::dtype::DType;
use crate::ir::{Builder, Value, Violation};
use crate::scalar::Scalar;
use crate::shape::Shape;

impl Builder {
    /// `start + step · i`, `f32[count]`.
    #[track_caller]
    pub fn arange(&self, start: f64, step: f64, count: usize) -> Value<'_> {
        let at = self.iota([count], 0).cast(DType::F32);
        at * at.like(step) + at.like(start)
    }
}

impl<'g> Value<'g> {
    /// This tensor and others one after another along `axis`; all other extents agree. Any type.
    #[track_caller]
    pub fn concat(self, others: &[Value<'g>], axis: usize) -> Value<'g> {
        let (shape, builder) = (self.shape(), self.builder());
        let alike = |other: &&Value<'g>| {
            let (ours, theirs) = (&shape, other.shape());
            let rest = |shape: &Shape| shape.without(&[axis]);
            theirs.rank() == ours.rank() && other.dtype() == self.dtype() && rest(ours) == rest(&theirs)
        };
        if axis >= shape.rank() || !others.iter().all(|other| alike(&other)) {
            let all: Vec<Value<'g>> = [&[self], others].concat();
            let found = all.iter().map(|value| value.ty().to_string()).collect::<Vec<_>>().join(", ");
            let rule = "the tensors have one element type and agree in all dimensions but the axis";
            return builder.refuse("concat", &all, Violation::new(rule, format!("{found} along {axis}")));
        }
        let total = shape[axis] + others.iter().map(|other| other.shape()[axis]).sum::<usize>();
        let along = |value: usize| (0..shape.rank()).map(|dim| if dim == axis { value } else { 0 }).collect::<Vec<_>>();
        let ones: Shape = (0..shape.rank()).map(|dim| if dim == axis { total } else { 1 }).collect();
        let position = builder.iota(ones, axis);
        let mut joined = self.pad(along(0), along(total - shape[axis]), 0.0);
        let mut start = shape[axis];
        for other in others {
            let extent = other.shape()[axis];
            let moved = other.pad(along(start), along(total - start - extent), 0.0);
            joined = position.ge(position.like(start as f64)).select(moved, joined);
            start += extent;
        }
        joined
    }

    /// This tensor and others of its type side by side along a new dimension `axis`.
    #[track_caller]
    pub fn stack(self, others: &[Value<'g>], axis: usize) -> Value<'g> {
        let mut lifted = Vec::with_capacity(others.len());
        for other in others {
            lifted.push(other.unsqueeze(axis));
        }
        self.unsqueeze(axis).concat(&lifted, axis)
    }

    /// Elements `start..start + extent` along `axis`.
    #[track_caller]
    pub fn narrow(self, axis: usize, start: usize, extent: usize) -> Value<'g> {
        let shape = self.shape();
        if axis >= shape.rank() {
            return self.no_axis("narrow", axis);
        }
        let along = |value: usize, others: &dyn Fn(usize) -> usize| {
            (0..shape.rank()).map(|dim| if dim == axis { value } else { others(dim) }).collect::<Vec<_>>()
        };
        self.slice(along(start, &|_| 0), along(extent, &|dim| shape[dim]))
    }

    /// Parts of these extents along `axis`, one after another; what is left is left out.
    #[track_caller]
    pub fn split(self, axis: usize, extents: &[usize]) -> Vec<Value<'g>> {
        let (mut parts, mut start) = (Vec::with_capacity(extents.len()), 0);
        for &extent in extents {
            parts.push(self.narrow(axis, start, extent));
            start += extent;
        }
        parts
    }

    /// At most `count` parts along `axis`, all equal but the last, which may be smaller (as PyTorch's `chunk`).
    #[track_caller]
    pub fn chunk(self, axis: usize, count: usize) -> Vec<Value<'g>> {
        let Some(&extent) = self.shape().get(axis) else { return vec![self.no_axis("chunk", axis)] };
        let size = extent.div_ceil(count.max(1)).max(1);
        let sizes: Vec<usize> = (0..extent).step_by(size).map(|start| size.min(extent - start)).collect();
        self.split(axis, &sizes)
    }

    /// Moved by `shift` along `axis`; what leaves at one end comes in at the other.
    #[track_caller]
    pub fn roll(self, shift: i64, axis: usize) -> Value<'g> {
        let Some(&extent) = self.shape().get(axis) else { return self.no_axis("roll", axis) };
        match shift.rem_euclid(extent.max(1) as i64) as usize {
            0 => self,
            shift => self.narrow(axis, extent - shift, shift).concat(&[self.narrow(axis, 0, extent - shift)], axis),
        }
    }

    /// The whole tensor `times[d]` times along each dimension (as NumPy's `tile`).
    #[track_caller]
    pub fn tile(self, times: &[usize]) -> Value<'g> {
        let rank = self.shape().rank();
        if times.len() != rank {
            let found = format!("{times:?} of {}", self.ty());
            return self.builder().refuse("tile", &[self], Violation::new("a number for each dimension", found));
        }
        let mut tiled = self;
        for (axis, &times) in times.iter().enumerate().filter(|(_, times)| **times != 1) {
            tiled = tiled.repeated(axis, times, axis);
        }
        tiled
    }

    /// Each element `times` times along `axis`, its copies side by side.
    #[track_caller]
    pub fn repeat_interleave(self, times: usize, axis: usize) -> Value<'g> {
        match axis < self.shape().rank() {
            true => self.repeated(axis, times, axis + 1),
            false => self.no_axis("repeat_interleave", axis),
        }
    }

    /// Repetition along a new dimension `at`, that is then one with `axis`.
    #[track_caller]
    fn repeated(self, axis: usize, times: usize, at: usize) -> Value<'g> {
        let shape = self.shape();
        let (outer, inner) = (shape[..axis].iter().product(), shape[axis + 1..].iter().product());
        let (one, many) = match at == axis {
            true => ([outer, 1, shape[axis], inner], [outer, times, shape[axis], inner]),
            false => ([outer, shape[axis], 1, inner], [outer, shape[axis], times, inner]),
        };
        let result: Shape = (0..shape.rank()).map(|d| if d == axis { shape[d] * times } else { shape[d] }).collect();
        self.reshape(one).broadcast(many).reshape(result)
    }

    /// The lower triangle of the last two dimensions: elements `[i, j]` with `j ≤ i + diagonal`, zeros elsewhere.
    #[track_caller]
    pub fn tril(self, diagonal: i32) -> Value<'g> {
        self.triangle("tril", diagonal, false)
    }

    /// The upper triangle of the last two dimensions: elements `[i, j]` with `j ≥ i + diagonal`, zeros elsewhere.
    #[track_caller]
    pub fn triu(self, diagonal: i32) -> Value<'g> {
        self.triangle("triu", diagonal, true)
    }

    #[track_caller]
    fn triangle(self, op: &'static str, diagonal: i32, upper: bool) -> Value<'g> {
        let (shape, builder) = (self.shape(), self.builder());
        let Some(first) = shape.rank().checked_sub(2) else { return self.no_axis(op, 1) };
        let at = |axis: usize| builder.iota(&shape[first..], axis).cast(DType::I32);
        let offset = at(1) - at(0);
        let diagonal = offset.like(f64::from(diagonal));
        let kept = if upper { offset.ge(diagonal) } else { offset.le(diagonal) };
        kept.select(self, self.like(0.0))
    }

    /// `result[…, c]` is 1 where this (`u32`) is `c`, else 0: `f32[…, classes]`. Out of range a row of zeros.
    #[track_caller]
    pub fn one_hot(self, classes: usize) -> Value<'g> {
        let shape = Shape::new([&*self.shape(), &[classes]].concat());
        let rank = self.shape().rank();
        let hit = self.unsqueeze(rank).eq(self.builder().iota(shape, rank));
        hit.cast(DType::F32)
    }

    /// A new dimension of extent 1 before dimension `axis`.
    #[track_caller]
    pub fn unsqueeze(self, axis: usize) -> Value<'g> {
        let mut extents = self.shape().to_vec();
        if axis > extents.len() {
            return self.no_axis("unsqueeze", axis);
        }
        extents.insert(axis, 1);
        self.reshape(extents)
    }

    /// Without dimension `axis`, whose extent is 1.
    #[track_caller]
    pub fn squeeze(self, axis: usize) -> Value<'g> {
        match self.shape().get(axis) {
            Some(1) => self.reshape(self.shape().without(&[axis])),
            _ => self.no_axis("squeeze", axis),
        }
    }

    /// Dimensions from `first` to `last`, both included, as one.
    #[track_caller]
    pub fn flatten(self, first: usize, last: usize) -> Value<'g> {
        let shape = self.shape();
        if first > last || last >= shape.rank() {
            return self.no_axis("flatten", last);
        }
        let flat = shape[first..=last].iter().product();
        self.reshape([&shape[..first], &[flat], &shape[last + 1..]].concat())
    }

    /// Rows of this table (`[rows, …]`) by index (`u32`); row `padding` gets no gradient.
    #[track_caller]
    pub fn embedding(self, indices: Value<'g>, padding: Option<u32>) -> Value<'g> {
        let rows = self.gather(indices, 0);
        let Some(padding) = padding else { return rows };
        let padded = indices.eq(self.builder().fill(Scalar::u32(padding), Shape::scalar()));
        let inner = rows.shape().rank() - indices.shape().rank().min(rows.shape().rank());
        let aligned = [&*indices.shape(), &vec![1; inner]].concat();
        padded.reshape(aligned).select(rows.stop_gradient(), rows)
    }

    #[track_caller]
    pub(super) fn no_axis(self, op: &'static str, axis: usize) -> Value<'g> {
        let violation = Violation::new("the tensor has the dimension", format!("axis {axis} of {}", self.ty()));
        self.builder().refuse(op, &[self], violation)
    }
}
