//! Folders of images, one for each class.

use super::{DataError, Dataset, Field, ItemError};
use crate::random::Random;
use image::imageops::FilterType;
use image::{ImageReader, Limits};
use meganeura_core::dtype::DType;
use meganeura_core::tensor::Tensor;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

/// Endings of the names of images; others' files are skipped.
const ENDINGS: [&str; 3] = ["png", "jpg", "jpeg"];
/// The most bytes of a file, and the most that decoding it may take.
const LIMIT: u64 = 1 << 28;

/// What the pixels of a loaded image are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Channels {
    /// Red, green and blue; grey images have three equal channels.
    #[default]
    Rgb,
    /// Luminance alone.
    Gray,
}

/// Images in PNG and JPEG in folders that are named by their class: `folder/cat/1.jpg`, `folder/dog/7.png`.
///
/// Items are `images`, `f32[channels, rows, columns]` in `[0, 1]`, and `labels`, `u32[]`: the number of the class among all
/// folders' names in the order of their bytes. Files are decoded when they are read, on the loader's threads. An image of
/// another size is scaled (by linear interpolation) until it covers `rows × columns`, and its middle is taken.
/// Transparency, and turning by a camera's mark, are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFolder {
    classes: Vec<String>,
    files: Vec<(PathBuf, u32)>,
    channels: Channels,
    rows: usize,
    columns: usize,
}

impl ImageFolder {
    /// Looks for the images; reads none of them. Folders below those of the classes, hidden files, and files whose name
    /// does not end like an image's are skipped.
    ///
    /// # Errors
    /// [`DataError::Read`] if a folder cannot be read, [`DataError::Empty`] if it has no classes or a class has no images.
    pub fn open(folder: &Path, channels: Channels, rows: usize, columns: usize) -> Result<ImageFolder, DataError> {
        let mut set = ImageFolder { classes: Vec::new(), files: Vec::new(), channels, rows, columns };
        for (name, path) in sorted(folder)? {
            if !path.is_dir() {
                continue;
            }
            let label = set.classes.len() as u32;
            let images = sorted(&path)?.into_iter().map(|(_, path)| path).filter(|path| is_image(path));
            let before = set.files.len();
            set.files.extend(images.map(|image| (image, label)));
            if set.files.len() == before {
                return Err(DataError::Empty { path });
            }
            set.classes.push(name);
        }
        if set.classes.is_empty() { Err(DataError::Empty { path: folder.into() }) } else { Ok(set) }
    }

    /// Names of the classes, in the order of their numbers.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The files with their classes, in the order of the items.
    pub fn files(&self) -> &[(PathBuf, u32)] {
        &self.files
    }

    fn extents(&self) -> [usize; 3] {
        let channels = match self.channels {
            Channels::Rgb => 3,
            Channels::Gray => 1,
        };
        [channels, self.rows, self.columns]
    }

    /// Reads and decodes a file; row-major, channel by channel.
    fn decode(&self, path: &Path) -> Result<Vec<f32>, ItemError> {
        let mut bytes = Vec::new();
        File::open(path)?.take(LIMIT + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LIMIT {
            return Err(DataError::TooLong { path: path.into(), limit: LIMIT }.into());
        }
        let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format()?;
        let mut limits = Limits::default();
        limits.max_alloc = Some(LIMIT);
        reader.limits(limits);
        let image = reader.decode()?;
        let (width, height) = (u32::try_from(self.columns)?, u32::try_from(self.rows)?);
        let image = match (image.width(), image.height()) == (width, height) {
            true => image,
            false => image.resize_to_fill(width, height, FilterType::Triangle),
        };
        let interleaved = match self.channels {
            Channels::Rgb => image.into_rgb8().into_raw(),
            Channels::Gray => image.into_luma8().into_raw(),
        };
        let [channels, ..] = self.extents();
        let channel = |channel| interleaved.iter().skip(channel).step_by(channels).map(|&byte| f32::from(byte) / 255.0);
        Ok((0..channels).flat_map(channel).collect())
    }
}

impl Dataset for ImageFolder {
    fn len(&self) -> usize {
        self.files.len()
    }

    fn fields(&self) -> Vec<Field> {
        vec![Field::new("images", DType::F32, self.extents()), Field::new("labels", DType::U32, [])]
    }

    fn item(&self, index: usize, _random: &mut Random) -> Result<Vec<Tensor>, ItemError> {
        let (path, label) = self.files.get(index).ok_or_else(|| format!("there are {} images", self.files.len()))?;
        let pixels = self.decode(path).map_err(|source| DataError::Image { path: path.clone(), source })?;
        Ok(vec![Tensor::from_f32(self.extents(), pixels)?, Tensor::from_u32([], vec![*label])?])
    }
}

/// What is in a folder and not hidden, in the order of the names.
fn sorted(folder: &Path) -> Result<Vec<(String, PathBuf)>, DataError> {
    let failed = |source| DataError::Read { path: folder.into(), source };
    let entry = |entry: io::Result<std::fs::DirEntry>| {
        let entry = entry.map_err(failed)?;
        // Two names that differ in what is no UTF-8 are still two entries.
        Ok((entry.file_name().to_string_lossy().into_owned(), entry.path()))
    };
    let mut entries = std::fs::read_dir(folder).map_err(failed)?.map(entry).collect::<Result<Vec<_>, DataError>>()?;
    entries.retain(|(name, _)| !name.starts_with('.'));
    entries.sort_unstable();
    Ok(entries)
}

/// Whether it is a file (no pipe, which could block for ever) whose name ends like an image's.
fn is_image(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str())) && path.is_file()
}
