//! Tensors in host memory: what goes into a program and what comes out of it.

use crate::dtype::DType;
use crate::scalar::Scalar;
use crate::shape::{Shape, TensorType};
use half::f16;
use thiserror::Error;

/// A tensor in host memory, row-major, in the layout of a device buffer.
///
/// Elements are little-endian as on the device; a truth value is a `u32`; the bytes are aligned to 4 and zero-padded to
/// a multiple of 4 (an odd number of `f16`), so that they can be uploaded as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    ty: TensorType,
    words: Vec<u32>,
}

/// Why a [`Tensor`] could not be made or viewed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The number of values is not the shape's number of elements.
    #[error("a tensor of shape {shape} has {expected} elements, but {found} values were given")]
    Elements {
        /// The shape asked for.
        shape: Shape,
        /// Its number of elements.
        expected: usize,
        /// Values given.
        found: usize,
    },
    /// The number of bytes is not that of the type.
    #[error("a tensor {ty} takes {expected} bytes, but {found} were given")]
    Bytes {
        /// The type asked for.
        ty: TensorType,
        /// Bytes of its elements, without padding.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// The elements have another type than the one asked for.
    #[error("the tensor holds {found}, not {expected}")]
    DType {
        /// What the caller asked for.
        expected: DType,
        /// What the tensor holds.
        found: DType,
    },
}

impl Tensor {
    /// A tensor of zeros.
    pub fn zeros(ty: TensorType) -> Tensor {
        let words = vec![0; ty.bytes().div_ceil(4)];
        Tensor { ty, words }
    }

    /// A tensor whose elements are all `value`, in its type.
    pub fn filled(shape: impl Into<Shape>, value: Scalar) -> Tensor {
        let mut tensor = Tensor::zeros(TensorType::new(value.dtype(), shape));
        let number = value.value();
        let word = match value.dtype() {
            DType::F32 => (number as f32).to_bits(),
            DType::I32 => number as i32 as u32,
            DType::U32 | DType::Bool => number as u32,
            DType::F16 => {
                let bits = f16::from_f64(number).to_bits();
                let halves: &mut [u16] = bytemuck::cast_slice_mut(&mut tensor.words);
                halves[..tensor.ty.elements()].fill(bits);
                return tensor;
            }
        };
        tensor.words.fill(word);
        tensor
    }

    /// The scalar `value`, an `f32` of rank 0.
    pub fn scalar(value: f32) -> Tensor {
        Tensor { ty: TensorType::new(DType::F32, Shape::scalar()), words: vec![value.to_bits()] }
    }

    /// A tensor from its `f32` elements, row-major.
    ///
    /// # Errors
    /// [`TensorError::Elements`] if their number is not the shape's.
    pub fn from_f32(shape: impl Into<Shape>, values: Vec<f32>) -> Result<Tensor, TensorError> {
        Tensor::from_words(DType::F32, shape, values.into_iter().map(f32::to_bits).collect())
    }

    /// A tensor from its `u32` elements, row-major.
    ///
    /// # Errors
    /// [`TensorError::Elements`] if their number is not the shape's.
    pub fn from_u32(shape: impl Into<Shape>, values: Vec<u32>) -> Result<Tensor, TensorError> {
        Tensor::from_words(DType::U32, shape, values)
    }

    /// A tensor from its `i32` elements, row-major.
    ///
    /// # Errors
    /// [`TensorError::Elements`] if their number is not the shape's.
    pub fn from_i32(shape: impl Into<Shape>, values: Vec<i32>) -> Result<Tensor, TensorError> {
        Tensor::from_words(DType::I32, shape, values.into_iter().map(|value| value as u32).collect())
    }

    /// A tensor from truth values, row-major.
    ///
    /// # Errors
    /// [`TensorError::Elements`] if their number is not the shape's.
    pub fn from_bool(shape: impl Into<Shape>, values: &[bool]) -> Result<Tensor, TensorError> {
        Tensor::from_words(DType::Bool, shape, values.iter().map(|&value| u32::from(value)).collect())
    }

    /// A tensor from its `f16` elements, row-major.
    ///
    /// # Errors
    /// [`TensorError::Elements`] if their number is not the shape's.
    pub fn from_f16(shape: impl Into<Shape>, values: &[f16]) -> Result<Tensor, TensorError> {
        let ty = TensorType::new(DType::F16, shape);
        if values.len() != ty.elements() {
            return Err(elements_error(ty, values.len()));
        }
        Tensor::from_bytes(ty, bytemuck::cast_slice(values))
    }

    /// A tensor from the bytes of its elements, with or without the padding to a multiple of 4.
    ///
    /// # Errors
    /// [`TensorError::Bytes`] if their number is not that of the type.
    pub fn from_bytes(ty: TensorType, bytes: &[u8]) -> Result<Tensor, TensorError> {
        let mut tensor = Tensor::zeros(ty);
        let (exact, padded) = (tensor.ty.bytes(), 4 * tensor.words.len());
        if bytes.len() != exact && bytes.len() != padded {
            return Err(TensorError::Bytes { ty: tensor.ty, expected: exact, found: bytes.len() });
        }
        let words: &mut [u8] = bytemuck::cast_slice_mut(&mut tensor.words);
        words[..exact].copy_from_slice(&bytes[..exact]);
        Ok(tensor)
    }

    fn from_words(dtype: DType, shape: impl Into<Shape>, words: Vec<u32>) -> Result<Tensor, TensorError> {
        let ty = TensorType::new(dtype, shape);
        if words.len() != ty.elements() {
            return Err(elements_error(ty, words.len()));
        }
        Ok(Tensor { ty, words })
    }

    /// Element type and shape.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// Extents.
    pub fn shape(&self) -> &Shape {
        &self.ty.shape
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.ty.dtype
    }

    /// The elements as a device buffer holds them, zero-padded to a multiple of 4 bytes.
    pub fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    /// The elements, if they are `f32`.
    ///
    /// # Errors
    /// [`TensorError::DType`] if they are not.
    pub fn as_f32(&self) -> Result<&[f32], TensorError> {
        self.expect(DType::F32).map(bytemuck::cast_slice)
    }

    /// The elements, if they are `u32`.
    ///
    /// # Errors
    /// [`TensorError::DType`] if they are not.
    pub fn as_u32(&self) -> Result<&[u32], TensorError> {
        self.expect(DType::U32)
    }

    /// The elements, if they are `i32`.
    ///
    /// # Errors
    /// [`TensorError::DType`] if they are not.
    pub fn as_i32(&self) -> Result<&[i32], TensorError> {
        self.expect(DType::I32).map(bytemuck::cast_slice)
    }

    /// The elements, if they are `f16`.
    ///
    /// # Errors
    /// [`TensorError::DType`] if they are not.
    pub fn as_f16(&self) -> Result<&[f16], TensorError> {
        let words = self.expect(DType::F16)?;
        let values: &[f16] = bytemuck::cast_slice(words);
        Ok(&values[..self.ty.elements()])
    }

    /// The elements, if they are truth values.
    ///
    /// # Errors
    /// [`TensorError::DType`] if they are not.
    pub fn as_bool(&self) -> Result<Vec<bool>, TensorError> {
        Ok(self.expect(DType::Bool)?.iter().map(|&word| word != 0).collect())
    }

    /// The elements by value, exact in f64 for every element type.
    pub fn to_f64(&self) -> Vec<f64> {
        match self.ty.dtype {
            DType::F32 => self.words.iter().map(|&word| f64::from(f32::from_bits(word))).collect(),
            DType::I32 => self.words.iter().map(|&word| f64::from(word as i32)).collect(),
            DType::U32 | DType::Bool => self.words.iter().map(|&word| f64::from(word)).collect(),
            DType::F16 => {
                let values: &[f16] = bytemuck::cast_slice(&self.words);
                values[..self.ty.elements()].iter().map(|value| value.to_f64()).collect()
            }
        }
    }

    fn expect(&self, expected: DType) -> Result<&[u32], TensorError> {
        if self.ty.dtype != expected {
            return Err(TensorError::DType { expected, found: self.ty.dtype });
        }
        Ok(&self.words)
    }
}

fn elements_error(ty: TensorType, found: usize) -> TensorError {
    TensorError::Elements { expected: ty.elements(), shape: ty.shape, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_the_round_trip() {
        let tensor = Tensor::from_f32([2, 2], vec![1.0, -2.5, f32::NAN, 0.0]).unwrap();
        assert_eq!(tensor.as_f32().unwrap()[..2], [1.0, -2.5]);
        assert!(tensor.to_f64()[2].is_nan());
        assert_eq!(Tensor::from_i32([2], vec![-1, 7]).unwrap().to_f64(), [-1.0, 7.0]);
        assert_eq!(Tensor::from_bool([2], &[true, false]).unwrap().as_bool().unwrap(), [true, false]);
        assert_eq!(Tensor::scalar(3.0).as_f32().unwrap(), [3.0]);
    }

    #[test]
    fn a_filled_tensor_has_one_value_everywhere() {
        let filled = |scalar| Tensor::filled([3], scalar);
        assert_eq!(filled(Scalar::f32(-1.5)), Tensor::from_f32([3], vec![-1.5; 3]).unwrap());
        assert_eq!(filled(Scalar::u32(u32::MAX)), Tensor::from_u32([3], vec![u32::MAX; 3]).unwrap());
        assert_eq!(filled(Scalar::new(DType::I32, -7.0)), Tensor::from_i32([3], vec![-7; 3]).unwrap());
        assert_eq!(filled(Scalar::one(DType::Bool)), Tensor::from_bool([3], &[true; 3]).unwrap());
        let halves = [f16::from_f32(0.5); 3];
        assert_eq!(filled(Scalar::new(DType::F16, 0.5)), Tensor::from_f16([3], &halves).unwrap());
    }

    #[test]
    fn an_odd_number_of_halves_is_padded() {
        let halves = [1.0, 2.0, -3.0].map(f16::from_f32);
        let tensor = Tensor::from_f16([3], &halves).unwrap();
        assert_eq!(tensor.bytes().len(), 8);
        assert_eq!(tensor.bytes()[6..], [0, 0]);
        assert_eq!(tensor.as_f16().unwrap(), halves);
        assert_eq!(Tensor::from_bytes(tensor.ty().clone(), tensor.bytes()).unwrap(), tensor);
        assert_eq!(Tensor::from_bytes(tensor.ty().clone(), &tensor.bytes()[..6]).unwrap(), tensor);
    }

    #[test]
    fn wrong_counts_and_types_are_named() {
        let error = Tensor::from_f32([2, 3], vec![0.0; 5]).unwrap_err();
        assert_eq!(error, TensorError::Elements { shape: [2, 3].into(), expected: 6, found: 5 });
        let error = Tensor::zeros(TensorType::new(DType::U32, [1])).as_f32().map(<[f32]>::to_vec).unwrap_err();
        assert_eq!(error, TensorError::DType { expected: DType::F32, found: DType::U32 });
        assert!(Tensor::from_bytes(TensorType::new(DType::F32, [2]), &[0; 4]).is_err());
    }
}
