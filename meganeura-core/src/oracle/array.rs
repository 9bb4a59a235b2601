//! Host tensors of f64; integers and truth values are exact in it.

use crate::shape::{Shape, TensorType};

/// A dense row-major tensor whose elements are f64, whatever its element type.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Type that it stands for.
    pub ty: TensorType,
    /// Elements in row-major order.
    pub data: Vec<f64>,
}

impl Array {
    /// A tensor of these elements; missing ones are 0, excess ones are dropped.
    pub fn new(ty: TensorType, mut data: Vec<f64>) -> Array {
        data.resize(ty.elements(), 0.0);
        Array { ty, data }
    }

    /// A tensor whose element at `coords` is `element(coords)`.
    pub fn from_fn(ty: &TensorType, mut element: impl FnMut(&[usize]) -> f64) -> Array {
        let mut data = Vec::with_capacity(ty.elements());
        for_each_point(&ty.shape, |coords| data.push(element(coords)));
        Array { ty: ty.clone(), data }
    }

    /// The element at `coords`.
    pub fn at(&self, coords: &[usize]) -> f64 {
        self.data[linear(&self.ty.shape, coords)]
    }

    /// A tensor of the same shape whose elements are a function of the elements of several.
    pub fn elementwise(ty: &TensorType, operands: &[&Array], function: impl Fn(&[f64]) -> f64) -> Array {
        let mut scalars = vec![0.0; operands.len()];
        let element = |at: usize| {
            scalars.iter_mut().zip(operands).for_each(|(scalar, operand)| *scalar = operand.data[at]);
            function(&scalars)
        };
        Array { ty: ty.clone(), data: (0..ty.elements()).map(element).collect() }
    }

    /// The largest absolute difference, relative to the largest absolute value of `other` (or absolute where that is
    /// below 1); `NaN` and infinities must coincide, else the result is infinite.
    pub fn distance(&self, other: &Array) -> f64 {
        let scale = other.data.iter().filter(|x| x.is_finite()).fold(1.0_f64, |scale, x| scale.max(x.abs()));
        let difference = |(&a, &b): (&f64, &f64)| match () {
            () if a == b || (a.is_nan() && b.is_nan()) => 0.0,
            () if a.is_finite() && b.is_finite() => (a - b).abs() / scale,
            () => f64::INFINITY,
        };
        if self.data.len() != other.data.len() {
            return f64::INFINITY;
        }
        self.data.iter().zip(&other.data).map(difference).fold(0.0, f64::max)
    }
}

/// Row-major position of `coords` in `shape`.
pub fn linear(shape: &Shape, coords: &[usize]) -> usize {
    coords.iter().zip(&**shape).fold(0, |index, (coord, extent)| index * extent + coord)
}

/// Calls `visit` with the coordinates of every point of `shape`, in row-major order.
pub fn for_each_point(shape: &[usize], mut visit: impl FnMut(&[usize])) {
    if shape.contains(&0) {
        return;
    }
    let mut coords = vec![0; shape.len()];
    loop {
        visit(&coords);
        // Counts up like an odometer; a carry out of the slowest dimension ends.
        let Some(dim) = (0..shape.len()).rev().find(|&dim| coords[dim] + 1 < shape[dim]) else { return };
        coords[dim] += 1;
        coords[dim + 1..].fill(0);
    }
}
