//! Orders of a data set's items and their division into batches of one size.

use crate::random::Random;

/// The numbers `0..items` in random order: a function of `seed` and `epoch` alone.
///
/// Source: Durstenfeld, Algorithm 235: random permutation, CACM 7 (1964).
pub fn shuffled(items: usize, seed: u64, epoch: u64) -> Vec<usize> {
    let mut random = Random::new(seed, &format!("shuffle of epoch {epoch}"));
    let mut order: Vec<usize> = (0..items).collect();
    for last in (1..items).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    order
}

/// Divides an order of items into batches of one size, as a compiled program has one shape.
///
/// What does not fill a batch at the end is dropped by [`full`](Batches::full) and padded by [`padded`](Batches::padded).
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    order: &'a [usize],
    size: usize,
}

impl<'a> Batches<'a> {
    /// Batches of `size` items (at least 1).
    pub fn new(order: &'a [usize], size: usize) -> Batches<'a> {
        Batches { order, size: size.max(1) }
    }

    /// The batches that are full, for training.
    pub fn full(&self) -> impl ExactSizeIterator<Item = &'a [usize]> + use<'a> {
        self.order.chunks_exact(self.size)
    }

    /// All batches, for evaluation: each item once, with the number of items that count. The last batch is filled up
    /// with its own last item, whose results the caller ignores.
    pub fn padded(&self) -> impl ExactSizeIterator<Item = (Vec<usize>, usize)> + use<'a> {
        let size = self.size;
        self.order.chunks(size).map(move |chunk| {
            let mut items = chunk.to_vec();
            items.resize(size, chunk[chunk.len() - 1]);
            (items, chunk.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_each_item_once_and_depends_on_seed_and_epoch() {
        let order = shuffled(1000, 3, 0);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
        assert_eq!(order, shuffled(1000, 3, 0));
        assert_ne!(order, shuffled(1000, 3, 1));
        assert_ne!(order, shuffled(1000, 4, 0));
        assert!(shuffled(0, 0, 0).is_empty());
    }

    #[test]
    fn the_partial_batch_is_dropped_or_padded() {
        let order: Vec<usize> = (0..10).collect();
        let batches = Batches::new(&order, 4);
        assert_eq!(batches.full().collect::<Vec<_>>(), [[0, 1, 2, 3], [4, 5, 6, 7]]);
        assert_eq!(batches.padded().last(), Some((vec![8, 9, 9, 9], 2)));
        assert_eq!(batches.padded().map(|(_, valid)| valid).sum::<usize>(), 10);
        assert_eq!(Batches::new(&[], 4).padded().len(), 0);
    }
}
