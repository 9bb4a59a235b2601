//! What a loader reads from.

use crate::random::Random;
use meganeura_core::dtype::DType;
use meganeura_core::shape::{Shape, TensorType};
use meganeura_core::tensor::Tensor;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Why an item could not be read; whatever the set's own error is, `?` makes it one.
pub type ItemError = Box<dyn Error + Send + Sync>;

/// One tensor of every item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name; by convention that of the program's input that it is for.
    pub name: String,
    /// Its type for one item, without the dimension that counts items.
    pub ty: TensorType,
}

impl Field {
    /// A field of that name, element type and shape.
    pub fn new(name: impl Into<String>, dtype: DType, shape: impl Into<Shape>) -> Field {
        Field { name: name.into(), ty: TensorType::new(dtype, shape) }
    }
}

/// Numbered items, each of the same tensors. A [`Loader`](super::Loader) reads them in random order, on several threads at
/// once, and stacks them to batches.
///
/// By convention images are `images`, `f32[channels, rows, columns]`, and classes `labels`, `u32[]`.
pub trait Dataset: Send + Sync {
    /// Number of items.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tensors of an item, in order. Always the same.
    fn fields(&self) -> Vec<Field>;

    /// Reads the item of that number, below [`len`](Dataset::len): a tensor for each field.
    ///
    /// What is random about it (cropping, flipping) comes from `random`, which is a function of the loader's seed, the epoch
    /// and `index`, so that it depends neither on threads nor on interruptions.
    ///
    /// # Errors
    /// Whatever can go wrong; the loader adds the number of the item.
    fn item(&self, index: usize, random: &mut Random) -> Result<Vec<Tensor>, ItemError>;

    /// This set with `change` applied to the tensors of each item, which keep their types.
    ///
    /// ```
    /// # use meganeura_nn::data::{Dataset, ItemError, Mnist};
    /// # fn negatives(mnist: Mnist) -> impl Dataset {
    /// mnist.train.map(|mut item, random| -> Result<_, ItemError> {
    ///     if random.uniform() < 0.5 {
    ///         let negative = item[0].as_f32()?.iter().map(|pixel| 1.0 - pixel).collect();
    ///         item[0] = meganeura_core::tensor::Tensor::from_f32([1, 28, 28], negative)?;
    ///     }
    ///     Ok(item)
    /// })
    /// # }
    /// ```
    fn map<F>(self, change: F) -> Map<Self, F>
    where
        Self: Sized,
        F: Fn(Vec<Tensor>, &mut Random) -> Result<Vec<Tensor>, ItemError> + Send + Sync,
    {
        Map { set: self, change }
    }

    /// Some items of this set, in that order: `split` of a permutation makes sets for training and validation.
    ///
    /// Numbers that are no items fail when they are read.
    fn subset(self, items: Vec<usize>) -> Subset<Self>
    where
        Self: Sized,
    {
        Subset { set: self, items }
    }
}

impl<D: Dataset + ?Sized> Dataset for Arc<D> {
    fn len(&self) -> usize {
        (**self).len()
    }

    fn fields(&self) -> Vec<Field> {
        (**self).fields()
    }

    fn item(&self, index: usize, random: &mut Random) -> Result<Vec<Tensor>, ItemError> {
        (**self).item(index, random)
    }
}

/// See [`Dataset::map`].
pub struct Map<D, F> {
    set: D,
    change: F,
}

impl<D: fmt::Debug, F> fmt::Debug for Map<D, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map").field("set", &self.set).finish_non_exhaustive()
    }
}

impl<D, F> Dataset for Map<D, F>
where
    D: Dataset,
    F: Fn(Vec<Tensor>, &mut Random) -> Result<Vec<Tensor>, ItemError> + Send + Sync,
{
    fn len(&self) -> usize {
        self.set.len()
    }

    fn fields(&self) -> Vec<Field> {
        self.set.fields()
    }

    fn item(&self, index: usize, random: &mut Random) -> Result<Vec<Tensor>, ItemError> {
        (self.change)(self.set.item(index, random)?, random)
    }
}

/// See [`Dataset::subset`].
#[derive(Clone, Debug)]
pub struct Subset<D> {
    set: D,
    items: Vec<usize>,
}

impl<D: Dataset> Dataset for Subset<D> {
    fn len(&self) -> usize {
        self.items.len()
    }

    fn fields(&self) -> Vec<Field> {
        self.set.fields()
    }

    fn item(&self, index: usize, random: &mut Random) -> Result<Vec<Tensor>, ItemError> {
        let (len, subset) = (self.set.len(), self.items.len());
        match self.items.get(index) {
            Some(&item) if item < len => self.set.item(item, random),
            Some(&item) => Err(format!("item {index} of a subset is {item} of a set of {len}").into()),
            None => Err(format!("item {index} of a subset of {subset}").into()),
        }
    }
}
