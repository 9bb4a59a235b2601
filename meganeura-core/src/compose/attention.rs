//! Scaled dot-product attention.

use crate::ir::{Value, Violation};
use crate::ops::{Attention, AttentionPart, ComposedAttention, Op};
use crate::scalar::Scalar;

/// What attention does besides `softmax(q · kᵀ) · v`. Everything given applies together.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions<'g> {
    /// Factor of the products; `1/√width` by default.
    pub scale: Option<f32>,
    /// Query `i` sees keys `j ≤ i + (keys − queries)`: the last query sees all of them.
    pub causal: bool,
    /// Query `i`, which stands at `p = i + (keys − queries)`, sees keys `|p − j| < window`.
    pub window: Option<usize>,
    /// Floats added to the scaled products; broadcast to `[batch, heads, queries, keys]`. Its gradient, if asked for, is as
    /// large as that.
    pub bias: Option<Value<'g>>,
    /// Truth values, true where a query sees a key; broadcast likewise.
    pub mask: Option<Value<'g>>,
    /// `u32`, a scalar or `[batch]`: keys from there on are not seen (and need hold nothing). More than there are is all.
    pub kv_len: Option<Value<'g>>,
}

impl<'g> Value<'g> {
    /// Scaled dot-product attention of this query, `[batch, heads, queries, width]`, to `key`
    /// `[batch, kv heads, keys, width]` and `value` `[batch, kv heads, keys, value width]`: the result is
    /// `[batch, heads, queries, value width]`. Query head `h` reads head `h / (heads / kv heads)` of key and value, which are
    /// not copied. A query that sees no key gives zeros and passes no gradient.
    ///
    /// Forward and backward take memory linear in the lengths; see [`Attention`]. Vaswani et al., arXiv 1706.03762; grouped
    /// heads: Ainslie et al., arXiv 2305.13245.
    #[track_caller]
    pub fn attention(self, key: Value<'g>, value: Value<'g>, options: AttentionOptions<'g>) -> Value<'g> {
        match prepare("attention", [self, key, value], options) {
            Ok((attention, operands)) => self.builder().push(Op::Attention(attention), &operands),
            Err(poisoned) => poisoned,
        }
    }
}

/// [`Value::attention`] as products and a softmax, with all weights in memory: what tests compare the streamed form with.
#[track_caller]
pub fn attention_reference<'g>(
    query: Value<'g>,
    key: Value<'g>,
    value: Value<'g>,
    options: AttentionOptions<'g>,
) -> Value<'g> {
    match prepare("attention_reference", [query, key, value], options) {
        Ok((attention, operands)) => {
            // The op's type rule is the reference's too.
            let checked = query.builder().push(Op::Attention(attention), &operands);
            if checked.is_poisoned() { checked } else { ComposedAttention::new(&attention, &operands).result() }
        }
        Err(poisoned) => poisoned,
    }
}

/// The op's attributes and operands: everything optional broadcast to its full shape. An error is the poisoned result.
#[track_caller]
fn prepare<'g>(
    op: &'static str,
    given: [Value<'g>; 3],
    options: AttentionOptions<'g>,
) -> Result<(Attention, Vec<Value<'g>>), Value<'g>> {
    let types = given.map(Value::ty);
    let builder = given[0].builder();
    if given.iter().any(|value| value.is_poisoned()) {
        return Err(builder.poison());
    }
    if types.iter().any(|ty| ty.shape.rank() != 4) {
        let rule = "query, key and value have four dimensions [batch, heads, length, width]";
        let found = types.each_ref().map(ToString::to_string).join(", ");
        return Err(builder.refuse(op, &given, Violation::new(rule, found)));
    }
    let (query, key) = (&types[0], &types[1]);
    let full = [query.shape[0], query.shape[1], query.shape[2], key.shape[2]];
    let scale = options.scale.unwrap_or_else(|| (1.0 / (query.shape[3] as f64).sqrt()) as f32);
    let mut options = options;
    if let (Some(_), Some(mask), Some(length)) = (options.bias, options.mask, options.kv_len) {
        // The op takes two of the three.
        let inside = builder.iota([1, 1, 1, full[3]], 3).lt(length.broadcast([full[0]]).reshape([full[0], 1, 1, 1]));
        (options.mask, options.kv_len) = (Some(mask.and(inside)), None);
    }
    let attention = Attention {
        part: AttentionPart::Output,
        scale: Scalar::f32(scale),
        causal: options.causal,
        window: options.window,
        bias: options.bias.is_some(),
        mask: options.mask.is_some(),
        length: options.kv_len.is_some(),
    };
    let mut operands = given.to_vec();
    operands.extend(options.bias.map(|bias| bias.cast(query.dtype).broadcast(full)));
    operands.extend(options.mask.map(|mask| mask.broadcast(full)));
    operands.extend(options.kv_len.map(|length| length.broadcast([full[0]])));
    Ok((attention, operands))
}
