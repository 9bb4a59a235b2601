//! Random operands, and the check of a product of them.

use crate::common::Random;
use crate::product::{OPERANDS, Product};
use half::f16;
use meganeura::prelude::*;
use meganeura::schedule::Numerics;

/// Elements that are checked.
const SAMPLES: usize = 200;

/// A product's operands, as the device has them.
pub struct Operands {
    product: Product,
    /// As stored; those of `f16` are rounded.
    values: [Vec<f32>; 2],
}

impl Operands {
    /// Uniform in (−½, ½).
    pub fn random(product: &Product) -> Operands {
        let values = [0, 1].map(|side| {
            let mut random = Random(side as u64);
            let rounded = |value: f32| if product.operand == DType::F16 { to_f16(value) } else { value };
            let elements = product.stored(side).iter().product();
            (0..elements).map(|_| rounded(random.uniform())).collect()
        });
        Operands { product: product.clone(), values }
    }

    /// Puts them into the store.
    pub fn write(&self, store: &StateStore) -> Result<(), Error> {
        for (side, values) in self.values.iter().enumerate() {
            let shape = self.product.stored(side);
            let tensor = if self.product.operand == DType::F16 {
                let halves: Vec<f16> = values.iter().copied().map(f16::from_f32).collect();
                Tensor::from_f16(shape, &halves)?
            } else {
                Tensor::from_f32(shape, values.clone())?
            };
            store.write(OPERANDS[side], &tensor)?;
        }
        Ok(())
    }

    /// The largest error of sampled elements of a result, relative to the sum of their products' magnitudes; NaN if one
    /// is. A product that may round its operands is measured against rounded and exact ones, and the smaller counts.
    pub fn error(&self, result: &[f32]) -> f64 {
        let exact = self.error_for(result, f64::from);
        if self.product.numerics == Numerics::Strict {
            return exact;
        }
        let rounded = self.error_for(result, |value| f64::from(to_f16(value)));
        if exact < rounded { exact } else { rounded }
    }

    fn error_for(&self, result: &[f32], operand: impl Fn(f32) -> f64) -> f64 {
        let Product { rows, depth, cols, .. } = self.product;
        let mut random = Random(2);
        let mut sample = || (random.below(rows), random.below(cols));
        // The corners too: tiles end there.
        let corners = [(0, 0), (0, cols - 1), (rows - 1, 0), (rows - 1, cols - 1)];
        let points: Vec<_> = corners.into_iter().chain((0..SAMPLES).map(|_| sample())).collect();
        points.into_iter().fold(0.0, |worst, (row, col)| {
            let terms = (0..depth).map(|k| operand(self.at(0, row, k)) * operand(self.at(1, k, col)));
            let (sum, magnitude) = terms.fold((0.0, 0.0), |(sum, all), term| (sum + term, all + term.abs()));
            let error = (f64::from(result[row * cols + col]) - sum).abs() / magnitude;
            if error > worst || error.is_nan() { error } else { worst }
        })
    }

    /// An element of an operand as it is multiplied.
    fn at(&self, side: usize, row: usize, col: usize) -> f32 {
        let stride = self.product.stored(side)[1];
        let at = if self.product.transposed[side] { col * stride + row } else { row * stride + col };
        self.values[side][at]
    }
}

fn to_f16(value: f32) -> f32 {
    f16::from_f32(value).to_f32()
}
