//! Handles of values under construction, with the op constructors as methods and operators.

use super::builder::{Builder, POISON};
use super::error::Violation;
use super::graph::NodeId;
use crate::dtype::DType;
use crate::ops;
use crate::ops::Op;
use crate::scalar::{Binary, Compare, Monoid, Scalar, Unary};
use crate::shape::{Shape, TensorType};
use std::fmt;

/// A tensor of a graph under construction. `Copy`; methods add nodes to its builder.
#[derive(Clone, Copy)]
pub struct Value<'g> {
    pub(crate) builder: &'g Builder,
    pub(crate) id: NodeId,
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_poisoned() {
            true => f.write_str("poisoned value"),
            false => write!(f, "%{}: {}", self.id.0, self.ty()),
        }
    }
}

impl<'g> Value<'g> {
    /// The builder that it belongs to.
    pub fn builder(self) -> &'g Builder {
        self.builder
    }

    /// Its node in the finished graph; meaningless if its making failed.
    pub fn id(self) -> NodeId {
        self.id
    }

    /// Its type; `f32[]` if its making failed (the builder's `finish` tells why).
    pub fn ty(self) -> TensorType {
        match self.is_poisoned() {
            true => TensorType::new(DType::F32, Shape::scalar()),
            false => self.builder.look(|graph| graph.node(self.id).ty.clone()),
        }
    }

    /// Its shape; see [`Value::ty`].
    pub fn shape(self) -> Shape {
        self.ty().shape
    }

    /// Its element type; see [`Value::ty`].
    pub fn dtype(self) -> DType {
        self.ty().dtype
    }

    pub(crate) fn is_poisoned(self) -> bool {
        self.id == POISON
    }

    /// This value, or a poisoned one if its elements are not floats, which `op` (built of several primitive ops) needs.
    #[track_caller]
    pub(crate) fn floating(self, op: &'static str) -> Value<'g> {
        match self.dtype() {
            dtype if dtype.is_float() => self,
            dtype => self.builder.refuse(op, &[self], Violation::new("the elements are floats", dtype.to_string())),
        }
    }

    /// A function of each element.
    #[track_caller]
    pub fn unary(self, function: Unary) -> Value<'g> {
        self.builder.push(Op::Unary(ops::UnaryOp(function)), &[self])
    }

    /// A function of each pair of elements, broadcasting.
    #[track_caller]
    pub fn binary(self, function: Binary, other: Value<'g>) -> Value<'g> {
        let [a, b] = broadcast_together([self, other]);
        self.builder.push(Op::Binary(ops::BinaryOp(function)), &[a, b])
    }

    /// A relation of each pair of elements, broadcasting; `Bool`.
    #[track_caller]
    pub fn compare(self, relation: Compare, other: Value<'g>) -> Value<'g> {
        let [a, b] = broadcast_together([self, other]);
        self.builder.push(Op::Compare(ops::CompareOp(relation)), &[a, b])
    }

    /// Elements of `yes` where this (`Bool`) is true, of `no` elsewhere; broadcasting.
    #[track_caller]
    pub fn select(self, yes: Value<'g>, no: Value<'g>) -> Value<'g> {
        let [condition, yes, no] = broadcast_together([self, yes, no]);
        self.builder.push(Op::Select(ops::Select), &[condition, yes, no])
    }

    /// The same numbers in another element type.
    #[track_caller]
    pub fn cast(self, dtype: DType) -> Value<'g> {
        if self.dtype() == dtype {
            return self;
        }
        self.builder.push(Op::Cast(ops::Cast(dtype)), &[self])
    }

    /// The same 32 bits as another 4-byte type.
    #[track_caller]
    pub fn bitcast(self, dtype: DType) -> Value<'g> {
        self.builder.push(Op::Bitcast(ops::Bitcast(dtype)), &[self])
    }

    /// The same elements in row-major order under another shape.
    #[track_caller]
    pub fn reshape(self, shape: impl Into<Shape>) -> Value<'g> {
        let shape = shape.into();
        if self.shape() == shape {
            return self;
        }
        self.builder.push(Op::Reshape(ops::Reshape { shape }), &[self])
    }

    /// Dimensions in another order: dimension `d` of the result is dimension `order[d]` of the operand.
    #[track_caller]
    pub fn permute(self, order: impl Into<Vec<usize>>) -> Value<'g> {
        self.builder.push(Op::Permute(ops::Permute { order: order.into() }), &[self])
    }

    /// The last two dimensions exchanged.
    #[track_caller]
    pub fn transpose(self) -> Value<'g> {
        let rank = self.shape().rank();
        let mut order: Vec<usize> = (0..rank).collect();
        if rank >= 2 {
            order.swap(rank - 1, rank - 2);
        }
        self.permute(order)
    }

    /// Stretched to a shape by NumPy's rule: aligned at the last dimension, extent 1 repeats.
    #[track_caller]
    pub fn broadcast(self, shape: impl Into<Shape>) -> Value<'g> {
        let shape = shape.into();
        if self.shape() == shape {
            return self;
        }
        self.builder.push(Op::Broadcast(ops::Broadcast { shape }), &[self])
    }

    /// A block: `extents[d]` elements from `starts[d]` on along each dimension.
    #[track_caller]
    pub fn slice(self, starts: impl Into<Vec<usize>>, extents: impl Into<Vec<usize>>) -> Value<'g> {
        self.builder.push(Op::Slice(ops::Slice { starts: starts.into(), extents: extents.into() }), &[self])
    }

    /// `before[d]` and `after[d]` copies of `fill` around each dimension.
    #[track_caller]
    pub fn pad(self, before: impl Into<Vec<usize>>, after: impl Into<Vec<usize>>, fill: f64) -> Value<'g> {
        let value = fill;
        let fill = Scalar::new(self.dtype(), value);
        if !fill.dtype().is_float() && fill.value() != value {
            let rule = "an integer or truth value holds the border's number exactly";
            return self.builder.refuse("pad", &[self], Violation::new(rule, value.to_string()));
        }
        self.builder.push(Op::Pad(ops::Pad { before: before.into(), after: after.into(), fill }), &[self])
    }

    /// Folds the dimensions in `axes`, which disappear.
    #[track_caller]
    pub fn reduce(self, monoid: Monoid, axes: impl Into<Vec<usize>>) -> Value<'g> {
        self.builder.push(Op::Reduce(ops::Reduce { monoid, axes: axes.into(), ties: ops::Ties::Shared }), &[self])
    }

    /// Sum over `axes`, which disappear.
    #[track_caller]
    pub fn sum(self, axes: impl Into<Vec<usize>>) -> Value<'g> {
        self.reduce(Monoid::Sum, axes)
    }

    /// Largest over `axes`, which disappear.
    #[track_caller]
    pub fn max(self, axes: impl Into<Vec<usize>>) -> Value<'g> {
        self.reduce(Monoid::Max, axes)
    }

    /// Largest over `axes`, which disappear; the derivative goes to the first of equal ones.
    #[track_caller]
    pub fn max_first(self, axes: impl Into<Vec<usize>>) -> Value<'g> {
        let reduce = ops::Reduce { monoid: Monoid::Max, axes: axes.into(), ties: ops::Ties::First };
        self.builder.push(Op::Reduce(reduce), &[self])
    }

    /// Smallest over `axes`, which disappear.
    #[track_caller]
    pub fn min(self, axes: impl Into<Vec<usize>>) -> Value<'g> {
        self.reduce(Monoid::Min, axes)
    }

    /// Product with batch and contracting dimensions; see [`ops::Dot`].
    #[track_caller]
    pub fn dot(self, other: Value<'g>, dims: ops::Dot) -> Value<'g> {
        self.builder.push(Op::Dot(dims), &[self, other])
    }

    /// Convolution with dimension names and windows; see [`ops::Conv`], and [`Value::conv`] for the usual ones.
    #[track_caller]
    pub fn conv_general(self, taps: Value<'g>, conv: ops::Conv) -> Value<'g> {
        self.builder.push(Op::Conv(conv), &[self, taps])
    }

    /// Windows over some dimensions, as further dimensions; see [`ops::Unfold`].
    #[track_caller]
    pub fn unfold(self, unfold: ops::Unfold) -> Value<'g> {
        self.builder.push(Op::Unfold(unfold), &[self])
    }

    /// Matrix product over the last two dimensions, `[…, m, k] × […, k, n] → […, m, n]`; the leading dimensions
    /// broadcast.
    #[track_caller]
    pub fn matmul(self, other: Value<'g>) -> Value<'g> {
        ops::matmul(self, other)
    }

    /// Elements of this tensor along `axis` at `indices` (`u32`, any shape, which takes the place of `axis`).
    /// An index out of range gives `NaN` (0 for types without it).
    #[track_caller]
    pub fn gather(self, indices: Value<'g>, axis: usize) -> Value<'g> {
        self.builder.push(Op::Gather(ops::Gather { axis }), &[self, indices])
    }

    /// Zeros of extent `extent` along `axis`, to which the slices of this tensor are added at `indices`: the transpose of
    /// [`Value::gather`]. Indices out of range add nothing. Deterministic.
    #[track_caller]
    pub fn scatter_add(self, indices: Value<'g>, axis: usize, extent: usize) -> Value<'g> {
        self.builder.push(Op::ScatterAdd(ops::ScatterAdd { axis, extent }), &[self, indices])
    }

    /// The same value, through which no gradient flows.
    #[track_caller]
    pub fn stop_gradient(self) -> Value<'g> {
        self.builder.push(Op::StopGradient(ops::StopGradient), &[self])
    }

    /// `a · 2^(−b)` rounded down, for integers; broadcasting.
    #[track_caller]
    pub fn shift_right(self, bits: Value<'g>) -> Value<'g> {
        self.binary(Binary::Shr, bits)
    }

    /// A scalar of this tensor's type, broadcast when it is used. Floats round `value`; other types must hold it exactly,
    /// so that `x * 0.5` of an integer `x` is a mistake and not 0.
    #[track_caller]
    pub fn like(self, value: f64) -> Value<'g> {
        let scalar = Scalar::new(self.dtype(), value);
        if !scalar.dtype().is_float() && scalar.value() != value {
            let rule = "an integer or truth value holds the number exactly";
            return self.builder.refuse("constant", &[self], Violation::new(rule, value.to_string()));
        }
        self.builder.fill(scalar, Shape::scalar())
    }
}

/// Stretches values to their common shape; left alone if there is none, so that the op reports it.
#[track_caller]
fn broadcast_together<'g, const N: usize>(values: [Value<'g>; N]) -> [Value<'g>; N] {
    if values.iter().any(|value| value.is_poisoned()) {
        return values;
    }
    let shapes = values.map(Value::shape);
    let common = shapes.iter().skip(1).try_fold(shapes[0].clone(), |common, shape| common.broadcast(shape));
    let Some(shape) = common else { return values };
    // A loop, not a closure: the caller's line is lost in closures. Stops at the first failure, to report it once.
    let mut stretched = values;
    for value in &mut stretched {
        *value = value.broadcast(shape.clone());
        if value.is_poisoned() {
            return [*value; N];
        }
    }
    stretched
}

/// Methods that are one line over a table.
macro_rules! shorthands {
    ($($(#[$doc:meta])* $method:ident => $table:ident::$function:ident $(with $other:ident)?;)*) => {
        // `not` is a function of the table like the others, and `!` on a tensor of integers would be read as a test.
        #[allow(clippy::should_implement_trait)]
        impl<'g> Value<'g> {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $method(self $(, $other: Value<'g>)?) -> Value<'g> {
                    shorthands!(@call self $table $function $($other)?)
                }
            )*
        }
    };
    (@call $self:ident Unary $function:ident) => { $self.unary(Unary::$function) };
    (@call $self:ident Binary $function:ident $other:ident) => { $self.binary(Binary::$function, $other) };
    (@call $self:ident Compare $function:ident $other:ident) => { $self.compare(Compare::$function, $other) };
}

shorthands! {
    /// `|x|`.
    abs => Unary::Abs;
    /// 1, 0 or −1.
    sign => Unary::Sign;
    /// Rounded down.
    floor => Unary::Floor;
    /// Rounded up.
    ceil => Unary::Ceil;
    /// Rounded to the nearest, ties to even.
    round => Unary::Round;
    /// `eˣ`.
    exp => Unary::Exp;
    /// `eˣ − 1`.
    expm1 => Unary::Expm1;
    /// Natural logarithm.
    log => Unary::Log;
    /// `ln(1 + x)`.
    log1p => Unary::Log1p;
    /// Square root.
    sqrt => Unary::Sqrt;
    /// `1 / √x`.
    rsqrt => Unary::Rsqrt;
    /// `1 / x`.
    recip => Unary::Recip;
    /// Sine.
    sin => Unary::Sin;
    /// Cosine.
    cos => Unary::Cos;
    /// Hyperbolic tangent.
    tanh => Unary::Tanh;
    /// Error function.
    erf => Unary::Erf;
    /// `1 / (1 + e^(−x))`.
    sigmoid => Unary::Sigmoid;
    /// `max(x, 0)`, derivative 0 at 0; `NaN` stays.
    relu => Unary::Relu;
    /// Logical or bitwise complement.
    not => Unary::Not;
    /// `aᵇ`.
    pow => Binary::Pow with other;
    /// The larger of each pair.
    maximum => Binary::Max with other;
    /// The smaller of each pair.
    minimum => Binary::Min with other;
    /// Conjunction.
    and => Binary::And with other;
    /// Disjunction.
    or => Binary::Or with other;
    /// Exclusive or.
    xor => Binary::Xor with other;
    /// `a = b`.
    eq => Compare::Eq with other;
    /// `a ≠ b`.
    ne => Compare::Ne with other;
    /// `a < b`.
    lt => Compare::Lt with other;
    /// `a ≤ b`.
    le => Compare::Le with other;
    /// `a > b`.
    gt => Compare::Gt with other;
    /// `a ≥ b`.
    ge => Compare::Ge with other;
}

/// Arithmetic operators between values, and between a value and a number of its type.
macro_rules! operators {
    ($($trait:ident $method:ident $function:ident;)*) => { $(
        impl<'g> std::ops::$trait for Value<'g> {
            type Output = Value<'g>;
            #[track_caller]
            fn $method(self, other: Value<'g>) -> Value<'g> {
                self.binary(Binary::$function, other)
            }
        }
        impl<'g> std::ops::$trait<f32> for Value<'g> {
            type Output = Value<'g>;
            #[track_caller]
            fn $method(self, other: f32) -> Value<'g> {
                self.binary(Binary::$function, self.like(f64::from(other)))
            }
        }
        impl<'g> std::ops::$trait<Value<'g>> for f32 {
            type Output = Value<'g>;
            #[track_caller]
            fn $method(self, other: Value<'g>) -> Value<'g> {
                other.like(f64::from(self)).binary(Binary::$function, other)
            }
        }
    )* };
}

operators! {
    Add add Add;
    Sub sub Sub;
    Mul mul Mul;
    Div div Div;
    Rem rem Rem;
}

impl<'g> std::ops::Neg for Value<'g> {
    type Output = Value<'g>;
    #[track_caller]
    fn neg(self) -> Value<'g> {
        self.unary(Unary::Neg)
    }
}
