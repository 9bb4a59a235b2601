//! Reading batches, here or ahead on threads.

use super::LoaderError;
use super::batch::{Batch, Stack, weights};
use super::order::{Order, Place};
use crate::data::{Dataset, Field, shuffled};
use crate::random::Random;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// What decides on everything random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    pub seed: u64,
    pub shuffle: bool,
}

/// An epoch's order with what it is a function of.
type EpochOrder = ((u64, Draw), Arc<[usize]>);

/// A set and how it is divided; shared by the threads.
pub struct Source {
    pub set: Arc<dyn Dataset>,
    pub order: Order,
    fields: Vec<Field>,
    /// The orders of the last two epochs asked for: threads may be on either side of an end.
    orders: Mutex<Vec<EpochOrder>>,
}

impl Source {
    pub fn new(set: Arc<dyn Dataset>, order: Order) -> Source {
        let fields = set.fields();
        Source { set, order, fields, orders: Mutex::default() }
    }

    /// Reads the batch at a place.
    pub fn read(&self, place: Place, draw: Draw) -> Result<Batch, LoaderError> {
        self.read_unless(place, draw, &AtomicBool::new(false))
    }

    /// As [`read`](Source::read), but with [`LoaderError::Lost`] as soon as `stop` is set.
    fn read_unless(&self, place: Place, draw: Draw, stop: &AtomicBool) -> Result<Batch, LoaderError> {
        let range = self.order.batch_at(place.position).unwrap_or_default();
        let items: Vec<usize> =
            if draw.shuffle { self.shuffled(place.epoch, draw)[range].to_vec() } else { range.collect() };
        let rows = self.order.batch;
        let mut stack = Stack::new(&self.fields, rows);
        for &index in &items {
            if stop.load(Ordering::Relaxed) {
                return Err(LoaderError::Lost);
            }
            // The set is only read, and given up by the caller if it panics.
            let random = &mut Random::new(draw.seed, &format!("item {index} of epoch {}", place.epoch));
            let item = catch_unwind(AssertUnwindSafe(|| self.set.item(index, random)))
                .map_err(|panic| LoaderError::Panic { index, message: message(panic.as_ref()) })?
                .map_err(|source| LoaderError::Item { index, source })?;
            stack.push(index, &item)?;
        }
        let weights = weights(items.len(), rows)?;
        Ok(Batch { tensors: stack.finish(rows)?, items, weights, epoch: place.epoch })
    }

    fn shuffled(&self, epoch: u64, draw: Draw) -> Arc<[usize]> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, order)) = orders.iter().find(|(of, _)| *of == (epoch, draw)) {
            return order.clone();
        }
        let order: Arc<[usize]> = shuffled(self.order.items, draw.seed, epoch).into();
        if orders.len() == 2 {
            orders.remove(0);
        }
        orders.push(((epoch, draw), order.clone()));
        order
    }
}

/// What a panic said, as far as it is text.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no text").to_owned()
}

/// Threads that read ahead. The n-th of `k` reads batches n, n + k, n + 2k, …, so that nothing decides on the order.
pub struct Prefetch {
    ready: Vec<Receiver<Result<Batch, LoaderError>>>,
    turn: usize,
    stop: Arc<AtomicBool>,
}

impl Prefetch {
    /// Threads that read from a place on.
    pub fn start(source: &Arc<Source>, start: Place, draw: Draw, workers: usize) -> Result<Prefetch, LoaderError> {
        let mut prefetch = Prefetch { ready: Vec::new(), turn: 0, stop: Arc::default() };
        for worker in 0..workers {
            // One batch waits here, one more in the thread's hands.
            let (sender, receiver) = sync_channel(1);
            prefetch.ready.push(receiver);
            let (source, stop) = (source.clone(), prefetch.stop.clone());
            let read_ahead = move || {
                for ahead in (worker as u64..).step_by(workers) {
                    let batch = source.read_unless(source.order.after(start, ahead), draw, &stop);
                    let failed = batch.is_err();
                    // Nobody waits for more once the loader is gone or has seen an error.
                    if sender.send(batch).is_err() || failed {
                        return;
                    }
                }
            };
            let thread = thread::Builder::new().name(format!("loader {worker}"));
            thread.spawn(read_ahead).map_err(|source| LoaderError::Thread { source })?;
        }
        Ok(prefetch)
    }

    /// The next batch; waits for it.
    pub fn next(&mut self) -> Result<Batch, LoaderError> {
        let turn = self.turn;
        self.turn = (turn + 1) % self.ready.len().max(1);
        self.ready.get(turn).and_then(|ready| ready.recv().ok()).unwrap_or(Err(LoaderError::Lost))
    }
}

impl Drop for Prefetch {
    /// Does not wait: an item that takes for ever must not hang whoever drops the loader.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
