//! Samples: what tests run an op on.

use super::Op;
use crate::dtype::DType;
use crate::shape::{Shape, TensorType};

/// An op on operands of given types and kinds of values. Tests also derive permuted and broadcast forms of each.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The op with its attributes.
    pub op: Op,
    /// Its operands.
    pub operands: Vec<SampleOperand>,
}

/// One operand of a sample.
#[derive(Clone, Debug)]
pub struct SampleOperand {
    /// Its type.
    pub ty: TensorType,
    /// Which values it takes.
    pub fill: Fill,
}

/// Which values an operand takes; drawn from a fixed seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// Uniform over `[low, high)`; rounded down for integers.
    Uniform(f64, f64),
    /// A shuffled arithmetic progression over `[low, high]`, so that no two elements are close: for extrema, whose
    /// derivative by finite differences needs a gap.
    Spaced(f64, f64),
    /// One after another of a list.
    List(&'static [f64]),
    /// Truth values.
    Bool,
    /// Any 32 bits.
    Bits,
}

impl SampleOperand {
    /// Floats over `[−1, 1)`.
    pub fn float(shape: impl Into<Shape>) -> SampleOperand {
        SampleOperand::of(DType::F32, shape, Fill::Uniform(-1.0, 1.0))
    }

    /// An operand of these parts.
    pub fn of(dtype: DType, shape: impl Into<Shape>, fill: Fill) -> SampleOperand {
        SampleOperand { ty: TensorType::new(dtype, shape), fill }
    }

    /// Indices below `bound`.
    pub fn index(shape: impl Into<Shape>, bound: usize) -> SampleOperand {
        SampleOperand::of(DType::U32, shape, Fill::Uniform(0.0, bound as f64))
    }
}

impl Sample {
    /// A sample of these parts.
    pub fn new(op: Op, operands: impl Into<Vec<SampleOperand>>) -> Sample {
        Sample { op, operands: operands.into() }
    }
}

/// Shapes that each table-like op is run on: scalar, size 1, prime, one more than a tile or a vector, three dimensions.
pub(super) fn usual_shapes() -> Vec<Shape> {
    vec![
        Shape::scalar(),
        Shape::from([1]),
        Shape::from([7]),
        Shape::from([5, 1]),
        Shape::from([3, 65]),
        Shape::from([2, 3, 17]),
        Shape::from([4, 64]),
        Shape::from([1031]),
    ]
}
