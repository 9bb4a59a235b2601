//! Attention and its gradient, streamed: nothing of size queries × keys is ever in memory.

mod composed;
mod eval;
mod stream;

pub(crate) use composed::Composed as ComposedAttention;

use super::{Lowering, Op, Operation, Sample, SampleOperand, Streamed, Vjp, operand_count};
use crate::dtype::DType;
use crate::index::Index;
use crate::ir::{Value, Violation, text};
use crate::kernel::{Mismatch, PointContext};
use crate::ops::Fill;
use crate::oracle::Array;
use crate::scalar::Scalar;
use crate::shape::TensorType;

/// One result of attention or of its gradient, for `query` `[batch, heads, queries, width]`, `key`
/// `[batch, kv heads, keys, width]`, `value` `[batch, kv heads, keys, value width]`, of one float type. Query head `h` reads
/// head `h / (heads / kv heads)` of key and value. With `l = scale · q · kᵀ + bias` where a query sees a key,
/// `lse = ln Σⱼ exp(lⱼ)`, `p = exp(l − lse)`, the result's cotangent `g`, and `δ = Σ g · result`:
///
/// | part | result |
/// |---|---|
/// | output | `p · v` |
/// | log-sum-exp | `lse`, `f32[batch, heads, queries]`; of no keys 0 |
/// | query, key, value | `scale · ds · k`, `scale · dsᵀ · q`, `pᵀ · g`, where `ds = p (g · vᵀ − δ)` |
///
/// A query that sees no key gives zeros. After query, key and value follow the operands that the attributes name, two at
/// most so that every device can bind them: the bias and the mask, `[batch, heads, queries, keys]`, and the length,
/// `u32[batch]`, from which on keys are not seen; and, for a gradient, `g` and `f32[batch, heads, queries, 2]` of `lse` and
/// `δ`. These are ops of their own because their algorithm is no composition of others: a row's scores exist for a tile of
/// keys at a time, and are computed again for the gradient.
/// Dao et al., arXiv 2205.14135; Dao, arXiv 2307.08691.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attention {
    /// Which result.
    pub part: AttentionPart,
    /// Factor of the products, an `f32`.
    pub scale: Scalar,
    /// Query `i` sees keys `j ≤ i + keys − queries`.
    pub causal: bool,
    /// Query `i` sees keys `|i + keys − queries − j| < window`.
    pub window: Option<usize>,
    /// Whether there is a bias: floats of the operands' type.
    pub bias: bool,
    /// Whether there is a mask: true where a query sees a key.
    pub mask: bool,
    /// Whether there is a length.
    pub length: bool,
}

/// See [`Attention`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionPart {
    /// The result itself.
    Output,
    /// The logarithm of each row's sum of exponentials, in `f32`.
    LogSumExp,
    /// The gradient with respect to the query.
    Query,
    /// The gradient with respect to the key.
    Key,
    /// The gradient with respect to the value.
    Value,
}

impl AttentionPart {
    const ALL: [(AttentionPart, &'static str); 5] = [
        (AttentionPart::Output, "attention"),
        (AttentionPart::LogSumExp, "attention_logsumexp"),
        (AttentionPart::Query, "attention_query_gradient"),
        (AttentionPart::Key, "attention_key_gradient"),
        (AttentionPart::Value, "attention_value_gradient"),
    ];

    /// Whether it is one of the gradients, which have two more operands.
    fn is_gradient(self) -> bool {
        !matches!(self, AttentionPart::Output | AttentionPart::LogSumExp)
    }
}

/// Positions of the operands that not every attention has.
#[derive(Clone, Copy)]
struct Extra {
    bias: Option<usize>,
    mask: Option<usize>,
    length: Option<usize>,
    /// Cotangent; log-sum-exp and δ.
    gradient: [usize; 2],
}

/// Extents of the operands.
#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    queries: usize,
    keys: usize,
    width: usize,
    value_width: usize,
}

impl Sizes {
    fn of(operands: &[TensorType]) -> Sizes {
        let [query, key, value] = [0, 1, 2].map(|at| &operands[at].shape);
        Sizes {
            batch: query[0],
            heads: query[1],
            kv_heads: key[1],
            queries: query[2],
            keys: key[2],
            width: query[3],
            value_width: value[3],
        }
    }

    /// How far the diagonal lies to the right: query `i` stands at key `i + offset`.
    fn offset(&self) -> i64 {
        self.keys as i64 - self.queries as i64
    }
}

impl Attention {
    fn extra(&self) -> Extra {
        let mut next = 3;
        let mut take = |there: bool| {
            next += usize::from(there);
            there.then(|| next - 1)
        };
        let (bias, mask, length) = (take(self.bias), take(self.mask), take(self.length));
        Extra { bias, mask, length, gradient: [next, next + 1] }
    }

    fn of_part(&self, part: AttentionPart) -> Op {
        Op::Attention(Attention { part, ..*self })
    }

    /// The keys that a query sees by position: the least and the greatest `key − query`.
    fn band(&self, sizes: &Sizes) -> [Option<i64>; 2] {
        let window = self.window.map(|window| window.min(1 << 30) as i64 - 1);
        let offset = sizes.offset();
        let high = if self.causal { window.map(|window| window.min(0)).or(Some(0)) } else { window };
        [window.map(|window| offset - window), high.map(|high| offset + high)]
    }

    fn expected(&self, operands: &[TensorType]) -> Vec<TensorType> {
        let sizes = Sizes::of(operands);
        let dtype = operands[0].dtype;
        let Sizes { batch, heads, kv_heads, queries, keys, width, value_width } = sizes;
        let full = [batch, heads, queries, keys];
        let mut expected = vec![
            TensorType::new(dtype, [batch, heads, queries, width]),
            TensorType::new(dtype, [batch, kv_heads, keys, width]),
            TensorType::new(dtype, [batch, kv_heads, keys, value_width]),
        ];
        expected.extend(self.bias.then(|| TensorType::new(dtype, full)));
        expected.extend(self.mask.then(|| TensorType::new(DType::Bool, full)));
        expected.extend(self.length.then(|| TensorType::new(DType::U32, [batch])));
        if self.part.is_gradient() {
            expected.push(TensorType::new(dtype, [batch, heads, queries, value_width]));
            expected.push(TensorType::new(DType::F32, [batch, heads, queries, 2]));
        }
        expected
    }
}

impl Operation for Attention {
    fn name(&self) -> &'static str {
        AttentionPart::ALL.iter().find(|(part, _)| *part == self.part).map_or("attention", |(_, name)| name)
    }
    fn attributes(&self) -> String {
        let Attention { scale, causal, bias, mask, length, .. } = self;
        let window = self.window.map_or(String::new(), |window| format!(", window={window}"));
        format!("scale={scale}, causal={causal}, bias={bias}, mask={mask}, length={length}{window}")
    }
    fn parse(name: &str, attributes: &str, _: &TensorType) -> Option<Self> {
        let (part, _) = AttentionPart::ALL.into_iter().find(|(_, own)| *own == name)?;
        let flag = |key| text::number(attributes, key);
        Some(Attention {
            part,
            scale: text::scalar(text::field(attributes, "scale")?)?,
            causal: flag("causal")?,
            window: text::number(attributes, "window"),
            bias: flag("bias")?,
            mask: flag("mask")?,
            length: flag("length")?,
        })
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        let count = self.extra().gradient[0] + if self.part.is_gradient() { 2 } else { 0 };
        operand_count(operands, count)?;
        let shown = || operands.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let few = !(self.bias && self.mask && self.length);
        Violation::unless(few, "there are at most two of bias, mask and length", shown)?;
        let ranks = operands[..3].iter().all(|ty| ty.shape.rank() == 4);
        let rule = "query, key and value have four dimensions [batch, heads, length, width] and a float type";
        Violation::unless(ranks && operands[0].dtype.is_float(), rule, shown)?;
        let sizes = Sizes::of(operands);
        let divides = sizes.kv_heads > 0 && sizes.heads.is_multiple_of(sizes.kv_heads);
        Violation::unless(divides, "the heads of key and value divide those of the query", shown)?;
        Violation::unless(sizes.width * sizes.value_width > 0, "widths are positive", shown)?;
        let expected = self.expected(operands);
        let rule = "batch, heads, lengths and widths of all operands agree";
        Violation::unless(operands == expected, rule, shown)?;
        let scale = self.scale.dtype() == DType::F32;
        Violation::unless(scale, "the scale is an f32", || self.scale.to_string())?;
        let Sizes { batch, heads, queries, value_width, .. } = sizes;
        Ok(match self.part {
            AttentionPart::Output => TensorType::new(operands[0].dtype, [batch, heads, queries, value_width]),
            AttentionPart::LogSumExp => TensorType::new(DType::F32, [batch, heads, queries]),
            AttentionPart::Query => operands[0].clone(),
            AttentionPart::Key => operands[1].clone(),
            AttentionPart::Value => operands[2].clone(),
        })
    }
    fn vjp<'g>(&self, at: &Vjp<'_, 'g>) -> Vec<Option<Value<'g>>> {
        if self.part != AttentionPart::Output {
            return composed::vjp(self, at);
        }
        let builder = at.result.builder();
        let lse = builder.push(self.of_part(AttentionPart::LogSumExp), at.operands);
        let operands = [at.operands, &[at.cotangent, statistics(lse, at.cotangent, at.result)]].concat();
        let parts = [AttentionPart::Query, AttentionPart::Key, AttentionPart::Value];
        let gradient =
            |(part, wanted): (AttentionPart, &bool)| wanted.then(|| builder.push(self.of_part(part), &operands));
        let mut flows: Vec<Option<Value<'g>>> = parts.into_iter().zip(at.wanted).map(gradient).collect();
        let bias = self.extra().bias;
        let of_bias = |position: usize| {
            let wanted = bias == Some(position) && at.wanted[position];
            wanted.then(|| composed::bias_gradient(self, &operands))
        };
        flows.extend((3..at.operands.len()).map(of_bias));
        flows
    }
    fn eval(&self, operands: &[&Array], result: &TensorType) -> Array {
        eval::eval(self, operands, result)
    }
    fn lower(&self, operands: &[TensorType], _: &TensorType) -> Lowering {
        let (axes, position) = stream::space(self, &Sizes::of(operands));
        Lowering::Stream { axes, position }
    }
    fn stream(&self, operands: &[TensorType], cx: &mut dyn PointContext) -> Result<Streamed, Mismatch> {
        stream::stream(self, operands, cx)
    }
    fn samples() -> Vec<Sample> {
        AttentionPart::ALL.into_iter().flat_map(|(part, _)| samples_of(part)).collect()
    }
}

/// `[batch, heads, kv heads, queries, keys, width, value width]` and attributes, for every part alike.
fn samples_of(part: AttentionPart) -> Vec<Sample> {
    let plain = Attention {
        part,
        scale: Scalar::f32(0.7),
        causal: false,
        window: None,
        bias: false,
        mask: false,
        length: false,
    };
    let causal = Attention { causal: true, ..plain };
    let cases = [
        ([1, 1, 1, 1, 1, 1, 1], plain),
        ([2, 4, 2, 5, 7, 3, 4], plain),
        ([1, 2, 1, 17, 33, 5, 5], causal),
        // The first queries see nothing.
        ([1, 2, 2, 7, 3, 2, 3], Attention { bias: true, ..causal }),
        ([1, 3, 1, 11, 13, 4, 2], Attention { window: Some(3), ..plain }),
        ([2, 2, 1, 6, 9, 4, 4], Attention { length: true, window: Some(4), bias: true, ..causal }),
        ([2, 1, 1, 3, 65, 2, 2], Attention { length: true, mask: true, ..plain }),
    ];
    cases.into_iter().map(|(sizes, attention)| sample(sizes, attention)).collect()
}

fn sample([batch, heads, kv_heads, queries, keys, width, value_width]: [usize; 7], attention: Attention) -> Sample {
    let operand = |heads, length, width| TensorType::new(DType::F32, [batch, heads, length, width]);
    let given = [operand(heads, queries, width), operand(kv_heads, keys, width), operand(kv_heads, keys, value_width)];
    let fill = |ty: TensorType| match ty.dtype {
        DType::Bool => Fill::Bool,
        DType::U32 => Fill::Uniform(0.0, keys as f64 + 2.0),
        _ => Fill::Uniform(-1.0, 1.0),
    };
    let operands: Vec<SampleOperand> =
        attention.expected(&given).into_iter().map(|ty| SampleOperand { fill: fill(ty.clone()), ty }).collect();
    Sample::new(Op::Attention(attention), operands)
}

/// The log-sum-exp and `Σ g · result` of each query, side by side, by one fold: a sum of one term is that term.
#[track_caller]
fn statistics<'g>(lse: Value<'g>, cotangent: Value<'g>, result: Value<'g>) -> Value<'g> {
    let shape = result.shape();
    let [batch, heads, queries, width] = [shape[0], shape[1], shape[2], shape[3]];
    let products = (cotangent.cast(DType::F32) * result.cast(DType::F32)).reshape([batch, heads, queries, 1, width]);
    let lse = lse.reshape([batch, heads, queries, 1, 1]);
    let beside = lse.pad([0; 5], [0, 0, 0, 1, width - 1], 0.0) + products.pad([0, 0, 0, 1, 0], [0; 5], 0.0);
    beside.sum([4])
}

/// Coordinates along consecutive axes from the first on.
fn axes_from<const N: usize>(first: usize) -> [Index; N] {
    std::array::from_fn(|at| Index::axis(first + at))
}
