//! Attention as streams: the output's and the query gradient's rows are queries, the key's and value's are keys.

use super::{Attention, AttentionPart, Extra, Sizes, axes_from};
use crate::dtype::DType;
use crate::index::Index;
use crate::kernel::{Axis, Expr, ExprId, Mismatch, PointContext, Role, Score, Stream, Total};
use crate::ops::Streamed;
use crate::scalar::{Binary, Compare, Scalar, Unary};
use crate::shape::TensorType;

/// Whether rows are keys, and queries are streamed.
fn rows_are_keys(part: AttentionPart) -> bool {
    matches!(part, AttentionPart::Key | AttentionPart::Value)
}

/// Axes and where the result's element lies. Query heads are split, so that no head is divided: parallel axes are batch, kv
/// head and, if rows are queries, the head's number in its group, which is streamed else.
pub(super) fn space(attention: &Attention, sizes: &Sizes) -> (Vec<Axis>, Vec<Index>) {
    let Sizes { batch, heads, kv_heads, queries, keys, width, value_width } = *sizes;
    let group = heads / kv_heads.max(1);
    let axes = |extents: &[(usize, Role)]| extents.iter().map(|&(extent, role)| Axis { extent, role }).collect();
    let (parallel, row, col, reduce, depth) = (Role::Parallel, Role::Row, Role::Col, Role::Reduce, Role::Depth);
    if rows_are_keys(attention.part) {
        let [b, g, j, d, e] = axes_from(0);
        let space = [(batch, parallel), (kv_heads, parallel), (keys, row), (width, col), (value_width, col)];
        let streamed = [(group, reduce), (queries, reduce), (width, depth), (value_width, depth)];
        let col = if attention.part == AttentionPart::Key { d } else { e };
        return (axes(&[&space[..], &streamed].concat()), vec![b, g, j, col]);
    }
    let [b, g, r, i, c] = axes_from(0);
    let cols = if attention.part == AttentionPart::Query { width } else { value_width };
    let mut space = vec![(batch, parallel), (kv_heads, parallel), (group, parallel), (queries, row), (cols, col)];
    space.extend([(keys, reduce), (width, depth)]);
    if attention.part == AttentionPart::Query {
        space.push((value_width, depth));
    }
    let mut position = vec![b, g.times(group as i64).plus(&r), i];
    if attention.part != AttentionPart::LogSumExp {
        position.push(c);
    }
    (axes(&space), position)
}

/// The stream, and the result in it.
pub(super) fn stream(
    attention: &Attention,
    operands: &[TensorType],
    cx: &mut dyn PointContext,
) -> Result<Streamed, Mismatch> {
    let sizes = Sizes::of(operands);
    let place = Place::new(attention, &sizes);
    let mut body = Body { attention, operands, sizes, extra: attention.extra(), place, cx };
    match attention.part {
        AttentionPart::Output | AttentionPart::LogSumExp => body.forward(),
        AttentionPart::Query => body.query_gradient(),
        AttentionPart::Key | AttentionPart::Value => body.key_value_gradient(),
    }
}

/// Where things lie in the space.
struct Place {
    batch: Index,
    kv_head: Index,
    head: Index,
    query: Index,
    key: Index,
    /// Column axes of width and value width.
    cols: [Index; 2],
    /// Depth axes of width and value width.
    depths: [usize; 2],
}

impl Place {
    fn new(attention: &Attention, sizes: &Sizes) -> Place {
        let group = (sizes.heads / sizes.kv_heads.max(1)) as i64;
        let [batch, kv_head, third] = axes_from(0);
        let head = |within: &Index| kv_head.times(group).plus(within);
        if rows_are_keys(attention.part) {
            let [d, e, within, query] = axes_from(3);
            let head = head(&within);
            return Place { batch, kv_head, head, query, key: third, cols: [d, e], depths: [7, 8] };
        }
        let [query, col, key] = axes_from(3);
        Place { batch, head: head(&third), kv_head, query, key, cols: [col.clone(), col], depths: [6, 7] }
    }
}

/// A stream under construction.
struct Body<'a> {
    attention: &'a Attention,
    operands: &'a [TensorType],
    sizes: Sizes,
    extra: Extra,
    place: Place,
    cx: &'a mut dyn PointContext,
}

impl Body<'_> {
    fn forward(&mut self) -> Result<Streamed, Mismatch> {
        let score = self.score_of_products()?;
        let logit = self.logit()?;
        let seen = self.seen()?;
        let lowest = self.number(f32::MIN);
        let candidate = self.choose(seen, logit, lowest);
        let peak = self.cx.push(Expr::Peak);
        let above = self.binary(Binary::Sub, logit, peak);
        let weight = self.cx.push(Expr::Unary(Unary::Exp, above));
        let weight = self.only_seen(seen, weight);
        let value = self.of_key(2, self.place.cols[1].clone())?;
        let totals = vec![Total { weight, value: Some(value) }, Total { weight, value: None }];
        let sum = self.cx.push(Expr::Total(1));
        let zero = self.number(0.0);
        let one = self.number(1.0);
        let nothing = self.cx.push(Expr::Compare(Compare::Eq, sum, zero));
        let sum = self.cx.push(Expr::Select(nothing, one, sum));
        let result = match self.attention.part {
            AttentionPart::LogSumExp => {
                let log = self.cx.push(Expr::Unary(Unary::Log, sum));
                let lse = self.binary(Binary::Add, peak, log);
                self.cx.push(Expr::Select(nothing, zero, lse))
            }
            _ => {
                let total = self.cx.push(Expr::Total(0));
                self.binary(Binary::Div, total, sum)
            }
        };
        let stream = self.finish(vec![score], Some(candidate), totals, false)?;
        Ok(Streamed { stream, result })
    }

    fn query_gradient(&mut self) -> Result<Streamed, Mismatch> {
        let scores = vec![self.score_of_products()?, self.score_of_cotangents()?];
        let slope = self.slope()?;
        let seen = self.seen()?;
        let weight = self.only_seen(seen, slope);
        let key = self.of_key(1, self.place.cols[0].clone())?;
        let total = self.cx.push(Expr::Total(0));
        let scale = self.cx.push(Expr::Const(self.attention.scale));
        let result = self.binary(Binary::Mul, total, scale);
        let stream = self.finish(scores, None, vec![Total { weight, value: Some(key) }], false)?;
        Ok(Streamed { stream, result })
    }

    fn key_value_gradient(&mut self) -> Result<Streamed, Mismatch> {
        let scores = vec![self.score_of_products()?, self.score_of_cotangents()?];
        let (weight, slope) = (self.weight()?, self.slope()?);
        let seen = self.seen()?;
        let weights = [slope, weight].map(|weight| self.only_seen(seen, weight));
        let [d, e] = self.place.cols.clone();
        let (query, cotangent) = (self.scaled_query(d)?, self.of_query(self.extra.gradient[0], e)?);
        let totals = [(weights[0], query), (weights[1], cotangent)];
        let totals = totals.map(|(weight, value)| Total { weight, value: Some(value) }).to_vec();
        let result = self.cx.push(Expr::Total(usize::from(self.attention.part == AttentionPart::Value)));
        let stream = self.finish(scores, None, totals, true)?;
        Ok(Streamed { stream, result })
    }

    fn finish(
        &mut self,
        scores: Vec<Score>,
        peak: Option<ExprId>,
        totals: Vec<Total>,
        rows_are_keys: bool,
    ) -> Result<Stream, Mismatch> {
        let [low, high] = self.attention.band(&self.sizes);
        let band = if rows_are_keys { [high.map(|high| -high), low.map(|low| -low)] } else { [low, high] };
        // Where rows are keys, the length hides rows: that is part of what is seen.
        let length = match self.extra.length {
            Some(length) if !rows_are_keys => Some(self.cx.operand(length, std::slice::from_ref(&self.place.batch))?),
            _ => None,
        };
        Ok(Stream { scores, peak, totals, band, length })
    }

    /// `scale · q · k`.
    fn score_of_products(&mut self) -> Result<Score, Mismatch> {
        let depth = self.place.depths[0];
        let (query, key) = (self.scaled_query(Index::axis(depth))?, self.of_key(1, Index::axis(depth))?);
        Ok(self.score(query, key, depth))
    }

    /// `g · v`.
    fn score_of_cotangents(&mut self) -> Result<Score, Mismatch> {
        let depth = self.place.depths[1];
        let cotangent = self.of_query(self.extra.gradient[0], Index::axis(depth))?;
        let value = self.of_key(2, Index::axis(depth))?;
        Ok(self.score(cotangent, value, depth))
    }

    /// A product of something of the query and something of the key, whichever is the row.
    fn score(&self, query: ExprId, key: ExprId, depth: usize) -> Score {
        let [lhs, rhs] = if rows_are_keys(self.attention.part) { [key, query] } else { [query, key] };
        Score { lhs, rhs, depth }
    }

    /// The score with the bias.
    fn logit(&mut self) -> Result<ExprId, Mismatch> {
        let score = self.cx.push(Expr::Score(0));
        let Some(bias) = self.extra.bias else { return Ok(score) };
        let bias = self.of_pair(bias)?;
        Ok(self.binary(Binary::Add, score, bias))
    }

    /// `p`, of the log-sum-exp that the forward pass left.
    fn weight(&mut self) -> Result<ExprId, Mismatch> {
        let logit = self.logit()?;
        let lse = self.of_row(0)?;
        let above = self.binary(Binary::Sub, logit, lse);
        Ok(self.cx.push(Expr::Unary(Unary::Exp, above)))
    }

    /// `ds`.
    fn slope(&mut self) -> Result<ExprId, Mismatch> {
        let weight = self.weight()?;
        let cotangent = self.cx.push(Expr::Score(1));
        let delta = self.of_row(1)?;
        let centred = self.binary(Binary::Sub, cotangent, delta);
        Ok(self.binary(Binary::Mul, weight, centred))
    }

    /// Whether the query sees the key, as far as band and length of the stream do not tell.
    fn seen(&mut self) -> Result<Option<ExprId>, Mismatch> {
        let mask = self.extra.mask.map(|mask| self.of_pair(mask)).transpose()?;
        let length = self.extra.length.filter(|_| rows_are_keys(self.attention.part));
        let Some(length) = length else { return Ok(mask) };
        let length = self.cx.operand(length, std::slice::from_ref(&self.place.batch))?;
        let key = self.cx.push(Expr::Index(self.place.key.clone()));
        let inside = self.cx.push(Expr::Compare(Compare::Lt, key, length));
        Ok(Some(mask.map_or(inside, |mask| self.binary(Binary::And, mask, inside))))
    }

    fn only_seen(&mut self, seen: Option<ExprId>, weight: ExprId) -> ExprId {
        let zero = self.number(0.0);
        self.choose(seen, weight, zero)
    }

    fn choose(&mut self, condition: Option<ExprId>, yes: ExprId, no: ExprId) -> ExprId {
        condition.map_or(yes, |condition| self.cx.push(Expr::Select(condition, yes, no)))
    }

    fn scaled_query(&mut self, last: Index) -> Result<ExprId, Mismatch> {
        let query = self.of_query(0, last)?;
        let scale = self.cx.push(Expr::Const(self.attention.scale));
        Ok(self.binary(Binary::Mul, query, scale))
    }

    fn of_query(&mut self, operand: usize, last: Index) -> Result<ExprId, Mismatch> {
        let Place { batch, head, query, .. } = &self.place;
        self.load(operand, &[batch.clone(), head.clone(), query.clone(), last])
    }

    fn of_key(&mut self, operand: usize, last: Index) -> Result<ExprId, Mismatch> {
        let Place { batch, kv_head, key, .. } = &self.place;
        self.load(operand, &[batch.clone(), kv_head.clone(), key.clone(), last])
    }

    fn of_pair(&mut self, operand: usize) -> Result<ExprId, Mismatch> {
        let Place { batch, head, query, key, .. } = &self.place;
        self.load(operand, &[batch.clone(), head.clone(), query.clone(), key.clone()])
    }

    /// The query's log-sum-exp (0) or δ (1).
    fn of_row(&mut self, which: i64) -> Result<ExprId, Mismatch> {
        self.of_query(self.extra.gradient[1], Index::constant(which))
    }

    /// An operand's element; floats in `f32`.
    fn load(&mut self, operand: usize, coords: &[Index]) -> Result<ExprId, Mismatch> {
        let element = self.cx.operand(operand, coords)?;
        let half = self.operands[operand].dtype == DType::F16;
        Ok(if half { self.cx.push(Expr::Cast(element, DType::F32)) } else { element })
    }

    fn binary(&mut self, function: Binary, a: ExprId, b: ExprId) -> ExprId {
        self.cx.push(Expr::Binary(function, a, b))
    }

    fn number(&mut self, value: f32) -> ExprId {
        self.cx.push(Expr::Const(Scalar::f32(value)))
    }
}
