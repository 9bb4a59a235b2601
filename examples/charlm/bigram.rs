//! What the network must beat: how often each character follows each other one.

/// Counts of pairs, with one added to each (Laplace's rule), so that no pair is impossible.
pub struct Bigram {
    /// `counts[before][after]`.
    counts: Vec<Vec<f64>>,
}

impl Bigram {
    /// Counts the pairs of a text.
    pub fn new(tokens: &[u32], vocabulary: usize) -> Bigram {
        let mut counts = vec![vec![1.0; vocabulary]; vocabulary];
        for pair in tokens.windows(2) {
            counts[pair[0] as usize][pair[1] as usize] += 1.0;
        }
        Bigram { counts }
    }

    /// Mean of `−ln p(after | before)` over pairs, in nats.
    pub fn loss(&self, pairs: impl IntoIterator<Item = (u32, u32)>) -> f64 {
        let totals: Vec<f64> = self.counts.iter().map(|row| row.iter().sum()).collect();
        let (mut sum, mut count) = (0.0, 0.0);
        for (before, after) in pairs {
            let (before, after) = (before as usize, after as usize);
            sum -= (self.counts[before][after] / totals[before]).ln();
            count += 1.0;
        }
        sum / count
    }
}
