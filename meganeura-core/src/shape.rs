//! Shapes and tensor types.

use crate::dtype::DType;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Deref;

/// The most dimensions a tensor may have.
pub const MAX_RANK: usize = 6;

/// Extents of a tensor, slowest dimension first; rank 0 is a scalar.
#[derive(Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Shape(Vec<usize>);

impl Shape {
    /// A shape with these extents.
    pub fn new(extents: impl Into<Vec<usize>>) -> Shape {
        Shape(extents.into())
    }

    /// The shape of a scalar.
    pub fn scalar() -> Shape {
        Shape(Vec::new())
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Number of elements; 1 for a scalar.
    pub fn elements(&self) -> usize {
        // No tensor has that many; a wrapped number could pass for a small one.
        self.0.iter().fold(1, |product: usize, &extent| product.saturating_mul(extent))
    }

    /// Number of elements, unless it is more than a `usize` holds: for shapes that nothing has checked yet.
    pub fn checked_elements(&self) -> Option<usize> {
        self.0.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent))
    }

    /// Row-major strides, in elements.
    pub fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1; self.rank()];
        for dim in (1..self.rank()).rev() {
            strides[dim - 1] = strides[dim] * self.0[dim];
        }
        strides
    }

    /// The shape that both broadcast to by NumPy's rule (aligned at the last dimension, extent 1 stretches), if any.
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        let rank = self.rank().max(other.rank());
        let extent = |shape: &Shape, dim: usize| match (dim + shape.rank()).checked_sub(rank) {
            Some(own) => shape[own],
            None => 1,
        };
        (0..rank)
            .map(|dim| match (extent(self, dim), extent(other, dim)) {
                (a, b) if a == b => Some(a),
                (1, b) => Some(b),
                (a, 1) => Some(a),
                _ => None,
            })
            .collect::<Option<Vec<usize>>>()
            .map(Shape)
    }

    /// This shape without the dimensions in `axes`.
    pub fn without(&self, axes: &[usize]) -> Shape {
        self.0.iter().enumerate().filter(|(dim, _)| !axes.contains(dim)).map(|(_, &extent)| extent).collect()
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(extents: [usize; N]) -> Shape {
        Shape(extents.to_vec())
    }
}

impl From<&[usize]> for Shape {
    fn from(extents: &[usize]) -> Shape {
        Shape(extents.to_vec())
    }
}

impl From<Vec<usize>> for Shape {
    fn from(extents: Vec<usize>) -> Shape {
        Shape(extents)
    }
}

impl From<&Shape> for Shape {
    fn from(shape: &Shape) -> Shape {
        shape.clone()
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(extents: I) -> Shape {
        Shape(extents.into_iter().collect())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Element type and shape of a tensor.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Shape,
}

impl TensorType {
    /// A type of these parts.
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> TensorType {
        TensorType { dtype, shape: shape.into() }
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.elements()
    }

    /// Bytes the elements take in a device buffer, without padding.
    pub fn bytes(&self) -> usize {
        self.elements().saturating_mul(self.dtype.bytes())
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}
