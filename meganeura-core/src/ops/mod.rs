//! The primitive ops. One op (or one table of functions) is one file and one line in the list below; see
//! `docs/adding-an-op.md`.
//!
//! An op implements [`Operation`]: the type of its result, its derivative, its meaning in f64, how one element of its
//! result is made of its operands' elements, and samples that drive every test over all ops. There are no backward ops
//! and no fused ops: derivatives are built of ops, and fusion happens on kernels.

mod attention;
mod broadcast;
mod cast;
mod compare;
mod conv;
mod conv_dim;
mod dot;
mod elementwise;
mod gather;
mod iota;
mod leaf;
mod pad;
mod permute;
mod random;
mod reduce;
mod reshape;
mod sample;
mod scatter_add;
mod slice;
mod stop_gradient;
mod unfold;
mod window;

pub(crate) use attention::ComposedAttention;
pub use attention::{Attention, AttentionPart};
pub use broadcast::Broadcast;
pub use cast::{Bitcast, Cast};
pub use compare::{CompareOp, Select};
pub use conv::Conv;
pub use conv_dim::ConvDim;
pub use dot::{Dot, matmul};
pub use elementwise::{BinaryOp, UnaryOp};
pub use gather::Gather;
pub use iota::Iota;
pub use leaf::{Constant, Input, State};
pub use pad::Pad;
pub use permute::Permute;
pub use random::Random;
pub use reduce::{Reduce, Ties};
pub use reshape::Reshape;
pub use sample::{Fill, Sample, SampleOperand};
pub use scatter_add::ScatterAdd;
pub use slice::Slice;
pub use stop_gradient::StopGradient;
pub use unfold::Unfold;
pub use window::Window;

use crate::index::Index;
use crate::ir::{Value, Violation};
use crate::kernel::{Axis, ExprId, Mismatch, PointContext, Stream};
use crate::oracle::Array;
use crate::scalar::Monoid;
use crate::shape::TensorType;

/// What an op is. `Clone`, `PartialEq`, `Eq`, `Hash` on its attributes make equal nodes findable.
pub trait Operation {
    /// Name in text forms and errors.
    fn name(&self) -> &'static str;

    /// Attributes in text forms; empty if there are none.
    fn attributes(&self) -> String {
        String::new()
    }

    /// The op that has this name, these [`attributes`](Operation::attributes) and this result type, if it is of this kind.
    fn parse(name: &str, attributes: &str, result: &TensorType) -> Option<Self>
    where
        Self: Sized;

    /// The result's type: the only place where it is computed.
    ///
    /// # Errors
    /// The type rule that the operands break.
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation>;

    /// For each operand the part of the loss' gradient that flows to it; `None` where none flows.
    fn vjp<'g>(&self, at: &Vjp<'_, 'g>) -> Vec<Option<Value<'g>>> {
        at.operands.iter().map(|_| None).collect()
    }

    /// The meaning, in f64.
    fn eval(&self, operands: &[&Array], result: &TensorType) -> Array;

    /// The kind of kernel that computes it; a scalar of each point unless it says otherwise.
    fn lower(&self, operands: &[TensorType], result: &TensorType) -> Lowering {
        let _ = (operands, result);
        Lowering::Point
    }

    /// The scalar at one point. For [`Lowering::Point`] the point is an element of the result; for [`Lowering::Fold`]
    /// the coordinates of the result are followed by those folded over; for [`Lowering::Contract`] see there.
    ///
    /// # Errors
    /// [`Mismatch`] from the context.
    fn point(
        &self,
        operands: &[TensorType],
        result: &TensorType,
        cx: &mut dyn PointContext,
        coords: &[Index],
    ) -> Result<ExprId, Mismatch> {
        let _ = (operands, result, cx, coords);
        Err(Mismatch)
    }

    /// For [`Lowering::Stream`]: what is streamed, and the result in it.
    ///
    /// # Errors
    /// [`Mismatch`] from the context.
    fn stream(&self, operands: &[TensorType], cx: &mut dyn PointContext) -> Result<Streamed, Mismatch> {
        let _ = (operands, cx);
        Err(Mismatch)
    }

    /// If each element of operand 0 determines exactly one element of the result (views that are bijections, functions
    /// of each element): the coordinates of that element, for the operand's element at `coords`.
    fn carry(&self, operand: &TensorType, result: &TensorType, coords: &[Index], axes: &[usize]) -> Option<Vec<Index>> {
        let _ = axes;
        (self.is_elementwise() && operand.shape == result.shape).then(|| coords.to_vec())
    }

    /// Whether element `i` of the result depends on element `i` of each operand only.
    fn is_elementwise(&self) -> bool {
        false
    }

    /// Whether each element is one element of operand 0, or a constant: an access map without arithmetic, which fusion
    /// never stores for its own sake.
    fn is_view(&self) -> bool {
        false
    }

    /// Whether computing an element takes many instructions, so that fusion rather stores it than computes it twice.
    fn is_costly(&self) -> bool {
        false
    }

    /// Operands and attributes that tests run the op on.
    fn samples() -> Vec<Sample>
    where
        Self: Sized;
}

/// The kind of kernel that computes an op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lowering {
    /// Nothing computes it: memory that the host or an earlier step filled.
    Leaf,
    /// A scalar of each point of the result.
    Point,
    /// For each point of the result, scalars folded over further axes.
    Fold {
        /// How they are combined.
        monoid: Monoid,
        /// Extents of the folded axes.
        extents: Vec<usize>,
    },
    /// Sums of products. [`Operation::point`] is called with the coordinates of the axes in the order batch, rows, cols,
    /// depth, once with 0 and once with 1 pushed as a last constant: the left and the right factor.
    Contract {
        /// Extents of the axes that both factors and the result have.
        batch: Vec<usize>,
        /// Extents of the axes that only the left factor and the result have.
        rows: Vec<usize>,
        /// Extents of the axes that only the right factor and the result have.
        cols: Vec<usize>,
        /// Extents of the axes summed over.
        depth: Vec<usize>,
        /// For each dimension of the result its coordinate; the axes are batch, rows, cols, depth.
        position: Vec<Index>,
    },
    /// A [`Stream`], which [`Operation::stream`] gives. Ops of equal operands, axes and streams share one kernel.
    Stream {
        /// The kernel's space.
        axes: Vec<Axis>,
        /// Where the result's element lies in it.
        position: Vec<Index>,
    },
}

/// What [`Operation::stream`] gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Streamed {
    /// The kernel's body.
    pub stream: Stream,
    /// The op's result.
    pub result: ExprId,
}

/// A node at which the backward sweep stands.
pub struct Vjp<'a, 'g> {
    /// The operands.
    pub operands: &'a [Value<'g>],
    /// The result.
    pub result: Value<'g>,
    /// The gradient with respect to the result; has its type.
    pub cotangent: Value<'g>,
    /// For each operand whether anything asks for its gradient.
    pub wanted: &'a [bool],
}

/// The list of ops: makes the enum, its delegation, and the registry that tests walk.
macro_rules! ops {
    ($($(#[$doc:meta])* $variant:ident($attributes:ty),)*) => {
        /// Any op, with its attributes.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Op { $($(#[$doc])* $variant($attributes),)* }

        impl Operation for Op {
            fn name(&self) -> &'static str { match self { $(Op::$variant(op) => op.name(),)* } }
            fn attributes(&self) -> String { match self { $(Op::$variant(op) => op.attributes(),)* } }
            fn parse(name: &str, attributes: &str, result: &TensorType) -> Option<Op> {
                None$(.or_else(|| <$attributes>::parse(name, attributes, result).map(Op::$variant)))*
            }
            fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
                match self { $(Op::$variant(op) => op.infer(operands),)* }
            }
            fn vjp<'g>(&self, at: &Vjp<'_, 'g>) -> Vec<Option<Value<'g>>> {
                match self { $(Op::$variant(op) => op.vjp(at),)* }
            }
            fn eval(&self, operands: &[&Array], result: &TensorType) -> Array {
                match self { $(Op::$variant(op) => op.eval(operands, result),)* }
            }
            fn lower(&self, operands: &[TensorType], result: &TensorType) -> Lowering {
                match self { $(Op::$variant(op) => op.lower(operands, result),)* }
            }
            fn point(
                &self, operands: &[TensorType], result: &TensorType, cx: &mut dyn PointContext, coords: &[Index],
            ) -> Result<ExprId, Mismatch> {
                match self { $(Op::$variant(op) => op.point(operands, result, cx, coords),)* }
            }
            fn carry(
                &self, operand: &TensorType, result: &TensorType, coords: &[Index], axes: &[usize],
            ) -> Option<Vec<Index>> {
                match self { $(Op::$variant(op) => op.carry(operand, result, coords, axes),)* }
            }
            fn stream(&self, operands: &[TensorType], cx: &mut dyn PointContext) -> Result<Streamed, Mismatch> {
                match self { $(Op::$variant(op) => op.stream(operands, cx),)* }
            }
            fn is_elementwise(&self) -> bool { match self { $(Op::$variant(op) => op.is_elementwise(),)* } }
            fn is_view(&self) -> bool { match self { $(Op::$variant(op) => op.is_view(),)* } }
            fn is_costly(&self) -> bool { match self { $(Op::$variant(op) => op.is_costly(),)* } }
            fn samples() -> Vec<Sample> { let mut all = Vec::new(); $(all.extend(<$attributes>::samples());)* all }
        }

        impl Op {
            /// Each op of the list with its samples; tests over all ops walk it.
            pub fn registry() -> Vec<(&'static str, Vec<Sample>)> {
                vec![$((stringify!($variant), <$attributes>::samples()),)*]
            }

            /// The name of this op's entry in the [`registry`](Op::registry).
            pub fn entry(&self) -> &'static str { match self { $(Op::$variant(_) => stringify!($variant),)* } }
        }
    };
}

ops! {
    /// A tensor that the host writes.
    Input(Input),
    /// A state's value before the step.
    State(State),
    /// One scalar everywhere.
    Constant(Constant),
    /// Coordinates.
    Iota(Iota),
    /// A function of each element.
    Unary(UnaryOp),
    /// A function of each pair of elements.
    Binary(BinaryOp),
    /// A relation of each pair of elements.
    Compare(CompareOp),
    /// One of two by a truth value.
    Select(Select),
    /// Another element type, by value.
    Cast(Cast),
    /// Another element type, by bits.
    Bitcast(Bitcast),
    /// Another shape over the same elements.
    Reshape(Reshape),
    /// Dimensions in another order.
    Permute(Permute),
    /// Repetition along dimensions.
    Broadcast(Broadcast),
    /// A block.
    Slice(Slice),
    /// A border.
    Pad(Pad),
    /// Dimensions folded.
    Reduce(Reduce),
    /// Sums of products.
    Dot(Dot),
    /// Sums of products over windows.
    Conv(Conv),
    /// Windows as dimensions.
    Unfold(Unfold),
    /// Attention and its gradient.
    Attention(Attention),
    /// Elements by index.
    Gather(Gather),
    /// Sums by index.
    ScatterAdd(ScatterAdd),
    /// Random bits.
    Random(Random),
    /// A value that passes no gradient.
    StopGradient(StopGradient),
}

/// The dtype rule of most ops: `count` operands, all of one type.
fn same_types(operands: &[TensorType], count: usize) -> Result<&TensorType, Violation> {
    operand_count(operands, count)?;
    let equal = operands.iter().all(|ty| ty == &operands[0]);
    Violation::unless(equal, "operands have one element type and shapes that broadcast together", || {
        operands.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
    })?;
    Ok(&operands[0])
}

fn operand_count(operands: &[TensorType], count: usize) -> Result<(), Violation> {
    Violation::unless(operands.len() == count, "the op has a fixed number of operands", || {
        format!("{} instead of {count}", operands.len())
    })
}

/// The scalars of all operands at the point itself, for elementwise ops.
fn scalars_at(operands: &[TensorType], cx: &mut dyn PointContext, coords: &[Index]) -> Result<Vec<ExprId>, Mismatch> {
    (0..operands.len()).map(|operand| cx.operand(operand, coords)).collect()
}
