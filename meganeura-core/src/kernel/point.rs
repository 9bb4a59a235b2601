//! The seam between ops and kernels: an op says what one element of its result is, in terms of its operands' elements.

use crate::index::Index;
use crate::kernel::{Bound, Expr, ExprId};
use crate::scalar::Scalar;

/// The kernel under construction cannot hold that element: some operand lies in it at another point of its space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch;

/// What an op sees of the kernel that it is lowered into.
pub trait PointContext {
    /// Extents of the kernel's axes, for [`Index::div`] and [`Index::rem`].
    fn axes(&self) -> &[usize];

    /// The scalar that an operand has at `coords`; one index a dimension of the operand.
    ///
    /// # Errors
    /// [`Mismatch`] if the kernel under construction cannot provide it.
    fn operand(&mut self, operand: usize, coords: &[Index]) -> Result<ExprId, Mismatch>;

    /// Adds an expression, or finds the equal one.
    fn push(&mut self, expr: Expr) -> ExprId;

    /// Runs `inside` with loads masked by `bounds` besides the masks already in force.
    ///
    /// # Errors
    /// That of `inside`.
    fn masked(
        &mut self,
        bounds: &[Bound],
        inside: &mut dyn FnMut(&mut dyn PointContext) -> Result<ExprId, Mismatch>,
    ) -> Result<ExprId, Mismatch>;

    /// `value`, which came from inside of [`masked`](PointContext::masked) with these bounds, where they hold, else `fill`:
    /// only loads are 0 outside by themselves.
    fn filled(&mut self, bounds: Vec<Bound>, value: ExprId, fill: Scalar) -> ExprId;
}
