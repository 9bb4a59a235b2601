//! Attention as products and a softmax, with the whole matrix of weights in memory: the reference that the streamed op is
//! tested against, and what its second derivative is made of.

use crate::dtype::DType;
use crate::ir::{Value, Violation};
use crate::ops::Dot;
use crate::shape::Shape;

/// What attention does besides `softmax(q · kᵀ) · v`. Everything given applies together.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions<'g> {
    /// Factor of the products; `1/√width` by default.
    pub scale: Option<f32>,
    /// Query `i` sees keys `j ≤ i + (keys − queries)`: the last query sees all of them.
    pub causal: bool,
    /// Query `i`, which stands at `p = i + (keys − queries)`, sees keys `|p − j| < window`.
    pub window: Option<usize>,
    /// Floats added to the scaled products; broadcast to `[batch, heads, queries, keys]`.
    pub bias: Option<Value<'g>>,
    /// Truth values, true where a query sees a key; broadcast likewise.
    pub mask: Option<Value<'g>>,
    /// `u32`, a scalar or `[batch]`: keys from there on are not seen (and need hold nothing). More than there are is all.
    pub kv_len: Option<Value<'g>>,
}

/// Stands for the largest of no scores: its exponential is 0 beside any other score's.
const LOWEST: f64 = f32::MIN as f64;

/// Query, key and value with `options`, checked and with everything broadcast to full shapes.
#[derive(Clone, Copy)]
pub(crate) struct Composed<'g> {
    pub(crate) query: Value<'g>,
    pub(crate) key: Value<'g>,
    pub(crate) value: Value<'g>,
    pub(crate) options: AttentionOptions<'g>,
}

/// Attention with all weights in memory: for `query` `[batch, heads, queries, width]`, `key` `[batch, kv heads, keys, width]`
/// and `value` `[batch, kv heads, keys, value width]` the result is `[batch, heads, queries, value width]`. Query head `h`
/// reads head `h / (heads / kv heads)` of key and value. A query that sees no key gives zeros.
/// Vaswani et al., arXiv 1706.03762; grouped heads: Ainslie et al., arXiv 2305.13245.
#[track_caller]
pub fn attention_reference<'g>(
    query: Value<'g>,
    key: Value<'g>,
    value: Value<'g>,
    options: AttentionOptions<'g>,
) -> Value<'g> {
    match Composed::new("attention_reference", query, key, value, options) {
        Ok(composed) => composed.output(),
        Err(poisoned) => poisoned,
    }
}

impl<'g> Composed<'g> {
    /// Checks types and broadcasts the options' tensors; an error is the poisoned result.
    #[track_caller]
    pub(crate) fn new(
        op: &'static str,
        query: Value<'g>,
        key: Value<'g>,
        value: Value<'g>,
        mut options: AttentionOptions<'g>,
    ) -> Result<Composed<'g>, Value<'g>> {
        let all = [query, key, value];
        let types = all.map(Value::ty);
        if types.iter().any(|ty| ty.shape.rank() != 4) || types.iter().any(|ty| ty.dtype != types[0].dtype) {
            let found = types.each_ref().map(ToString::to_string).join(", ");
            let rule = "query, key and value have one element type and four dimensions [batch, heads, length, width]";
            return Err(query.builder().refuse(op, &all, Violation::new(rule, found)));
        }
        let full = [query.shape()[0], query.shape()[1], query.shape()[2], key.shape()[2]];
        options.bias = options.bias.map(|bias| bias.cast(query.dtype()).broadcast(full));
        options.mask = options.mask.map(|mask| mask.broadcast(full));
        options.kv_len = options.kv_len.map(|length| length.broadcast([full[0]]));
        Ok(Composed { query, key, value, options })
    }

    /// Batch, heads, queries, keys.
    fn extents(&self) -> [usize; 4] {
        let query = self.query.shape();
        [query[0], query[1], query[2], self.key.shape()[2]]
    }

    /// The factor of the products.
    pub(crate) fn scale(&self) -> f64 {
        self.options.scale.map_or_else(|| 1.0 / (self.query.shape()[3] as f64).sqrt(), f64::from)
    }

    /// `a[b, h, i, :] · x[b, h / group, j, :]`: one number a query and key.
    #[track_caller]
    pub(crate) fn products(&self, a: Value<'g>, x: Value<'g>) -> Value<'g> {
        let dims = Dot { batch: [vec![0, 1], vec![0, 1]], contract: [vec![4], vec![3]], result: DType::F32 };
        self.grouped(a).dot(x, dims).reshape(self.extents())
    }

    /// `Σⱼ weights[b, h, i, j] · x[b, h / group, j, :]`: a row a query.
    #[track_caller]
    pub(crate) fn over_keys(&self, weights: Value<'g>, x: Value<'g>) -> Value<'g> {
        let dims = Dot { batch: [vec![0, 1], vec![0, 1]], contract: [vec![4], vec![2]], result: DType::F32 };
        let [batch, heads, queries, _] = self.extents();
        let width = x.shape()[3];
        self.grouped(weights).dot(x.cast(DType::F32), dims).reshape([batch, heads, queries, width])
    }

    /// `[batch, heads, …]` as `[batch, kv heads, group, …]`.
    fn grouped(&self, a: Value<'g>) -> Value<'g> {
        let (shape, kv_heads) = (a.shape(), self.key.shape()[1]);
        a.reshape([shape[0], kv_heads, shape[1] / kv_heads.max(1), shape[2], shape[3]])
    }

    /// Scaled products with the bias; where a query does not see a key, the lowest number.
    #[track_caller]
    pub(crate) fn logits(&self) -> Value<'g> {
        let products = self.products(self.query, self.key);
        let scaled = products * products.like(self.scale());
        let logits = self.options.bias.map_or(scaled, |bias| scaled + bias.cast(DType::F32));
        self.seen().map_or(logits, |seen| seen.select(logits, logits.like(LOWEST)))
    }

    fn largest(&self, logits: Value<'g>) -> Value<'g> {
        // Also where a bias of −∞ hides every key.
        logits.stop_gradient().max([3]).kept(logits, 3).maximum(logits.like(LOWEST))
    }

    #[track_caller]
    fn output(&self) -> Value<'g> {
        let logits = self.logits();
        let weights = self.only_seen((logits - self.largest(logits)).exp());
        let sum = weights.sum([3]).kept(logits, 3);
        let sum = sum.eq(sum.like(0.0)).select(sum.like(1.0), sum);
        (self.over_keys(weights, self.value) / sum).cast(self.query.dtype())
    }

    /// Zero where a query does not see a key.
    pub(crate) fn only_seen(&self, weights: Value<'g>) -> Value<'g> {
        self.seen().map_or(weights, |seen| seen.select(weights, weights.like(0.0)))
    }

    /// Which query sees which key; `None` if all see all.
    #[track_caller]
    fn seen(&self) -> Option<Value<'g>> {
        let [batch, _, queries, keys] = self.extents();
        let AttentionOptions { causal, window, mask, kv_len, .. } = self.options;
        let builder = self.query.builder();
        let pairs = Shape::from([queries, keys]);
        let key = builder.iota(pairs.clone(), 1);
        // How far the key lies behind the query.
        let behind = || {
            let at = builder.iota(pairs.clone(), 0).cast(DType::I32);
            at + at.like(keys as f64 - queries as f64) - key.cast(DType::I32)
        };
        let causal = causal.then(|| behind().ge(behind().like(0.0)));
        let window = window.map(|window| behind().abs().lt(behind().like(window.min(1 << 30) as f64)));
        let in_length = kv_len.map(|length| key.lt(length.reshape([batch, 1, 1, 1])));
        let conditions = [causal, window, in_length, mask].into_iter().flatten();
        let all = conditions.reduce(|a, b| a.and(b))?;
        Some(all.broadcast(self.extents()))
    }
}
