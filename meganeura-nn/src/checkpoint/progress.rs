//! Where a training stands, apart from what its store holds.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a training stands, apart from the states in its store: steps done, the metric by which checkpoints are compared,
/// and parts that a data loader, a trainer or the caller puts in under names of their own (`data`, `trainer`).
///
/// A part is anything that serde represents as JSON, such as an epoch and a position in it. It should be small, and hold
/// no number that is not finite: JSON has none. Finite numbers come back to the bit.
///
/// ```
/// use meganeura_nn::checkpoint::Progress;
///
/// #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
/// struct Position {
///     epoch: u64,
///     batch: u64,
/// }
///
/// let position = Position { epoch: 2, batch: 17 };
/// let progress = Progress::new(100).with("data", &position)?;
/// assert_eq!(progress.part::<Position>("data")?, position);
/// # Ok::<(), meganeura_nn::checkpoint::PartError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Steps done.
    pub step: u64,
    /// What this checkpoint is compared by, if it was measured.
    pub metric: Option<f64>,
    parts: BTreeMap<String, serde_json::Value>,
}

/// A part of a [`Progress`] could not be put in or taken out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    /// There is none of that name.
    #[error("the training state has no part {name:?}; there are: {known:?}")]
    Missing {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// It is not representable as JSON, or is not what the caller expects.
    #[error("part {name:?} of the training state: {source}")]
    Json {
        /// Its name.
        name: String,
        /// The reason.
        source: serde_json::Error,
    },
}

impl Progress {
    /// After `step` steps, without a metric or parts.
    pub fn new(step: u64) -> Progress {
        Progress { step, ..Progress::default() }
    }

    /// With a part of that name, in place of any that it had.
    ///
    /// # Errors
    /// [`PartError::Json`] if it cannot be represented.
    pub fn with(mut self, name: &str, part: &impl Serialize) -> Result<Progress, PartError> {
        let value = serde_json::to_value(part).map_err(|source| PartError::Json { name: name.to_owned(), source })?;
        self.parts.insert(name.to_owned(), value);
        Ok(self)
    }

    /// The part of that name.
    ///
    /// # Errors
    /// [`PartError::Missing`], and [`PartError::Json`] if it is no `T`.
    pub fn part<T: DeserializeOwned>(&self, name: &str) -> Result<T, PartError> {
        let known = || self.parts.keys().cloned().collect();
        let part = self.parts.get(name).ok_or_else(|| PartError::Missing { name: name.to_owned(), known: known() })?;
        T::deserialize(part).map_err(|source| PartError::Json { name: name.to_owned(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_to_the_bit_and_mistakes_are_named() {
        // Without its feature `float_roundtrip`, serde_json reads some numbers one unit off.
        let numbers: Vec<f64> = (1..2000).map(|n| f64::from(n) * 1.1e-17 + 1.0 / f64::from(n)).collect();
        let mut progress = Progress::new(7).with("numbers", &numbers).unwrap();
        progress.metric = Some(0.1 + 0.2);
        let text = serde_json::to_string(&progress).unwrap();
        let read: Progress = serde_json::from_str(&text).unwrap();
        assert_eq!(read, progress);
        assert_eq!(read.part::<Vec<f64>>("numbers").unwrap(), numbers);
        let error = read.part::<u32>("position").unwrap_err().to_string();
        assert_eq!(error, r#"the training state has no part "position"; there are: ["numbers"]"#);
        let error = read.part::<u32>("numbers").unwrap_err().to_string();
        assert!(error.starts_with(r#"part "numbers" of the training state: invalid type"#), "{error}");
    }
}
