//! The meaning of streams: every score of a row, then its peak, then the totals of each store's column.

use super::{InterpError, Machine, exact, points};
use crate::kernel::{ExprId, Role, Store, Stream};

/// Coordinates and scores of an element that counts for a row.
type Scored = (Vec<usize>, Vec<f64>);

impl Machine<'_> {
    /// All rows of a stream.
    pub(super) fn stream(&mut self, stream: &Stream, args: &mut [Vec<f64>]) -> Result<(), InterpError> {
        let kernel = self.kernel;
        let extents = kernel.extents();
        let (parallel, cols) = (kernel.axes_of(Role::Parallel).len(), kernel.axes_of(Role::Col));
        for row in points(&extents[..=parallel]) {
            self.row = [row, vec![0; cols.len()]].concat();
            let elements = self.scored(stream, args)?;
            self.find_peak(stream, &elements, args)?;
            for store in &kernel.stores {
                let used: Vec<usize> = cols.iter().copied().filter(|&axis| store.index.uses_axis(axis)).collect();
                for col in points(&used.iter().map(|&axis| extents[axis]).collect::<Vec<_>>()) {
                    self.row[parallel + 1..].fill(0);
                    used.iter().zip(col).for_each(|(&axis, at)| self.row[axis] = at);
                    self.store_streamed(stream, store, &elements, args)?;
                }
            }
        }
        Ok(())
    }

    /// The elements that count for the row, with their scores.
    fn scored(&mut self, stream: &Stream, args: &[Vec<f64>]) -> Result<Vec<Scored>, InterpError> {
        let kernel = self.kernel;
        let at_row = self.row[kernel.axes_of(Role::Parallel).len()] as i64;
        let depth: Vec<usize> = kernel.axes_of(Role::Depth);
        let extents: Vec<usize> = kernel.axes_of(Role::Reduce).iter().map(|&axis| kernel.axes[axis].extent).collect();
        let length = match stream.length {
            Some(length) => {
                self.needed(&[length], &vec![0; extents.len() + depth.len()], args)?;
                self.value(length) as i64
            }
            None => i64::MAX,
        };
        let mut scored = Vec::new();
        for element in points(&extents) {
            let last = element.last().map_or(0, |&last| last as i64);
            let behind = last - at_row;
            if last >= length
                || stream.band[0].is_some_and(|b| behind < b)
                || stream.band[1].is_some_and(|b| behind > b)
            {
                continue;
            }
            let mut scores = Vec::with_capacity(stream.scores.len());
            let mut point = [element, vec![0; depth.len()]].concat();
            for score in &stream.scores {
                let position = extents.len() + depth.iter().position(|&axis| axis == score.depth).unwrap_or(0);
                let mut sum = 0.0;
                for at in 0..kernel.axes[score.depth].extent {
                    point[position] = at;
                    self.needed(&[score.lhs, score.rhs], &point, args)?;
                    sum += self.value(score.lhs) * self.value(score.rhs);
                }
                point[position] = 0;
                scores.push(sum);
            }
            scored.push((point, scores));
        }
        Ok(scored)
    }

    fn find_peak(&mut self, stream: &Stream, elements: &[Scored], args: &[Vec<f64>]) -> Result<(), InterpError> {
        self.peak = f64::from(f32::MIN);
        let Some(peak) = stream.peak else { return Ok(()) };
        for (point, scores) in elements {
            self.scores.clone_from(scores);
            self.needed(&[peak], point, args)?;
            // NaN stays: a maximum would drop it.
            let value = self.value(peak);
            self.peak = if value.is_nan() || value > self.peak { value } else { self.peak };
        }
        Ok(())
    }

    fn store_streamed(
        &mut self,
        stream: &Stream,
        store: &Store,
        elements: &[Scored],
        args: &mut [Vec<f64>],
    ) -> Result<(), InterpError> {
        self.totals = vec![0.0; stream.totals.len()];
        for (point, scores) in elements {
            self.scores.clone_from(scores);
            for (at, total) in stream.totals.iter().enumerate() {
                let roots: Vec<ExprId> = std::iter::once(total.weight).chain(total.value).collect();
                self.needed(&roots, point, args)?;
                self.totals[at] += self.value(total.weight) * total.value.map_or(1.0, |value| self.value(value));
            }
        }
        let kernel = self.kernel;
        let origin = vec![0; kernel.axes.len() - self.row.len()];
        self.needed(&[store.index.values(), vec![store.value]].concat(), &origin, args)?;
        let at = self.element(store.arg, &store.index, &[&self.row[..], &origin].concat())?;
        args[store.arg][at] = exact(kernel.args[store.arg].dtype, self.value(store.value));
        Ok(())
    }

    /// Evaluates what `roots` need.
    fn needed(&mut self, roots: &[ExprId], point: &[usize], args: &[Vec<f64>]) -> Result<(), InterpError> {
        self.evaluate(&self.kernel.needed_for(roots, false), point, args)
    }
}
