//! Batches of a data set, in an order that can be left and taken up again.

mod batch;
mod error;
mod order;
mod prefetch;

pub use batch::Batch;
pub use error::LoaderError;

use super::Dataset;
use order::{Order, Place};
use prefetch::{Draw, Prefetch, Source};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// What happens to the items that do not fill a batch at the end of an epoch. A compiled program has one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Partial {
    /// They are left out; with shuffling other ones each epoch.
    #[default]
    Drop,
    /// The batch is filled up with repetitions of its last item, and [`Batch::weights`](field@Batch::weights) tells which rows count.
    Pad,
}

/// How a [`Loader`] reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoaderOptions {
    /// Items of a batch.
    pub batch: usize,
    /// Whether each epoch has an order of its own, a function of seed and epoch; else items come as they are numbered.
    pub shuffle: bool,
    /// Of the orders and of all that is random about items.
    pub seed: u64,
    /// What happens to a last partial batch.
    pub partial: Partial,
    /// Threads that read ahead, each at most two batches; 0 reads when a batch is asked for. The batches are the same.
    /// WebAssembly has no threads: there it is taken as 0.
    pub workers: usize,
}

impl Default for LoaderOptions {
    /// Batches of 32, shuffled under seed 0, the partial one dropped, one thread reading ahead.
    fn default() -> LoaderOptions {
        LoaderOptions { batch: 32, shuffle: true, seed: 0, partial: Partial::Drop, workers: 1 }
    }
}

/// Where a loader stands: all that a checkpoint needs so that the same batches follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoaderState {
    /// Seed of the orders and of all that is random about items.
    pub seed: u64,
    /// Whether items are shuffled.
    pub shuffle: bool,
    /// The epoch, from 0.
    pub epoch: u64,
    /// Items of this epoch that were handed out.
    pub position: u64,
    /// Items of the set.
    pub items: u64,
}

/// Hands out the items of a data set in batches, epoch after epoch without an end.
///
/// ```
/// # use meganeura_nn::data::{Dataset, Loader, LoaderError, LoaderOptions};
/// # fn train(set: impl Dataset + 'static) -> Result<(), LoaderError> {
/// let mut loader = Loader::new(set, LoaderOptions { batch: 128, seed: 7, ..LoaderOptions::default() })?;
/// for _epoch in 0..5 {
///     while let Some(batch) = loader.next_batch()? {
///         // batch.write(&mut session)?; session.step()?; and into a checkpoint goes loader.state().
/// #       let _ = batch;
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// What comes is a function of the set, the options and [`state`](Loader::state): neither the number of threads nor
/// stopping and resuming changes a bit. Threads are not waited for when a loader is dropped: each ends with the item that it
/// is reading.
pub struct Loader {
    source: Arc<Source>,
    workers: usize,
    state: LoaderState,
    prefetch: Option<Prefetch>,
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader").field("state", &self.state).field("workers", &self.workers).finish_non_exhaustive()
    }
}

impl Loader {
    /// A loader at the beginning of epoch 0.
    ///
    /// # Errors
    /// [`LoaderError::NoBatch`] if an epoch would have no batch.
    pub fn new(set: impl Dataset + 'static, options: LoaderOptions) -> Result<Loader, LoaderError> {
        let LoaderOptions { batch, shuffle, seed, partial, workers } = options;
        let items = set.len();
        let order = Order::new(items, batch, partial);
        if order.batches_from(0) == 0 {
            return Err(LoaderError::NoBatch { items, batch });
        }
        let source = Arc::new(Source::new(Arc::new(set), order));
        let state = LoaderState { seed, shuffle, epoch: 0, position: 0, items: items as u64 };
        let workers = if cfg!(target_family = "wasm") { 0 } else { workers };
        Ok(Loader { source, workers, state, prefetch: None })
    }

    /// Batches of a whole epoch.
    pub fn batches_per_epoch(&self) -> usize {
        self.source.order.batches_from(0)
    }

    /// The set.
    pub fn dataset(&self) -> &Arc<dyn Dataset> {
        &self.source.set
    }

    /// Where the loader stands, after the last batch that it handed out. What was only read ahead does not count.
    pub fn state(&self) -> LoaderState {
        self.state
    }

    /// Goes to where a loader of the same set stood. Its batch size may differ: the epoch goes on with the next item. Its
    /// seed counts from now on, not that of the options.
    ///
    /// # Errors
    /// [`LoaderError::State`] if the state is of a set with another number of items, or of a loader that shuffles where this
    /// one does not.
    pub fn restore(&mut self, state: LoaderState) -> Result<(), LoaderError> {
        let refuse = |what, expected, found| Err(LoaderError::State { what, expected, found });
        if state.items != self.state.items {
            return refuse("items", self.state.items, state.items);
        }
        if state.shuffle != self.state.shuffle {
            return refuse("shuffling (1 if on)", self.state.shuffle.into(), state.shuffle.into());
        }
        if state.position > state.items {
            return refuse("a position of at most", state.items, state.position);
        }
        self.state = state;
        self.prefetch = None;
        Ok(())
    }

    /// The next batch of this epoch. `None` once at its end; the call after that begins the next epoch.
    ///
    /// # Errors
    /// [`LoaderError`] if an item cannot be read. The loader stays where it is: the next call tries again.
    pub fn next_batch(&mut self) -> Result<Option<Batch>, LoaderError> {
        let LoaderState { epoch, position, .. } = self.state;
        let place = Place { epoch, position: position as usize };
        let Some(range) = self.source.order.batch_at(place.position) else {
            // Threads have run on into the next epoch already.
            self.state.epoch += 1;
            self.state.position = 0;
            return Ok(None);
        };
        let batch = self.read(place).inspect_err(|_| self.prefetch = None)?;
        self.state.position = range.end as u64;
        Ok(Some(batch))
    }

    /// The batch at a place, by whichever way.
    fn read(&mut self, place: Place) -> Result<Batch, LoaderError> {
        let LoaderState { seed, shuffle, .. } = self.state;
        let draw = Draw { seed, shuffle };
        if self.workers == 0 {
            return self.source.read(place, draw);
        }
        match &mut self.prefetch {
            Some(prefetch) => prefetch.next(),
            none => none.insert(Prefetch::start(&self.source, place, draw, self.workers)?).next(),
        }
    }
}
