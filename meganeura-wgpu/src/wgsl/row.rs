//! Row programs: passes over the elements of a row that fold, and then one that stores.
//!
//! The lanes of a row combine their partial folds as a tree in workgroup memory, in an order that the schedule alone
//! decides. Every invocation of a workgroup takes part in every barrier: rows beyond the last one repeat it and store
//! nothing.

use super::bindings::{Bindings, value_type};
use super::expr::Exprs;
use super::grid::{Grid, unflatten};
use super::quads::{Quads, store_point, store_roots};
use super::writer::Writer;
use super::{Launch, Needs, PARAMETERS, PrintError, scalar};
use meganeura_core::dtype::DType;
use meganeura_core::index::ExprId;
use meganeura_core::kernel::{Expr, Kernel, Role};
use meganeura_core::scalar::Monoid;
use meganeura_core::schedule::{Adjacent, Caps, RowSpec, VECTOR};

/// Writes the body of a row program.
pub fn print(
    kernel: &Kernel,
    spec: &RowSpec,
    bindings: &mut Bindings,
    caps: &Caps,
    w: &mut Writer,
) -> Result<Launch, PrintError> {
    let rows = kernel.points(Role::Parallel) as u64;
    let grid = Grid::new(rows.div_ceil(u64::from(spec.rows)), caps)?;
    grid.bind(w);
    let quads = plan_quads(kernel, spec, bindings);
    bind_place(spec, w);
    let partial = !rows.is_multiple_of(u64::from(spec.rows));
    if partial && spec.lanes == 1 {
        w.line(format!("if wanted >= {rows}u {{ return; }}"));
    }
    match partial && spec.lanes > 1 {
        true => w.bind("row", format!("min(wanted, {}u)", rows.saturating_sub(1))),
        false => w.bind("row", "wanted"),
    }
    let axes: Vec<(String, usize)> =
        kernel.extents().into_iter().enumerate().map(|(axis, extent)| (format!("i{axis}"), extent)).collect();
    let reduce = kernel.axes_of(Role::Reduce);
    let first_reduce = axes.len() - reduce.len();
    let mut coordinates = unflatten(w, "row", &axes[..first_reduce]);
    coordinates.extend(axes[first_reduce..].iter().map(|(name, _)| name.clone()));
    let mut row = Row {
        kernel,
        spec,
        exprs: Exprs::new(kernel, bindings, coordinates),
        varies: kernel.varies_in_row(),
        reduce: axes[first_reduce..].to_vec(),
        rows: if partial { Some(rows) } else { None },
        quads,
    };
    row.fold_passes(w);
    row.store_pass(w);
    Ok(Launch {
        workgroup_size: [spec.lanes * spec.rows, 1, 1],
        grid: grid.size,
        parameters: PARAMETERS.to_vec(),
        needs: Needs::default(),
    })
}

/// Fours of elements along the last reduce axis, where rows are contiguous and long enough to keep all lanes busy.
fn plan_quads(kernel: &Kernel, spec: &RowSpec, bindings: &mut Bindings) -> Option<Quads> {
    let last = kernel.axes_of(Role::Reduce).into_iter().rev().find(|&axis| kernel.axes[axis].extent != 1)?;
    let long = kernel.points(Role::Reduce) >= VECTOR * spec.lanes as usize;
    (long && spec.adjacent == Adjacent::Elements).then(|| Quads::plan(kernel, last, bindings)).flatten()
}

/// Writes which row and which of its lanes an invocation is: `wanted` and `lane`.
fn bind_place(spec: &RowSpec, w: &mut Writer) {
    use super::grid::{quotient, remainder};
    let (lanes, rows) = (u64::from(spec.lanes), u64::from(spec.rows));
    let (lane, own) = match spec.adjacent {
        Adjacent::Elements => (remainder("local", lanes), quotient("local", lanes)),
        Adjacent::Rows => (quotient("local", rows), remainder("local", rows)),
    };
    match spec.lanes {
        1 => w.bind("wanted", format!("tile * {rows}u + local")),
        _ => {
            w.bind("lane", lane);
            w.bind("own", own);
            w.bind("wanted", format!("tile * {rows}u + own"));
        }
    }
}

struct Row<'k> {
    kernel: &'k Kernel,
    spec: &'k RowSpec,
    exprs: Exprs<'k>,
    /// See [`Kernel::varies_in_row`].
    varies: Vec<bool>,
    /// Names and extents of the reduce axes.
    reduce: Vec<(String, usize)>,
    /// The number of rows, if the last workgroup has more than are left.
    rows: Option<u64>,
    quads: Option<Quads>,
}

/// One fold: its expression, monoid and operand.
type Fold = (ExprId, Monoid, ExprId);

impl Row<'_> {
    /// All passes that fold, each followed by the combination of the lanes.
    fn fold_passes(&mut self, w: &mut Writer) {
        let kernel = self.kernel;
        let passes = kernel.passes();
        let all: Vec<usize> = (0..kernel.stores.len()).collect();
        let needed = kernel.needed_for(&store_roots(kernel, &all), true);
        let fold = |id: &ExprId| match kernel.expr(*id) {
            Expr::Reduce(monoid, operand) => Some((*id, *monoid, *operand)),
            _ => None,
        };
        let folds: Vec<Fold> = needed.iter().filter_map(fold).collect();
        let last = folds.iter().map(|(id, ..)| passes[id.0 as usize]).max().unwrap_or(0);
        for pass in 1..=last {
            let now: Vec<Fold> = folds.iter().copied().filter(|(id, ..)| passes[id.0 as usize] == pass).collect();
            self.fold_pass(w, &now);
            self.combine_lanes(w, &now, pass > 1);
        }
    }

    /// One loop over the row's elements that folds several operands at once.
    fn fold_pass(&mut self, w: &mut Writer, folds: &[Fold]) {
        let kernel = self.kernel;
        for (id, monoid, _) in folds {
            let dtype = accumulator(kernel.dtype(*id));
            let identity = scalar::constant(w, monoid.identity(dtype));
            w.line(format!("var fold{}: {} = {identity};", id.0, value_type(dtype)));
        }
        let operands: Vec<ExprId> = folds.iter().map(|(.., operand)| *operand).collect();
        let each = |w: &mut Writer, exprs: &mut Exprs<'_>, _: usize| {
            for (id, monoid, operand) in folds {
                let dtype = accumulator(kernel.dtype(*id));
                let value = scalar::cast(w, kernel.dtype(*operand), dtype, &exprs.text(*operand));
                let name = format!("fold{}", id.0);
                let combined = scalar::combine(w, *monoid, dtype, &name, &value);
                w.line(format!("{name} = {combined};"));
            }
        };
        self.hoist(w, &operands);
        self.walk(w, |row, w, last| match &row.quads {
            Some(quads) => quads.points(kernel, &mut row.exprs, w, last, &operands, each),
            None => {
                row.exprs.emit(w, &operands);
                each(w, &mut row.exprs, 0);
            }
        });
    }

    /// Writes what the roots need and what is the same for all elements of a row.
    fn hoist(&mut self, w: &mut Writer, roots: &[ExprId]) {
        let needed = self.kernel.needed_for(roots, false);
        let same: Vec<ExprId> = needed.into_iter().filter(|id| !self.varies[id.0 as usize]).collect();
        self.exprs.emit(w, &same);
    }

    /// Writes the loop of an invocation over its elements, or fours of them, around `body`, which gets the name of the
    /// last axis' coordinate.
    fn walk(&mut self, w: &mut Writer, body: impl FnOnce(&mut Self, &mut Writer, &str)) {
        let step = if self.quads.is_some() { VECTOR as u64 } else { 1 };
        let elements = self.reduce.iter().map(|(_, extent)| *extent as u64).product::<u64>();
        let start = match (self.spec.lanes, step) {
            (1, _) => "0u".to_string(),
            (_, 1) => "lane".to_string(),
            _ => format!("lane * {step}u"),
        };
        let stride = u64::from(self.spec.lanes) * step;
        w.open(format!("for (var element = {start}; element < {elements}u; element += {stride}u)"));
        let mark = self.exprs.enter();
        let texts = unflatten(w, "element", &self.reduce);
        let last = texts.iter().rev().find(|text| *text != "0u").cloned().unwrap_or_default();
        body(self, w, &last);
        self.exprs.leave(mark);
        w.close();
    }

    /// Combines the partial folds of a row's lanes and gives the folds their texts.
    fn combine_lanes(&mut self, w: &mut Writer, folds: &[Fold], again: bool) {
        let kernel = self.kernel;
        if self.spec.lanes > 1 {
            if again {
                // The results of the pass before are read from the same memory.
                w.line("workgroupBarrier();");
            }
            let shared = self.declare_shared(w, folds);
            for ((id, ..), memory) in folds.iter().zip(&shared) {
                w.line(format!("{memory}[local] = fold{};", id.0));
            }
            w.line("workgroupBarrier();");
            self.tree(w, folds, &shared);
            let own = match self.spec.adjacent {
                Adjacent::Elements => format!("own * {}u", self.spec.lanes),
                Adjacent::Rows => "own".to_string(),
            };
            for ((id, ..), memory) in folds.iter().zip(&shared) {
                w.line(format!("fold{} = {memory}[{own}];", id.0));
            }
        }
        for (id, ..) in folds {
            let dtype = kernel.dtype(*id);
            let text = scalar::cast(w, accumulator(dtype), dtype, &format!("fold{}", id.0));
            self.exprs.bind(*id, text);
        }
    }

    /// Halves the number of partial folds in each step.
    fn tree(&self, w: &mut Writer, folds: &[Fold], shared: &[String]) {
        w.open(format!("for (var half = {}u; half > 0u; half >>= 1u)", self.spec.lanes / 2));
        w.open("if lane < half");
        let other = match self.spec.adjacent {
            Adjacent::Elements => "local + half".to_string(),
            Adjacent::Rows => format!("local + half * {}u", self.spec.rows),
        };
        for ((id, monoid, _), memory) in folds.iter().zip(shared) {
            let dtype = accumulator(self.kernel.dtype(*id));
            let (mine, theirs) = (format!("{memory}[local]"), format!("{memory}[{other}]"));
            let combined = scalar::combine(w, *monoid, dtype, &mine, &theirs);
            w.line(format!("{mine} = {combined};"));
        }
        w.close();
        w.line("workgroupBarrier();");
        w.close();
    }

    /// One array of workgroup memory for each fold of a pass; passes share them.
    fn declare_shared(&self, w: &mut Writer, folds: &[Fold]) -> Vec<String> {
        let threads = self.spec.lanes * self.spec.rows;
        let mut names = Vec::new();
        for (id, ..) in folds {
            let dtype = value_type(accumulator(self.kernel.dtype(*id)));
            let nth = names.iter().filter(|name: &&String| name.contains(dtype)).count();
            let name = format!("shared_{dtype}_{nth}");
            w.declare(format!("var<workgroup> {name}: array<{dtype}, {threads}>;"));
            names.push(name);
        }
        names
    }

    /// The stores: at each element, then once a row.
    fn store_pass(&mut self, w: &mut Writer) {
        let kernel = self.kernel;
        let split = |per_element: bool| -> Vec<usize> {
            (0..kernel.stores.len()).filter(|&at| kernel.stores[at].per_element == per_element).collect()
        };
        let (each, once) = (split(true), split(false));
        if !each.is_empty() {
            self.hoist(w, &store_roots(kernel, &each));
            let valid = if self.spec.lanes > 1 { self.rows } else { None };
            if let Some(rows) = valid {
                w.open(format!("if wanted < {rows}u"));
            }
            self.walk(w, |row, w, last| match &row.quads {
                Some(quads) => quads.stores(kernel, &mut row.exprs, w, last, &each),
                None => store_point(kernel, &mut row.exprs, w, &each),
            });
            if valid.is_some() {
                w.close();
            }
        }
        if !once.is_empty() {
            self.store_once(w, &once);
        }
    }

    /// The stores of a row, by its first lane. A value updated in place is read by all lanes before it is written.
    fn store_once(&mut self, w: &mut Writer, once: &[usize]) {
        if self.spec.lanes == 1 {
            return store_point(self.kernel, &mut self.exprs, w, once);
        }
        if once.iter().any(|&at| self.is_loaded(self.kernel.stores[at].arg)) {
            w.line("storageBarrier();");
            w.line("workgroupBarrier();");
        }
        match self.rows {
            Some(rows) => w.open(format!("if lane == 0u && wanted < {rows}u")),
            None => w.open("if lane == 0u"),
        }
        let mark = self.exprs.enter();
        store_point(self.kernel, &mut self.exprs, w, once);
        self.exprs.leave(mark);
        w.close();
    }

    /// Whether anything is loaded from the place of an argument.
    fn is_loaded(&self, arg: usize) -> bool {
        let from = |expr: &Expr| matches!(expr, Expr::Load { arg: own, .. } if self.exprs.bindings().share(*own, arg));
        self.kernel.exprs.iter().any(from)
    }
}

/// The type that a fold is computed in: `f16` folds in `f32`.
fn accumulator(dtype: DType) -> DType {
    if dtype == DType::F16 { DType::F32 } else { dtype }
}
