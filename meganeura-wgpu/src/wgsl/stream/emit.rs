//! Pieces of expressions: loads ahead of loops, fours along an axis, points between the products.

use super::Printer;
use crate::wgsl::bindings::{Bindings, value_type};
use crate::wgsl::writer::Writer;
use meganeura_core::index::{Atom, ExprId, Index};
use meganeura_core::kernel::{Expr, Kernel, Role, Stream};
use meganeura_core::schedule::VECTOR;

pub(super) const COMPONENTS: [&str; VECTOR] = ["x", "y", "z", "w"];

/// Unit stride along the axis, a multiple of four elsewhere: fours of elements are vectors of a wide binding.
pub(super) fn is_vector(kernel: &Kernel, index: &Index, axis: usize) -> bool {
    let whole = |stride: i64| stride % VECTOR as i64 == 0;
    let terms = index.terms.iter().all(|term| term.atom == Atom::Axis(axis) || whole(term.stride));
    let extent = kernel.axes[axis].extent;
    let many = extent >= VECTOR && extent.is_multiple_of(VECTOR);
    many && index.stride(axis) == Some(1) && whole(index.offset) && terms && index.values().is_empty()
}

/// Declares bindings as vectors where the operands of scores and totals, and results, are read or written by fours. Other
/// accesses to them stay scalar.
pub(super) fn widen(kernel: &Kernel, stream: &Stream, bindings: &mut Bindings) -> Vec<bool> {
    let scores = stream.scores.iter().flat_map(|score| [(score.lhs, score.depth), (score.rhs, score.depth)]);
    let of_total = |total: usize| stream.totals[total].value.zip(stream.column(kernel, total));
    let pairs: Vec<(ExprId, usize)> = scores.chain((0..stream.totals.len()).filter_map(of_total)).collect();
    let fits = |arg: usize| kernel.args[arg].elements.is_multiple_of(VECTOR) && kernel.args[arg].dtype.is_float();
    let mut wide = vec![false; kernel.args.len()];
    for (root, axis) in pairs {
        for id in kernel.needed_for(&[root], false) {
            if let Expr::Load { arg, index, mask } = kernel.expr(id)
                && mask.is_empty()
            {
                wide[*arg] |= fits(*arg) && is_vector(kernel, index, axis);
            }
        }
    }
    for store in &kernel.stores {
        let column = kernel.axes_of(Role::Col).into_iter().any(|axis| is_vector(kernel, &store.index, axis));
        wide[store.arg] |= fits(store.arg) && column;
    }
    for arg in 0..wide.len() {
        wide[arg] &= (0..wide.len()).all(|other| wide[other] || !bindings.share(arg, other));
        if wide[arg] {
            bindings.widen(arg);
        }
    }
    wide
}

impl Printer<'_> {
    /// The name of a load that was written ahead.
    fn hoisted(id: ExprId, at: &str) -> String {
        format!("h{}_{at}", id.0)
    }

    /// Writes loads at a coordinate ahead of the loops that use them.
    pub(super) fn hoist(&mut self, w: &mut Writer, ids: &[ExprId], axis: usize, coordinate: &str, at: &str) {
        for &id in ids {
            w.line(format!("var {}: {};", Self::hoisted(id, at), value_type(self.kernel.dtype(id))));
        }
        if ids.is_empty() {
            return;
        }
        w.open("");
        let mark = self.exprs.enter();
        self.exprs.set_axis(axis, coordinate);
        self.exprs.emit(w, ids);
        for &id in ids {
            w.line(format!("{} = {};", Self::hoisted(id, at), self.exprs.text(id)));
        }
        self.exprs.leave(mark);
        w.close();
    }

    /// Writes a block at the invocation's row `i` and element `j`, in which scores and peak have their texts.
    pub(super) fn at_pair(&mut self, w: &mut Writer, i: u32, j: u32, write: impl FnOnce(&mut Self, &mut Writer)) {
        w.open("");
        let mark = self.exprs.enter();
        let (row, last) = (self.row, self.last);
        self.exprs.set_axis(row, format!("row{i}"));
        self.exprs.set_axis(last, format!("elem{j}"));
        for (ids, at) in [(self.of_row.clone(), format!("r{i}")), (self.of_element.clone(), format!("e{j}"))] {
            ids.into_iter().for_each(|id| self.exprs.bind(id, Self::hoisted(id, &at)));
        }
        self.bind_streamed(&|expr| match expr {
            Expr::Score(score) => Some(format!("s{score}_{i}.{}", COMPONENTS[j as usize])),
            Expr::Peak => Some(format!("peak{i}")),
            _ => None,
        });
        write(self, w);
        self.exprs.leave(mark);
        w.close();
    }

    /// Gives what the stream computes its texts.
    pub(super) fn bind_streamed(&mut self, text: &dyn Fn(&Expr) -> Option<String>) {
        for at in 0..self.kernel.exprs.len() as u32 {
            if let Some(text) = text(self.kernel.expr(ExprId(at))) {
                self.exprs.bind(ExprId(at), text);
            }
        }
    }

    /// Writes `var name: vec4<f32>`, four values of `root` along `axis` from the variable `first` (a multiple of four) on,
    /// zero beyond the axis' extent. Nothing outside of it is loaded.
    pub(super) fn quad(&mut self, w: &mut Writer, root: ExprId, axis: usize, first: &str, name: &str) {
        let extent = self.extent(axis);
        let whole = extent >= VECTOR && extent.is_multiple_of(VECTOR);
        w.line(format!("var {name}: vec4<f32>;"));
        w.open("");
        let outer = self.exprs.enter();
        let mut vectors = Vec::new();
        if whole {
            w.bind("at", format!("min({first}, {}u)", extent - VECTOR));
            self.exprs.set_axis(axis, "at");
            vectors = self.vectors(w, root, axis);
        }
        for (lane, component) in COMPONENTS.into_iter().enumerate() {
            w.open("");
            let mark = self.exprs.enter();
            let coordinate = match whole {
                true => format!("(at + {lane}u)"),
                false => format!("min({first} + {lane}u, {}u)", extent.saturating_sub(1)),
            };
            self.exprs.set_axis(axis, coordinate);
            vectors.iter().for_each(|(id, vector)| self.exprs.bind(*id, format!("{vector}.{component}")));
            self.exprs.emit(w, &[root]);
            let value = self.exprs.text(root);
            match whole {
                true => w.line(format!("{name}.{component} = {value};")),
                false => w.line(format!("{name}.{component} = select(0f, {value}, {first} + {lane}u < {extent}u);")),
            }
            self.exprs.leave(mark);
            w.close();
        }
        if whole {
            w.line(format!("{name} = select(vec4<f32>(), {name}, {first} < {extent}u);"));
        }
        self.exprs.leave(outer);
        w.close();
    }

    /// Writes the vector loads that `root` needs along the axis, whose coordinate is a multiple of four.
    fn vectors(&mut self, w: &mut Writer, root: ExprId, axis: usize) -> Vec<(ExprId, String)> {
        let kernel = self.kernel;
        let mut vectors = Vec::new();
        for id in kernel.needed_for(&[root], false) {
            if let Expr::Load { arg, index, mask } = kernel.expr(id)
                && self.wide[*arg]
                && mask.is_empty()
                && is_vector(kernel, index, axis)
            {
                let name = format!("v{}", id.0);
                let at = self.exprs.index_text(index);
                w.bind(&name, self.exprs.bindings().four(*arg, &at));
                vectors.push((id, name));
            }
        }
        vectors
    }
}
