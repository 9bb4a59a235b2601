//! Second moments of matrices as a column times a row.

use super::{Optimizer, Slot};
use meganeura_core::ir::Value;
use meganeura_core::shape::Shape;

/// Adafactor (Shazeer and Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost, ICML 2018, algorithms 4
/// and 5, without momentum). The learning rate is relative to the size of the parameter.
///
/// At step `t` from 1, with `β = 1 − t^(−0.8)` and means over the last two dimensions `[n, m]` of a parameter:
/// `R = β R + (1 − β) mean_m(g² + ε₁)`, `C = β C + (1 − β) mean_n(g² + ε₁)`, `v = R C / mean(R)`, `u = g / √v`,
/// `p −= rate · max(ε₂, rms(p)) · u / max(1, rms(u) / d)`. Vectors and scalars keep `v` whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adafactor {
    /// `ε₁`, added to squared gradients, and `ε₂`, the least size of a parameter.
    pub epsilons: [f32; 2],
    /// `d`, the most root mean square of an update before the learning rate.
    pub clip: f32,
    /// Exponent of the second moments' decay.
    pub decay_rate: f32,
}

impl Default for Adafactor {
    /// The paper's: ε 1e-30 and 1e-3, d = 1, exponent −0.8.
    fn default() -> Adafactor {
        Adafactor { epsilons: [1e-30, 1e-3], clip: 1.0, decay_rate: -0.8 }
    }
}

impl Optimizer for Adafactor {
    #[track_caller]
    fn update<'g>(&self, slot: &Slot<'_, 'g>, p: Value<'g>, g: Value<'g>) -> Value<'g> {
        let new = slot.step().pow(slot.step().like(f64::from(self.decay_rate)));
        let square = g * g + self.epsilons[0];
        let follow = |kind: &str, value: Value<'g>| {
            let old = slot.state_of(kind, value.shape());
            let moved = old * (1.0 - new) + value * new;
            slot.set(old, moved);
            moved
        };
        let rank = p.shape().rank();
        let u = if rank < 2 {
            g * follow("exp_avg_sq", square).rsqrt()
        } else {
            let rows = follow("exp_avg_sq_row", square.mean([rank - 1]));
            let columns = follow("exp_avg_sq_col", square.mean([rank - 2]));
            // Two roots in place of one: the product of two squares may be too small for a float.
            let share = rows / one_last(rows.mean([rank - 2]), rank - 2);
            g * one_last(share.rsqrt(), rank - 1) * one_last(columns.rsqrt(), rank - 2)
        };
        let size = root_mean_square(p).maximum(p.like(f64::from(self.epsilons[1])));
        let excess = (root_mean_square(u) / self.clip).maximum(u.like(1.0));
        p - u * (slot.rate() * size / excess)
    }
}

#[track_caller]
fn root_mean_square(x: Value<'_>) -> Value<'_> {
    (x * x).mean_all().sqrt()
}

/// The value with a dimension of extent 1 put in at `axis`.
#[track_caller]
fn one_last(value: Value<'_>, axis: usize) -> Value<'_> {
    let shape = value.shape();
    let extents = shape[..axis].iter().chain(&[1]).chain(&shape[axis..]);
    value.reshape(extents.copied().collect::<Shape>())
}
