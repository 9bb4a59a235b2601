//! Streamed products: a tile of rows stays while the elements of the streamed axes pass by, so that what is between two
//! products (scores, a softmax) never is in memory.

use super::{Expr, ExprId, Kernel, Role};
use crate::scalar::{Binary, Scalar, Unary};
use serde::{Deserialize, Serialize};

/// What [`Body::Stream`](super::Body::Stream) computes. There is one [`Role::Row`] axis; the streamed axes are those of
/// [`Role::Reduce`], and an *element* is a point of theirs. An element counts for a row if its coordinate along the last
/// streamed axis is in the band and below the length; others are as if they did not exist.
///
/// With a score, a peak and two totals this is attention (Dao et al., arXiv 2205.14135); with two scores and totals it is
/// either half of its gradient.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stream {
    /// What [`Expr::Score`] stands for.
    pub scores: Vec<Score>,
    /// A value at a row and an element; [`Expr::Peak`] is the largest of a row, or the lowest finite number if that is
    /// larger. Weights must then be relative to it, see [`Kernel::is_relative`], so that they can be computed before it is
    /// known.
    pub peak: Option<ExprId>,
    /// What [`Expr::Total`] stands for.
    pub totals: Vec<Total>,
    /// An element counts for a row only if it is at least, and at most, so far behind it (by the coordinate along the last
    /// streamed axis, less that of the row).
    pub band: [Option<i64>; 2],
    /// A `u32` that varies with parallel axes only: an element's last coordinate must be below it.
    pub length: Option<ExprId>,
}

/// `Σ over depth of lhs · rhs`, at a row and an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Score {
    /// Varies with parallel axes, the row and the depth.
    pub lhs: ExprId,
    /// Varies with parallel axes, the element and the depth.
    pub rhs: ExprId,
    /// The axis summed over, of [`Role::Depth`].
    pub depth: usize,
}

/// `Σ over elements of weight · value`, at a row and, if the value varies with one, a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Total {
    /// Varies with parallel axes, the row and the element.
    pub weight: ExprId,
    /// Varies with parallel axes, the element and one column axis at most; 1 if there is none.
    pub value: Option<ExprId>,
}

impl Stream {
    /// The column axis along which a total varies.
    pub fn column(&self, kernel: &Kernel, total: usize) -> Option<usize> {
        let value = self.totals[total].value?;
        let varies = kernel.variation()[value.0 as usize];
        kernel.axes_of(Role::Col).into_iter().find(|axis| varies & (1 << axis) != 0)
    }

    /// Pairs of a row and an element in its band.
    pub fn pairs(&self, kernel: &Kernel) -> u64 {
        let rows = kernel.points(Role::Row) as i64;
        let streamed = kernel.axes_of(Role::Reduce);
        let last = streamed.last().map_or(0, |&axis| kernel.axes[axis].extent as i64);
        let outer: usize = streamed.iter().rev().skip(1).map(|&axis| kernel.axes[axis].extent).product();
        let of_row = |row: i64| {
            let low = self.band[0].map_or(0, |low| (row + low).max(0));
            let high = self.band[1].map_or(last - 1, |high| (row + high).min(last - 1));
            (high - low + 1).max(0) as u64
        };
        (0..rows).map(of_row).sum::<u64>() * outer as u64
    }

    /// Every expression that the body names.
    pub fn roots(&self) -> Vec<ExprId> {
        let scores = self.scores.iter().flat_map(|score| [score.lhs, score.rhs]);
        let totals = self.totals.iter().flat_map(|total| std::iter::once(total.weight).chain(total.value));
        scores.chain(self.peak).chain(totals).chain(self.length).collect()
    }
}

impl Kernel {
    /// The stream, if this is one.
    pub fn stream(&self) -> Option<&Stream> {
        match &self.body {
            super::Body::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    /// Whether an expression is a multiple of `exp(−peak)`: `exp(x − peak)`, or a choice between that and 0.
    pub fn is_relative(&self, id: ExprId) -> bool {
        let of_peak = |id: &ExprId| {
            let needed = self.needed_for(&[*id], true);
            needed.iter().any(|id| matches!(self.expr(*id), Expr::Peak))
        };
        let zero = |id: &ExprId| matches!(self.expr(*id), Expr::Const(scalar) if *scalar == Scalar::f32(0.0));
        match self.expr(id) {
            Expr::Select(condition, yes, no) => {
                !of_peak(condition) && [yes, no].into_iter().all(|arm| zero(arm) || self.is_relative(*arm))
            }
            Expr::Unary(Unary::Exp, a) => match self.expr(*a) {
                Expr::Binary(Binary::Sub, x, peak) => !of_peak(x) && matches!(self.expr(*peak), Expr::Peak),
                _ => false,
            },
            _ => false,
        }
    }
}
