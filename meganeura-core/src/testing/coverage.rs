//! Whether an op's samples reach the places where kernels break.

use super::Variant;
use crate::ops::{Operation, Sample};
use crate::shape::TensorType;

/// What an op's samples do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// A tensor of one element.
    SizeOne,
    /// A prime extent of at least 5 that is not one more than a tile.
    Prime,
    /// An extent one more than a tile: 17, 33, 65, 129 or 257.
    TilePlusOne,
    /// A sample with a permuted variant.
    Permuted,
    /// A sample with a broadcast variant.
    Broadcast,
}

/// What the samples of one op lack; nothing if they are complete.
///
/// An op without operands needs no variants, and one whose operands always have the same type (a random key) no permuted
/// one, unless that type has several dimensions.
pub fn lacks(samples: &[Sample]) -> Vec<Lack> {
    let tensors: Vec<TensorType> = samples.iter().flat_map(tensors).collect();
    let extent = |holds: &dyn Fn(usize) -> bool| tensors.iter().any(|ty| ty.shape.iter().any(|&extent| holds(extent)));
    let tile_plus_one = |n: usize| matches!(n, 17 | 33 | 65 | 129 | 257);
    let prime = |n: usize| n >= 5 && (2..n).all(|divisor| !n.is_multiple_of(divisor));
    let has_operands = samples.iter().any(|sample| !sample.operands.is_empty());
    let operand_types = |sample: &Sample| sample.operands.iter().map(|o| o.ty.clone()).collect::<Vec<_>>();
    let fixed = samples.windows(2).all(|pair| operand_types(&pair[0]) == operand_types(&pair[1])) && samples.len() > 1;
    let variant = |variant: Variant| samples.iter().any(|sample| variant.applies_to(sample));
    let checks = [
        (Lack::SizeOne, tensors.iter().any(|ty| ty.elements() == 1)),
        (Lack::Prime, extent(&|n| prime(n) && !tile_plus_one(n))),
        (Lack::TilePlusOne, extent(&tile_plus_one)),
        (Lack::Permuted, !has_operands || fixed || variant(Variant::Permuted)),
        (Lack::Broadcast, !has_operands || variant(Variant::Broadcast)),
    ];
    checks.into_iter().filter(|(_, present)| !present).map(|(lack, _)| lack).collect()
}

/// Types of a sample's operands and result.
fn tensors(sample: &Sample) -> Vec<TensorType> {
    let mut types: Vec<TensorType> = sample.operands.iter().map(|operand| operand.ty.clone()).collect();
    types.extend(sample.op.infer(&types));
    types
}
