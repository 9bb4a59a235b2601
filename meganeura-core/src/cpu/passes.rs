//! Cuts the instructions of a row program into passes.

use super::code::{Code, Op, Register};
use crate::dtype::DType;
use crate::scalar::Monoid;

/// One pass over the row: what ends in folds, or in stores.
#[derive(Default)]
pub(super) struct Pass {
    /// Evaluated once a row.
    pub(super) outer: Instructions,
    /// Evaluated at each element.
    pub(super) inner: Instructions,
    pub(super) folds: Vec<Fold>,
}

/// Instructions of a pass.
#[derive(Default)]
pub(super) struct Instructions {
    pub(super) all: Vec<Register>,
    /// Those that no earlier pass has evaluated.
    pub(super) new: Vec<Register>,
}

#[derive(Clone, Copy)]
pub(super) struct Fold {
    pub(super) register: Register,
    pub(super) operand: Register,
    pub(super) monoid: Monoid,
    pub(super) dtype: DType,
}

impl Fold {
    pub(super) fn identity(&self) -> f64 {
        self.monoid.identity(self.dtype).value()
    }

    pub(super) fn combine(&self, a: f64, b: f64) -> f64 {
        self.monoid.combine().eval(self.dtype, a, b)
    }
}

/// Which instructions belong to which pass.
pub(super) struct Schedule<'c> {
    code: &'c Code,
    /// Axes of the elements of a row.
    element_bits: u64,
    /// For each register the number of folds before it.
    depth: Vec<usize>,
    /// Instructions whose values are the same everywhere.
    pub(super) uniform: Vec<Register>,
}

impl<'c> Schedule<'c> {
    pub(super) fn new(code: &'c Code, element_bits: u64) -> Schedule<'c> {
        let mut depth: Vec<usize> = Vec::new();
        for op in &code.ops {
            let ready = op.operands().into_iter().map(|operand| depth[operand]).max().unwrap_or(0);
            depth.push(ready + usize::from(matches!(op, Op::Fold(..))));
        }
        let uniform = (0..code.ops.len()).filter(|&at| code.varies[at] == 0 && depth[at] == 0).collect();
        Schedule { code, element_bits, depth, uniform }
    }

    /// The passes that end in folds, and the last one, which ends in stores.
    pub(super) fn passes(&self) -> (Vec<Pass>, Pass) {
        let mut known: Vec<bool> = vec![false; self.code.ops.len()];
        self.uniform.iter().for_each(|&register| known[register] = true);
        let deepest = self.depth.iter().copied().max().unwrap_or(0);
        let passes = (1..=deepest).map(|depth| {
            let folds = self.folds(depth);
            let operands: Vec<Register> = folds.iter().map(|fold| fold.operand).collect();
            self.pass(&operands, folds, &mut known)
        });
        let passes = passes.collect();
        let stored: Vec<Register> =
            self.code.stores.iter().flat_map(|store| [store.address.operands(), vec![store.value]].concat()).collect();
        let stores = self.pass(&stored, Vec::new(), &mut known);
        (passes, stores)
    }

    fn folds(&self, depth: usize) -> Vec<Fold> {
        let folds = self.code.ops.iter().enumerate().filter_map(|(register, op)| match *op {
            Op::Fold(monoid, dtype, operand) if self.depth[register] == depth => {
                Some(Fold { register, operand, monoid, dtype })
            }
            _ => None,
        });
        folds.collect()
    }

    fn pass(&self, roots: &[Register], folds: Vec<Fold>, known: &mut [bool]) -> Pass {
        let mut pass = Pass { folds, ..Pass::default() };
        for register in self.code.needed_for(roots) {
            if self.code.varies[register] == 0 && self.depth[register] == 0 {
                continue;
            }
            let varies = self.code.varies[register] & self.element_bits != 0;
            let list = if varies { &mut pass.inner } else { &mut pass.outer };
            list.all.push(register);
            if !known[register] {
                list.new.push(register);
                known[register] = true;
            }
        }
        pass
    }
}

/// A set of axes.
pub(super) fn bits(axes: &[usize]) -> u64 {
    axes.iter().fold(0, |bits, axis| bits | 1 << axis)
}
