//! Rotary position embedding.

use crate::dtype::DType;
use crate::ir::{Value, Violation};
use crate::scalar::Scalar;
use crate::shape::Shape;

/// How [`Value::rope`] rotates. The default is that of Llama: base 10,000, halves paired, the whole width, positions
/// 0, 1, ….
#[derive(Clone, Copy, Debug)]
pub struct Rope<'g> {
    /// Pair `i` of `width/2` turns by `position · base^(−2i/width)`.
    pub base: f64,
    /// Which elements make a pair.
    pub pairs: RopePairs,
    /// The leading elements of each vector that are turned, an even number; all of them by default.
    pub width: Option<usize>,
    /// How positions beyond those of training are brought into range.
    pub scaling: RopeScaling,
    /// Where each vector of the sequence stands.
    pub positions: Positions<'g>,
}

/// Elements that are turned together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopePairs {
    /// `i` and `i + width/2` (GPT-NeoX, Llama as in Hugging Face's files).
    HalfSplit,
    /// `2i` and `2i + 1` (the paper, GPT-J, Llama as published).
    Interleaved,
}

/// See [`Rope::scaling`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// Positions as they are.
    None,
    /// Positions divided by a factor. Chen et al., arXiv 2306.15595.
    Linear(f64),
    /// The base multiplied by `factor^(width/(width − 2))`: the slowest pair turns as by [`RopeScaling::Linear`], the
    /// fastest as without scaling ("NTK-aware", see Peng et al., arXiv 2309.00071, section 3.1).
    Ntk(f64),
}

/// See [`Rope::positions`].
#[derive(Clone, Copy, Debug)]
pub enum Positions<'g> {
    /// Consecutive from a number on.
    From(usize),
    /// Consecutive from a `u32` scalar on, known when the program runs.
    After(Value<'g>),
    /// One each: `u32`, `[length]` or `[batch, length]`.
    Ids(Value<'g>),
}

impl Default for Rope<'_> {
    fn default() -> Self {
        Rope {
            base: 10_000.0,
            pairs: RopePairs::HalfSplit,
            width: None,
            scaling: RopeScaling::None,
            positions: Positions::From(0),
        }
    }
}

impl<'g> Value<'g> {
    /// Turns each pair of elements of `[batch, heads, length, width]` by an angle that grows with the position: scalar
    /// products of turned vectors depend on the difference of their positions only. Su et al., arXiv 2104.09864.
    ///
    /// Cosines and sines are computed once a position and pair, in `f32`.
    #[track_caller]
    pub fn rope(self, rope: &Rope<'g>) -> Value<'g> {
        let x = self.floating("rope");
        let shape = x.shape();
        let turned = rope.width.unwrap_or_else(|| shape.last().copied().unwrap_or(0));
        if shape.rank() != 4 || !turned.is_multiple_of(2) || turned == 0 || turned > shape[3] {
            let rule = "the operand is [batch, heads, length, width], of whose width an even number is turned";
            let found = format!("{shape}, of which {turned} are turned");
            return x.builder().refuse("rope", &[self], Violation::new(rule, found));
        }
        if turned == shape[3] {
            return x.turned(rope);
        }
        let [batch, heads, length, width] = [shape[0], shape[1], shape[2], shape[3]];
        let head = x.slice([0; 4], [batch, heads, length, turned]).turned(rope);
        let tail = x.slice([0, 0, 0, turned], [batch, heads, length, width - turned]);
        head.pad([0; 4], [0, 0, 0, width - turned], 0.0) + tail.pad([0, 0, 0, turned], [0; 4], 0.0)
    }

    /// The rotation of whole vectors.
    #[track_caller]
    fn turned(self, rope: &Rope<'g>) -> Value<'g> {
        let shape = self.shape();
        let [batch, heads, length, half] = [shape[0], shape[1], shape[2], shape[3] / 2];
        let angle = rope.angles(self, length, half);
        let [cos, sin] = [angle.cos(), angle.sin()].map(|factor| {
            // One head for all; the dimension of a pair's two elements has extent 1 here.
            let factor = factor.cast(self.dtype());
            let (rows, half) = (factor.shape()[0], half);
            match rope.pairs {
                RopePairs::HalfSplit => factor.reshape([rows, 1, length, 1, half]),
                RopePairs::Interleaved => factor.reshape([rows, 1, length, half, 1]),
            }
        });
        let (split, pair) = match rope.pairs {
            RopePairs::HalfSplit => ([batch, heads, length, 2, half], 3),
            RopePairs::Interleaved => ([batch, heads, length, half, 2], 4),
        };
        let both = self.reshape(split);
        let one = |at: usize| {
            let (mut starts, mut extents) = ([0; 5], split);
            (starts[pair], extents[pair]) = (at, 1);
            both.slice(starts, extents)
        };
        let (first, second) = (one(0), one(1));
        let mut border = [0; 5];
        border[pair] = 1;
        let turned = (first * cos - second * sin).pad([0; 5], border, 0.0)
            + (second * cos + first * sin).pad(border, [0; 5], 0.0);
        turned.reshape(shape)
    }
}

impl<'g> Rope<'g> {
    /// Angles `[1 or batch, length, half]` in `f32`.
    #[track_caller]
    fn angles(&self, of: Value<'g>, length: usize, half: usize) -> Value<'g> {
        let builder = of.builder();
        let consecutive = builder.iota([1, length, 1], 1);
        let positions = match self.positions {
            Positions::From(0) => consecutive,
            Positions::From(start) => consecutive + consecutive.like(start as f64),
            Positions::After(start) => consecutive + start.reshape(Shape::scalar()),
            Positions::Ids(ids) => {
                let rows = if ids.shape().rank() == 2 { ids.shape()[0] } else { 1 };
                ids.reshape([rows, length, 1])
            }
        };
        let width = 2.0 * half as f64;
        let (base, stretch) = match self.scaling {
            RopeScaling::None => (self.base, 1.0),
            RopeScaling::Linear(factor) => (self.base, factor),
            RopeScaling::Ntk(factor) if half > 1 => (self.base * factor.powf(width / (width - 2.0)), 1.0),
            RopeScaling::Ntk(_) => (self.base, 1.0),
        };
        let pair = builder.iota([1, 1, half], 2).cast(DType::F32);
        let step = builder.fill(Scalar::new(DType::F32, -2.0 * base.ln() / width), Shape::scalar());
        let frequency = (pair * step).exp();
        let positions = positions.cast(DType::F32);
        let positions = if stretch == 1.0 { positions } else { positions / positions.like(stretch) };
        positions * frequency
    }
}
