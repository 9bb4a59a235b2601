//! From a checkpoint into a store.

use super::{Checkpoint, CheckpointError, Differences};
use meganeura_core::shape::TensorType;
use meganeura_wgpu::{DeviceError, StateStore};

/// How far a checkpoint may differ from what is loaded. Shapes and element types have to fit in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Fit {
    /// The same tensors.
    #[default]
    Exact,
    /// The checkpoint may have others beside: a model's weights out of a whole training's states.
    Subset,
    /// Either may have what the other lacks: a pretrained model under a new head. What is missing keeps its value.
    Overlap,
}

impl Fit {
    fn allows(self, differences: &Differences) -> bool {
        differences.misshapen.is_empty()
            && (differences.unexpected.is_empty() || self != Fit::Exact)
            && (differences.missing.is_empty() || self == Fit::Overlap)
    }
}

impl Checkpoint {
    /// Writes these states of a store. Nothing is written unless the checkpoint has exactly these tensors, of their
    /// shapes; [`load`](Checkpoint::load) is less strict.
    ///
    /// # Errors
    /// As [`load`](Checkpoint::load).
    pub fn load_states<'a>(
        &self,
        store: &StateStore,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), CheckpointError> {
        self.load(store, names, Fit::Exact).map(|_| ())
    }

    /// Writes these states of a store, as far as `fit` allows, and tells what was missing and unexpected. Nothing is
    /// written if it allows too little.
    ///
    /// # Errors
    /// [`CheckpointError::Mismatch`], which lists all differences; [`CheckpointError::Device`] if a state is not in the
    /// store; [`CheckpointError::Io`].
    pub fn load<'a>(
        &self,
        store: &StateStore,
        names: impl IntoIterator<Item = &'a str>,
        fit: Fit,
    ) -> Result<Differences, CheckpointError> {
        let mut wanted: Vec<(&str, &TensorType)> = Vec::new();
        for name in names {
            let slot = store.layout().slot(name).ok_or_else(|| self.unknown(name, store))?;
            wanted.push((name, &slot.ty));
        }
        let differences = self.differences(wanted.iter().copied());
        if !fit.allows(&differences) {
            return Err(CheckpointError::Mismatch { path: self.path().into(), differences });
        }
        let there = |(name, _): &(&str, _)| differences.missing.binary_search_by(|own| own.as_str().cmp(name)).is_err();
        for (name, ty) in wanted.into_iter().filter(there) {
            let tensor = self.tensor(name, ty)?;
            store.write(name, &tensor).map_err(|source| self.device(name, source))?;
        }
        Ok(differences)
    }

    fn unknown(&self, name: &str, store: &StateStore) -> CheckpointError {
        let known = store.names().map(str::to_owned).collect();
        self.device(name, DeviceError::UnknownTensor { kind: "state", name: name.to_owned(), known })
    }

    fn device(&self, name: &str, source: DeviceError) -> CheckpointError {
        CheckpointError::Device { path: self.path().into(), tensor: name.to_owned(), source: Box::new(source) }
    }
}
