//! The tables of unary and binary functions as ops.

use super::{Fill, Op, Operation, Sample, SampleOperand, Vjp, operand_count, same_types, scalars_at};
use crate::dtype::DType;
use crate::index::Index;
use crate::ir::{Value, Violation};
use crate::kernel::{Expr, ExprId, Mismatch, PointContext};
use crate::oracle::Array;
use crate::scalar::{Binary, Unary};
use crate::shape::TensorType;

/// `result[i] = f(x[i])`; any type that `f` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnaryOp(pub Unary);

/// `result[i] = f(a[i], b[i])`; both operands of one type that `f` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BinaryOp(pub Binary);

impl Operation for UnaryOp {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn parse(name: &str, _: &str, _: &TensorType) -> Option<Self> {
        Unary::from_name(name).map(UnaryOp)
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 1)?;
        Violation::unless(self.0.takes(operands[0].dtype), "the function takes the operand's element type", || {
            operands[0].dtype.to_string()
        })?;
        Ok(operands[0].clone())
    }
    fn vjp<'g>(&self, at: &Vjp<'_, 'g>) -> Vec<Option<Value<'g>>> {
        vec![derivative(self.0, at.operands[0], at.result).map(|slope| at.cotangent * slope)]
    }
    fn eval(&self, operands: &[&Array], result: &TensorType) -> Array {
        Array::elementwise(result, operands, |x| self.0.eval(result.dtype, x[0]))
    }
    fn point(
        &self,
        _: &[TensorType],
        _: &TensorType,
        cx: &mut dyn PointContext,
        coords: &[Index],
    ) -> Result<ExprId, Mismatch> {
        let x = cx.operand(0, coords)?;
        Ok(cx.push(Expr::Unary(self.0, x)))
    }
    fn is_elementwise(&self) -> bool {
        true
    }
    fn is_costly(&self) -> bool {
        self.0.is_costly()
    }
    fn samples() -> Vec<Sample> {
        let shapes = super::sample::usual_shapes();
        let mut samples = Vec::new();
        for (at, &function) in Unary::ALL.iter().enumerate() {
            for dtype in [DType::F32, DType::U32, DType::I32, DType::Bool] {
                // Every function on two shapes, every shape by several functions.
                for shape in [&shapes[at % shapes.len()], &shapes[(at + 4) % shapes.len()]] {
                    let operand = SampleOperand::of(dtype, shape, unary_fill(function, dtype));
                    if function.takes(dtype) {
                        samples.push(Sample::new(Op::Unary(UnaryOp(function)), [operand]));
                    }
                }
            }
        }
        samples
    }
}

/// `df/dx` at `x`, where `y = f(x)`; `None` where it is 0 almost everywhere.
fn derivative<'g>(function: Unary, x: Value<'g>, y: Value<'g>) -> Option<Value<'g>> {
    Some(match function {
        // Of the result, so that the operand need not be kept for the backward pass.
        Unary::Relu => y.le(y.like(0.0)).select(y.like(0.0), y.like(1.0)),
        Unary::Neg => x.like(-1.0),
        Unary::Abs => x.sign(),
        Unary::Exp => y,
        Unary::Expm1 => y + 1.0,
        Unary::Log => x.recip(),
        Unary::Log1p => (x + 1.0).recip(),
        Unary::Sqrt => 0.5 / y,
        Unary::Rsqrt => y * y * y * -0.5,
        Unary::Recip => -(y * y),
        Unary::Sin => x.cos(),
        Unary::Cos => -x.sin(),
        Unary::Tanh => 1.0 - y * y,
        Unary::Erf => (-(x * x)).exp() * x.like(std::f64::consts::FRAC_2_SQRT_PI),
        Unary::Sigmoid => y * (1.0 - y),
        Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Round | Unary::Not | Unary::IsNan => return None,
    })
}

/// Values on which the function is smooth, so that finite differences can check its derivative.
fn unary_fill(function: Unary, dtype: DType) -> Fill {
    match (function, dtype) {
        (_, DType::Bool) => Fill::Bool,
        (_, DType::U32 | DType::I32) => Fill::Bits,
        (Unary::Log | Unary::Sqrt | Unary::Rsqrt | Unary::Recip, _) => Fill::Uniform(0.3, 3.0),
        (Unary::Log1p, _) => Fill::Uniform(-0.6, 2.0),
        // No element closer to a jump or kink at an integer than 0.1.
        (Unary::Abs | Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Relu, _) => Fill::Uniform(0.1, 0.9),
        (Unary::Round, _) => Fill::Uniform(-0.4, 0.4),
        _ => Fill::Uniform(-2.0, 2.0),
    }
}

impl Operation for BinaryOp {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn parse(name: &str, _: &str, _: &TensorType) -> Option<Self> {
        Binary::from_name(name).map(BinaryOp)
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        let ty = same_types(operands, 2)?;
        Violation::unless(self.0.takes(ty.dtype), "the function takes the operands' element type", || {
            ty.dtype.to_string()
        })?;
        Ok(ty.clone())
    }
    fn vjp<'g>(&self, at: &Vjp<'_, 'g>) -> Vec<Option<Value<'g>>> {
        let (a, b, y, c) = (at.operands[0], at.operands[1], at.result, at.cotangent);
        let [da, db] = match self.0 {
            Binary::Add => [Some(c), Some(c)],
            Binary::Sub => [Some(c), Some(-c)],
            Binary::Mul => [Some(c * b), Some(c * a)],
            Binary::Div => [Some(c / b), Some(-(c * y / b))],
            // a − b·trunc(a/b), and (a − y)/b is that truncation.
            Binary::Rem => [Some(c), Some(-(c * ((a - y) / b).round()))],
            Binary::Pow => pow_vjp(a, b, y, c).map(Some),
            Binary::Max => [Some(c * larger_share(a, b)), Some(c * larger_share(b, a))],
            Binary::Min => [Some(c * larger_share(b, a)), Some(c * larger_share(a, b))],
            Binary::And | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr => [None, None],
        };
        vec![da, db]
    }
    fn eval(&self, operands: &[&Array], result: &TensorType) -> Array {
        Array::elementwise(result, operands, |x| self.0.eval(result.dtype, x[0], x[1]))
    }
    fn point(
        &self,
        operands: &[TensorType],
        _: &TensorType,
        cx: &mut dyn PointContext,
        coords: &[Index],
    ) -> Result<ExprId, Mismatch> {
        let scalars = scalars_at(operands, cx, coords)?;
        Ok(cx.push(Expr::Binary(self.0, scalars[0], scalars[1])))
    }
    fn is_elementwise(&self) -> bool {
        true
    }
    fn is_costly(&self) -> bool {
        self.0.is_costly()
    }
    fn samples() -> Vec<Sample> {
        let shapes = super::sample::usual_shapes();
        let mut samples = Vec::new();
        for (at, &function) in Binary::ALL.iter().enumerate() {
            for dtype in [DType::F32, DType::U32, DType::I32, DType::Bool] {
                for shape in [&shapes[at % shapes.len()], &shapes[(at + 4) % shapes.len()]] {
                    let [a, b] = binary_fill(function, dtype);
                    let operands = [SampleOperand::of(dtype, shape, a), SampleOperand::of(dtype, shape, b)];
                    if function.takes(dtype) {
                        samples.push(Sample::new(Op::Binary(BinaryOp(function)), operands));
                    }
                }
            }
        }
        samples
    }
}

/// `∂aᵇ/∂a = b·a^(b−1)`, 0 where `b = 0`; `∂aᵇ/∂b = aᵇ·ln a`, 0 where `a = 0` and `b ≥ 0` (the limit for `b > 0`).
fn pow_vjp<'g>(a: Value<'g>, b: Value<'g>, y: Value<'g>, c: Value<'g>) -> [Value<'g>; 2] {
    let zero = c.like(0.0);
    let da = b.eq(zero).select(zero, c * b * a.pow(b - 1.0));
    let at_zero = a.eq(zero).and(b.ge(zero));
    let db = at_zero.select(zero, c * y * at_zero.select(c.like(1.0), a).log());
    [da, db]
}

/// 1 where `a` is the larger, ½ at ties (as in PyTorch), 0 elsewhere; 1 where a `NaN` makes neither smaller.
fn larger_share<'g>(a: Value<'g>, b: Value<'g>) -> Value<'g> {
    let tie = a.eq(b).select(a.like(0.5), a.like(1.0));
    a.lt(b).select(a.like(0.0), tie)
}

fn binary_fill(function: Binary, dtype: DType) -> [Fill; 2] {
    match (function, dtype) {
        (_, DType::Bool) => [Fill::Bool; 2],
        (Binary::Div | Binary::Rem, DType::U32 | DType::I32) => [Fill::Bits, Fill::Uniform(0.0, 9.0)],
        (_, DType::U32 | DType::I32) => [Fill::Bits; 2],
        (Binary::Div, _) => [Fill::Uniform(-2.0, 2.0), Fill::Uniform(0.5, 2.0)],
        // Quotients between 0.5 and 0.9: no element near the jump at an integer.
        (Binary::Rem, _) => [Fill::Uniform(1.0, 1.2), Fill::Uniform(1.4, 2.0)],
        (Binary::Pow, _) => [Fill::Uniform(0.3, 2.0), Fill::Uniform(-2.0, 3.0)],
        (Binary::Max, _) => [Fill::Uniform(-1.0, -0.1), Fill::Uniform(0.1, 1.0)],
        (Binary::Min, _) => [Fill::Uniform(-1.0, 0.2), Fill::Uniform(0.3, 1.0)],
        _ => [Fill::Uniform(-2.0, 2.0); 2],
    }
}
