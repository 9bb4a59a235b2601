//! The structure of a kernel; the verifier's invariants K1–K4 are in `verify`, its meaning in `interp`.

use super::Stream;
use crate::dtype::DType;
pub use crate::index::ExprId;
use crate::index::Index;
use crate::scalar::{Binary, Compare, Monoid, Scalar, Unary};
use serde::{Deserialize, Serialize};

/// What an axis of the iteration space is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// Independent points; the batch dimensions of a contraction.
    Parallel,
    /// Rows of a stream, and of a contraction's result: only the left operand varies with it.
    Row,
    /// Columns of a contraction's result: only the right operand varies with it.
    Col,
    /// Folded: the elements of a row program's row, the contracted dimensions of a contraction, what a stream streams.
    Reduce,
    /// Summed over by a score of a stream.
    Depth,
}

/// One axis of the iteration space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Axis {
    /// Number of points along it.
    pub extent: usize,
    /// What it is for.
    pub role: Role,
}

/// A tensor that a kernel reads, writes, or both.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Arg {
    /// Element type.
    pub dtype: DType,
    /// Number of elements; every index into it is below this, or masked.
    pub elements: usize,
    /// How it is used.
    pub access: Access,
}

/// How a kernel uses a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Access {
    /// Loads only.
    Read,
    /// Stores only.
    Write,
    /// Loads and stores: a state updated in place, each element read and written by the same point only.
    ReadWrite,
}

/// The condition `0 ≤ index < extent`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bound {
    /// What is tested; may be negative.
    pub index: Index,
    /// The exclusive upper limit.
    pub extent: usize,
}

impl Bound {
    /// Whether the condition is known to hold at every point of a space with axes of these extents. A bound on a computed
    /// value never is: it is there to test what the index states.
    pub fn always_holds(&self, extents: &[usize]) -> bool {
        let inside = |(low, high): (i64, i64)| low >= 0 && high < self.extent as i64;
        self.index.values().is_empty() && self.index.range(extents).is_none_or(inside)
    }
}

/// A scalar computed at a point of the iteration space. Operands precede users in [`Kernel::exprs`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Expr {
    /// The same everywhere.
    Const(Scalar),
    /// The element `index` of an argument where all bounds in `mask` hold, else zero; memory is not touched then.
    Load {
        /// Position in [`Kernel::args`].
        arg: usize,
        /// Linear element index.
        index: Index,
        /// Conditions, all of which must hold.
        mask: Vec<Bound>,
    },
    /// The value of an index, as `u32`; must not be negative where it is used.
    Index(Index),
    /// 1 or 0 (`Bool`) as all the bounds hold or not.
    Within(Vec<Bound>),
    /// A function of one scalar.
    Unary(Unary, ExprId),
    /// A function of two scalars.
    Binary(Binary, ExprId, ExprId),
    /// A relation of two scalars.
    Compare(Compare, ExprId, ExprId),
    /// The second operand where the first (`Bool`) is true, else the third.
    Select(ExprId, ExprId, ExprId),
    /// Conversion by value: float → integer truncates and saturates, `NaN` gives 0; anything → `Bool` tests ≠ 0.
    Cast(ExprId, DType),
    /// The same 32 bits as another type (`f32`, `u32`, `i32`).
    Bitcast(ExprId, DType),
    /// 32 random bits: the first word of Threefry-2x32-20 with this key and counter `(counter, stream)`;
    /// see [`crate::kernel::threefry`].
    Random {
        /// Two `u32`: the seed and the step.
        key: [ExprId; 2],
        /// Tells generators of one program apart.
        stream: u32,
        /// Usually the linear index of the element.
        counter: Index,
    },
    /// The operand folded over the reduce axes: the same for all elements of a row.
    Reduce(Monoid, ExprId),
    /// A contraction's sum over its reduce axes, at a point of its result.
    Acc,
    /// A score of a [`Stream`], at a row and an element.
    Score(usize),
    /// The largest of a row, see [`Stream::peak`].
    Peak,
    /// A total of a [`Stream`], at a row and a column.
    Total(usize),
}

/// Where a value goes. Stores of a value that varies along the row happen at each element, others once a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Store {
    /// Position in [`Kernel::args`].
    pub arg: usize,
    /// Linear element index; distinct for distinct points.
    pub index: Index,
    /// What is stored; has the argument's type.
    pub value: ExprId,
    /// Whether it happens at each element (over all axes) or once for each point of the parallel, row and column axes.
    pub per_element: bool,
}

/// What a kernel does besides evaluating expressions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Body {
    /// Nothing: a map, or a row program if some axes are [`Role::Reduce`].
    Loop,
    /// `acc = Σ over reduce axes of lhs · rhs`.
    Contract {
        /// Left operand; varies with parallel, row and reduce axes.
        lhs: ExprId,
        /// Right operand; varies with parallel, column and reduce axes.
        rhs: ExprId,
        /// Type of [`Expr::Acc`]: `F32` for `f32` and `f16` operands.
        accumulate: DType,
    },
    /// Rows that stay while elements pass by.
    Stream(Box<Stream>),
}

/// One kernel. Axes are ordered parallel, row, column, reduce, depth.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Kernel {
    /// The iteration space.
    pub axes: Vec<Axis>,
    /// Tensors read and written.
    pub args: Vec<Arg>,
    /// Expressions, operands first.
    pub exprs: Vec<Expr>,
    /// The type of each expression.
    pub dtypes: Vec<DType>,
    /// Map, row program, contraction or stream.
    pub body: Body,
    /// Results.
    pub stores: Vec<Store>,
}

impl Kernel {
    /// Extents of all axes, for [`Index::range`] and its kin.
    pub fn extents(&self) -> Vec<usize> {
        self.axes.iter().map(|axis| axis.extent).collect()
    }

    /// Positions of the axes with a role, in order.
    pub fn axes_of(&self, role: Role) -> Vec<usize> {
        (0..self.axes.len()).filter(|&axis| self.axes[axis].role == role).collect()
    }

    /// Number of points along all the axes with a role; 1 if there are none.
    pub fn points(&self, role: Role) -> usize {
        self.axes.iter().filter(|axis| axis.role == role).map(|axis| axis.extent).product()
    }

    /// The expression of that id.
    pub fn expr(&self, id: ExprId) -> &Expr {
        &self.exprs[id.0 as usize]
    }

    /// The type of an expression.
    pub fn dtype(&self, id: ExprId) -> DType {
        self.dtypes[id.0 as usize]
    }

    /// Whether there is no point at which anything is stored: tensors without elements.
    pub fn is_idle(&self) -> bool {
        self.axes.iter().any(|axis| axis.extent == 0 && !matches!(axis.role, Role::Reduce | Role::Depth))
    }

    /// Whether this is a contraction.
    pub fn is_contraction(&self) -> bool {
        matches!(self.body, Body::Contract { .. })
    }

    /// For each expression whether it varies along the reduce axes (an operand of a fold, or a value per element).
    pub fn varies_in_row(&self) -> Vec<bool> {
        self.varies_with(&self.axes_of(Role::Reduce))
    }

    /// For each expression whether it varies along any of the axes. Folds do not vary along reduce axes, and along
    /// others as their operands do.
    pub fn varies_with(&self, axes: &[usize]) -> Vec<bool> {
        let folded = !axes.iter().any(|&axis| self.axes[axis].role != Role::Reduce);
        let in_row = |index: &Index, varies: &[bool]| {
            axes.iter().any(|&axis| index.uses_axis(axis)) || index.values().iter().any(|id| varies[id.0 as usize])
        };
        let mut varies: Vec<bool> = Vec::with_capacity(self.exprs.len());
        for expr in &self.exprs {
            let bounds = |bounds: &[Bound]| bounds.iter().any(|bound| in_row(&bound.index, &varies));
            let own = match expr {
                Expr::Load { index, mask, .. } => in_row(index, &varies) || bounds(mask),
                Expr::Index(index) | Expr::Random { counter: index, .. } => in_row(index, &varies),
                Expr::Within(mask) => bounds(mask),
                _ => false,
            };
            let constant = folded && matches!(expr, Expr::Reduce(..));
            let inherited = !constant && expr.operands().iter().any(|id| varies[id.0 as usize]);
            varies.push(own || inherited);
        }
        varies
    }

    /// For each expression the number of folds that must be finished before it can be evaluated: the pass of a row
    /// program in which it first exists. A fold belongs to the pass after the one that feeds it.
    pub fn passes(&self) -> Vec<usize> {
        let mut passes: Vec<usize> = Vec::with_capacity(self.exprs.len());
        for expr in &self.exprs {
            let ready = expr.operands().iter().map(|id| passes[id.0 as usize]).max().unwrap_or(0);
            passes.push(ready + usize::from(matches!(expr, Expr::Reduce(..))));
        }
        passes
    }

    /// The expressions needed for `roots`, in order; folds are followed into their operands only if `through_folds`.
    pub fn needed_for(&self, roots: &[ExprId], through_folds: bool) -> Vec<ExprId> {
        let mut needed = vec![false; self.exprs.len()];
        roots.iter().for_each(|id| needed[id.0 as usize] = true);
        for at in (0..self.exprs.len()).rev() {
            if needed[at] && (through_folds || !matches!(self.exprs[at], Expr::Reduce(..))) {
                self.exprs[at].operands().iter().for_each(|id| needed[id.0 as usize] = true);
            }
        }
        (0..self.exprs.len() as u32).map(ExprId).filter(|id| needed[id.0 as usize]).collect()
    }
}

impl Expr {
    /// The expressions that this one reads, those inside its indices too.
    pub fn operands(&self) -> Vec<ExprId> {
        let of_bounds = |bounds: &[Bound]| bounds.iter().flat_map(|bound| bound.index.values()).collect::<Vec<_>>();
        match self {
            Expr::Const(_) | Expr::Acc | Expr::Score(_) | Expr::Peak | Expr::Total(_) => Vec::new(),
            Expr::Load { index, mask, .. } => [index.values(), of_bounds(mask)].concat(),
            Expr::Index(index) => index.values(),
            Expr::Within(mask) => of_bounds(mask),
            Expr::Unary(_, a) | Expr::Cast(a, _) | Expr::Bitcast(a, _) | Expr::Reduce(_, a) => vec![*a],
            Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => vec![*a, *b],
            Expr::Select(a, b, c) => vec![*a, *b, *c],
            Expr::Random { key, counter, .. } => [key.to_vec(), counter.values()].concat(),
        }
    }
}

/// Threefry-2x32 with 20 rounds: 64 pseudo-random bits from a key and a counter, with adds, rotations and xors only.
///
/// Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
pub fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let keys = [key[0], key[1], 0x1bd1_1bda ^ key[0] ^ key[1]];
    let mut x = [counter[0].wrapping_add(keys[0]), counter[1].wrapping_add(keys[1])];
    for group in 0..5_u32 {
        for rotation in ROTATIONS[group as usize % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[1].rotate_left(rotation) ^ x[0];
        }
        let next = group as usize + 1;
        x[0] = x[0].wrapping_add(keys[next % 3]);
        x[1] = x[1].wrapping_add(keys[(next + 1) % 3]).wrapping_add(group + 1);
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threefry_gives_the_published_vectors() {
        // Known answers of the authors' Random123 distribution, threefry2x32-20.
        assert_eq!(threefry([0, 0], [0, 0]), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(threefry([u32::MAX; 2], [u32::MAX; 2]), [0x1cb9_96fc, 0xbb00_2be7]);
        assert_eq!(threefry([0x1319_8a2e, 0x0370_7344], [0x243f_6a88, 0x85a3_08d3]), [0xc492_3a9c, 0x483d_f7a0]);
    }
}
