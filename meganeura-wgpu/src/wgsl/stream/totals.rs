//! Totals: declared, added to, combined, stored.

use super::emit::{COMPONENTS, is_vector};
use super::{PART, Printer};
use crate::wgsl::grid::{quotient, remainder};
use crate::wgsl::writer::Writer;
use meganeura_core::index::ExprId;
use meganeura_core::kernel::{Expr, Role};
use meganeura_core::schedule::StreamSpec;

impl Printer<'_> {
    /// Fours of columns of one invocation.
    fn fours(&self) -> u32 {
        self.spec.cols / (4 * self.spec.lanes())
    }

    /// The column axis of a total with a value that varies along one.
    fn column(&self, total: usize) -> Option<usize> {
        self.stream.column(self.kernel, total)
    }

    /// `t{total}_{i}_{four}`, vectors of columns, or `t{total}_{i}` for a total without; and the peaks.
    pub(super) fn declare_totals(&self, w: &mut Writer) {
        if self.stream.peak.is_some() {
            let lowest = Self::lowest(w);
            Self::parts().for_each(|i| w.line(format!("var peak{i} = {lowest};")));
        }
        for (total, i) in (0..self.stream.totals.len()).flat_map(|total| Self::parts().map(move |i| (total, i))) {
            match self.column(total) {
                Some(_) => (0..self.fours()).for_each(|q| w.line(format!("var t{total}_{i}_{q} = vec4<f32>();"))),
                None => w.line(format!("var t{total}_{i} = 0f;")),
            }
        }
    }

    /// Multiplies the totals of the invocation's row `i`.
    pub(super) fn scale_totals(&self, w: &mut Writer, i: u32, by: &str) {
        for total in 0..self.stream.totals.len() {
            match self.column(total) {
                Some(_) => (0..self.fours()).for_each(|q| w.line(format!("t{total}_{i}_{q} *= {by};"))),
                None => w.line(format!("t{total}_{i} *= {by};")),
            }
        }
    }

    /// The first total of the same weight, after which the weight is named.
    fn weight_name(&self, total: usize) -> usize {
        let totals = &self.stream.totals;
        (0..total).find(|&other| totals[other].weight == totals[total].weight).unwrap_or(total)
    }

    /// Adds the tile to a total.
    pub(super) fn add(&mut self, w: &mut Writer, total: usize) {
        let weight = self.weight_name(total);
        let Some((value, axis)) = self.stream.totals[total].value.zip(self.column(total)) else {
            return self.add_numbers(w, total, weight);
        };
        let StreamSpec { rows, elements, cols, .. } = self.spec;
        let stride = self.spec.weight_stride();
        w.line("workgroupBarrier();");
        for i in Self::parts() {
            w.line(format!("weights[(own + {}u) * {stride}u + lane] = w{weight}_{i};", i * rows / PART));
        }
        self.stage_value(w, value, axis);
        w.line("workgroupBarrier();");
        w.open(format!("for (var four = 0u; four < {}u; four += 1u)", elements / 4));
        for i in Self::parts() {
            w.bind(&format!("a{i}"), format!("weights[(own + {}u) * {stride}u + four]", i * rows / PART));
        }
        let (lanes, quads) = (self.spec.lanes(), cols / 4);
        for (c, component) in COMPONENTS.into_iter().enumerate() {
            for q in 0..self.fours() {
                let name = format!("x{c}_{q}");
                w.bind(&name, format!("stage[(four * 4u + {c}u) * {quads}u + lane + {}u]", q * lanes));
                for i in Self::parts() {
                    let sum = format!("t{total}_{i}_{q}");
                    w.line(format!("{sum} = fma(vec4<f32>(a{i}.{component}), {name}, {sum});"));
                }
            }
        }
        w.close();
    }

    /// Adds to a total without columns; a value that varies with none is multiplied here.
    fn add_numbers(&mut self, w: &mut Writer, total: usize, weight: usize) {
        let value = self.stream.totals[total].value;
        for i in Self::parts() {
            let Some(value) = value else {
                let name = format!("w{weight}_{i}");
                w.line(format!("t{total}_{i} += ({name}.x + {name}.y) + ({name}.z + {name}.w);"));
                continue;
            };
            for j in Self::parts() {
                self.at_pair(w, i, j, |printer, w| {
                    printer.exprs.emit(w, &[value]);
                    let (text, component) = (printer.exprs.text(value), COMPONENTS[j as usize]);
                    let product = format!("w{weight}_{i}.{component} * {text}");
                    w.line(format!("t{total}_{i} += select(0f, {product}, seen{j} < limit);"));
                });
            }
        }
    }

    /// Stages the tile's elements of a total's value. Elements that do not exist are zero, whatever memory holds there.
    fn stage_value(&mut self, w: &mut Writer, value: ExprId, axis: usize) {
        let StreamSpec { elements, cols, .. } = self.spec;
        let (quads, threads) = (cols / 4, self.spec.threads());
        let count = elements * quads;
        w.open(format!("for (var item = local; item < {count}u; item += {threads}u)"));
        let mark = self.exprs.enter();
        w.bind("line", format!("base + {}", quotient("item", u64::from(quads))));
        w.bind("at_line", format!("min(line, {}u)", self.extent(self.last).saturating_sub(1)));
        w.bind("at_col", format!("col_first + {} * 4u", remainder("item", u64::from(quads))));
        let last = self.last;
        self.exprs.set_axis(last, "at_line");
        self.quad(w, value, axis, "at_col", "value");
        w.line("stage[item] = select(vec4<f32>(), value, line < limit);");
        self.exprs.leave(mark);
        w.close();
    }

    /// Adds up what the invocations of a row have of totals without columns.
    pub(super) fn combine_totals(&self, w: &mut Writer) {
        let StreamSpec { rows, .. } = self.spec;
        let lanes = self.spec.lanes();
        for total in (0..self.stream.totals.len()).filter(|&total| self.column(total).is_none()) {
            w.declare(format!("var<workgroup> shared_rows: array<f32, {}>;", rows * lanes));
            let shared = |i: u32| format!("(own + {}u) * {lanes}u", i * rows / PART);
            w.line("workgroupBarrier();");
            for i in Self::parts() {
                w.line(format!("shared_rows[{} + lane] = t{total}_{i};", shared(i)));
                w.line(format!("t{total}_{i} = 0f;"));
            }
            w.line("workgroupBarrier();");
            w.open(format!("for (var other = 0u; other < {lanes}u; other += 1u)"));
            for i in Self::parts() {
                w.line(format!("t{total}_{i} += shared_rows[{} + other];", shared(i)));
            }
            w.close();
        }
    }

    /// Writes all stores.
    pub(super) fn store(&mut self, w: &mut Writer) {
        for store in 0..self.kernel.stores.len() {
            let index = &self.kernel.stores[store].index;
            let column = self.kernel.axes_of(Role::Col).into_iter().find(|&axis| index.uses_axis(axis));
            match column {
                Some(axis) => self.store_columns(w, store, axis),
                None => self.store_rows(w, store),
            }
        }
    }

    /// A result of one number a row, by the first lane of the first column block.
    fn store_rows(&mut self, w: &mut Writer, store: usize) {
        w.open("if lane == 0u && col_first == 0u");
        for i in Self::parts() {
            w.open(format!("if want{i} < {}u", self.extent(self.row)));
            self.at_result(w, store, i, None, |printer, w, value| {
                let store = &printer.kernel.stores[store];
                let index = printer.exprs.index_text(&store.index);
                w.line(printer.exprs.bindings().store(store.arg, &index, &value));
            });
            w.close();
        }
        w.close();
    }

    fn store_columns(&mut self, w: &mut Writer, store: usize, axis: usize) {
        let (kernel, extent) = (self.kernel, self.extent(axis));
        let (arg, index) = (kernel.stores[store].arg, &kernel.stores[store].index);
        let vector = self.wide[arg] && is_vector(kernel, index, axis);
        let fours = self.fours();
        for (i, q) in Self::parts().flat_map(|i| (0..fours).map(move |q| (i, q))) {
            w.open(format!("if want{i} < {}u", self.extent(self.row)));
            w.bind("col", format!("col_first + (lane + {}u) * 4u", q * self.spec.lanes()));
            w.open(format!("if col < {extent}u"));
            if vector {
                w.line(format!("var result: vec4<{}>;", kernel.args[arg].dtype.name()));
            }
            for (lane, component) in COMPONENTS.into_iter().enumerate() {
                let coordinate = format!("(col + {lane}u)");
                w.open(if extent.is_multiple_of(4) { String::new() } else { format!("if {coordinate} < {extent}u") });
                self.exprs.set_axis(axis, coordinate);
                self.at_result(w, store, i, Some((q, component)), |printer, w, value| match vector {
                    true => w.line(format!("result.{component} = {value};")),
                    false => {
                        let index = printer.exprs.index_text(index);
                        w.line(printer.exprs.bindings().store(arg, &index, &value));
                    }
                });
                w.close();
            }
            if vector {
                let row = self.row;
                self.exprs.set_axis(row, format!("row{i}"));
                self.exprs.set_axis(axis, "col");
                let index = self.exprs.index_text(index);
                w.line(format!("{} = result;", self.exprs.bindings().four(arg, &index)));
            }
            w.close();
            w.close();
        }
    }

    /// Writes what a store needs at the invocation's row `i` and a component of its columns.
    fn at_result(
        &mut self,
        w: &mut Writer,
        store: usize,
        i: u32,
        column: Option<(u32, &str)>,
        write: impl FnOnce(&mut Self, &mut Writer, String),
    ) {
        let mark = self.exprs.enter();
        let (row, value) = (self.row, self.kernel.stores[store].value);
        self.exprs.set_axis(row, format!("row{i}"));
        let columns: Vec<Option<usize>> = (0..self.stream.totals.len()).map(|total| self.column(total)).collect();
        self.bind_streamed(&|expr| match expr {
            Expr::Peak => Some(format!("peak{i}")),
            Expr::Total(total) => match (columns[*total], column) {
                (None, _) => Some(format!("t{total}_{i}")),
                (Some(_), Some((q, component))) => Some(format!("t{total}_{i}_{q}.{component}")),
                (Some(_), None) => None,
            },
            _ => None,
        });
        let roots = [self.kernel.stores[store].index.values(), vec![value]].concat();
        self.exprs.emit(w, &roots);
        let text = self.exprs.text(value);
        write(self, w, text);
        self.exprs.leave(mark);
    }
}
