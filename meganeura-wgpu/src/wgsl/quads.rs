//! Four consecutive points of one axis at a time, so that loads and stores of unit stride are vectors.

use super::bindings::{Bindings, memory_type};
use super::expr::Exprs;
use super::writer::Writer;
use meganeura_core::index::{ExprId, Index};
use meganeura_core::kernel::{Bound, Expr, Kernel};
use meganeura_core::schedule::{VECTOR, wide_arguments};

const COMPONENTS: [&str; VECTOR] = ["x", "y", "z", "w"];

/// Which accesses of a kernel are vectors when it walks `axis` by fours.
#[derive(Clone, Debug)]
pub struct Quads {
    axis: usize,
    /// For each expression whether it varies along the axis.
    varies: Vec<bool>,
    /// For each argument whether its binding is declared as vectors.
    wide: Vec<bool>,
}

impl Quads {
    /// Decides which bindings become vectors and declares them so; `None` if none can.
    ///
    /// A binding does if all arguments there do; see [`wide_arguments`].
    pub fn plan(kernel: &Kernel, axis: usize, bindings: &mut Bindings) -> Option<Quads> {
        let alone = wide_arguments(kernel, axis);
        // Arguments at one place are declared alike.
        let all = |arg: usize| (0..alone.len()).all(|other| alone[other] || !bindings.share(arg, other));
        let wide: Vec<bool> = (0..alone.len()).map(all).collect();
        let chosen = (0..wide.len()).filter(|&arg| wide[arg]);
        chosen.for_each(|arg| bindings.widen(arg));
        let varies = kernel.varies_with(&[axis]);
        wide.contains(&true).then_some(Quads { axis, varies, wide })
    }

    /// Writes four points: what does not vary and the vectors first, then for each point a block with `roots` and
    /// whatever `each` adds. `first` is the variable with the first point's coordinate, a multiple of 4.
    pub fn points(
        &self,
        kernel: &Kernel,
        exprs: &mut Exprs<'_>,
        w: &mut Writer,
        first: &str,
        roots: &[ExprId],
        mut each: impl FnMut(&mut Writer, &mut Exprs<'_>, usize),
    ) {
        exprs.set_axis(self.axis, first);
        let needed = kernel.needed_for(roots, false);
        let shared: Vec<ExprId> = needed.iter().copied().filter(|id| !self.varies[id.0 as usize]).collect();
        exprs.emit(w, &shared);
        let mut vectors = Vec::new();
        for &id in &needed {
            if let Expr::Load { arg, index, mask } = kernel.expr(id)
                && self.wide[*arg]
                && !exprs.is_bound(id)
            {
                let name = format!("v{}", id.0);
                let text = load(kernel, exprs, w, *arg, index, mask);
                w.bind(&name, text);
                vectors.push((id, name));
            }
        }
        for (lane, component) in COMPONENTS.into_iter().enumerate() {
            w.open("");
            let mark = exprs.enter();
            if lane > 0 {
                exprs.set_axis(self.axis, format!("({first} + {lane}u)"));
            }
            for (id, name) in &vectors {
                exprs.bind(*id, format!("{name}.{component}"));
            }
            exprs.emit(w, roots);
            each(w, exprs, lane);
            exprs.leave(mark);
            w.close();
        }
        exprs.set_axis(self.axis, first);
    }

    /// Writes the stores of these numbers for four points.
    pub fn stores(&self, kernel: &Kernel, exprs: &mut Exprs<'_>, w: &mut Writer, first: &str, stores: &[usize]) {
        for &at in stores.iter().filter(|&&at| self.wide[kernel.stores[at].arg]) {
            w.line(format!("var s{at}: vec4<{}>;", memory_type(kernel.args[kernel.stores[at].arg].dtype)));
        }
        self.points(kernel, exprs, w, first, &store_roots(kernel, stores), |w, exprs, lane| {
            for &at in stores {
                let store = &kernel.stores[at];
                match self.wide[store.arg] {
                    true => w.line(format!("s{at}.{} = {};", COMPONENTS[lane], exprs.text(store.value))),
                    false => write_store(kernel, exprs, w, at),
                }
            }
        });
        for &at in stores.iter().filter(|&&at| self.wide[kernel.stores[at].arg]) {
            let store = &kernel.stores[at];
            let index = exprs.index_text(&store.index);
            w.line(format!("{} = s{at};", exprs.bindings().four(store.arg, &index)));
        }
    }
}

/// Writes the stores of these numbers at one point.
pub fn store_point(kernel: &Kernel, exprs: &mut Exprs<'_>, w: &mut Writer, stores: &[usize]) {
    exprs.emit(w, &store_roots(kernel, stores));
    for &at in stores {
        write_store(kernel, exprs, w, at);
    }
}

/// The expressions that stores need: values and what their indices read.
pub fn store_roots(kernel: &Kernel, stores: &[usize]) -> Vec<ExprId> {
    let needs = |&at: &usize| {
        let store = &kernel.stores[at];
        std::iter::once(store.value).chain(store.index.values())
    };
    stores.iter().flat_map(needs).collect()
}

fn write_store(kernel: &Kernel, exprs: &mut Exprs<'_>, w: &mut Writer, at: usize) {
    let store = &kernel.stores[at];
    let index = exprs.index_text(&store.index);
    w.line(exprs.bindings().store(store.arg, &index, &exprs.text(store.value)));
}

/// The text of a vector load.
fn load(kernel: &Kernel, exprs: &mut Exprs<'_>, w: &mut Writer, arg: usize, index: &Index, mask: &[Bound]) -> String {
    let at = exprs.index_text(index);
    let Some(condition) = exprs.mask_text(mask) else {
        return exprs.bindings().four(arg, &at);
    };
    let within = w.fresh("within");
    w.bind(&within, condition);
    let value = exprs.bindings().four(arg, &format!("select(0u, {at}, {within})"));
    format!("select(vec4<{}>(), {value}, {within})", memory_type(kernel.args[arg].dtype))
}
