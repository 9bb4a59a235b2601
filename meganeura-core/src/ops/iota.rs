//! Coordinates.

use super::{Op, Operation, Sample, operand_count};
use crate::dtype::DType;
use crate::index::Index;
use crate::ir::{Violation, text};
use crate::kernel::{Expr, ExprId, Mismatch, PointContext};
use crate::oracle::Array;
use crate::shape::{Shape, TensorType};

/// `result[i₀, …] = i_axis`, as `u32`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Iota {
    /// The result's shape.
    pub shape: Shape,
    /// The dimension whose coordinate is taken.
    pub axis: usize,
}

impl Operation for Iota {
    fn name(&self) -> &'static str {
        "iota"
    }
    fn attributes(&self) -> String {
        format!("axis={}", self.axis)
    }
    fn parse(name: &str, attributes: &str, result: &TensorType) -> Option<Self> {
        let axis = text::number(attributes, "axis").filter(|_| name == "iota")?;
        Some(Iota { shape: result.shape.clone(), axis })
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 0)?;
        Violation::unless(self.axis < self.shape.rank(), "the axis is a dimension of the shape", || {
            format!("axis {} of {}", self.axis, self.shape)
        })?;
        Ok(TensorType::new(DType::U32, &self.shape))
    }
    fn eval(&self, _: &[&Array], result: &TensorType) -> Array {
        Array::from_fn(result, |coords| coords[self.axis] as f64)
    }
    fn point(
        &self,
        _: &[TensorType],
        _: &TensorType,
        cx: &mut dyn PointContext,
        coords: &[Index],
    ) -> Result<ExprId, Mismatch> {
        Ok(cx.push(Expr::Index(coords[self.axis].clone())))
    }
    fn is_view(&self) -> bool {
        true
    }
    fn samples() -> Vec<Sample> {
        let shapes = super::sample::usual_shapes().into_iter().filter(|shape| shape.rank() > 0);
        let each_axis = |shape: Shape| (0..shape.rank()).map(move |axis| Iota { shape: shape.clone(), axis });
        shapes.flat_map(each_axis).map(|iota| Sample::new(Op::Iota(iota), [])).collect()
    }
}
