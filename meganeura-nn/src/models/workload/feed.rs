//! Inputs by formulas.

use meganeura_core::dtype::DType;
use meganeura_core::shape::{Shape, TensorType};
use meganeura_core::tensor::{Tensor, TensorError};

/// One input of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Feed {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub ty: TensorType,
    /// Its elements.
    pub fill: Fill,
}

/// Element `i` of a flattened tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// `gain · sin(step · i)`, in f64, rounded.
    Sin {
        /// Radians from one element to the next.
        step: f64,
        /// The largest value.
        gain: f64,
    },
    /// `gain · cos(step · i)`, in f64, rounded.
    Cos {
        /// Radians from one element to the next.
        step: f64,
        /// The largest value.
        gain: f64,
    },
    /// `i` and the given number together; the element type is `u32`.
    From(u32),
    /// 0.
    Zero,
}

impl Feed {
    /// An `f32` input.
    pub(super) fn floats(name: &'static str, shape: impl Into<Shape>, fill: Fill) -> Feed {
        Feed { name, ty: TensorType::new(DType::F32, shape), fill }
    }

    /// The integers from `first` on.
    pub(super) fn integers(name: &'static str, shape: impl Into<Shape>, first: u32) -> Feed {
        Feed { name, ty: TensorType::new(DType::U32, shape), fill: Fill::From(first) }
    }

    /// Its elements.
    ///
    /// # Errors
    /// [`TensorError`] if there are more than a tensor holds.
    pub fn tensor(&self) -> Result<Tensor, TensorError> {
        let shape = &self.ty.shape;
        let wave = |function: fn(f64) -> f64, step: f64, gain: f64| {
            let element = |i: usize| (gain * function(step * i as f64)) as f32;
            Tensor::from_f32(shape, (0..shape.elements()).map(element).collect())
        };
        match self.fill {
            Fill::Sin { step, gain } => wave(f64::sin, step, gain),
            Fill::Cos { step, gain } => wave(f64::cos, step, gain),
            Fill::From(first) => Tensor::from_u32(shape, (first..).take(shape.elements()).collect()),
            Fill::Zero => Ok(Tensor::zeros(self.ty.clone())),
        }
    }
}
