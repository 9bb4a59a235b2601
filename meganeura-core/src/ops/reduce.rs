//! Dimensions folded.

use super::{Fill, Lowering, Op, Operation, Sample, SampleOperand, Vjp, operand_count};
use crate::dtype::DType;
use crate::index::Index;
use crate::ir::{Value, Violation, text};
use crate::kernel::{ExprId, Mismatch, PointContext};
use crate::oracle::Array;
use crate::oracle::for_each_point;
use crate::scalar::{Monoid, Scalar};
use crate::shape::{Shape, TensorType};

/// `result[outer] = ⊕ over the dimensions in axes of x[outer, axes]`; those dimensions disappear. Over no elements the
/// result is the monoid's identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reduce {
    /// How elements are combined.
    pub monoid: Monoid,
    /// Dimensions that are folded, ascending.
    pub axes: Vec<usize>,
    /// Where derivatives of extrema go.
    pub ties: Ties,
}

/// Which of several equal extrema the derivative goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Ties {
    /// All of them, in equal parts, as in PyTorch's `amax`.
    #[default]
    Shared,
    /// The first one in row-major order, as in PyTorch's pooling.
    First,
}

impl Reduce {
    /// The operand's coordinates for those of the result followed by those folded.
    fn merge<T: Clone>(&self, rank: usize, coords: &[T]) -> Vec<T> {
        let (mut outer, mut inner) = (0, rank - self.axes.len());
        (0..rank)
            .map(|dim| {
                let next = if self.axes.contains(&dim) { &mut inner } else { &mut outer };
                *next += 1;
                coords[*next - 1].clone()
            })
            .collect()
    }
}

impl Operation for Reduce {
    fn name(&self) -> &'static str {
        "reduce"
    }
    fn attributes(&self) -> String {
        let ties = if self.ties == Ties::First { ", ties=first" } else { "" };
        format!("monoid={}, axes={:?}{ties}", self.monoid, self.axes)
    }
    fn parse(name: &str, attributes: &str, _: &TensorType) -> Option<Self> {
        let monoid = Monoid::from_name(text::field(attributes, "monoid")?).filter(|_| name == "reduce")?;
        let ties = match text::field(attributes, "ties") {
            None => Ties::Shared,
            Some(first) => Some(Ties::First).filter(|_| first == "first")?,
        };
        Some(Reduce { monoid, axes: text::list(text::field(attributes, "axes")?)?, ties })
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 1)?;
        let ty = &operands[0];
        let ascending = self.axes.windows(2).all(|pair| pair[0] < pair[1]);
        let inside = self.axes.iter().all(|&axis| axis < ty.shape.rank());
        Violation::unless(ascending && inside, "the axes are dimensions of the operand, ascending, each once", || {
            format!("{:?} of {}", self.axes, ty.shape)
        })?;
        Violation::unless(self.monoid.takes(ty.dtype), "the operand is numeric", || ty.dtype.to_string())?;
        Ok(TensorType::new(ty.dtype, ty.shape.without(&self.axes)))
    }
    fn vjp<'g>(&self, at: &Vjp<'_, 'g>) -> Vec<Option<Value<'g>>> {
        let x = at.operands[0];
        let shape = x.shape();
        let kept: Shape = (0..shape.rank()).map(|dim| if self.axes.contains(&dim) { 1 } else { shape[dim] }).collect();
        let spread = |value: Value<'g>| value.reshape(kept.clone()).broadcast(shape.clone());
        let c = spread(at.cotangent);
        vec![Some(match self.monoid {
            Monoid::Sum => c,
            Monoid::Max | Monoid::Min if self.ties == Ties::First => {
                let hit = first_extremum(x, self, &spread);
                hit.select(c, c.like(0.0))
            }
            Monoid::Max | Monoid::Min => {
                let hit = x.eq(spread(at.result)).select(x.like(1.0), x.like(0.0));
                c * hit / spread(hit.sum(self.axes.clone()))
            }
            Monoid::Prod => c * product_of_others(x, self, &spread),
        })]
    }
    fn eval(&self, operands: &[&Array], result: &TensorType) -> Array {
        let dtype = result.dtype;
        let (combine, identity) = (self.monoid.combine(), self.monoid.identity(dtype).value());
        let folded: Vec<usize> = self.axes.iter().map(|&axis| operands[0].ty.shape[axis]).collect();
        Array::from_fn(result, |outer| {
            let mut sum = identity;
            for_each_point(&folded, |inner| {
                let coords = self.merge(operands[0].ty.shape.rank(), &[outer, inner].concat());
                sum = combine.eval(dtype, sum, operands[0].at(&coords));
            });
            sum
        })
    }
    fn lower(&self, operands: &[TensorType], _: &TensorType) -> Lowering {
        let extents = self.axes.iter().map(|&axis| operands[0].shape[axis]).collect();
        Lowering::Fold { monoid: self.monoid, extents }
    }
    fn point(
        &self,
        operands: &[TensorType],
        _: &TensorType,
        cx: &mut dyn PointContext,
        coords: &[Index],
    ) -> Result<ExprId, Mismatch> {
        cx.operand(0, &self.merge(operands[0].shape.rank(), coords))
    }
    fn samples() -> Vec<Sample> {
        let shapes: [(&[usize], &[usize]); 9] = [
            (&[1], &[0]),
            (&[7], &[0]),
            (&[5, 33], &[1]),
            (&[65, 3], &[0]),
            (&[2, 3, 17], &[0, 2]),
            (&[4, 1], &[1]),
            (&[3, 5], &[]),
            (&[2, 257], &[1]),
            (&[1031], &[0]),
        ];
        let mut samples = Vec::new();
        for &monoid in Monoid::ALL {
            for (shape, axes) in shapes {
                let fill = match monoid {
                    Monoid::Sum => Fill::Uniform(-1.0, 1.0),
                    Monoid::Prod => Fill::Uniform(0.9, 1.1),
                    Monoid::Max | Monoid::Min => Fill::Spaced(-1.0, 1.0),
                };
                let op = Op::Reduce(Reduce { monoid, axes: axes.to_vec(), ties: Ties::Shared });
                samples.push(Sample::new(op, [SampleOperand::of(DType::F32, shape, fill)]));
            }
            let op = Op::Reduce(Reduce { monoid, axes: vec![1], ties: Ties::First });
            for dtype in [DType::U32, DType::I32] {
                samples.push(Sample::new(op.clone(), [SampleOperand::of(dtype, [5, 13], Fill::Bits)]));
            }
        }
        samples
    }
}

/// Whether an element is the first of its row that is no smaller (or larger) than the extremum: the extremum, or the first
/// element at all where that is `NaN`, so that a cotangent is not lost.
fn first_extremum<'g>(x: Value<'g>, reduce: &Reduce, spread: &dyn Fn(Value<'g>) -> Value<'g>) -> Value<'g> {
    let shape = x.shape();
    let extremum = spread(x.reduce(reduce.monoid, reduce.axes.clone()));
    let misses = if reduce.monoid == Monoid::Max { x.lt(extremum) } else { x.gt(extremum) };
    let (mut number, mut count) = (None, 1_usize);
    for &axis in reduce.axes.iter().rev() {
        let place = x.builder().iota(shape.clone(), axis);
        let scaled = if count == 1 { place } else { place * place.like(count as f64) };
        number = Some(number.map_or(scaled, |number| scaled + number));
        count = count.saturating_mul(shape[axis]);
    }
    // Of no dimensions: every element is its own extremum.
    let number = number.unwrap_or_else(|| x.builder().fill(Scalar::u32(0), shape));
    let candidates = misses.select(number.like(count as f64), number);
    number.eq(spread(candidates.min(reduce.axes.clone())))
}

/// For each element the product of the others of its row, without dividing by zero.
fn product_of_others<'g>(x: Value<'g>, reduce: &Reduce, spread: &dyn Fn(Value<'g>) -> Value<'g>) -> Value<'g> {
    let (zero, one) = (x.like(0.0), x.like(1.0));
    let is_zero = x.eq(zero);
    let nonzero = is_zero.select(one, x);
    let product = spread(nonzero.reduce(Monoid::Prod, reduce.axes.clone()));
    let zeros = spread(is_zero.select(one, zero).sum(reduce.axes.clone()));
    let at_zero = zeros.eq(one).select(product, zero);
    let elsewhere = zeros.eq(zero).select(product / nonzero, zero);
    is_zero.select(at_zero, elsewhere)
}
