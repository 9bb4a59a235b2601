//! Streams: blocks of rows stay in scratch memory while tiles of elements pass by. Products of tiles are matrix products,
//! and what lies between them is evaluated row by row over the tile's elements.

use super::buffer::View;
use super::code::{Code, Op, Register, Streamed};
use super::contract::{BlockCode, Operand, WIDTH};
use super::functions;
use super::gemm::{Matrix, multiply};
use super::machine::{Fault, Machine};
use super::row::{for_tasks, ranges};
use crate::dtype::DType;
use crate::kernel::{ExprId, Kernel, Role, Store, Stream};
use std::ops::Range;

/// Rows of a block.
const ROWS: usize = 64;
/// Elements of a tile.
const TILE: usize = 128;

/// A prepared stream.
pub(super) struct StreamProgram {
    axes: usize,
    parallel: Vec<(usize, usize)>,
    rows: usize,
    /// Streamed axes but the last, and their extents.
    outer: Vec<(usize, usize)>,
    elements: usize,
    band: [Option<i64>; 2],
    length: Option<BlockCode>,
    scores: Vec<Factors>,
    /// The value whose largest is the peak.
    peak: Option<Between>,
    weights: Between,
    totals: Vec<Sum>,
    results: Vec<Output>,
}

/// Operands of a score: `[rows, depth]` and `[elements, depth]`.
struct Factors {
    lhs: Operand,
    rhs: Operand,
    depth: usize,
}

/// Code over the elements of a row.
struct Between {
    block: BlockCode,
    streamed: Vec<(Register, Streamed)>,
}

struct Sum {
    /// Position among the weights.
    weight: usize,
    value: Option<Operand>,
    cols: usize,
}

struct Output {
    block: BlockCode,
    streamed: Vec<(Register, Streamed)>,
    cols: usize,
}

/// What a block of rows has so far.
struct State {
    peak: Vec<f32>,
    totals: Vec<Vec<f32>>,
}

/// Scratch memory of one task.
#[derive(Default)]
struct Scratch {
    lhs: Vec<Vec<u32>>,
    rhs: Vec<u32>,
    scores: Vec<Vec<u32>>,
    weights: Vec<Vec<u32>>,
    product: Vec<u32>,
}

impl Between {
    fn new(kernel: &Kernel, lanes: [usize; 2], roots: &[ExprId]) -> Between {
        let code = Code::new(kernel, lanes.to_vec(), roots);
        let streamed = streamed(&code);
        Between { block: BlockCode::new(code), streamed }
    }
}

/// The registers that a stream writes.
fn streamed(code: &Code) -> Vec<(Register, Streamed)> {
    let of_stream = |(register, op): (Register, &Op)| match op {
        Op::Streamed(which) => Some((register, *which)),
        _ => None,
    };
    code.ops.iter().enumerate().filter_map(of_stream).collect()
}

impl StreamProgram {
    /// Prepares a stream.
    pub(super) fn new(kernel: &Kernel, stream: &Stream) -> StreamProgram {
        let with_extents = |axes: Vec<usize>| axes.into_iter().map(|axis| (axis, kernel.axes[axis].extent)).collect();
        let mut reduce: Vec<(usize, usize)> = with_extents(kernel.axes_of(Role::Reduce));
        let (last, elements) = reduce.pop().unwrap_or_default();
        let row = kernel.axes_of(Role::Row).first().copied().unwrap_or_default();
        let factors = |score: &crate::kernel::Score| Factors {
            lhs: Operand::over(kernel, score.lhs, &[row], &[score.depth]),
            rhs: Operand::over(kernel, score.rhs, &[last], &[score.depth]),
            depth: kernel.axes[score.depth].extent,
        };
        let weights: Vec<ExprId> = stream.totals.iter().map(|total| total.weight).collect();
        let sum = |(at, total): (usize, &crate::kernel::Total)| {
            let column = stream.column(kernel, at);
            let value = total.value.map(|value| Operand::over(kernel, value, &[last], column.as_slice()));
            Sum { weight: at, value, cols: column.map_or(1, |axis| kernel.axes[axis].extent) }
        };
        StreamProgram {
            axes: kernel.axes.len(),
            parallel: with_extents(kernel.axes_of(Role::Parallel)),
            rows: kernel.axes[row].extent,
            outer: reduce,
            elements,
            band: stream.band,
            length: stream.length.map(|length| BlockCode::new(Code::new(kernel, Vec::new(), &[length]))),
            scores: stream.scores.iter().map(factors).collect(),
            peak: stream.peak.map(|peak| Between::new(kernel, [row, last], &[peak])),
            weights: Between::new(kernel, [row, last], &weights),
            totals: stream.totals.iter().enumerate().map(sum).collect(),
            results: kernel.stores.iter().map(|store| Output::new(kernel, row, store)).collect(),
        }
    }

    /// Runs the stream on its arguments.
    pub(super) fn run(&self, args: &[View<'_>]) -> Result<(), Fault> {
        let batches: usize = self.parallel.iter().map(|&(_, extent)| extent).product();
        let blocks = self.rows.div_ceil(ROWS);
        for_tasks(batches * blocks, 1, |tasks| {
            let mut scratch = Scratch::default();
            tasks.into_iter().try_for_each(|task| {
                let mut point = vec![0; self.axes];
                place(&mut point, &self.parallel, task / blocks);
                let first = task % blocks * ROWS;
                self.block(args, &mut point, first..(first + ROWS).min(self.rows), &mut scratch)
            })
        })
    }

    /// One block of rows.
    fn block(
        &self,
        args: &[View<'_>],
        point: &mut [usize],
        rows: Range<usize>,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let limit = match &self.length {
            Some(length) => length.enter(args, point)?.lanes(length.code.roots[0], 1)[0] as usize,
            None => self.elements,
        };
        let mut state = State {
            peak: vec![f32::MIN; rows.len()],
            totals: self.totals.iter().map(|total| vec![0.0; rows.len() * total.cols]).collect(),
        };
        scratch.lhs.resize(self.scores.len(), Vec::new());
        for (score, to) in self.scores.iter().zip(&mut scratch.lhs) {
            score.lhs.pack(args, point, rows.clone(), to)?;
        }
        let visited = self.visited(&rows, limit.min(self.elements));
        for at in 0..self.outer.iter().map(|&(_, extent)| extent).product() {
            place(point, &self.outer, at);
            let mut machines = Machines {
                peak: self.peak.as_ref().map(|between| between.block.enter(args, point)).transpose()?,
                weights: self.weights.block.enter(args, point)?,
            };
            for tile in ranges(visited.clone(), TILE) {
                self.score(args, point, &rows, &tile, scratch)?;
                self.weigh(&rows, &tile, &mut machines, &mut state, scratch)?;
                self.add(args, point, rows.len(), &tile, &mut state, scratch)?;
            }
        }
        place(point, &self.outer, 0);
        self.results.iter().try_for_each(|output| output.store(args, point, &rows, &state))
    }

    /// The elements that count for any of the rows.
    fn visited(&self, rows: &Range<usize>, limit: usize) -> Range<usize> {
        let start = self.of_row(rows.start, &(0..limit)).start;
        let end = self.of_row(rows.end.saturating_sub(1), &(0..limit)).end;
        start..end.max(start)
    }

    /// The elements of a range that count for a row.
    fn of_row(&self, row: usize, range: &Range<usize>) -> Range<usize> {
        let behind = |bound: i64| (row as i64 + bound).clamp(range.start as i64, range.end as i64) as usize;
        let start = self.band[0].map_or(range.start, behind);
        let end = self.band[1].map_or(range.end, |high| behind(high + 1));
        start..end.max(start)
    }

    /// All scores of a tile.
    fn score(
        &self,
        args: &[View<'_>],
        point: &[usize],
        rows: &Range<usize>,
        tile: &Range<usize>,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        scratch.scores.resize(self.scores.len(), Vec::new());
        for ((score, lhs), to) in self.scores.iter().zip(&scratch.lhs).zip(&mut scratch.scores) {
            score.rhs.pack(args, point, tile.clone(), &mut scratch.rhs)?;
            let lhs = score.lhs.matrix(args, point, rows.clone(), score.depth, lhs)?;
            let rhs = score.rhs.matrix(args, point, tile.clone(), score.depth, &scratch.rhs)?;
            to.resize(rows.len() * tile.len(), 0);
            let to = Matrix::of_words_mut(to, [rows.len(), tile.len()]);
            multiply(DType::F32, lhs, rhs.transposed(), to);
        }
        Ok(())
    }

    /// The weights of a tile, relative to a peak that may grow.
    fn weigh(
        &self,
        rows: &Range<usize>,
        tile: &Range<usize>,
        machines: &mut Machines<'_>,
        state: &mut State,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        scratch.weights.resize(self.totals.len(), Vec::new());
        for weights in &mut scratch.weights {
            weights.clear();
            weights.resize(rows.len() * tile.len(), 0);
        }
        for (at, row) in rows.clone().enumerate() {
            let counted = self.of_row(row, tile);
            if counted.is_empty() {
                continue;
            }
            let from = at * tile.len() + (counted.start - tile.start);
            let lane = row * self.elements + counted.start;
            let fill = |machine: &mut Machine<'_>, streamed: &[(Register, Streamed)], peak: f32| {
                machine.seek(lane);
                for &(register, which) in streamed {
                    let to = machine.lanes_mut(register, counted.len());
                    match which {
                        Streamed::Score(score) => {
                            to.copy_from_slice(&scratch.scores[score][from..from + counted.len()]);
                        }
                        _ => to.fill(peak.to_bits()),
                    }
                }
            };
            if let (Some(between), Some(machine)) = (&self.peak, &mut machines.peak) {
                fill(machine, &between.streamed, 0.0);
                machine.run(&between.block.inner, counted.len())?;
                let candidates = machine.lanes(between.block.code.roots[0], counted.len());
                state.raise(at, candidates, &self.totals);
            }
            fill(&mut machines.weights, &self.weights.streamed, state.peak[at]);
            machines.weights.run(&self.weights.block.inner, counted.len())?;
            for (weights, &root) in scratch.weights.iter_mut().zip(&self.weights.block.code.roots) {
                weights[from..from + counted.len()].copy_from_slice(machines.weights.lanes(root, counted.len()));
            }
        }
        Ok(())
    }

    /// Adds a tile to the totals.
    fn add(
        &self,
        args: &[View<'_>],
        point: &[usize],
        rows: usize,
        tile: &Range<usize>,
        state: &mut State,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        for (sum, total) in self.totals.iter().zip(&mut state.totals) {
            let weights = &scratch.weights[sum.weight];
            let Some(value) = &sum.value else {
                let lines = weights.chunks(tile.len().max(1));
                let add =
                    |(total, line): (&mut f32, &[u32])| *total += line.iter().map(|&w| f32::from_bits(w)).sum::<f32>();
                total.iter_mut().zip(lines).for_each(add);
                continue;
            };
            value.pack(args, point, tile.clone(), &mut scratch.rhs)?;
            let value = value.matrix(args, point, tile.clone(), sum.cols, &scratch.rhs)?;
            scratch.product.resize(rows * sum.cols, 0);
            let to = Matrix::of_words_mut(&mut scratch.product, [rows, sum.cols]);
            multiply(DType::F32, Matrix::of_words(weights, [rows, tile.len()], true), value, to);
            total.iter_mut().zip(&scratch.product).for_each(|(total, &x)| *total += f32::from_bits(x));
        }
        Ok(())
    }
}

/// The machines of a block of rows.
struct Machines<'a> {
    peak: Option<Machine<'a>>,
    weights: Machine<'a>,
}

impl State {
    /// Takes candidates for a row's peak; if it grows, the totals shrink.
    fn raise(&mut self, row: usize, candidates: &[u32], sums: &[Sum]) {
        let old = self.peak[row];
        let larger = |peak: f32, &bits: &u32| {
            let value = f32::from_bits(bits);
            // NaN stays: a maximum would drop it.
            if value.is_nan() || value > peak { value } else { peak }
        };
        let new = candidates.iter().fold(old, larger);
        if new.to_bits() == old.to_bits() {
            return;
        }
        self.peak[row] = new;
        let factor = functions::exp(old - new);
        for (total, sum) in self.totals.iter_mut().zip(sums) {
            total[row * sum.cols..(row + 1) * sum.cols].iter_mut().for_each(|total| *total *= factor);
        }
    }
}

impl Output {
    fn new(kernel: &Kernel, row: usize, store: &Store) -> Output {
        let column = kernel.axes_of(Role::Col).into_iter().find(|&axis| store.index.uses_axis(axis));
        let lanes: Vec<usize> = std::iter::once(row).chain(column).collect();
        let alone = Kernel { stores: vec![store.clone()], ..kernel.clone() };
        let code = Code::new(&alone, lanes, &[]);
        let streamed = streamed(&code);
        let cols = column.map_or(1, |axis| kernel.axes[axis].extent);
        Output { streamed, block: BlockCode::new(code), cols }
    }

    fn store(&self, args: &[View<'_>], point: &[usize], rows: &Range<usize>, state: &State) -> Result<(), Fault> {
        let mut machine = self.block.enter(args, point)?;
        for (at, row) in rows.clone().enumerate() {
            for part in ranges(0..self.cols, WIDTH) {
                machine.seek(row * self.cols + part.start);
                for &(register, which) in &self.streamed {
                    let to = machine.lanes_mut(register, part.len());
                    match which {
                        Streamed::Total(total) => {
                            let cols = state.totals[total].len() / rows.len();
                            let line = &state.totals[total][at * cols..(at + 1) * cols];
                            let value = |col: usize| if cols == self.cols { line[col] } else { line[0] };
                            to.iter_mut().zip(part.clone()).for_each(|(to, col)| *to = value(col).to_bits());
                        }
                        _ => to.fill(state.peak[at].to_bits()),
                    }
                }
                machine.run(&self.block.inner, part.len())?;
                machine.store(true, part.len())?;
            }
        }
        Ok(())
    }
}

/// Sets the coordinates along some axes to those of a point, counted row-major.
fn place(point: &mut [usize], axes: &[(usize, usize)], number: usize) {
    let mut rest = number;
    for &(axis, extent) in axes.iter().rev() {
        point[axis] = rest % extent.max(1);
        rest /= extent.max(1);
    }
}
