//! Between the element types of files and those of programs.

use super::StoredType;
use half::{bf16, f16};
use meganeura_core::dtype::DType;
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use safetensors::Dtype;

/// Whether [`tensor`] gives one: floating-point numbers convert, all else must have the very type.
pub(super) fn fits(stored: &StoredType, ty: &TensorType) -> bool {
    let converts = match stored.dtype {
        Dtype::F32 | Dtype::F16 | Dtype::BF16 | Dtype::F64 => ty.dtype.is_float(),
        Dtype::U32 => ty.dtype == DType::U32,
        Dtype::I32 => ty.dtype == DType::I32,
        Dtype::BOOL => ty.dtype == DType::Bool,
        _ => false,
    };
    converts && stored.shape[..] == ty.shape[..]
}

/// The tensor of type `ty` that a file stores as `bytes`; nothing if it does not fit.
pub(super) fn tensor(stored: &StoredType, bytes: &[u8], ty: &TensorType) -> Option<Tensor> {
    if !fits(stored, ty) {
        return None;
    }
    let words = match (stored.dtype, ty.dtype) {
        (Dtype::F32, DType::F32) | (Dtype::F16, DType::F16) | (Dtype::U32 | Dtype::I32, _) => {
            return Tensor::from_bytes(ty.clone(), bytes).ok();
        }
        (Dtype::BOOL, _) => bytes.iter().flat_map(|&byte| u32::from(byte != 0).to_le_bytes()).collect::<Vec<u8>>(),
        (stored, DType::F16) => floats(stored, bytes).flat_map(|value| f16::from_f64(value).to_le_bytes()).collect(),
        (stored, _) => floats(stored, bytes).flat_map(|value| (value as f32).to_le_bytes()).collect(),
    };
    Tensor::from_bytes(ty.clone(), &words).ok()
}

/// The elements of a stored floating-point tensor, little-endian.
fn floats(dtype: Dtype, bytes: &[u8]) -> Box<dyn Iterator<Item = f64> + '_> {
    match dtype {
        Dtype::F64 => Box::new(bytes.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b))),
        Dtype::F16 => Box::new(bytes.as_chunks().0.iter().map(|&b| f16::from_le_bytes(b).to_f64())),
        Dtype::BF16 => Box::new(bytes.as_chunks().0.iter().map(|&b| bf16::from_le_bytes(b).to_f64())),
        _ => Box::new(bytes.as_chunks().0.iter().map(|&b| f64::from(f32::from_le_bytes(b)))),
    }
}

/// The element type that the format has for one of ours.
pub(super) fn stored(dtype: DType) -> Dtype {
    match dtype {
        DType::F32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::U32 => Dtype::U32,
        DType::I32 => Dtype::I32,
        DType::Bool => Dtype::BOOL,
    }
}
