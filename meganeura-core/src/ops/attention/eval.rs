//! The meaning of attention: the formulas, row by row.

use super::{Attention, AttentionPart, Sizes};
use crate::oracle::Array;
use crate::shape::TensorType;

/// A part's value.
pub(super) fn eval(attention: &Attention, operands: &[&Array], result: &TensorType) -> Array {
    let types: Vec<TensorType> = operands.iter().map(|operand| operand.ty.clone()).collect();
    let formula = Formula { attention, operands, sizes: Sizes::of(&types) };
    let Sizes { batch, heads, queries, .. } = formula.sizes;
    let mut sum = Array::new(result.clone(), Vec::new());
    for (b, h, i) in (0..batch).flat_map(|b| (0..heads).flat_map(move |h| (0..queries).map(move |i| (b, h, i)))) {
        formula.add_row(&mut sum, [b, h, i]);
    }
    sum
}

struct Formula<'a> {
    attention: &'a Attention,
    operands: &'a [&'a Array],
    sizes: Sizes,
}

impl Formula<'_> {
    /// Adds what one query contributes to the result.
    fn add_row(&self, result: &mut Array, [b, h, i]: [usize; 3]) {
        let kv = h / (self.sizes.heads / self.sizes.kv_heads);
        let logits = self.logits([b, h, i]);
        let [cotangent, statistics] = self.attention.extra().gradient;
        let peak = logits.iter().fold(f64::from(f32::MIN), |peak, &(_, l)| if l.is_nan() { l } else { peak.max(l) });
        let sum: f64 = logits.iter().map(|(_, l)| (l - peak).exp()).sum();
        let nothing = sum == 0.0;
        let sum = if nothing { 1.0 } else { sum };
        let scale = self.attention.scale.value();
        let add = |result: &mut Array, at: &[usize], factor: f64, of: usize, from: &[usize]| {
            let width = result.ty.shape[3];
            let (to, from) = (offset(&result.ty, at), offset(&self.operands[of].ty, from));
            (0..width).for_each(|d| result.data[to + d] += factor * self.operands[of].data[from + d]);
        };
        if self.attention.part == AttentionPart::LogSumExp {
            let at = offset(&result.ty, &[b, h, i]);
            result.data[at] = if nothing { 0.0 } else { peak + sum.ln() };
            return;
        }
        for &(j, logit) in &logits {
            let given = |which: usize| self.operands[statistics].at(&[b, h, i, which]);
            let weight = || (logit - given(0)).exp();
            let slope = || weight() * (self.product([cotangent, 2], [b, h, i, j]) - given(1));
            let (query, key) = ([b, h, i], [b, kv, j]);
            match self.attention.part {
                AttentionPart::Output => add(result, &query, (logit - peak).exp() / sum, 2, &key),
                AttentionPart::Query => add(result, &query, scale * slope(), 1, &key),
                AttentionPart::Key => add(result, &key, scale * slope(), 0, &query),
                AttentionPart::Value => add(result, &key, weight(), cotangent, &query),
                AttentionPart::LogSumExp => {}
            }
        }
    }

    /// The keys that a query sees, with their logits.
    fn logits(&self, [b, h, i]: [usize; 3]) -> Vec<(usize, f64)> {
        let extra = self.attention.extra();
        let at = i as i64 + self.sizes.offset();
        let seen = |&j: &usize| {
            let behind = at - j as i64;
            let in_window = self.attention.window.is_none_or(|window| behind.unsigned_abs() < window as u64);
            let in_length = extra.length.is_none_or(|length| (j as f64) < self.operands[length].data[b]);
            let in_mask = extra.mask.is_none_or(|mask| self.operands[mask].at(&[b, h, i, j]) != 0.0);
            (!self.attention.causal || behind >= 0) && in_window && in_length && in_mask
        };
        let logit = |j: usize| {
            let bias = extra.bias.map_or(0.0, |bias| self.operands[bias].at(&[b, h, i, j]));
            (j, self.attention.scale.value() * self.product([0, 1], [b, h, i, j]) + bias)
        };
        (0..self.sizes.keys).filter(seen).map(logit).collect()
    }

    /// A row of something of the query times a row of something of the key.
    fn product(&self, of: [usize; 2], [b, h, i, j]: [usize; 4]) -> f64 {
        let kv = h / (self.sizes.heads / self.sizes.kv_heads);
        let width = self.operands[of[0]].ty.shape[3];
        let [a, x] = [(of[0], [b, h, i]), (of[1], [b, kv, j])].map(|(operand, at)| {
            let start = offset(&self.operands[operand].ty, &at);
            &self.operands[operand].data[start..start + width]
        });
        a.iter().zip(x).map(|(a, x)| a * x).sum()
    }
}

/// Where the leading dimensions' coordinates lead.
fn offset(ty: &TensorType, at: &[usize]) -> usize {
    let leading = at.iter().zip(&*ty.shape).fold(0, |offset, (at, extent)| offset * extent + at);
    leading * ty.shape[at.len()..].iter().product::<usize>()
}
