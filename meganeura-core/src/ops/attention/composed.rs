//! Attention as products and a softmax, with all weights in memory: the reference, and what the derivatives of the
//! gradients are made of.

use super::{Attention, AttentionPart};
use crate::dtype::DType;
use crate::ir::Value;
use crate::ops::{Dot, Op, Reshape, Vjp};
use crate::shape::Shape;

/// Stands for the largest of no scores: its exponential is 0 beside any other score's.
const LOWEST: f64 = f32::MIN as f64;

/// An attention's operands.
#[derive(Clone, Copy)]
pub(crate) struct Composed<'a, 'g> {
    attention: &'a Attention,
    operands: &'a [Value<'g>],
}

/// The derivative of any part, by that of its composition.
#[track_caller]
pub(super) fn vjp<'g>(attention: &Attention, at: &Vjp<'_, 'g>) -> Vec<Option<Value<'g>>> {
    let builder = at.result.builder();
    // Nodes of their own: one value may be several operands.
    let own = |value: &Value<'g>| builder.push(Op::Reshape(Reshape { shape: value.shape() }), &[*value]);
    let operands: Vec<Value<'g>> = at.operands.iter().map(own).collect();
    let loss = (Composed { attention, operands: &operands }.result() * at.cotangent).sum_all();
    let differentiable = |position: &usize| at.wanted[*position] && operands[*position].dtype().is_float();
    let wanted: Vec<usize> = (0..operands.len()).filter(differentiable).collect();
    let gradients = builder.gradients(loss, &wanted.iter().map(|&at| operands[at]).collect::<Vec<_>>());
    let mut flows = vec![None; operands.len()];
    wanted.into_iter().zip(gradients).for_each(|(at, gradient)| flows[at] = Some(gradient));
    flows
}

/// The gradient with respect to the bias, which is as large as the bias: `ds`.
#[track_caller]
pub(super) fn bias_gradient<'g>(attention: &Attention, operands: &[Value<'g>]) -> Value<'g> {
    let composed = Composed { attention, operands };
    composed.slopes(composed.weights()).cast(operands[0].dtype())
}

impl<'a, 'g> Composed<'a, 'g> {
    /// An attention of these operands, which it accepts.
    pub(crate) fn new(attention: &'a Attention, operands: &'a [Value<'g>]) -> Composed<'a, 'g> {
        Composed { attention, operands }
    }

    /// The part that the attention is of.
    #[track_caller]
    pub(crate) fn result(&self) -> Value<'g> {
        let [batch, heads, queries, _] = self.extents();
        let dtype = self.operands[0].dtype();
        let scaled = |value: Value<'g>| value * value.like(self.attention.scale.value());
        match self.attention.part {
            AttentionPart::Output => self.output().cast(dtype),
            AttentionPart::LogSumExp => self.logsumexp(self.logits()).reshape([batch, heads, queries]),
            AttentionPart::Query => scaled(self.over_keys(self.slopes(self.weights()), self.operands[1])).cast(dtype),
            AttentionPart::Key => scaled(self.over_queries(self.slopes(self.weights()), self.operands[0])).cast(dtype),
            AttentionPart::Value => self.over_queries(self.weights(), self.cotangent()).cast(dtype),
        }
    }

    /// Batch, heads, queries, keys.
    fn extents(&self) -> [usize; 4] {
        let (query, key) = (self.operands[0].shape(), self.operands[1].shape());
        [query[0], query[1], query[2], key[2]]
    }

    /// The output's cotangent, in `f32`.
    fn cotangent(&self) -> Value<'g> {
        self.operands[self.attention.extra().gradient[0]].cast(DType::F32)
    }

    /// The log-sum-exp (0) or δ (1) of each query, as a column beside its keys.
    fn column(&self, which: usize) -> Value<'g> {
        let [batch, heads, queries, _] = self.extents();
        self.operands[self.attention.extra().gradient[1]].slice([0, 0, 0, which], [batch, heads, queries, 1])
    }

    /// `a[b, h, i, :] · x[b, h / group, j, :]`: one number a query and key.
    fn products(&self, a: Value<'g>, x: Value<'g>) -> Value<'g> {
        let dims = Dot { batch: [vec![0, 1], vec![0, 1]], contract: [vec![4], vec![3]], result: DType::F32 };
        self.grouped(a).dot(x, dims).reshape(self.extents())
    }

    /// `Σⱼ weights[b, h, i, j] · x[b, h / group, j, :]`: a row a query.
    fn over_keys(&self, weights: Value<'g>, x: Value<'g>) -> Value<'g> {
        let dims = Dot { batch: [vec![0, 1], vec![0, 1]], contract: [vec![4], vec![2]], result: DType::F32 };
        let [batch, heads, queries, _] = self.extents();
        let width = x.shape()[3];
        self.grouped(weights).dot(x.cast(DType::F32), dims).reshape([batch, heads, queries, width])
    }

    /// `Σ weights[b, h, i, j] · a[b, h, i, :]` over the queries `i` and the heads `h` of a group: a row a key.
    fn over_queries(&self, weights: Value<'g>, a: Value<'g>) -> Value<'g> {
        let dims = Dot { batch: [vec![0, 1], vec![0, 1]], contract: [vec![2, 3], vec![2, 3]], result: DType::F32 };
        self.grouped(weights).dot(self.grouped(a.cast(DType::F32)), dims)
    }

    /// `[batch, heads, …]` as `[batch, kv heads, group, …]`.
    fn grouped(&self, a: Value<'g>) -> Value<'g> {
        let (shape, kv_heads) = (a.shape(), self.operands[1].shape()[1]);
        a.reshape([shape[0], kv_heads, shape[1] / kv_heads.max(1), shape[2], shape[3]])
    }

    /// Scaled products with the bias; where a query does not see a key, the lowest number.
    fn logits(&self) -> Value<'g> {
        let products = self.products(self.operands[0], self.operands[1]);
        let scaled = products * products.like(self.attention.scale.value());
        let bias = self.attention.extra().bias.map(|bias| self.operands[bias].cast(DType::F32));
        let logits = bias.map_or(scaled, |bias| scaled + bias);
        self.seen().map_or(logits, |seen| seen.select(logits, logits.like(LOWEST)))
    }

    fn largest(&self, logits: Value<'g>) -> Value<'g> {
        let [batch, heads, queries, _] = self.extents();
        let largest = logits.stop_gradient().max([3]).reshape([batch, heads, queries, 1]);
        // Also where a bias of −∞ hides every key.
        largest.maximum(logits.like(LOWEST))
    }

    /// Sums of a query's numbers, 1 where they are 0.
    fn sums(&self, weights: Value<'g>) -> Value<'g> {
        let [batch, heads, queries, _] = self.extents();
        let sum = weights.sum([3]).reshape([batch, heads, queries, 1]);
        sum.eq(sum.like(0.0)).select(sum.like(1.0), sum)
    }

    fn logsumexp(&self, logits: Value<'g>) -> Value<'g> {
        let largest = self.largest(logits);
        let weights = self.only_seen((logits - largest).exp());
        let lse = largest + self.sums(weights).log();
        weights.sum([3]).reshape(lse.shape()).eq(lse.like(0.0)).select(lse.like(0.0), lse)
    }

    fn output(&self) -> Value<'g> {
        let logits = self.logits();
        let weights = self.only_seen((logits - self.largest(logits)).exp());
        self.over_keys(weights, self.operands[2]) / self.sums(weights)
    }

    /// `p`, of the log-sum-exp given.
    fn weights(&self) -> Value<'g> {
        self.only_seen((self.logits() - self.column(0)).exp())
    }

    /// `ds`.
    fn slopes(&self, weights: Value<'g>) -> Value<'g> {
        weights * (self.products(self.cotangent(), self.operands[2].cast(DType::F32)) - self.column(1))
    }

    /// Zero where a query does not see a key.
    fn only_seen(&self, weights: Value<'g>) -> Value<'g> {
        self.seen().map_or(weights, |seen| seen.select(weights, weights.like(0.0)))
    }

    /// Which query sees which key; `None` if all see all.
    fn seen(&self) -> Option<Value<'g>> {
        let [batch, _, queries, keys] = self.extents();
        let (attention, extra) = (self.attention, self.attention.extra());
        let builder = self.operands[0].builder();
        let pairs = Shape::from([queries, keys]);
        let key = builder.iota(pairs.clone(), 1);
        // How far the key lies behind the query.
        let behind = || {
            let at = builder.iota(pairs.clone(), 0).cast(DType::I32);
            at + at.like(keys as f64 - queries as f64) - key.cast(DType::I32)
        };
        let causal = attention.causal.then(|| behind().ge(behind().like(0.0)));
        let window = attention.window.map(|window| behind().abs().lt(behind().like(window.min(1 << 30) as f64)));
        let in_length = extra.length.map(|length| key.lt(self.operands[length].reshape([batch, 1, 1, 1])));
        let mask = extra.mask.map(|mask| self.operands[mask]);
        let conditions = [causal, window, in_length, mask].into_iter().flatten();
        Some(conditions.reduce(|a, b| a.and(b))?.broadcast(self.extents()))
    }
}
