//! Items stacked to tensors.

use super::LoaderError;
use crate::data::Field;
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use meganeura_wgpu::{DeviceError, Session};

/// Some items of a data set as one tensor for each field.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Each field's name and tensor, `[batch, …]`.
    pub tensors: Vec<(String, Tensor)>,
    /// Numbers of the items, in the order of the rows. Fewer than rows if the batch was filled up; only these count.
    pub items: Vec<usize>,
    /// `f32[batch]`: `batch / items` for rows that count, 0 for those that fill the batch up, so that the mean over all rows
    /// of `row's loss · weight` is the mean over the items, as is its gradient; see
    /// [`weighted_mean`](crate::loss::weighted_mean). All 1 in a full batch.
    ///
    /// What is computed across rows (batch norm's statistics) still sees the repeated item.
    pub weights: Tensor,
    /// The epoch that it is of, from 0.
    pub epoch: u64,
}

impl Batch {
    /// The input that [`write`](Batch::write) gives the [`weights`](field@Batch::weights) to.
    pub const WEIGHTS: &'static str = "weights";

    /// The tensor of a field.
    pub fn tensor(&self, field: &str) -> Option<&Tensor> {
        self.tensors.iter().find(|(name, _)| name == field).map(|(_, tensor)| tensor)
    }

    /// Gives each field to the program's input of its name, and the weights to the input [`WEIGHTS`](Batch::WEIGHTS), if the
    /// program has one and no field is called so.
    ///
    /// # Errors
    /// [`DeviceError`] if there is no such input or it is of another type.
    pub fn write(&self, session: &mut Session) -> Result<(), DeviceError> {
        for (field, tensor) in &self.tensors {
            session.write(field, tensor)?;
        }
        let weighted = session.plan().inputs.iter().any(|input| input.name == Batch::WEIGHTS);
        if weighted && self.tensor(Batch::WEIGHTS).is_none() {
            session.write(Batch::WEIGHTS, &self.weights)?;
        }
        Ok(())
    }
}

/// See [`Batch::weights`](field@Batch::weights).
pub(super) fn weights(items: usize, rows: usize) -> Result<Tensor, LoaderError> {
    let mut weights = vec![rows as f32 / items.max(1) as f32; items];
    weights.resize(rows, 0.0);
    Tensor::from_f32([rows], weights).map_err(|source| LoaderError::Tensor { field: Batch::WEIGHTS.to_owned(), source })
}

/// Puts items together as they come.
pub(super) struct Stack<'a> {
    fields: &'a [Field],
    bytes: Vec<Vec<u8>>,
}

impl<'a> Stack<'a> {
    pub fn new(fields: &'a [Field], rows: usize) -> Stack<'a> {
        // A claim of a size is no reason to take the memory at once.
        let capacity = |field: &Field| field.ty.bytes().saturating_mul(rows).min(1 << 26);
        Stack { fields, bytes: fields.iter().map(|field| Vec::with_capacity(capacity(field))).collect() }
    }

    /// Adds a row.
    pub fn push(&mut self, index: usize, item: &[Tensor]) -> Result<(), LoaderError> {
        let (expected, found) = (self.fields.len(), item.len());
        if expected != found {
            return Err(LoaderError::Fields { index, expected, found });
        }
        for (field, tensor) in self.fields.iter().zip(item) {
            if field.ty != *tensor.ty() {
                let (field, expected, found) = (field.name.clone(), field.ty.clone(), tensor.ty().clone());
                return Err(LoaderError::Type { index, field, expected, found });
            }
        }
        for (bytes, tensor) in self.bytes.iter_mut().zip(item) {
            bytes.extend_from_slice(&tensor.bytes()[..tensor.ty().bytes()]);
        }
        Ok(())
    }

    /// The tensors of `rows` rows: those that are lacking repeat the last one.
    pub fn finish(self, rows: usize) -> Result<Vec<(String, Tensor)>, LoaderError> {
        let stacked = self.fields.iter().zip(self.bytes).map(|(field, mut bytes)| {
            let row = field.ty.bytes();
            let last = bytes.len().saturating_sub(row)..bytes.len();
            let filled = bytes.len().checked_div(row).unwrap_or(rows);
            (filled..rows).for_each(|_| bytes.extend_from_within(last.clone()));
            let extents: Vec<usize> = [&[rows][..], &field.ty.shape].concat();
            let tensor = Tensor::from_bytes(TensorType::new(field.ty.dtype, extents), &bytes)
                .map_err(|source| LoaderError::Tensor { field: field.name.clone(), source })?;
            Ok((field.name.clone(), tensor))
        });
        stacked.collect()
    }
}
