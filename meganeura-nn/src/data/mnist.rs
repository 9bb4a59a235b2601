//! The MNIST data set of handwritten digits (LeCun, Cortes, Burges), and sets of the same format.

use super::{DataError, Dataset, Field, ItemError, idx::Idx};
use crate::random::Random;
use meganeura_core::dtype::DType;
use meganeura_core::tensor::Tensor;
use std::path::{Path, PathBuf};

/// The most bytes of one file that are read: 17 times MNIST's largest.
const LIMIT: u64 = 800_000_000;

/// Grey images of one size with a class each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledImages {
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

/// MNIST: 60,000 images to train on and 10,000 to test on, or other sets in the same four files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mnist {
    /// What is trained on.
    pub train: LabelledImages,
    /// What is tested on.
    pub test: LabelledImages,
}

impl Mnist {
    /// Number of classes; labels are below it.
    pub const CLASSES: usize = 10;
    /// Rows and columns of an image.
    pub const SIDE: usize = 28;
    /// Pixels of an image.
    pub const PIXELS: usize = Mnist::SIDE * Mnist::SIDE;

    /// Reads `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-images-idx3-ubyte` and
    /// `t10k-labels-idx1-ubyte`, each raw or compressed by gzip, with or without `.gz` at the end of the name.
    ///
    /// # Errors
    /// [`DataError`] if a file is missing, is not of the format, or the files do not fit each other.
    pub fn load(folder: &Path) -> Result<Mnist, DataError> {
        Ok(Mnist {
            train: LabelledImages::load(folder, "train-images-idx3-ubyte", "train-labels-idx1-ubyte")?,
            test: LabelledImages::load(folder, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")?,
        })
    }
}

impl LabelledImages {
    fn load(folder: &Path, images: &'static str, labels: &'static str) -> Result<LabelledImages, DataError> {
        let (images, labels) = (find(folder, images)?, find(folder, labels)?);
        let Idx { extents: [count, rows, columns], bytes: pixels } = Idx::read(&images, LIMIT)?;
        for (dimension, found) in [("rows", rows), ("columns", columns)] {
            if found != Mnist::SIDE {
                return Err(DataError::Extent { path: images, dimension, expected: Mnist::SIDE, found });
            }
        }
        if count == 0 {
            return Err(DataError::Empty { path: images });
        }
        let path = labels;
        let Idx { extents: [found], bytes: labels } = Idx::read(&path, LIMIT)?;
        if found != count {
            return Err(DataError::Count { path, images, expected: count, found });
        }
        let classes = Mnist::CLASSES as u8;
        match labels.iter().position(|&label| label >= classes) {
            Some(index) => Err(DataError::Label { path, index, classes, found: labels[index] }),
            None => Ok(LabelledImages { pixels, labels }),
        }
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none; never so for a set that was loaded.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The pixels of an image, row-major from the top left, 0 = background; empty if there is no such image.
    pub fn image(&self, item: usize) -> &[u8] {
        self.pixels.chunks_exact(Mnist::PIXELS).nth(item).unwrap_or_default()
    }

    /// Classes of all images.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// Images and classes of some items: pixels as `f32[items, 784]` in `[0, 1]`, classes as `u32[items]`.
    pub fn batch(&self, items: &[usize]) -> (Vec<f32>, Vec<u32>) {
        let pixels = items.iter().flat_map(|&item| self.image(item)).map(|&pixel| f32::from(pixel) / 255.0).collect();
        let labels = items.iter().filter_map(|&item| self.labels.get(item)).map(|&label| u32::from(label)).collect();
        (pixels, labels)
    }
}

/// `images`, `f32[1, 28, 28]` in `[0, 1]`, and `labels`, `u32[]`.
impl Dataset for LabelledImages {
    fn len(&self) -> usize {
        self.labels.len()
    }

    fn fields(&self) -> Vec<Field> {
        vec![Field::new("images", DType::F32, [1, Mnist::SIDE, Mnist::SIDE]), Field::new("labels", DType::U32, [])]
    }

    fn item(&self, index: usize, _random: &mut Random) -> Result<Vec<Tensor>, ItemError> {
        let (pixels, labels) = self.batch(&[index]);
        Ok(vec![Tensor::from_f32([1, Mnist::SIDE, Mnist::SIDE], pixels)?, Tensor::from_u32([], labels)?])
    }
}

/// The file of that name in a folder, raw before compressed.
fn find(folder: &Path, name: &'static str) -> Result<PathBuf, DataError> {
    let candidates = [folder.join(name), folder.join(format!("{name}.gz"))];
    let missing = || DataError::Missing { folder: folder.into(), name };
    candidates.into_iter().find(|path| path.exists()).ok_or_else(missing)
}
