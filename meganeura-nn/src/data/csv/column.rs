//! Values of one type.

use meganeura_core::dtype::DType;
use meganeura_core::shape::Shape;
use meganeura_core::tensor::{Tensor, TensorError};
use std::collections::HashMap;

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// A finite number.
    F32,
    /// A whole number of `i32`.
    I32,
    /// A whole number of `u32`.
    U32,
    /// A name of a class, read as its number `u32` among all names of the column (or columns, in a field of several) in the
    /// order of their bytes. Classes that are numbered already are `U32`: as names, 10 comes before 2.
    Category,
}

impl ColumnType {
    /// Element type of the tensors.
    pub fn dtype(self) -> DType {
        match self {
            ColumnType::F32 => DType::F32,
            ColumnType::I32 => DType::I32,
            ColumnType::U32 | ColumnType::Category => DType::U32,
        }
    }

    /// What a value must be, for messages.
    pub(super) fn expected(self) -> &'static str {
        match self {
            ColumnType::F32 => "a finite number",
            ColumnType::I32 => "a whole number from -2147483648 to 2147483647",
            ColumnType::U32 => "a whole number from 0 to 4294967295",
            ColumnType::Category => "a name",
        }
    }
}

/// The values of a field, row after row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Values {
    ty: ColumnType,
    /// As the bits of the elements.
    words: Vec<u32>,
    /// Number of each class, as first seen.
    numbers: HashMap<String, u32>,
    /// Names by number, once all are known.
    pub classes: Vec<String>,
}

impl Values {
    pub fn new(ty: ColumnType) -> Values {
        Values { ty, words: Vec::new(), numbers: HashMap::new(), classes: Vec::new() }
    }

    /// Adds a value, unless it is not of the type.
    pub fn push(&mut self, text: &str) -> Option<()> {
        let word = match self.ty {
            ColumnType::F32 => text.parse::<f32>().ok().filter(|value| value.is_finite())?.to_bits(),
            ColumnType::I32 => text.parse::<i32>().ok()? as u32,
            ColumnType::U32 => text.parse().ok()?,
            ColumnType::Category if text.is_empty() => return None,
            ColumnType::Category => {
                let next = self.numbers.len() as u32;
                match self.numbers.get(text) {
                    Some(&number) => number,
                    None => *self.numbers.entry(text.to_owned()).or_insert(next),
                }
            }
        };
        self.words.push(word);
        Some(())
    }

    /// Numbers the classes by their names' order.
    pub fn finish(&mut self) {
        let mut names: Vec<(String, u32)> = self.numbers.drain().collect();
        names.sort_unstable();
        let mut number = vec![0; names.len()];
        for (sorted, (_, seen)) in names.iter().enumerate() {
            number[*seen as usize] = sorted as u32;
        }
        if self.ty == ColumnType::Category {
            self.words.iter_mut().for_each(|word| *word = number[*word as usize]);
        }
        self.classes = names.into_iter().map(|(name, _)| name).collect();
    }

    /// The values of a row of that shape; none of a row beyond the last.
    pub fn row(&self, index: usize, shape: &Shape) -> Result<Tensor, TensorError> {
        let width = shape.elements();
        let start = index.saturating_mul(width);
        let words = self.words.get(start..start.saturating_add(width)).unwrap_or_default().to_vec();
        match self.ty {
            ColumnType::F32 => Tensor::from_f32(shape.clone(), words.into_iter().map(f32::from_bits).collect()),
            ColumnType::I32 => Tensor::from_i32(shape.clone(), words.into_iter().map(|word| word as i32).collect()),
            ColumnType::U32 | ColumnType::Category => Tensor::from_u32(shape.clone(), words),
        }
    }
}
