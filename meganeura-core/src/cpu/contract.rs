//! Contractions: operands are read where they lie or packed through their prologues, multiplied block by block, and
//! results stored directly or through the epilogue.

use super::buffer::View;
use super::code::{Code, Op, Register, SUM, flat_stride};
use super::gemm::{Matrix, multiply};
use super::machine::{Fault, Machine};
use super::row::{for_tasks, ranges};
use super::threads;
use crate::dtype::DType;
use crate::index::Index;
use crate::kernel::{Expr, ExprId, Kernel, Role, Store};
use rayon::prelude::*;
use std::ops::Range;

/// Products that are worth a task of their own: some 10 µs at 90 GFLOP/s, measured on one AVX-512 core.
const TASK: usize = 1 << 19;
/// Elements packed or turned by one task.
const PACK_TASK: usize = 1 << 15;
/// Lanes of a block of a prologue or epilogue.
pub(super) const WIDTH: usize = 512;

/// A prepared contraction `[m, k] × [k, n] → [m, n]` for each point of the batch axes.
pub(super) struct ContractProgram {
    axes: usize,
    batch_axes: Vec<usize>,
    batch_extents: Vec<usize>,
    m: usize,
    n: usize,
    k: usize,
    accumulate: DType,
    lhs: Operand,
    rhs: Operand,
    output: Output,
    /// Whether work is cut along the rows, not the columns.
    cut_rows: bool,
    /// Rows (or columns) of a piece of work.
    block: usize,
}

/// Where an operand, seen as a matrix `[free, depth]`, comes from.
pub(super) enum Operand {
    /// It lies in memory with these strides.
    Plain(Plain),
    /// It is computed into scratch memory.
    Packed(Prologue),
}

pub(super) struct Plain {
    arg: usize,
    index: Index,
    strides: [i64; 2],
}

pub(super) struct Prologue {
    block: BlockCode,
    free: usize,
    depth: usize,
    /// Whether lanes run over the depth first.
    free_major: bool,
}

/// Where results go.
enum Output {
    Plain(Plain),
    Epilogue(BlockCode),
}

/// Code, cut into what is evaluated once a batch and what at each block.
pub(super) struct BlockCode {
    pub(super) code: Code,
    outer: Vec<Register>,
    pub(super) inner: Vec<Register>,
    acc: Option<Register>,
}

impl BlockCode {
    pub(super) fn new(mut code: Code) -> BlockCode {
        code.stores.iter_mut().for_each(|store| store.per_element = true);
        let of_store = code.stores.iter().flat_map(|store| [store.address.operands(), vec![store.value]].concat());
        let roots: Vec<Register> = code.roots.iter().copied().chain(of_store).collect();
        let lanes = code.lane_axes.iter().fold(SUM, |bits, axis| bits | 1 << axis);
        let (inner, outer) = code.needed_for(&roots).into_iter().partition(|&at| code.varies[at] & lanes != 0);
        let acc = code.ops.iter().position(|op| matches!(op, Op::Acc));
        BlockCode { code, outer, inner, acc }
    }

    /// A machine at a point of the batch axes.
    pub(super) fn enter<'a>(&'a self, args: &'a [View<'a>], point: &[usize]) -> Result<Machine<'a>, Fault> {
        let mut machine = Machine::new(&self.code, args, WIDTH, point.len());
        machine.point.copy_from_slice(point);
        machine.run(&self.outer, 1)?;
        machine.spread(&self.outer);
        Ok(machine)
    }
}

impl ContractProgram {
    /// Prepares a contraction of these operands.
    pub(super) fn new(kernel: &Kernel, lhs: ExprId, rhs: ExprId, accumulate: DType) -> ContractProgram {
        let batch_axes = kernel.axes_of(Role::Parallel);
        let batch_extents: Vec<usize> = batch_axes.iter().map(|&axis| kernel.axes[axis].extent).collect();
        let [m, n, k] = [Role::Row, Role::Col, Role::Reduce].map(|role| kernel.points(role));
        let cut_rows = m >= n;
        let longest = m.max(n);
        let many = batch_extents.iter().product::<usize>() >= 8;
        let block =
            if many || m * n * k < 2 * TASK { longest } else { (longest / 4).next_multiple_of(8).clamp(64, 256) };
        ContractProgram {
            axes: kernel.axes.len(),
            batch_axes,
            batch_extents,
            m,
            n,
            k,
            accumulate,
            lhs: Operand::new(kernel, lhs, Role::Row),
            rhs: Operand::new(kernel, rhs, Role::Col),
            output: Output::new(kernel),
            cut_rows,
            block: block.max(1),
        }
    }

    /// Runs the contraction on its arguments.
    pub(super) fn run(&self, args: &[View<'_>]) -> Result<(), Fault> {
        let batches = self.batch_extents.iter().product::<usize>();
        let longest = if self.cut_rows { self.m } else { self.n };
        if self.m * self.n == 0 {
            return Ok(());
        }
        if longest <= self.block {
            let each = (TASK / (self.m * self.n * self.k).max(1)).max(1);
            return for_tasks(batches, each, |batches| {
                let mut scratch = Scratch::default();
                batches.into_iter().try_for_each(|batch| {
                    let point = self.point(batch);
                    self.piece(args, &point, None, 0..longest, &mut scratch)
                })
            });
        }
        (0..batches).try_for_each(|batch| {
            let point = self.point(batch);
            let (mut packed, mut turned) = (Vec::new(), Vec::new());
            let (shared, free) = if self.cut_rows { (&self.rhs, self.n) } else { (&self.lhs, self.m) };
            if let Operand::Packed(prologue) = shared {
                prologue.pack_all(args, &point, &mut packed)?;
            }
            let shared = shared.matrix(args, &point, 0..free, self.k, &packed)?;
            let shared = self.turn(shared, &mut turned, true);
            for_tasks(longest, self.block, |block| {
                self.piece(args, &point, Some(shared), block, &mut Scratch::default())
            })
        })
    }

    fn point(&self, batch: usize) -> Vec<usize> {
        let mut point = vec![0; self.axes];
        let mut rest = batch;
        for (&axis, &extent) in self.batch_axes.iter().zip(&self.batch_extents).rev() {
            point[axis] = rest % extent;
            rest /= extent;
        }
        point
    }

    /// One block of rows (or columns) of one batch; `shared` is the operand that does not vary with the blocks.
    fn piece(
        &self,
        args: &[View<'_>],
        point: &[usize],
        shared: Option<Matrix<'_>>,
        block: Range<usize>,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let (own, other, other_free) =
            if self.cut_rows { (&self.lhs, &self.rhs, self.n) } else { (&self.rhs, &self.lhs, self.m) };
        own.pack(args, point, block.clone(), &mut scratch.own)?;
        let own = own.matrix(args, point, block.clone(), self.k, &scratch.own)?;
        let own = self.turn(own, &mut scratch.own_turned, false);
        let other = match shared {
            Some(shared) => shared,
            None => {
                other.pack(args, point, 0..other_free, &mut scratch.other)?;
                let other = other.matrix(args, point, 0..other_free, self.k, &scratch.other)?;
                self.turn(other, &mut scratch.other_turned, false)
            }
        };
        let (lhs, rhs) = if self.cut_rows { (own, other.transposed()) } else { (other, own.transposed()) };
        let shape = [lhs.shape[0], rhs.shape[1]];
        match &self.output {
            Output::Plain(plain) => {
                let whole = plain.matrix(args, point, [self.m, self.n])?;
                let out = if self.cut_rows {
                    whole.rows(block.start, block.len())
                } else {
                    whole.transposed().rows(block.start, block.len()).transposed()
                };
                multiply(self.accumulate, lhs, rhs, out);
                Ok(())
            }
            Output::Epilogue(epilogue) => {
                scratch.result.resize(shape[0] * shape[1], 0);
                multiply(self.accumulate, lhs, rhs, Matrix::of_words_mut(&mut scratch.result, shape));
                self.store(epilogue, args, point, block, &scratch.result)
            }
        }
    }

    /// The operand `[free, depth]` with contiguous free points, copied if it does not lie so; vectors need no such copy.
    fn turn<'a>(&self, operand: Matrix<'a>, to: &'a mut Vec<u32>, all_threads: bool) -> Matrix<'a> {
        let [free, depth] = operand.shape;
        if operand.is_row_contiguous() || self.m == 1 || self.n == 1 || depth == 0 {
            return operand;
        }
        to.resize(free * depth, 0);
        let lines = PACK_TASK.div_ceil(free);
        if all_threads && depth > lines {
            let pieces = to.par_chunks_mut(lines * free).enumerate();
            let copy = |(piece, to): (usize, &mut [u32])| operand.copy_columns(piece * lines, to);
            threads::spread(|| pieces.for_each(copy));
        } else {
            operand.copy_columns(0, to);
        }
        Matrix::of_words(to, [free, depth], false)
    }

    /// Evaluates the epilogue for a block of results.
    fn store(
        &self,
        epilogue: &BlockCode,
        args: &[View<'_>],
        point: &[usize],
        block: Range<usize>,
        result: &[u32],
    ) -> Result<(), Fault> {
        let mut machine = epilogue.enter(args, point)?;
        // Lanes of the result that follow one another: everything, or one row's part after the other.
        let (first, length, lines) = if self.cut_rows {
            (block.start * self.n, block.len() * self.n, 1)
        } else {
            (block.start, block.len(), self.m)
        };
        for line in 0..lines {
            for part in ranges(0..length, WIDTH) {
                machine.seek(first + line * self.n + part.start);
                if let Some(acc) = epilogue.acc {
                    let from = line * length + part.start;
                    machine.lanes_mut(acc, part.len()).copy_from_slice(&result[from..from + part.len()]);
                }
                machine.run(&epilogue.inner, part.len())?;
                machine.store(true, part.len())?;
            }
        }
        Ok(())
    }
}

/// Scratch memory of one task.
#[derive(Default)]
struct Scratch {
    own: Vec<u32>,
    own_turned: Vec<u32>,
    other: Vec<u32>,
    other_turned: Vec<u32>,
    result: Vec<u32>,
}

impl Operand {
    fn new(kernel: &Kernel, operand: ExprId, free: Role) -> Operand {
        Operand::over(kernel, operand, &kernel.axes_of(free), &kernel.axes_of(Role::Reduce))
    }

    /// The matrix of an expression over these axes.
    pub(super) fn over(kernel: &Kernel, operand: ExprId, free_axes: &[usize], depth_axes: &[usize]) -> Operand {
        if let Expr::Load { arg, index, mask } = kernel.expr(operand)
            && mask.is_empty()
            && let Some(plain) = Plain::new(kernel, *arg, index, free_axes, depth_axes)
        {
            return Operand::Plain(plain);
        }
        Operand::Packed(Prologue::new(kernel, operand, free_axes, depth_axes))
    }

    pub(super) fn pack(
        &self,
        args: &[View<'_>],
        point: &[usize],
        free: Range<usize>,
        to: &mut Vec<u32>,
    ) -> Result<(), Fault> {
        match self {
            Operand::Plain(_) => Ok(()),
            Operand::Packed(prologue) => prologue.pack(args, point, free, to),
        }
    }

    /// The matrix `[free, depth]`; `packed` is what [`pack`](Self::pack) made of the same range.
    pub(super) fn matrix<'a>(
        &self,
        args: &[View<'a>],
        point: &[usize],
        free: Range<usize>,
        depth: usize,
        packed: &'a [u32],
    ) -> Result<Matrix<'a>, Fault> {
        match self {
            Operand::Plain(plain) => {
                let whole = plain.matrix(args, point, [free.end, depth])?;
                Ok(whole.rows(free.start, free.len()))
            }
            Operand::Packed(prologue) => Ok(Matrix::of_words(packed, [free.len(), depth], prologue.free_major)),
        }
    }
}

impl Plain {
    /// An access that is a strided matrix of `f32`.
    fn new(kernel: &Kernel, arg: usize, index: &Index, rows: &[usize], cols: &[usize]) -> Option<Plain> {
        let extents = kernel.extents();
        let strides = [flat_stride(index, rows, &extents)?, flat_stride(index, cols, &extents)?];
        let plain = index.values().is_empty() && kernel.args[arg].dtype == DType::F32;
        plain.then(|| Plain { arg, index: index.clone(), strides })
    }

    fn matrix<'a>(&self, args: &[View<'a>], point: &[usize], shape: [usize; 2]) -> Result<Matrix<'a>, Fault> {
        let base = self.index.eval(point, &|_| 0);
        Matrix::of_view(&args[self.arg], base, shape, self.strides).map_err(|outside| Fault { arg: self.arg, outside })
    }
}

impl Prologue {
    fn new(kernel: &Kernel, operand: ExprId, free: &[usize], depth: &[usize]) -> Prologue {
        let along_depth = Code::new(kernel, [free, depth].concat(), &[operand]);
        let along_free = Code::new(kernel, [depth, free].concat(), &[operand]);
        let free_major = along_depth.contiguous_loads() >= along_free.contiguous_loads();
        let points = |axes: &[usize]| axes.iter().map(|&axis| kernel.axes[axis].extent).product();
        let block = BlockCode::new(if free_major { along_depth } else { along_free });
        Prologue { block, free: points(free), depth: points(depth), free_major }
    }

    /// The operand at a range of its free points.
    fn pack(&self, args: &[View<'_>], point: &[usize], free: Range<usize>, to: &mut Vec<u32>) -> Result<(), Fault> {
        to.resize(free.len() * self.depth, 0);
        let mut machine = self.block.enter(args, point)?;
        if self.free_major {
            return self.pack_lanes(&mut machine, free.start * self.depth, to);
        }
        let lines = to.chunks_mut(free.len().max(1)).enumerate();
        lines
            .into_iter()
            .try_for_each(|(depth, line)| self.pack_lanes(&mut machine, depth * self.free + free.start, line))
    }

    /// The whole operand, on all threads.
    fn pack_all(&self, args: &[View<'_>], point: &[usize], to: &mut Vec<u32>) -> Result<(), Fault> {
        to.resize(self.free * self.depth, 0);
        let pieces = to.par_chunks_mut(PACK_TASK).enumerate();
        let pack = |(piece, to): (usize, &mut [u32])| {
            self.pack_lanes(&mut self.block.enter(args, point)?, piece * PACK_TASK, to)
        };
        threads::spread(|| pieces.try_for_each(pack))
    }

    /// Consecutive lanes from `first` on.
    fn pack_lanes(&self, machine: &mut Machine<'_>, first: usize, to: &mut [u32]) -> Result<(), Fault> {
        let root = self.block.code.roots[0];
        for (block, to) in to.chunks_mut(WIDTH).enumerate() {
            machine.seek(first + block * WIDTH);
            machine.run(&self.block.inner, to.len())?;
            to.copy_from_slice(machine.lanes(root, to.len()));
        }
        Ok(())
    }
}

impl Output {
    fn new(kernel: &Kernel) -> Output {
        let (rows, cols) = (kernel.axes_of(Role::Row), kernel.axes_of(Role::Col));
        if let [Store { arg, index, value, .. }] = kernel.stores.as_slice()
            && matches!(kernel.expr(*value), Expr::Acc)
            && let Some(plain) = Plain::new(kernel, *arg, index, &rows, &cols)
        {
            return Output::Plain(plain);
        }
        Output::Epilogue(BlockCode::new(Code::new(kernel, [rows, cols].concat(), &[])))
    }
}
