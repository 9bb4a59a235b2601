//! Maps and row programs.
//!
//! Lanes run either over the elements of one row, or over neighbouring rows while their elements are visited one after
//! another (columns are folded). A map is one row whose elements are all points. Whatever the number of threads, folds
//! combine the same chunks in the same order: lanes of a block in f32 (see [`lanes::fold`]), blocks and chunks in f64.

use super::buffer::View;
use super::code::{Code, Register};
use super::lanes;
use super::machine::{Fault, Machine};
use super::passes::{Fold, Pass, Schedule, bits};
use super::threads;
use crate::kernel::{Kernel, Role};
use rayon::prelude::*;
use std::ops::Range;

/// Evaluations of one instruction at one point that are worth a task of their own: some 20 µs.
const TASK: usize = 1 << 17;
/// Bytes of registers that stay in the first-level cache.
const CACHED: usize = 32 << 10;
/// Rows of up to this many bytes of registers are kept whole between passes (in the second-level cache).
const KEPT: usize = 256 << 10;
/// Reduced points that a chunk of folded columns has.
const COLUMN_CHUNK: usize = 4096;

/// A prepared map or row program.
pub(super) struct RowProgram {
    code: Code,
    axes: usize,
    lanes_over: LanesOver,
    /// The axes that lanes do not run over, and their extents.
    other_axes: Vec<usize>,
    other_extents: Vec<usize>,
    /// Lanes of a block.
    width: usize,
    /// Points of a chunk: lanes of a row, or elements of neighbouring rows.
    chunk: usize,
    /// Instructions whose values are the same everywhere.
    uniform: Vec<Register>,
    passes: Vec<Pass>,
    stores: Pass,
    has_element_stores: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LanesOver {
    Elements,
    Rows,
}

impl RowProgram {
    /// Prepares a kernel that is not a contraction.
    pub(super) fn new(kernel: &Kernel) -> RowProgram {
        let (parallel, reduce) = (kernel.axes_of(Role::Parallel), kernel.axes_of(Role::Reduce));
        let (code, lanes_over) = lay_out(kernel, &parallel, &reduce);
        let other_axes: Vec<usize> = (0..kernel.axes.len()).filter(|axis| !code.lane_axes.contains(axis)).collect();
        let other_extents: Vec<usize> = other_axes.iter().map(|&axis| kernel.axes[axis].extent).collect();
        let element_bits = match lanes_over {
            LanesOver::Elements => bits(&code.lane_axes),
            LanesOver::Rows => bits(&reduce),
        };
        let schedule = Schedule::new(&code, element_bits);
        let (passes, stores) = schedule.passes();
        let registers = code.ops.len().max(1);
        let width = width(lanes_over, !passes.is_empty(), code.lanes(), registers);
        let chunk = match lanes_over {
            LanesOver::Elements => (TASK / registers).div_ceil(width).max(1) * width,
            LanesOver::Rows => COLUMN_CHUNK,
        };
        RowProgram {
            axes: kernel.axes.len(),
            uniform: schedule.uniform,
            has_element_stores: code.stores.iter().any(|store| store.per_element),
            code,
            lanes_over,
            other_axes,
            other_extents,
            width,
            chunk,
            passes,
            stores,
        }
    }

    /// Runs the program on its arguments.
    pub(super) fn run(&self, args: &[View<'_>]) -> Result<(), Fault> {
        let (lanes, others) = (self.code.lanes(), self.other_extents.iter().product::<usize>());
        let small = lanes * others * self.code.ops.len() < 2 * TASK;
        match self.lanes_over {
            // No rows; rows without elements still give the folds of nothing.
            LanesOver::Elements if others == 0 => Ok(()),
            LanesOver::Elements if !small && lanes > self.chunk && others < 16 => {
                (0..others).try_for_each(|row| self.long_row(args, row))
            }
            LanesOver::Elements => {
                let task = if small { others } else { (TASK / (lanes * self.code.ops.len()).max(1)).max(1) };
                for_tasks(others, task, |rows| {
                    let mut machine = self.machine(args)?;
                    rows.into_iter().try_for_each(|row| self.row(&mut machine, row))
                })
            }
            LanesOver::Rows => {
                let blocks = lanes.div_ceil(self.width.max(1));
                let spread = !small && blocks < 8 && others > self.chunk;
                for_tasks(blocks, if small || spread { blocks } else { 1 }, |blocks| {
                    let mut machine = self.machine(args)?;
                    blocks.into_iter().try_for_each(|block| self.columns(&mut machine, args, block, spread))
                })
            }
        }
    }

    fn machine<'a>(&'a self, args: &'a [View<'a>]) -> Result<Machine<'a>, Fault> {
        let mut machine = Machine::new(&self.code, args, self.width, self.axes);
        machine.run(&self.uniform, self.width.min(1))?;
        machine.spread(&self.uniform);
        Ok(machine)
    }

    /// Moves along the axes that lanes do not run over.
    fn seek_other(&self, machine: &mut Machine<'_>, position: usize) {
        let mut rest = position;
        for (&axis, &extent) in self.other_axes.iter().zip(&self.other_extents).rev() {
            machine.point[axis] = rest % extent.max(1);
            rest /= extent.max(1);
        }
    }

    /// One row after another: all of it on this thread.
    fn row(&self, machine: &mut Machine<'_>, row: usize) -> Result<(), Fault> {
        self.seek_other(machine, row);
        let lanes = self.code.lanes();
        let kept = lanes <= self.width;
        for pass in &self.passes {
            machine.seek(0);
            self.enter(machine, &pass.outer.new)?;
            let inner = if kept { &pass.inner.new } else { &pass.inner.all };
            let mut folded: Vec<f64> = pass.folds.iter().map(Fold::identity).collect();
            for chunk in ranges(0..lanes, self.chunk) {
                let part = self.fold_chunk(machine, pass, inner, chunk)?;
                combine(&pass.folds, &mut folded, &part);
            }
            self.set_folds(machine, pass, &folded);
        }
        machine.seek(0);
        self.enter(machine, &self.stores.outer.new)?;
        if self.has_element_stores {
            let inner = if kept { &self.stores.inner.new } else { &self.stores.inner.all };
            self.store_chunk(machine, inner, 0..lanes)?;
        }
        machine.store(false, 1)
    }

    /// One row, its chunks on all threads.
    fn long_row(&self, args: &[View<'_>], row: usize) -> Result<(), Fault> {
        let chunks: Vec<Range<usize>> = ranges(0..self.code.lanes(), self.chunk).collect();
        let mut results: Vec<Vec<f64>> = Vec::new();
        let begin = |results: &[Vec<f64>], outer: &[Register]| -> Result<Machine<'_>, Fault> {
            let mut machine = self.machine(args)?;
            self.seek_other(&mut machine, row);
            let done = self.passes.iter().zip(results);
            done.for_each(|(pass, folded)| self.set_folds(&mut machine, pass, folded));
            self.enter(&mut machine, outer)?;
            Ok(machine)
        };
        for pass in &self.passes {
            let fold = |chunk: &Range<usize>| {
                let mut machine = begin(&results, &pass.outer.all)?;
                self.fold_chunk(&mut machine, pass, &pass.inner.all, chunk.clone())
            };
            let parts: Result<Vec<Vec<f64>>, Fault> = threads::spread(|| chunks.par_iter().map(fold).collect());
            let mut folded: Vec<f64> = pass.folds.iter().map(Fold::identity).collect();
            parts?.iter().for_each(|part| combine(&pass.folds, &mut folded, part));
            results.push(folded);
        }
        if self.has_element_stores {
            let store = |chunk: &Range<usize>| {
                let mut machine = begin(&results, &self.stores.outer.all)?;
                self.store_chunk(&mut machine, &self.stores.inner.all, chunk.clone())
            };
            threads::spread(|| chunks.par_iter().try_for_each(store))?;
        }
        begin(&results, &self.stores.outer.all)?.store(false, 1)
    }

    /// Evaluates what does not vary along the row, once for all lanes.
    fn enter(&self, machine: &mut Machine<'_>, outer: &[Register]) -> Result<(), Fault> {
        machine.run(outer, self.width.min(1))?;
        machine.spread(outer);
        Ok(())
    }

    fn fold_chunk(
        &self,
        machine: &mut Machine<'_>,
        pass: &Pass,
        inner: &[Register],
        chunk: Range<usize>,
    ) -> Result<Vec<f64>, Fault> {
        let mut folded: Vec<f64> = pass.folds.iter().map(Fold::identity).collect();
        for block in ranges(chunk, self.width) {
            machine.seek(block.start);
            machine.run(inner, block.len())?;
            for (folded, fold) in folded.iter_mut().zip(&pass.folds) {
                let part = lanes::fold(fold.monoid, fold.dtype, machine.lanes(fold.operand, block.len()));
                *folded = fold.combine(*folded, part);
            }
        }
        Ok(folded)
    }

    fn store_chunk(&self, machine: &mut Machine<'_>, inner: &[Register], chunk: Range<usize>) -> Result<(), Fault> {
        for block in ranges(chunk, self.width) {
            machine.seek(block.start);
            machine.run(inner, block.len())?;
            machine.store(true, block.len())?;
        }
        Ok(())
    }

    fn set_folds(&self, machine: &mut Machine<'_>, pass: &Pass, folded: &[f64]) {
        for (fold, &value) in pass.folds.iter().zip(folded) {
            machine.lanes_mut(fold.register, self.width).fill(lanes::encode(fold.dtype, value));
        }
    }

    /// A block of neighbouring rows, element by element; `spread` puts chunks of the elements on all threads.
    fn columns(&self, machine: &mut Machine<'_>, args: &[View<'_>], block: usize, spread: bool) -> Result<(), Fault> {
        let first = block * self.width;
        let length = self.width.min(self.code.lanes() - first);
        let elements = self.other_extents.iter().product::<usize>();
        machine.seek(first);
        let mut results: Vec<Vec<f64>> = Vec::new();
        for pass in &self.passes {
            machine.run(&pass.outer.new, length)?;
            let chunks: Vec<Range<usize>> = ranges(0..elements, self.chunk).collect();
            let parts: Result<Vec<Vec<f64>>, Fault> = if spread {
                let fold = |chunk: &Range<usize>| {
                    let mut machine = self.machine(args)?;
                    machine.seek(first);
                    let done = self.passes.iter().zip(&results);
                    done.for_each(|(pass, folded)| set_columns(&mut machine, pass, folded, length));
                    machine.run(&pass.outer.all, length)?;
                    self.fold_columns(&mut machine, pass, chunk.clone(), length)
                };
                threads::spread(|| chunks.par_iter().map(fold).collect())
            } else {
                chunks.iter().map(|chunk| self.fold_columns(machine, pass, chunk.clone(), length)).collect()
            };
            let mut folded: Vec<f64> = identities(&pass.folds, length);
            for part in parts? {
                for (at, fold) in pass.folds.iter().enumerate() {
                    let lanes = at * length..(at + 1) * length;
                    folded[lanes.clone()].iter_mut().zip(&part[lanes]).for_each(|(a, &b)| *a = fold.combine(*a, b));
                }
            }
            set_columns(machine, pass, &folded, length);
            results.push(folded);
        }
        machine.run(&self.stores.outer.new, length)?;
        for element in 0..if self.has_element_stores { elements } else { 0 } {
            self.seek_other(machine, element);
            machine.run(&self.stores.inner.all, length)?;
            machine.store(true, length)?;
        }
        machine.store(false, length)
    }

    /// The folds of a chunk of elements, for each of `length` rows.
    fn fold_columns(
        &self,
        machine: &mut Machine<'_>,
        pass: &Pass,
        chunk: Range<usize>,
        length: usize,
    ) -> Result<Vec<f64>, Fault> {
        let mut folded = identities(&pass.folds, length);
        for element in chunk {
            self.seek_other(machine, element);
            machine.run(&pass.inner.all, length)?;
            for (fold, folded) in pass.folds.iter().zip(folded.chunks_mut(length)) {
                lanes::accumulate(fold.monoid, fold.dtype, machine.lanes(fold.operand, length), folded);
            }
        }
        Ok(folded)
    }
}

fn identities(folds: &[Fold], length: usize) -> Vec<f64> {
    folds.iter().flat_map(|fold| std::iter::repeat_n(fold.identity(), length)).collect()
}

fn set_columns(machine: &mut Machine<'_>, pass: &Pass, folded: &[f64], length: usize) {
    for (fold, folded) in pass.folds.iter().zip(folded.chunks(length)) {
        let lanes = machine.lanes_mut(fold.register, length);
        lanes.iter_mut().zip(folded).for_each(|(lane, &value)| *lane = lanes::encode(fold.dtype, value));
    }
}

fn combine(folds: &[Fold], folded: &mut [f64], part: &[f64]) {
    for ((fold, folded), &part) in folds.iter().zip(folded).zip(part) {
        *folded = fold.combine(*folded, part);
    }
}

/// Chooses what lanes run over: the direction in which more loads are contiguous, but never very short rows.
fn lay_out(kernel: &Kernel, parallel: &[usize], reduce: &[usize]) -> (Code, LanesOver) {
    if reduce.is_empty() {
        let mut code = Code::new(kernel, parallel.to_vec(), &[]);
        code.stores.iter_mut().for_each(|store| store.per_element = true);
        return (code, LanesOver::Elements);
    }
    let elements = Code::new(kernel, reduce.to_vec(), &[]);
    let rows = Code::new(kernel, parallel.to_vec(), &[]);
    let (row_points, element_points) = (rows.lanes(), elements.lanes());
    let short = element_points < 32 && row_points >= element_points.max(8);
    if row_points > 1 && element_points > 0 && (short || rows.contiguous_loads() > elements.contiguous_loads()) {
        (rows, LanesOver::Rows)
    } else {
        (elements, LanesOver::Elements)
    }
}

fn width(lanes_over: LanesOver, has_folds: bool, lanes: usize, registers: usize) -> usize {
    let cached = (CACHED / 4 / registers).clamp(128, 1024);
    match lanes_over {
        LanesOver::Elements if has_folds && lanes * registers * 4 <= KEPT => lanes,
        LanesOver::Elements => cached.min(lanes),
        // Several blocks, so that there is something for several threads.
        LanesOver::Rows => (lanes / 8).next_multiple_of(16).clamp(64, cached).min(lanes),
    }
    .max(1)
}

/// Cuts a range into pieces of `length`, the last one shorter.
pub(super) fn ranges(range: Range<usize>, length: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(length.max(1)).map(move |start| start..(start + length.max(1)).min(end))
}

/// Calls `work` with pieces of `0..count`, on all threads if there is more than one piece.
pub(super) fn for_tasks<E: Send>(
    count: usize,
    piece: usize,
    work: impl Fn(Range<usize>) -> Result<(), E> + Sync,
) -> Result<(), E> {
    if count <= piece {
        return if count == 0 { Ok(()) } else { work(0..count) };
    }
    let pieces: Vec<Range<usize>> = ranges(0..count, piece).collect();
    threads::spread(|| pieces.into_par_iter().try_for_each(&work))
}
