//! Leaves: what is given rather than computed, and constants.

use super::{Lowering, Operation, Sample, operand_count};
use crate::index::Index;
use crate::ir::{StateId, Violation, text};
use crate::kernel::{Expr, ExprId, Mismatch, PointContext};
use crate::oracle::Array;
use crate::scalar::Scalar;
use crate::shape::{Shape, TensorType};
use std::sync::Arc;

/// A tensor that the host writes before a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Input {
    /// Unique name.
    pub name: Arc<str>,
    /// Its type.
    pub ty: TensorType,
}

/// The value of a state before the step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Which state.
    pub id: StateId,
    /// Its type.
    pub ty: TensorType,
}

/// `result[i] = value`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Constant {
    /// Every element.
    pub value: Scalar,
    /// The result's shape.
    pub shape: Shape,
}

impl Operation for Input {
    fn name(&self) -> &'static str {
        "input"
    }
    fn attributes(&self) -> String {
        text::quote(&self.name)
    }
    fn parse(name: &str, attributes: &str, result: &TensorType) -> Option<Self> {
        let label = text::unquote(attributes).filter(|_| name == "input")?;
        Some(Input { name: label.into(), ty: result.clone() })
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 0).map(|()| self.ty.clone())
    }
    /// Never called: the interpreter takes leaves from its caller.
    fn eval(&self, _: &[&Array], result: &TensorType) -> Array {
        Array::new(result.clone(), vec![f64::NAN; result.elements()])
    }
    fn lower(&self, _: &[TensorType], _: &TensorType) -> Lowering {
        Lowering::Leaf
    }
    fn samples() -> Vec<Sample> {
        Vec::new()
    }
}

impl Operation for State {
    fn name(&self) -> &'static str {
        "state"
    }
    fn attributes(&self) -> String {
        format!("@{}", self.id.0)
    }
    fn parse(name: &str, attributes: &str, result: &TensorType) -> Option<Self> {
        let id = attributes.strip_prefix('@').filter(|_| name == "state")?.parse().ok()?;
        Some(State { id: StateId(id), ty: result.clone() })
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 0).map(|()| self.ty.clone())
    }
    /// Never called: the interpreter takes leaves from its caller.
    fn eval(&self, _: &[&Array], result: &TensorType) -> Array {
        Array::new(result.clone(), vec![f64::NAN; result.elements()])
    }
    fn lower(&self, _: &[TensorType], _: &TensorType) -> Lowering {
        Lowering::Leaf
    }
    fn samples() -> Vec<Sample> {
        Vec::new()
    }
}

impl Operation for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }
    fn attributes(&self) -> String {
        self.value.to_string()
    }
    fn parse(name: &str, attributes: &str, result: &TensorType) -> Option<Self> {
        let value = text::scalar(attributes).filter(|_| name == "constant")?;
        Some(Constant { value, shape: result.shape.clone() })
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 0).map(|()| TensorType::new(self.value.dtype(), &self.shape))
    }
    fn eval(&self, _: &[&Array], result: &TensorType) -> Array {
        Array::from_fn(result, |_| self.value.value())
    }
    fn point(
        &self,
        _: &[TensorType],
        _: &TensorType,
        cx: &mut dyn PointContext,
        _: &[Index],
    ) -> Result<ExprId, Mismatch> {
        Ok(cx.push(Expr::Const(self.value)))
    }
    fn is_view(&self) -> bool {
        true
    }
    fn samples() -> Vec<Sample> {
        let values = [Scalar::f32(-2.5), Scalar::f32(f32::INFINITY), Scalar::f32(f32::NAN), Scalar::u32(u32::MAX)];
        let sample = |(shape, value)| Sample::new(super::Op::Constant(Constant { value, shape }), []);
        super::sample::usual_shapes().into_iter().zip(values.into_iter().cycle()).map(sample).collect()
    }
}
