//! Sums of products.

use super::{Lowering, Op, Operation, Sample, SampleOperand, Vjp, operand_count};
use crate::dtype::DType;
use crate::index::Index;
use crate::ir::{Value, Violation, text};
use crate::kernel::{ExprId, Mismatch, PointContext};
use crate::oracle::Array;
use crate::oracle::for_each_point;
use crate::shape::{Shape, TensorType};

/// `result[b, m, n] = Σₖ lhs[b, m, k] · rhs[b, k, n]`, where each of `b`, `m`, `n`, `k` stands for any number of
/// dimensions: `batch` and `contract` name the operands' dimensions in corresponding order, the others are `m` and `n` in
/// their own order. Both operands of one float type; `f16` products are summed in `f32` and given as `result`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dot {
    /// Batch dimensions of the left and the right operand.
    pub batch: [Vec<usize>; 2],
    /// Contracted dimensions of the left and the right operand.
    pub contract: [Vec<usize>; 2],
    /// The result's element type: the operands', or `f32` for `f16` operands.
    pub result: DType,
}

impl Dot {
    /// `[m, k] × [k, n] → [m, n]` in `dtype`, with `batch` leading dimensions on both sides.
    pub fn matmul(batch: usize, dtype: DType) -> Dot {
        let leading: Vec<usize> = (0..batch).collect();
        Dot { batch: [leading.clone(), leading], contract: [vec![batch + 1], vec![batch]], result: dtype }
    }

    /// The dimensions of an operand (0 left, 1 right) that are neither batch nor contracted.
    fn free(&self, side: usize, rank: usize) -> Vec<usize> {
        (0..rank).filter(|dim| !self.batch[side].contains(dim) && !self.contract[side].contains(dim)).collect()
    }

    /// Coordinates of an operand from those of batch, its free dimensions, and depth.
    fn place<T: Clone>(&self, side: usize, rank: usize, parts: [&[T]; 3]) -> Vec<T> {
        let free = self.free(side, rank);
        let find = |dim: usize| {
            [&self.batch[side], &free, &self.contract[side]]
                .into_iter()
                .zip(parts)
                .find_map(|(dims, coords)| dims.iter().position(|&own| own == dim).and_then(|at| coords.get(at)))
        };
        (0..rank).filter_map(find).cloned().collect()
    }

    /// Extents of batch, rows, cols and depth.
    fn extents(&self, operands: &[TensorType]) -> [Vec<usize>; 4] {
        let of = |side: usize, dims: &[usize]| dims.iter().map(|&dim| operands[side].shape[dim]).collect();
        [
            of(0, &self.batch[0]),
            of(0, &self.free(0, operands[0].shape.rank())),
            of(1, &self.free(1, operands[1].shape.rank())),
            of(0, &self.contract[0]),
        ]
    }

    /// The gradient of one operand: the cotangent times the other operand, summed over the other's free dimensions.
    fn operand_cotangent<'g>(&self, side: usize, at: &Vjp<'_, 'g>) -> Value<'g> {
        let (own, other) = (at.operands[side], at.operands[1 - side]);
        let (batch, rank) = (self.batch[0].len(), own.shape().rank());
        let own_free = self.free(side, rank);
        let other_free = self.free(1 - side, other.shape().rank());
        let result_free = |side: usize| {
            let rows = self.free(0, at.operands[0].shape().rank()).len();
            let start = batch + if side == 0 { 0 } else { rows };
            start..start + self.free(side, at.operands[side].shape().rank()).len()
        };
        let dims = Dot {
            batch: [(0..batch).collect(), self.batch[1 - side].clone()],
            contract: [result_free(1 - side).collect(), other_free],
            result: at.cotangent.dtype(),
        };
        let product = at.cotangent.dot(other.cast(at.cotangent.dtype()), dims);
        // Its dimensions: batch, own free ones, then the contracted ones in the order in which the other operand has them.
        let mut contracted: Vec<(usize, usize)> =
            self.contract[1 - side].iter().copied().zip(self.contract[side].iter().copied()).collect();
        contracted.sort_unstable();
        let depth = contracted.iter().map(|&(_, own)| own);
        let made: Vec<usize> = self.batch[side].iter().copied().chain(own_free).chain(depth).collect();
        let order: Vec<usize> = (0..rank).filter_map(|dim| made.iter().position(|&own| own == dim)).collect();
        product.permute(order).cast(own.dtype())
    }
}

/// [`Value::matmul`].
#[track_caller]
pub fn matmul<'g>(lhs: Value<'g>, rhs: Value<'g>) -> Value<'g> {
    let (a, b) = (lhs.shape(), rhs.shape());
    let Some((a_batch, b_batch)) = a.rank().checked_sub(2).zip(b.rank().checked_sub(2)) else {
        let violation = Violation::new("both operands have at least two dimensions", format!("{a} and {b}"));
        return lhs.builder().refuse("matmul", &[lhs, rhs], violation);
    };
    let [own_a, own_b] = [Shape::from(&a[..a_batch]), Shape::from(&b[..b_batch])];
    let Some(batch) = own_a.broadcast(&own_b) else {
        // Not left to `infer`: dimensions that do not broadcast may still pair up under another meaning.
        let violation = Violation::new("the leading dimensions broadcast together", format!("{own_a} and {own_b}"));
        return lhs.builder().refuse("matmul", &[lhs, rhs], violation);
    };
    if b_batch == 0 {
        // One matrix for all: no batch, so that all rows make one product.
        let dims = Dot { batch: [vec![], vec![]], contract: [vec![a.rank() - 1], vec![0]], result: lhs.dtype() };
        return lhs.dot(rhs, dims);
    }
    let lhs = lhs.broadcast([&*batch, &a[a_batch..]].concat());
    let rhs = rhs.broadcast([&*batch, &b[b_batch..]].concat());
    lhs.dot(rhs, Dot::matmul(batch.rank(), lhs.dtype()))
}

impl Operation for Dot {
    fn name(&self) -> &'static str {
        "dot"
    }
    fn attributes(&self) -> String {
        format!("batch={:?}, contract={:?}", self.batch, self.contract)
    }
    fn parse(name: &str, attributes: &str, result: &TensorType) -> Option<Self> {
        let dims = |key| text::two_lists(text::field(attributes, key)?).filter(|_| name == "dot");
        Some(Dot { batch: dims("batch")?, contract: dims("contract")?, result: result.dtype })
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 2)?;
        let dtypes = [operands[0].dtype, operands[1].dtype];
        Violation::unless(dtypes[0] == dtypes[1] && dtypes[0].is_float(), "both operands have one float type", || {
            format!("{} and {}", dtypes[0], dtypes[1])
        })?;
        let sums = self.result == dtypes[0] || self.result == DType::F32;
        Violation::unless(sums, "the result has the operands' type or f32", || self.result.to_string())?;
        for (side, operand) in operands.iter().enumerate() {
            let mut named = [&self.batch[side][..], &self.contract[side][..]].concat();
            named.sort_unstable();
            let distinct = named.windows(2).all(|pair| pair[0] < pair[1]);
            let inside = named.iter().all(|&dim| dim < operand.shape.rank());
            Violation::unless(
                distinct && inside,
                "batch and contracted dimensions are distinct ones of the operand",
                || format!("{named:?} of {}", operand.shape),
            )?;
        }
        for dims in [&self.batch, &self.contract] {
            let extents =
                [0, 1].map(|side| dims[side].iter().map(|&dim| operands[side].shape[dim]).collect::<Vec<_>>());
            Violation::unless(extents[0] == extents[1], "batch and contracted extents of both operands agree", || {
                format!("{:?} and {:?}", extents[0], extents[1])
            })?;
        }
        let [batch, rows, cols, _] = self.extents(operands);
        Ok(TensorType::new(self.result, [batch, rows, cols].concat()))
    }
    fn vjp<'g>(&self, at: &Vjp<'_, 'g>) -> Vec<Option<Value<'g>>> {
        [0, 1].map(|side| at.wanted[side].then(|| self.operand_cotangent(side, at))).into()
    }
    fn eval(&self, operands: &[&Array], result: &TensorType) -> Array {
        let types = [operands[0].ty.clone(), operands[1].ty.clone()];
        let [batch, rows, _, depth] = self.extents(&types);
        let (rows_at, cols_at) = (batch.len(), batch.len() + rows.len());
        // The element of an operand at given coordinates of batch, free and contracted dimensions.
        let strides = [0, 1].map(|side| {
            let (own, rank) = (types[side].shape.strides(), types[side].shape.rank());
            let of = |dims: &[usize]| dims.iter().map(|&dim| own[dim]).collect::<Vec<usize>>();
            [of(&self.batch[side]), of(&self.free(side, rank)), of(&self.contract[side])]
        });
        let offset =
            |coords: &[usize], strides: &[usize]| coords.iter().zip(strides).map(|(c, s)| c * s).sum::<usize>();
        Array::from_fn(result, |coords| {
            let (b, m, n) = (&coords[..rows_at], &coords[rows_at..cols_at], &coords[cols_at..]);
            let [lhs, rhs] =
                [(0, m), (1, n)].map(|(side, free)| offset(b, &strides[side][0]) + offset(free, &strides[side][1]));
            let mut sum = 0.0;
            for_each_point(&depth, |k| {
                let [x, y] = [lhs + offset(k, &strides[0][2]), rhs + offset(k, &strides[1][2])];
                sum += operands[0].data[x] * operands[1].data[y];
            });
            sum
        })
    }
    fn lower(&self, operands: &[TensorType], result: &TensorType) -> Lowering {
        let [batch, rows, cols, depth] = self.extents(operands);
        let position = (0..result.shape.rank()).map(Index::axis).collect();
        Lowering::Contract { batch, rows, cols, depth, position }
    }
    fn point(
        &self,
        operands: &[TensorType],
        _: &TensorType,
        cx: &mut dyn PointContext,
        coords: &[Index],
    ) -> Result<ExprId, Mismatch> {
        let [batch, rows, cols, depth] = self.extents(operands).map(|extents| extents.len());
        let (b, rest) = coords.split_at(batch);
        let (m, rest) = rest.split_at(rows);
        let (n, rest) = rest.split_at(cols);
        let (k, side) = rest.split_at(depth);
        let right = side.first().and_then(Index::as_constant) == Some(1);
        let (side, free) = if right { (1, n) } else { (0, m) };
        cx.operand(side, &self.place(side, operands[side].shape.rank(), [b, free, k]))
    }
    fn samples() -> Vec<Sample> {
        let dot = |batch: [&[usize]; 2], contract: [&[usize]; 2]| Dot {
            batch: batch.map(<[usize]>::to_vec),
            contract: contract.map(<[usize]>::to_vec),
            result: DType::F32,
        };
        let none: [&[usize]; 2] = [&[], &[]];
        let cases: Vec<(Dot, &[usize], &[usize])> = vec![
            (dot(none, [&[1], &[0]]), &[1, 1], &[1, 1]),
            (dot(none, [&[1], &[0]]), &[3, 5], &[5, 7]),
            (dot(none, [&[1], &[1]]), &[17, 13], &[33, 13]),
            (dot(none, [&[0], &[0]]), &[33, 5], &[33, 65]),
            (dot(none, [&[0], &[1]]), &[19, 1], &[11, 19]),
            (dot(none, [&[1], &[0]]), &[65, 64], &[64, 65]),
            (dot([&[0], &[0]], [&[2], &[1]]), &[3, 5, 4], &[3, 4, 2]),
            (dot([&[1, 0], &[0, 1]], [&[3], &[2]]), &[2, 3, 5, 4], &[3, 2, 4, 7]),
            (dot(none, [&[0, 2], &[1, 0]]), &[3, 2, 5], &[5, 3, 4]),
            (dot(none, [&[0], &[0]]), &[101], &[101]),
            (dot(none, [&[1], &[0]]), &[1, 257], &[257, 66]),
            (dot(none, [&[1], &[0]]), &[130, 31], &[31]),
            (dot(none, none), &[5], &[3]),
            (dot([&[0], &[0]], none), &[5], &[5]),
            (dot([&[0], &[1]], none), &[5, 2], &[3, 5]),
            (dot([&[1], &[0]], [&[0], &[1]]), &[7, 5], &[5, 7]),
        ];
        let sample = |(dot, a, b): (Dot, &[usize], &[usize])| {
            Sample::new(Op::Dot(dot), [SampleOperand::float(a), SampleOperand::float(b)])
        };
        cases.into_iter().map(sample).collect()
    }
}
