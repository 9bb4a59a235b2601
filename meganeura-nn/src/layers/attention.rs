//! Multi-head attention.

use super::Linear;
use crate::init::Init;
use crate::params::Scope;
use meganeura_core::compose::{AttentionOptions, Positions, Rope};
use meganeura_core::ir::Value;

/// Attention of a sequence to itself or to another one, `[batch, length, width] → [batch, length, width]`:
/// `out_proj(attention(q_proj(x), k_proj(source), v_proj(source)))`; see [`Value::attention`], whose memory is linear in the
/// lengths. Head `h` is the columns from `h · head width` on. Vaswani et al., arXiv 1706.03762.
///
/// Parameters: `q_proj.weight` `[heads · head width, width]`, `k_proj.weight` and `v_proj.weight`
/// `[kv heads · head width, source's width]`, `out_proj.weight` `[width, heads · head width]`, and a `bias` of each,
/// filled as those of [`Linear`]; with [`packed`](Self::packed), those of PyTorch's `MultiheadAttention`.
#[derive(Clone, Copy, Debug)]
pub struct MultiHeadAttention {
    heads: usize,
    kv_heads: usize,
    head_width: Option<usize>,
    names: [&'static str; 4],
    bias: [bool; 4],
    packed: bool,
    causal: bool,
    window: Option<usize>,
    rope: Option<Rope<'static>>,
    init: Option<Init>,
}

/// What attention depends on besides its own sequence of queries. Everything given applies together.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionContext<'g> {
    /// What keys and values are made of, `f32[batch, source length, source width]`; the queries' own sequence by default.
    pub source: Option<Value<'g>>,
    /// See [`AttentionOptions::bias`].
    pub bias: Option<Value<'g>>,
    /// See [`AttentionOptions::mask`].
    pub mask: Option<Value<'g>>,
    /// See [`AttentionOptions::kv_len`].
    pub kv_len: Option<Value<'g>>,
    /// Where the elements of the sequence stand, for rotary positions; by default as [`Rope::positions`] has it.
    pub positions: Option<Positions<'g>>,
}

impl MultiHeadAttention {
    /// `heads` heads that share the sequence's width; each sees everything and has keys and values of its own.
    pub fn new(heads: usize) -> MultiHeadAttention {
        MultiHeadAttention {
            heads,
            kv_heads: heads,
            head_width: None,
            names: ["q_proj", "k_proj", "v_proj", "out_proj"],
            bias: [true; 4],
            packed: false,
            causal: false,
            window: None,
            rope: None,
            init: None,
        }
    }

    /// The same with fewer heads of keys and values: query head `h` reads head `h / (heads / kv_heads)`. Ainslie et al.,
    /// arXiv 2305.13245.
    #[must_use]
    pub fn kv_heads(self, kv_heads: usize) -> MultiHeadAttention {
        MultiHeadAttention { kv_heads, ..self }
    }

    /// The same with heads of that width, whatever the sequence's.
    #[must_use]
    pub fn head_width(self, width: usize) -> MultiHeadAttention {
        MultiHeadAttention { head_width: Some(width), ..self }
    }

    /// The same with other names of the four maps: of query, key, value and result.
    #[must_use]
    pub fn with_names(self, names: [&'static str; 4]) -> MultiHeadAttention {
        MultiHeadAttention { names, ..self }
    }

    /// The same with biases for some of the four maps only: of query, key, value and result. Packed, query, key and value
    /// have one if any of them has.
    #[must_use]
    pub fn with_biases(self, bias: [bool; 4]) -> MultiHeadAttention {
        MultiHeadAttention { bias, ..self }
    }

    /// The same without biases.
    #[must_use]
    pub fn without_bias(self) -> MultiHeadAttention {
        self.with_biases([false; 4])
    }

    /// The same with the maps of query, key and value stacked into one parameter, in this order, as in PyTorch's
    /// `MultiheadAttention`: `in_proj_weight` (Xavier uniform) and `in_proj_bias` (zeros), and for the result `weight` and
    /// `bias` (zeros) under the fourth name. A source has the sequence's width then.
    #[must_use]
    pub fn packed(self) -> MultiHeadAttention {
        MultiHeadAttention { packed: true, ..self }
    }

    /// The same in which no query sees later keys; see [`AttentionOptions::causal`].
    #[must_use]
    pub fn causal(self) -> MultiHeadAttention {
        MultiHeadAttention { causal: true, ..self }
    }

    /// The same in which queries see near keys only; see [`AttentionOptions::window`].
    #[must_use]
    pub fn window(self, window: usize) -> MultiHeadAttention {
        MultiHeadAttention { window: Some(window), ..self }
    }

    /// The same with queries and keys turned by their positions where a sequence attends to itself; see [`Value::rope`].
    #[must_use]
    pub fn rope(self, rope: Rope<'static>) -> MultiHeadAttention {
        MultiHeadAttention { rope: Some(rope), ..self }
    }

    /// The same with weights filled by `init` and biases of zeros.
    #[must_use]
    pub fn with_init(self, init: Init) -> MultiHeadAttention {
        MultiHeadAttention { init: Some(init), ..self }
    }

    /// Attention of `x`, `f32[batch, length, width]`, to itself.
    #[track_caller]
    pub fn forward<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>) -> Value<'g> {
        self.forward_in(g, x, AttentionContext::default())
    }

    /// Attention of `x`, `f32[batch, length, width]`, to what the context says.
    #[track_caller]
    pub fn forward_in<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>, context: AttentionContext<'g>) -> Value<'g> {
        let maps = if self.packed { self.stacked(g, x, context.source) } else { self.separate(g, x, context.source) };
        let attended = g.mark(|| {
            let [query, key, value] = self.turned(maps, &context);
            let options = AttentionOptions {
                scale: None,
                causal: self.causal,
                window: self.window,
                bias: context.bias,
                mask: context.mask,
                kv_len: context.kv_len,
            };
            let heads = query.attention(key, value, options);
            let [batch, length] = [0, 1].map(|dim| extent(x, dim));
            heads.permute([0, 2, 1, 3]).reshape([batch, length, self.widths(x)[0]])
        });
        let zero_bias = self.packed.then(|| Init::fan_in_uniform(self.widths(x)[0]));
        let out = linear(extent(x, 2), self.bias[3], self.init.or(zero_bias));
        out.forward(&g.sub(self.names[3]), attended)
    }

    /// Widths of all heads of query, key and value. Heads that do not divide the sequence's width are refused where it is
    /// split.
    fn widths(&self, x: Value<'_>) -> [usize; 3] {
        let all = self.head_width.map_or_else(|| extent(x, 2), |width| self.heads * width);
        let both = self.kv_heads * all.checked_div(self.heads).unwrap_or(0);
        [all, both, both]
    }

    /// Query, key and value `[batch, length, heads · head width]`, of a map each.
    #[track_caller]
    fn separate<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>, source: Option<Value<'g>>) -> [Value<'g>; 3] {
        let (widths, source) = (self.widths(x), source.unwrap_or(x));
        let map =
            |at: usize, of: Value<'g>| linear(widths[at], self.bias[at], self.init).forward(&g.sub(self.names[at]), of);
        [map(0, x), map(1, source), map(2, source)]
    }

    /// Query, key and value `[batch, length, heads · head width]`, of stacked maps.
    #[track_caller]
    fn stacked<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>, source: Option<Value<'g>>) -> [Value<'g>; 3] {
        let (inputs, rows) = (extent(x, 2), self.widths(x));
        let all: usize = rows.iter().sum();
        let weight =
            g.parameter("in_proj_weight", [all, inputs], self.init.unwrap_or(Init::XavierUniform { gain: 1.0 }));
        let has_bias = self.bias[..3].contains(&true);
        let bias = has_bias.then(|| g.parameter("in_proj_bias", [all], Init::Zeros));
        g.mark(|| {
            // Rows `from` to `from + count` of the stacked map.
            let map = |of: Value<'g>, from: usize, count: usize| {
                let product = of.matmul(weight.slice([from, 0], [count, inputs]).transpose());
                bias.map_or(product, |bias| product + bias.slice([from], [count]))
            };
            let (first, both) = match source {
                Some(source) => (map(x, 0, rows[0]), map(source, rows[0], 2 * rows[1])),
                None => {
                    let all = map(x, 0, all);
                    (columns(all, 0, rows[0]), columns(all, rows[0], 2 * rows[1]))
                }
            };
            [first, columns(both, 0, rows[1]), columns(both, rows[1], rows[2])]
        })
    }

    /// Query, key and value `[batch, heads, length, head width]`, turned by their positions.
    #[track_caller]
    fn turned<'g>(&self, maps: [Value<'g>; 3], context: &AttentionContext<'g>) -> [Value<'g>; 3] {
        let [query, key, value] = maps;
        let heads = |value: Value<'g>, heads: usize| {
            let width = extent(value, 2).checked_div(heads).unwrap_or(0);
            value.reshape([extent(value, 0), extent(value, 1), heads, width]).permute([0, 2, 1, 3])
        };
        let [query, key, value] = [heads(query, self.heads), heads(key, self.kv_heads), heads(value, self.kv_heads)];
        match self.rope {
            Some(rope) if context.source.is_none() => {
                let rope = Rope { positions: context.positions.unwrap_or(rope.positions), ..rope };
                [query.rope(&rope), key.rope(&rope), value]
            }
            _ => [query, key, value],
        }
    }
}

fn linear(outputs: usize, bias: bool, init: Option<Init>) -> Linear {
    let map = if bias { Linear::new(outputs) } else { Linear::new(outputs).without_bias() };
    init.map_or(map, |init| map.with_init(init))
}

/// Extent of a dimension; a tensor without it is refused by what follows.
fn extent(x: Value<'_>, dim: usize) -> usize {
    x.shape().get(dim).copied().unwrap_or(1)
}

/// `count` elements of the last dimension, of three.
#[track_caller]
fn columns(x: Value<'_>, from: usize, count: usize) -> Value<'_> {
    x.slice([0, 0, from], [extent(x, 0), extent(x, 1), count])
}
