//! Which items make which batch: arithmetic only.

use super::Partial;
use std::ops::Range;

/// A batch's place in the endless sequence of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub epoch: u64,
    /// Items of the epoch before it.
    pub position: usize,
}

/// How many items are divided how.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    pub items: usize,
    pub batch: usize,
    partial: Partial,
}

impl Order {
    pub fn new(items: usize, batch: usize, partial: Partial) -> Order {
        Order { items, batch, partial }
    }

    /// Batches of an epoch from a position on.
    pub fn batches_from(&self, position: usize) -> usize {
        let rest = self.items.saturating_sub(position);
        match self.partial {
            _ if self.batch == 0 => 0,
            Partial::Drop => rest / self.batch,
            Partial::Pad => rest.div_ceil(self.batch),
        }
    }

    /// The part of the epoch's order that the batch at a position has; none if the epoch ends before.
    pub fn batch_at(&self, position: usize) -> Option<Range<usize>> {
        (self.batches_from(position) > 0).then(|| position..self.items.min(position.saturating_add(self.batch)))
    }

    /// The place `ahead` batches after a place, across epochs.
    pub fn after(&self, start: Place, ahead: u64) -> Place {
        let first = self.batches_from(start.position) as u64;
        if ahead < first {
            return Place { position: start.position + ahead as usize * self.batch, ..start };
        }
        let (beyond, per_epoch) = (ahead - first, self.batches_from(0).max(1) as u64);
        Place {
            epoch: start.epoch.wrapping_add(1 + beyond / per_epoch),
            position: (beyond % per_epoch) as usize * self.batch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_each_other_across_epochs() {
        for (partial, epoch) in [(Partial::Drop, vec![0, 4]), (Partial::Pad, vec![0, 4, 8])] {
            let order = Order::new(10, 4, partial);
            for (skipped, start) in epoch.iter().enumerate() {
                let places = (0..9).map(|ahead| order.after(Place { epoch: 5, position: *start }, ahead));
                let expected = (0..9).map(|ahead| Place {
                    epoch: 5 + ((skipped + ahead) / epoch.len()) as u64,
                    position: epoch[(skipped + ahead) % epoch.len()],
                });
                assert_eq!(places.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{partial:?} from {start}");
            }
        }
        // A position that another batch size left.
        let order = Order::new(10, 4, Partial::Pad);
        assert_eq!(order.batch_at(7), Some(7..10));
        assert_eq!(order.after(Place { epoch: 0, position: 7 }, 1), Place { epoch: 1, position: 0 });
        assert_eq!(Order::new(10, 4, Partial::Drop).batch_at(7), None);
    }
}
