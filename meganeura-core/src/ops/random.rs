//! Random bits.

use super::{Fill, Op, Operation, Sample, SampleOperand, operand_count};
use crate::dtype::DType;
use crate::index::{Index, flatten};
use crate::ir::{Violation, text};
use crate::kernel::{Expr, ExprId, Mismatch, PointContext, threefry};
use crate::oracle::Array;
use crate::oracle::linear;
use crate::shape::{Shape, TensorType};

/// `result[i]` is the first word of Threefry-2x32-20 with the operand (`u32[2]`: seed and step) as key and
/// `(linear index of i, stream)` as counter. The same key, stream and element give the same bits on every device, so a
/// dropout's mask is the same in both directions; two uses in one program need two streams.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Random {
    /// The result's shape.
    pub shape: Shape,
    /// Tells uses in one program apart.
    pub stream: u32,
}

impl Operation for Random {
    fn name(&self) -> &'static str {
        "random"
    }
    fn attributes(&self) -> String {
        format!("stream={}", self.stream)
    }
    fn parse(name: &str, attributes: &str, result: &TensorType) -> Option<Self> {
        let stream = text::number(attributes, "stream").filter(|_| name == "random")?;
        Some(Random { shape: result.shape.clone(), stream })
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 1)?;
        let key = TensorType::new(DType::U32, [2]);
        Violation::unless(operands[0] == key, "the key is u32[2]", || operands[0].to_string())?;
        Ok(TensorType::new(DType::U32, &self.shape))
    }
    fn eval(&self, operands: &[&Array], result: &TensorType) -> Array {
        let key = [operands[0].data[0] as u32, operands[0].data[1] as u32];
        Array::from_fn(result, |coords| {
            f64::from(threefry(key, [linear(&result.shape, coords) as u32, self.stream])[0])
        })
    }
    fn point(
        &self,
        _: &[TensorType],
        result: &TensorType,
        cx: &mut dyn PointContext,
        coords: &[Index],
    ) -> Result<ExprId, Mismatch> {
        let key = [cx.operand(0, &[Index::constant(0)])?, cx.operand(0, &[Index::constant(1)])?];
        Ok(cx.push(Expr::Random { key, stream: self.stream, counter: flatten(coords, &result.shape) }))
    }
    fn is_costly(&self) -> bool {
        true
    }
    fn samples() -> Vec<Sample> {
        let key = SampleOperand::of(DType::U32, [2], Fill::Bits);
        let sample = |(stream, shape)| Sample::new(Op::Random(Random { shape, stream }), [key.clone()]);
        (0..).zip(super::sample::usual_shapes()).map(sample).collect()
    }
}
