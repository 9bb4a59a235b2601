//! Cumulative folds.
//!
//! An axis is cut into blocks; each element folds its block up to itself, a block's fold is made once, and the folds of the
//! blocks before are scanned in the same way. Sums are thereby sums of partial sums, in a fixed order, and all elements
//! are computed at once. Work is some `BLOCK` reads (of the cache) an element at each level; levels are log₃₂ of the
//! extent.

use crate::ir::{Value, Violation};
use crate::scalar::Monoid;

/// Elements of a block.
const BLOCK: usize = 32;

/// Which way a scan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Element `i` folds elements `0..=i`.
    Forward,
    /// Element `i` folds elements `i..`.
    Reverse,
}

impl<'g> Value<'g> {
    /// `result[i] = Σ x[..=i]` along `axis`.
    #[track_caller]
    pub fn cumsum(self, axis: usize) -> Value<'g> {
        self.cumulative(Monoid::Sum, axis, Direction::Forward)
    }

    /// `result[i] = Π x[..=i]` along `axis`; its derivative is right at zeros too.
    #[track_caller]
    pub fn cumprod(self, axis: usize) -> Value<'g> {
        self.cumulative(Monoid::Prod, axis, Direction::Forward)
    }

    /// Each element folded with those before it, or after it, along `axis`. Numeric types.
    #[track_caller]
    pub fn cumulative(self, monoid: Monoid, axis: usize, direction: Direction) -> Value<'g> {
        let shape = self.shape();
        if axis >= shape.rank() || !monoid.takes(self.dtype()) {
            let rule = "numbers, and an axis that is a dimension";
            let violation = Violation::new(rule, format!("axis {axis} of {}", self.ty()));
            return self.builder().refuse("cumulative", &[self], violation);
        }
        // Outer, scanned, inner: room for two more dimensions.
        let flat = [shape[..axis].iter().product(), shape[axis], shape[axis + 1..].iter().product::<usize>()];
        if flat.contains(&0) {
            return self;
        }
        self.reshape(flat).scan(monoid, direction, true).reshape(shape)
    }

    /// The scan along dimension 1 of 3; without the element itself unless `inclusive`.
    #[track_caller]
    fn scan(self, monoid: Monoid, direction: Direction, inclusive: bool) -> Value<'g> {
        let [outer, extent, inner] = [self.shape()[0], self.shape()[1], self.shape()[2]];
        if extent <= BLOCK {
            let blocks = self.reshape([outer, 1, extent, inner]);
            return blocks.within_blocks(monoid, direction, inclusive).reshape([outer, extent, inner]);
        }
        let count = extent.div_ceil(BLOCK);
        let padded = self.pad([0, 0, 0], [0, count * BLOCK - extent, 0], monoid.identity(self.dtype()).value());
        let blocks = padded.reshape([outer, count, BLOCK, inner]);
        let within = blocks.within_blocks(monoid, direction, inclusive);
        let before = blocks.reduce(monoid, [2]).scan(monoid, direction, false);
        let whole = before.reshape([outer, count, 1, inner]).binary(monoid.combine(), within);
        whole.reshape([outer, count * BLOCK, inner]).slice([0, 0, 0], [outer, extent, inner])
    }

    /// The scan of each block of `[outer, blocks, block, inner]`: each element folds all of its block, others masked.
    #[track_caller]
    fn within_blocks(self, monoid: Monoid, direction: Direction, inclusive: bool) -> Value<'g> {
        let [outer, count, block, inner] = [self.shape()[0], self.shape()[1], self.shape()[2], self.shape()[3]];
        let builder = self.builder();
        let square = [block, block];
        let (to, from) = (builder.iota(square, 0), builder.iota(square, 1));
        let taken = match (direction, inclusive) {
            (Direction::Forward, true) => from.le(to),
            (Direction::Forward, false) => from.lt(to),
            (Direction::Reverse, true) => from.ge(to),
            (Direction::Reverse, false) => from.gt(to),
        };
        let wide = [outer, count, block, block, inner];
        let operand = self.reshape([outer, count, 1, block, inner]).broadcast(wide);
        let identity = builder.fill(monoid.identity(self.dtype()), crate::shape::Shape::scalar());
        taken.reshape([1, 1, block, block, 1]).select(operand, identity).reduce(monoid, [3])
    }
}
