//! Random changes of images.

use super::{Dataset, Field, ItemError};
use crate::random::Random;
use meganeura_core::dtype::DType;
use meganeura_core::tensor::Tensor;

/// A change of an image `f32[channels, rows, columns]`.
#[derive(Clone, Debug, PartialEq)]
pub enum Augment {
    /// Moves it by a random number of pixels, up to `padding`, in each direction; zeros come in. As PyTorch's `RandomCrop` of
    /// the image's own size.
    Crop {
        /// The most pixels.
        padding: usize,
    },
    /// Exchanges left and right.
    Flip {
        /// How often, from 0 to 1.
        probability: f64,
    },
    /// `(x − mean) / std` for each channel.
    Normalize {
        /// Mean of each channel.
        mean: Vec<f32>,
        /// Standard deviation of each channel.
        std: Vec<f32>,
    },
}

/// A data set cannot be augmented.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AugmentError {
    /// There is no such field.
    #[error("there is no field {name:?}; there are: {}", known.join(", "))]
    NoField {
        /// The name.
        name: String,
        /// The fields of the set.
        known: Vec<String>,
    },
    /// The field holds no images.
    #[error("{:?} is {}, expected images f32[channels, rows, columns]", field.name, field.ty)]
    NoImages {
        /// The field.
        field: Field,
    },
    /// Not one number for each channel.
    #[error("{found} values of {what}, expected one for each of the {channels} channels")]
    Channels {
        /// `mean` or `std`.
        what: &'static str,
        /// Channels of the images.
        channels: usize,
        /// Values given.
        found: usize,
    },
    /// A number that cannot be used.
    #[error("{what} is {found}, expected {expected}")]
    Value {
        /// What it is.
        what: &'static str,
        /// What is accepted.
        expected: &'static str,
        /// The number.
        found: f64,
    },
}

/// A data set whose images are changed each time that they are read.
///
/// The changes are a function of the loader's seed, the epoch and the item.
#[derive(Clone, Debug)]
pub struct Augmented<D> {
    set: D,
    at: usize,
    extents: [usize; 3],
    steps: Vec<Augment>,
}

impl<D: Dataset> Augmented<D> {
    /// `set`, with each of the images of `field` changed by all `steps` in turn.
    ///
    /// ```
    /// # use meganeura_nn::data::{Augment, Augmented, AugmentError, Dataset};
    /// # fn example(set: impl Dataset) -> Result<impl Dataset, AugmentError> {
    /// let normalize = Augment::Normalize { mean: vec![0.5], std: vec![0.25] };
    /// Augmented::new(set, "images", vec![Augment::Crop { padding: 2 }, Augment::Flip { probability: 0.5 }, normalize])
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AugmentError`] if there is no such field, it holds no images, or a step does not fit them.
    pub fn new(set: D, field: &str, steps: Vec<Augment>) -> Result<Augmented<D>, AugmentError> {
        let fields = set.fields();
        let Some(at) = fields.iter().position(|known| known.name == field) else {
            let known = fields.into_iter().map(|field| field.name).collect();
            return Err(AugmentError::NoField { name: field.to_owned(), known });
        };
        let field = &fields[at];
        let (&[channels, rows, columns], DType::F32) = (&field.ty.shape[..], field.ty.dtype) else {
            return Err(AugmentError::NoImages { field: field.clone() });
        };
        steps.iter().try_for_each(|step| step.check(channels))?;
        Ok(Augmented { set, at, extents: [channels, rows, columns], steps })
    }
}

impl<D: Dataset> Dataset for Augmented<D> {
    fn len(&self) -> usize {
        self.set.len()
    }

    fn fields(&self) -> Vec<Field> {
        self.set.fields()
    }

    fn item(&self, index: usize, random: &mut Random) -> Result<Vec<Tensor>, ItemError> {
        let mut item = self.set.item(index, random)?;
        let tensor = item.get_mut(self.at).ok_or("the item lacks its images")?;
        let mut pixels = tensor.as_f32()?.to_vec();
        if pixels.len() != self.extents.iter().product::<usize>() {
            return Err(format!("the image is {}, expected {:?}", tensor.ty(), self.extents).into());
        }
        for step in &self.steps {
            step.apply(&mut pixels, self.extents, random);
        }
        *tensor = Tensor::from_f32(self.extents, pixels)?;
        Ok(item)
    }
}

impl Augment {
    fn check(&self, channels: usize) -> Result<(), AugmentError> {
        match self {
            Augment::Crop { .. } => Ok(()),
            Augment::Flip { probability } if (0.0..=1.0).contains(probability) => Ok(()),
            Augment::Flip { probability } => {
                let (what, expected) = ("the probability of a flip", "a number from 0 to 1");
                Err(AugmentError::Value { what, expected, found: *probability })
            }
            Augment::Normalize { mean, std } => {
                for (what, values) in [("mean", mean), ("std", std)] {
                    if values.len() != channels {
                        return Err(AugmentError::Channels { what, channels, found: values.len() });
                    }
                }
                match std.iter().find(|std| !(std.is_finite() && **std > 0.0)) {
                    Some(&std) => {
                        let (what, expected) = ("a standard deviation", "a positive number");
                        Err(AugmentError::Value { what, expected, found: std.into() })
                    }
                    None => Ok(()),
                }
            }
        }
    }

    fn apply(&self, pixels: &mut Vec<f32>, [channels, rows, columns]: [usize; 3], random: &mut Random) {
        match self {
            Augment::Crop { padding } => {
                let mut shift = || random.below(2 * *padding as u64 + 1) as i64 - *padding as i64;
                let (down, right) = (shift(), shift());
                *pixels = moved(pixels, [channels, rows, columns], down, right);
            }
            Augment::Flip { probability } => {
                if random.uniform() < *probability {
                    pixels.chunks_exact_mut(columns.max(1)).for_each(<[f32]>::reverse);
                }
            }
            Augment::Normalize { mean, std } => {
                for ((channel, mean), std) in pixels.chunks_exact_mut((rows * columns).max(1)).zip(mean).zip(std) {
                    channel.iter_mut().for_each(|pixel| *pixel = (*pixel - mean) / std);
                }
            }
        }
    }
}

/// An image moved by some pixels; zeros come in.
fn moved(pixels: &[f32], [channels, rows, columns]: [usize; 3], down: i64, right: i64) -> Vec<f32> {
    let from =
        |at: usize, shift: i64, extent: usize| usize::try_from(at as i64 - shift).ok().filter(|&from| from < extent);
    let mut result = vec![0.0; pixels.len()];
    for channel in 0..channels {
        for row in 0..rows {
            let Some(source) = from(row, down, rows) else { continue };
            for column in 0..columns {
                if let Some(old) = from(column, right, columns) {
                    result[(channel * rows + row) * columns + column] =
                        pixels[(channel * rows + source) * columns + old];
                }
            }
        }
    }
    result
}
