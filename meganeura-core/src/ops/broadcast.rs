//! Repetition along dimensions.

use super::{Fill, Op, Operation, Sample, SampleOperand, Vjp, operand_count};
use crate::dtype::DType;
use crate::index::Index;
use crate::ir::{Value, Violation};
use crate::kernel::{ExprId, Mismatch, PointContext};
use crate::oracle::Array;
use crate::shape::{Shape, TensorType};

/// The operand stretched to `shape` by NumPy's rule: shapes are aligned at the last dimension; an extent of 1, or a
/// missing dimension, repeats.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Broadcast {
    /// The result's shape.
    pub shape: Shape,
}

impl Broadcast {
    /// Dimensions of the result along which the operand repeats.
    pub fn repeated(&self, operand: &Shape) -> Vec<usize> {
        let missing = self.shape.rank() - operand.rank();
        (0..self.shape.rank()).filter(|&dim| dim < missing || operand[dim - missing] != self.shape[dim]).collect()
    }
}

impl Operation for Broadcast {
    fn name(&self) -> &'static str {
        "broadcast"
    }
    fn parse(name: &str, _: &str, result: &TensorType) -> Option<Self> {
        (name == "broadcast").then(|| Broadcast { shape: result.shape.clone() })
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 1)?;
        let fits = operands[0].shape.broadcast(&self.shape).as_ref() == Some(&self.shape);
        Violation::unless(fits, "aligned at the last dimension, extents are equal or 1", || {
            format!("{} to {}", operands[0].shape, self.shape)
        })?;
        Ok(TensorType::new(operands[0].dtype, &self.shape))
    }
    fn vjp<'g>(&self, at: &Vjp<'_, 'g>) -> Vec<Option<Value<'g>>> {
        let shape = at.operands[0].shape();
        vec![Some(at.cotangent.sum(self.repeated(&shape)).reshape(shape))]
    }
    fn eval(&self, operands: &[&Array], result: &TensorType) -> Array {
        let shape = &operands[0].ty.shape;
        let missing = result.shape.rank() - shape.rank();
        Array::from_fn(result, |coords| {
            let source: Vec<usize> = coords[missing..]
                .iter()
                .zip(&**shape)
                .map(|(&coord, &extent)| if extent == 1 { 0 } else { coord })
                .collect();
            operands[0].at(&source)
        })
    }
    fn point(
        &self,
        operands: &[TensorType],
        _: &TensorType,
        cx: &mut dyn PointContext,
        coords: &[Index],
    ) -> Result<ExprId, Mismatch> {
        let shape = &operands[0].shape;
        let missing = self.shape.rank() - shape.rank();
        let source: Vec<Index> = coords[missing..]
            .iter()
            .zip(&**shape)
            .map(|(coord, &extent)| if extent == 1 { Index::constant(0) } else { coord.clone() })
            .collect();
        cx.operand(0, &source)
    }
    fn carry(&self, operand: &TensorType, _: &TensorType, coords: &[Index], _: &[usize]) -> Option<Vec<Index>> {
        // A bijection only where nothing repeats: dimensions of extent 1 in front.
        let missing = self.shape.rank() - operand.shape.rank();
        (operand.elements() == self.shape.elements())
            .then(|| (0..missing).map(|_| Index::constant(0)).chain(coords.iter().cloned()).collect())
    }
    fn is_view(&self) -> bool {
        true
    }
    fn samples() -> Vec<Sample> {
        let cases: [(&[usize], &[usize]); 6] = [
            (&[], &[7]),
            (&[1], &[1, 5]),
            (&[65], &[3, 65]),
            (&[5, 1], &[5, 33]),
            (&[2, 1, 17], &[4, 2, 3, 17]),
            (&[1, 13], &[1, 1, 13]),
        ];
        let mut samples: Vec<Sample> = cases
            .iter()
            .map(|&(from, to)| Sample::new(Op::Broadcast(Broadcast { shape: to.into() }), [SampleOperand::float(from)]))
            .collect();
        // Moved as whole words: other types too.
        for dtype in [DType::U32, DType::Bool] {
            let fill = if dtype == DType::Bool { Fill::Bool } else { Fill::Bits };
            samples.push(Sample::new(
                Op::Broadcast(Broadcast { shape: [3, 5, 7].into() }),
                [SampleOperand::of(dtype, [5, 1], fill)],
            ));
        }
        samples
    }
}
