//! Streams: a workgroup keeps a tile of rows and of columns while tiles of elements pass by.
//!
//! An invocation has four rows (`lane / lanes + i · rows/4`), four neighbouring elements of each tile, and of each total the
//! same rows in every so many fours of columns. Scores are summed from staged parts of their operands; what lies between
//! products stays in registers but for the weights, which pass through workgroup memory to the invocations that own the
//! columns. A peak is combined over the invocations of a row once a tile; totals shrink when it grows.

mod emit;
mod scores;
mod totals;

use super::bindings::Bindings;
use super::expr::Exprs;
use super::grid::{Grid, quotient, remainder, unflatten};
use super::writer::Writer;
use super::{Launch, Needs, PARAMETERS, PrintError, mismatch, scalar};
use meganeura_core::index::ExprId;
use meganeura_core::kernel::{Expr, Kernel, Role, Stream};
use meganeura_core::scalar::Scalar;
use meganeura_core::schedule::{Caps, Spec, StreamSpec};

/// Rows and elements of an invocation.
const PART: u32 = StreamSpec::PART;

/// A stream being printed.
struct Printer<'k> {
    kernel: &'k Kernel,
    stream: &'k Stream,
    spec: StreamSpec,
    exprs: Exprs<'k>,
    row: usize,
    /// The last streamed axis.
    last: usize,
    /// For each argument whether its binding is declared as vectors.
    wide: Vec<bool>,
    /// What is computed once a row, and once an element: loads between the products.
    of_row: Vec<ExprId>,
    of_element: Vec<ExprId>,
}

/// Writes the body of a stream.
pub fn print(
    kernel: &Kernel,
    spec: &StreamSpec,
    bindings: &mut Bindings,
    caps: &Caps,
    w: &mut Writer,
) -> Result<Launch, PrintError> {
    let Some(stream) = kernel.stream() else { return Err(mismatch(kernel, &Spec::Stream(*spec))) };
    let (rows, cols) = (kernel.points(Role::Row), widest(kernel, stream));
    let blocks = [rows.div_ceil(spec.rows as usize), cols.div_ceil(spec.cols as usize)];
    let count = kernel.points(Role::Parallel) as u64 * blocks.iter().product::<usize>() as u64;
    let grid = Grid::new(count, caps)?;
    grid.bind(w);
    let wide = emit::widen(kernel, stream, bindings);
    let mut printer = Printer::new(kernel, stream, *spec, bindings, wide);
    printer.places(w, blocks);
    printer.body(w);
    Ok(Launch {
        workgroup_size: [spec.threads(), 1, 1],
        grid: grid.size,
        parameters: PARAMETERS.to_vec(),
        needs: Needs::default(),
    })
}

/// The most columns of any total.
fn widest(kernel: &Kernel, stream: &Stream) -> usize {
    let columns = (0..stream.totals.len()).filter_map(|total| stream.column(kernel, total));
    columns.map(|axis| kernel.axes[axis].extent).max().unwrap_or(1)
}

impl<'k> Printer<'k> {
    fn new(
        kernel: &'k Kernel,
        stream: &'k Stream,
        spec: StreamSpec,
        bindings: &'k Bindings,
        wide: Vec<bool>,
    ) -> Printer<'k> {
        let axes = (0..kernel.axes.len()).map(|axis| format!("i{axis}")).collect();
        let varies = kernel.variation();
        let weights: Vec<ExprId> = stream.totals.iter().map(|total| total.weight).chain(stream.peak).collect();
        let bits = |role| kernel.axes_of(role).iter().fold(0_u64, |bits, axis| bits | 1 << axis);
        let loads = |role: Role| -> Vec<ExprId> {
            let own = |id: &ExprId| {
                let all = varies[id.0 as usize];
                all & bits(role) != 0 && all & !bits(role) & !bits(Role::Parallel) == 0
            };
            let is_load = |id: &ExprId| matches!(kernel.expr(*id), Expr::Load { .. });
            kernel.needed_for(&weights, false).into_iter().filter(|id| is_load(id) && own(id)).collect()
        };
        let (of_row, of_element) = (loads(Role::Row), loads(Role::Reduce));
        let first = |role| kernel.axes_of(role).last().copied().unwrap_or_default();
        let (row, last) = (first(Role::Row), first(Role::Reduce));
        let exprs = Exprs::new(kernel, bindings, axes);
        Printer { kernel, stream, spec, exprs, row, last, wide, of_row, of_element }
    }

    fn extent(&self, axis: usize) -> usize {
        self.kernel.axes[axis].extent
    }

    /// The number of an invocation's rows, elements: 0, 1, 2, 3.
    fn parts() -> std::ops::Range<u32> {
        0..PART
    }

    /// Writes where the workgroup and the invocation are: parallel coordinates, `row_first`, `col_first`, `lane` and `own`,
    /// and the invocation's rows: `want0…` and, inside the tensor, `row0…`.
    fn places(&mut self, w: &mut Writer, [row_blocks, col_blocks]: [usize; 2]) {
        let kernel = self.kernel;
        let mut axes: Vec<(String, usize)> =
            kernel.axes_of(Role::Parallel).iter().map(|&axis| (format!("i{axis}"), kernel.axes[axis].extent)).collect();
        axes.extend([("row_block".to_string(), row_blocks), ("col_block".to_string(), col_blocks)]);
        let texts = unflatten(w, "tile", &axes);
        let (row_block, col_block) = (&texts[texts.len() - 2], &texts[texts.len() - 1]);
        let StreamSpec { rows, cols, .. } = self.spec;
        // Rows that see most elements start first.
        match self.stream.band[1] {
            Some(_) if row_blocks > 1 => w.bind("row_first", format!("({}u - {row_block}) * {rows}u", row_blocks - 1)),
            _ => w.bind("row_first", format!("{row_block} * {rows}u")),
        }
        w.bind("col_first", format!("{col_block} * {cols}u"));
        let lanes = u64::from(self.spec.lanes());
        w.bind("lane", remainder("local", lanes));
        w.bind("own", quotient("local", lanes));
        for i in Self::parts() {
            w.bind(&format!("want{i}"), format!("row_first + own + {}u", i * rows / PART));
            w.bind(&format!("row{i}"), format!("min(want{i}, {}u)", self.extent(self.row).saturating_sub(1)));
        }
    }

    /// The loops over elements, and the stores.
    fn body(&mut self, w: &mut Writer) {
        w.declare(format!("var<workgroup> stage: array<vec4<f32>, {}>;", self.spec.stage()));
        w.declare(format!("var<workgroup> weights: array<vec4<f32>, {}>;", self.spec.rows * self.spec.weight_stride()));
        self.bounds(w);
        self.declare_totals(w);
        for i in Self::parts() {
            let row = self.row;
            self.hoist(w, &self.of_row.clone(), row, &format!("row{i}"), &format!("r{i}"));
        }
        let outer: Vec<usize> =
            self.kernel.axes_of(Role::Reduce).into_iter().filter(|&axis| axis != self.last).collect();
        for &axis in &outer {
            w.open(format!("for (var i{axis} = 0u; i{axis} < {}u; i{axis} += 1u)", self.extent(axis)));
        }
        w.open(format!("for (var base = start; base < stop; base += {}u)", self.spec.elements));
        for j in Self::parts() {
            w.bind(&format!("seen{j}"), format!("base + lane * {PART}u + {j}u"));
            w.bind(&format!("elem{j}"), format!("min(seen{j}, {}u)", self.extent(self.last).saturating_sub(1)));
        }
        (0..self.stream.scores.len()).for_each(|score| self.score(w, score));
        self.between(w);
        (0..self.stream.totals.len()).for_each(|total| self.add(w, total));
        w.close();
        outer.iter().for_each(|_| w.close());
        self.combine_totals(w);
        self.store(w);
    }

    /// Writes `limit`, below which elements are, and the range from `start` to `stop` that counts for any row.
    fn bounds(&mut self, w: &mut Writer) {
        let extent = self.extent(self.last);
        match self.stream.length {
            Some(length) => {
                self.exprs.emit(w, &[length]);
                w.bind("limit", format!("min({}, {extent}u)", self.exprs.text(length)));
            }
            None => w.bind("limit", format!("{extent}u")),
        }
        let StreamSpec { rows, elements, .. } = self.spec;
        match self.stream.band[0] {
            Some(low) => {
                let first = format!("u32(max(i32(row_first) + ({low}i), 0i))");
                w.bind("start", format!("{} * {elements}u", quotient(&first, u64::from(elements))));
            }
            None => w.bind("start", "0u"),
        }
        match self.stream.band[1] {
            Some(high) => {
                let last = format!("max(i32(row_first) + ({}i), 0i)", i64::from(rows) + high);
                w.bind("stop", format!("min(limit, u32({last}))"));
            }
            None => w.bind("stop", "limit"),
        }
    }

    /// The text that tells whether an element counts for a row.
    fn counts(&self, i: u32, j: u32) -> String {
        let mut tests = vec![format!("seen{j} < limit")];
        let row = |bound: i64| format!("i32(row{i}) + ({bound}i)");
        tests.extend(self.stream.band[0].map(|low| format!("i32(seen{j}) >= {}", row(low))));
        tests.extend(self.stream.band[1].map(|high| format!("i32(seen{j}) <= {}", row(high))));
        tests.join(" && ")
    }

    /// The lowest finite number.
    fn lowest(w: &mut Writer) -> String {
        scalar::constant(w, Scalar::f32(f32::MIN))
    }
}
