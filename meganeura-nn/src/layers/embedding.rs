//! Rows of a table, chosen by number.

use crate::init::Init;
use crate::params::Scope;
use meganeura_core::ir::Value;

/// `y[…, :] = weight[index[…], :]`: `u32[…] → f32[…, width]` with the parameter `weight` `[entries, width]`, filled as in
/// PyTorch by the standard normal distribution. A number that is no row gives `NaN`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Embedding {
    entries: usize,
    width: usize,
    init: Init,
}

impl Embedding {
    /// A table of `entries` rows of `width` numbers.
    pub fn new(entries: usize, width: usize) -> Embedding {
        Embedding { entries, width, init: Init::Normal { mean: 0.0, std: 1.0 } }
    }

    /// The same, filled by `init`.
    #[must_use]
    pub fn with_init(self, init: Init) -> Embedding {
        Embedding { init, ..self }
    }

    /// The rows of the numbers `indices`.
    #[track_caller]
    pub fn forward<'g>(&self, g: &Scope<'_, 'g>, indices: Value<'g>) -> Value<'g> {
        let weight = self.weight(g);
        g.mark(|| weight.gather(indices, 0))
    }

    /// `x Wᵀ`, `f32[…, width] → f32[…, entries]`: logits by tied weights, under the scope of [`forward`](Self::forward).
    ///
    /// Source: Press and Wolf, Using the Output Embedding to Improve Language Models, EACL 2017.
    #[track_caller]
    pub fn logits<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>) -> Value<'g> {
        let weight = self.weight(g);
        g.mark(|| x.matmul(weight.transpose()))
    }

    /// The table itself, `f32[entries, width]`.
    #[track_caller]
    pub fn weight<'g>(&self, g: &Scope<'_, 'g>) -> Value<'g> {
        g.parameter("weight", [self.entries, self.width], self.init)
    }
}
