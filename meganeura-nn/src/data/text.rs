//! Text for language models: characters as numbers, and windows of them.

use super::{DataError, Dataset, Field, ItemError, source};
use crate::random::Random;
use meganeura_core::dtype::DType;
use meganeura_core::tensor::Tensor;
use std::path::Path;

/// Reads a text in UTF-8, raw or gzip (told by its first bytes), of at most `limit` bytes.
///
/// # Errors
/// [`DataError`] if it cannot be read, is longer, or is no UTF-8.
pub fn read_text(path: &Path, limit: u64) -> Result<String, DataError> {
    let bytes = source::read(path, limit)?;
    String::from_utf8(bytes)
        .map_err(|error| DataError::Encoding { path: path.into(), offset: error.utf8_error().valid_up_to() })
}

/// A character that a vocabulary has no number for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("character {index} is {character:?}, which is not among the {size} of the vocabulary")]
pub struct UnknownCharacter {
    /// Its position in the text, in characters from 0.
    pub index: usize,
    /// The character.
    pub character: char,
    /// Characters of the vocabulary.
    pub size: usize,
}

/// The characters of a text, numbered in the order of their code points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    characters: Vec<char>,
}

impl Vocabulary {
    /// Every character that a text has.
    pub fn of(text: &str) -> Vocabulary {
        let mut seen = std::collections::BTreeSet::new();
        seen.extend(text.chars());
        Vocabulary { characters: seen.into_iter().collect() }
    }

    /// Number of characters; their numbers are below it.
    pub fn size(&self) -> usize {
        self.characters.len()
    }

    /// The characters, in the order of their numbers.
    pub fn characters(&self) -> &[char] {
        &self.characters
    }

    /// The numbers of a text's characters.
    ///
    /// # Errors
    /// [`UnknownCharacter`] for the first one without a number.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, UnknownCharacter> {
        let number = |(index, character)| {
            let found = self.characters.binary_search(&character).map(|number| number as u32);
            found.map_err(|_| UnknownCharacter { index, character, size: self.size() })
        };
        text.chars().enumerate().map(number).collect()
    }

    /// The text of some numbers; `\u{FFFD}` for those that are no character's.
    pub fn decode(&self, tokens: &[u32]) -> String {
        let character = |&token| self.characters.get(token as usize).copied().unwrap_or(char::REPLACEMENT_CHARACTER);
        tokens.iter().map(character).collect()
    }
}

/// Windows of a sequence of tokens, each with the tokens that follow: `tokens` and `targets`, `u32[window]`, where
/// `targets[i]` is the token after `tokens[i]`.
///
/// Tokens may be characters by a [`Vocabulary`], bytes (`text.bytes().map(u32::from)`), or anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextWindows {
    tokens: Vec<u32>,
    window: usize,
    stride: usize,
}

impl TextWindows {
    /// Windows of `window` tokens that begin at each multiple of `stride` (both at least 1): 1 for all windows there are,
    /// `window` for each token once. What does not fill a window at the end is left out.
    pub fn new(tokens: Vec<u32>, window: usize, stride: usize) -> TextWindows {
        TextWindows { tokens, window: window.max(1), stride: stride.max(1) }
    }
}

impl Dataset for TextWindows {
    fn len(&self) -> usize {
        match self.tokens.len().checked_sub(self.window + 1) {
            Some(last) => last / self.stride + 1,
            None => 0,
        }
    }

    fn fields(&self) -> Vec<Field> {
        ["tokens", "targets"].map(|name| Field::new(name, DType::U32, [self.window])).into()
    }

    fn item(&self, index: usize, _random: &mut Random) -> Result<Vec<Tensor>, ItemError> {
        let start = index.saturating_mul(self.stride);
        let window = |start: usize| {
            let tokens = self.tokens.get(start..start.saturating_add(self.window)).unwrap_or_default();
            Tensor::from_u32([self.window], tokens.to_vec())
        };
        Ok(vec![window(start)?, window(start.saturating_add(1))?])
    }
}
