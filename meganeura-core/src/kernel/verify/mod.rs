//! The invariants of a kernel. A kernel that passes may run unchecked on a device; a failure is always a mistake of
//! the compiler, never of a user.
//!
//! - **K1** each access is in bounds, or masked; a computed value in an index is below the bound that the index states.
//! - **K2** each element of a result is written once.
//! - **K4** types, roles and the order of expressions are consistent: the one source that printers may rely on.
//!
//! (K3, barriers in uniform flow, is a property of printed shaders; K5, equality with the oracle, one of tests.)

mod bounds;
mod layout;
mod size;
mod stores;
mod stream;
#[cfg(test)]
mod tests;

use super::{Bound, Expr, ExprId, Kernel, Role};
use crate::dtype::DType;
use crate::index::Index;
use std::fmt;

/// The invariant that a kernel breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// Accesses in bounds.
    K1,
    /// Results written once.
    K2,
    /// One consistent layout and typing.
    K4,
}

/// The part of a kernel that is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Position in [`Kernel::axes`].
    Axis(usize),
    /// An expression.
    Expr(ExprId),
    /// Position in [`Kernel::stores`].
    Store(usize),
    /// The contraction.
    Body,
}

/// What is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// An index may leave its tensor.
    #[error("element {index} of argument {arg}, which has {elements}, may be accessed")]
    OutOfBounds {
        /// Position in [`Kernel::args`].
        arg: usize,
        /// An element outside.
        index: i64,
        /// Elements of the argument.
        elements: usize,
    },
    /// A computed value may reach the bound that an index states for it.
    #[error("%{id} may be {reached}, which is not below the bound {bound} that an index states", id = .value.0)]
    ValueBound {
        /// The value.
        value: ExprId,
        /// The stated bound.
        bound: i64,
        /// What the value may be.
        reached: i64,
    },
    /// Two points may store to one element.
    #[error("different points may store to the same element of argument {arg}")]
    StoredTwice {
        /// Position in [`Kernel::args`].
        arg: usize,
    },
    /// An element updated in place is read by another point than the one that writes it.
    #[error("argument {arg} is updated in place but read at another index")]
    ReadElsewhere {
        /// Position in [`Kernel::args`].
        arg: usize,
    },
    /// An argument is loaded or stored against its declared access.
    #[error("argument {arg} is not declared for this access")]
    Access {
        /// Position in [`Kernel::args`].
        arg: usize,
    },
    /// There is no axis, argument or earlier expression of that number, or a divisor is not positive.
    #[error("{what} {number} does not exist here")]
    Missing {
        /// `axis`, `argument`, `expression`, `type` or `divisor`.
        what: &'static str,
        /// Its number.
        number: i64,
    },
    /// An operand, a result or an argument of another type.
    #[error("expected {expected}, found {found}")]
    Type {
        /// The type required.
        expected: DType,
        /// The type there is.
        found: DType,
    },
    /// A function that does not take its operand's type.
    #[error("the function does not take {dtype}")]
    Untaken {
        /// The operand's type.
        dtype: DType,
    },
    /// An axis after one of a later role, or a role that the body has no use for.
    #[error("an axis of role {role} must not be here")]
    Role {
        /// Its role.
        role: Role,
    },
    /// A number that is 0 where it must not be, or so large that arithmetic with it could overflow.
    #[error("{what} {number} is 0 or beyond what a kernel needs")]
    Number {
        /// What it is.
        what: &'static str,
        /// The number.
        number: i64,
    },
    /// A value varies with an axis that it must not vary with.
    #[error("varies with axis {axis}, of role {role}")]
    Varies {
        /// Position in [`Kernel::axes`].
        axis: usize,
        /// Its role.
        role: Role,
    },
    /// A fold without reduce axes or in a contraction, a contraction's sum elsewhere than in its epilogue, or a
    /// contraction's store at each element.
    #[error("this kind of kernel, or this part of it, cannot have it")]
    Misplaced,
}

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{invariant:?} at {part}: {problem}")]
#[non_exhaustive]
pub struct VerifyError {
    /// Which invariant.
    pub invariant: Invariant,
    /// Where.
    pub part: Part,
    /// Why.
    pub problem: Problem,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Axis(axis) => write!(f, "axis i{axis}"),
            Part::Expr(id) => write!(f, "expression %{}", id.0),
            Part::Store(store) => write!(f, "store {store}"),
            Part::Body => f.write_str("the contraction"),
        }
    }
}

/// Checks all invariants of a kernel.
///
/// # Errors
/// The first one that is broken.
pub fn verify(kernel: &Kernel) -> Result<(), VerifyError> {
    layout::verify(kernel)?;
    size::verify(kernel)?;
    bounds::verify(kernel)?;
    stores::verify(kernel)
}

fn fail(invariant: Invariant, part: Part, problem: Problem) -> Result<(), VerifyError> {
    Err(VerifyError { invariant, part, problem })
}

impl Kernel {
    /// For each expression the axes that it varies with, as bits.
    pub fn variation(&self) -> Vec<u64> {
        variation(self)
    }
}

fn variation(kernel: &Kernel) -> Vec<u64> {
    let of = |role| kernel.axes_of(role).iter().fold(0_u64, |bits, axis| bits | 1 << axis);
    let reduce = of(Role::Reduce);
    let all = (1_u64 << kernel.axes.len()) - 1;
    let of_row = of(Role::Parallel) | of(Role::Row);
    let column = |total: usize, varies: &[u64]| {
        let value = kernel.stream().and_then(|stream| stream.totals.get(total)?.value);
        value.and_then(|value| varies.get(value.0 as usize)).map_or(0, |bits| bits & of(Role::Col))
    };
    let mut varies: Vec<u64> = Vec::with_capacity(kernel.exprs.len());
    for expr in &kernel.exprs {
        let of_mask = |mask: &[Bound]| mask.iter().fold(0, |bits, bound| bits | own_axes(kernel, &bound.index));
        let own = match expr {
            Expr::Load { index, mask, .. } => own_axes(kernel, index) | of_mask(mask),
            Expr::Index(index) | Expr::Random { counter: index, .. } => own_axes(kernel, index),
            Expr::Within(mask) => of_mask(mask),
            Expr::Acc => all & !reduce,
            Expr::Score(_) => of_row | reduce,
            Expr::Peak => of_row,
            Expr::Total(at) => of_row | column(*at, &varies),
            _ => 0,
        };
        let bits = expr.operands().iter().fold(own, |bits, id| bits | varies[id.0 as usize]);
        varies.push(if matches!(expr, Expr::Reduce(..)) { bits & !reduce } else { bits });
    }
    varies
}

/// The axes whose coordinates an index reads itself.
fn own_axes(kernel: &Kernel, index: &Index) -> u64 {
    (0..kernel.axes.len()).filter(|&axis| index.uses_axis(axis)).fold(0, |bits, axis| bits | 1 << axis)
}
