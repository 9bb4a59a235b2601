//! A matrix times a vector, or a dot product: invocations share the sum of each result.
//!
//! Measured on an NVIDIA H200: 32 lanes to a row of four-element vectors with 2–4 in flight read an 8192² matrix at the
//! speed of a copy; a matrix stored the other way takes 32 lanes of four columns × 8 depth steps, and a split sum.

use super::context::Context;
use super::epilogue;
use super::loads::{load_vector, loads, vector_load};
use super::operand::{COMPONENT, in_elements};
use super::space::{Coords, Flat, Group};
use crate::wgsl::grid::{Grid, quotient, remainder};
use crate::wgsl::writer::Writer;
use crate::wgsl::{Launch, Needs, PARAMETERS, PrintError};
use meganeura_core::kernel::{Bound, Expr, ExprId, Kernel};
use meganeura_core::schedule::{Adjacent, Caps, GemvSpec};

/// Prints the loads of a step: given its name, a tag for names, and the variables to assign.
type Load<'a> = &'a dyn Fn(&mut Writer, &str, &str, [&str; 2]);

/// Loads that an invocation has in flight.
const IN_FLIGHT: usize = 4;

/// The entry point's parameters where invocations are numbered by subgroup.
const SUBGROUP_PARAMETERS: [&str; 3] = [
    "@builtin(workgroup_id) group: vec3<u32>",
    "@builtin(subgroup_id) subgroup: u32",
    "@builtin(subgroup_invocation_id) subgroup_lane: u32",
];

/// Prints the workgroup variables, the epilogue and the body of `main`.
///
/// # Errors
/// If the device cannot dispatch so many workgroups.
pub fn print(context: &Context<'_>, w: &mut Writer, spec: &GemvSpec, caps: &Caps) -> Result<Launch, PrintError> {
    let cols = context.rows.points() == 1;
    let group = if cols { &context.cols } else { &context.rows };
    // Whole subgroups share a sum, so that they can add it without workgroup memory.
    let whole = |size: &u32| spec.adjacent == Adjacent::Elements && *size > 1 && spec.lanes.is_multiple_of(*size);
    let subgroup = caps.subgroup.filter(whole);
    let (lanes, results) = (spec.lanes as usize, spec.results as usize);
    let product = Product { context, group, cols, lanes, results, subgroup: subgroup.map(|size| size as usize) };
    let grid = match spec.adjacent {
        Adjacent::Elements => product.along_depth(w, caps)?,
        Adjacent::Rows => product.along_results(w, caps)?,
    };
    Ok(Launch {
        workgroup_size: [spec.lanes * spec.results, 1, 1],
        grid: grid.size,
        parameters: if subgroup.is_some() { SUBGROUP_PARAMETERS.to_vec() } else { PARAMETERS.to_vec() },
        needs: Needs { subgroup: subgroup.is_some(), ..Needs::default() },
    })
}

struct Product<'c> {
    context: &'c Context<'c>,
    /// The axes of the results.
    group: &'c Group,
    /// Whether those are the columns.
    cols: bool,
    lanes: usize,
    results: usize,
    /// Size of a subgroup, if whole ones share a sum.
    subgroup: Option<usize>,
}

impl Product<'_> {
    /// Neighbouring invocations walk the sum of one result.
    fn along_depth(&self, w: &mut Writer, caps: &Caps) -> Result<Grid, PrintError> {
        let (context, lanes, points) = (self.context, self.lanes, self.group.points());
        let total = points * context.batch.points();
        let grid = Grid::new(total.div_ceil(self.results) as u64, caps)?;
        epilogue::finish_one(context, w);
        grid.bind(w);
        if let Some(size) = self.subgroup {
            w.bind("local", format!("subgroup * {size}u + subgroup_lane"));
        }
        w.bind("lane", remainder("local", lanes as u64));
        w.bind("own", format!("tile * {}u + {}", self.results, quotient("local", lanes as u64)));
        // Invocations beyond the last result repeat it: all of a workgroup must reach the barriers.
        let ragged = !total.is_multiple_of(self.results);
        w.bind("result", if ragged { format!("min(own, {}u)", total - 1) } else { "own".to_owned() });
        w.bind("z", quotient("result", points as u64));
        w.bind("point", remainder("result", points as u64));
        context.declare_batch(w);
        let mut coords = context.batch_coords();
        self.group.decode(w, &Flat::any("point"), "p", &mut coords);
        let axis = context.depth.quad_axis();
        let sum = if axis.is_some() { "vec4<f32>" } else { "f32" };
        w.line(format!("var acc = {sum}();"));
        let steps = context.depth.points() / if axis.is_some() { 4 } else { 1 };
        self.walk(w, "lane", steps, sum, &|w, step, tag, targets| {
            let mut coords = coords.clone();
            match axis {
                Some(_) => context.depth.decode_quads(w, &Flat::any(step), tag, &mut coords),
                None => context.depth.decode(w, &Flat::any(step), tag, &mut coords),
            }
            self.operands(w, &coords, axis, targets);
        });
        w.bind("sum", if axis.is_some() { "acc.x + acc.y + (acc.z + acc.w)" } else { "acc" });
        self.combine(w);
        let guard = if ragged { format!("lane == 0u && own < {total}u") } else { "lane == 0u".to_owned() };
        w.line(format!("if {guard} {{ {} }}", self.finish_one("point", "total")));
        Ok(grid)
    }

    /// Adds the lanes' `sum`s; in the first lane `total` is the result.
    fn combine(&self, w: &mut Writer) {
        let lanes = self.lanes;
        let Some(size) = self.subgroup else {
            w.declare(format!("var<workgroup> sums: array<f32, {}>;", lanes * self.results));
            w.line("sums[local] = sum;");
            w.line("workgroupBarrier();");
            let mut half = lanes / 2;
            while half > 0 {
                w.line(format!("if lane < {half}u {{ sums[local] += sums[local + {half}u]; }}"));
                w.line("workgroupBarrier();");
                half /= 2;
            }
            return w.bind("total", "sums[local]");
        };
        let subgroups = lanes / size;
        if subgroups == 1 {
            return w.bind("total", "subgroupAdd(sum)");
        }
        w.declare(format!("var<workgroup> sums: array<f32, {}>;", subgroups * self.results));
        w.bind("part", "subgroupAdd(sum)");
        w.line("if subgroup_lane == 0u { sums[subgroup] = part; }");
        w.line("workgroupBarrier();");
        let parts: Vec<String> = (0..subgroups).map(|n| format!("sums[first + {n}u]")).collect();
        w.bind("first", format!("{} * {subgroups}u", quotient("local", lanes as u64)));
        w.bind("total", parts.join(" + "));
    }

    /// Neighbouring invocations walk neighbouring results, four each where they can be vectors.
    fn along_results(&self, w: &mut Writer, caps: &Caps) -> Result<Grid, PrintError> {
        let (context, lanes, axis) = (self.context, self.lanes, self.group.quad_axis());
        let points = self.group.points() / if axis.is_some() { 4 } else { 1 };
        let blocks = points.div_ceil(self.results);
        let grid = Grid::new((blocks * context.batch.points()) as u64, caps)?;
        let vector = axis.is_some() && self.cols;
        if vector {
            epilogue::finish(context, w)
        } else {
            epilogue::finish_one(context, w)
        }
        let sum = if axis.is_some() { "vec4<f32>" } else { "f32" };
        w.declare(format!("var<workgroup> sums: array<{sum}, {}>;", lanes * self.results));
        grid.bind(w);
        w.bind("lane", quotient("local", self.results as u64));
        w.bind("z", quotient("tile", blocks as u64));
        w.bind(
            "own",
            format!(
                "{} * {}u + {}",
                remainder("tile", blocks as u64),
                self.results,
                remainder("local", self.results as u64)
            ),
        );
        let ragged = !points.is_multiple_of(self.results);
        w.bind("point", if ragged { format!("min(own, {}u)", points - 1) } else { "own".to_owned() });
        context.declare_batch(w);
        let mut coords = context.batch_coords();
        match axis {
            Some(_) => self.group.decode_quads(w, &Flat::any("point"), "p", &mut coords),
            None => self.group.decode(w, &Flat::any("point"), "p", &mut coords),
        }
        w.line(format!("var acc = {sum}();"));
        self.walk(w, "lane", context.depth.points(), sum, &|w, step, tag, targets| {
            let mut coords = coords.clone();
            context.depth.decode(w, &Flat::any(step), tag, &mut coords);
            self.operands(w, &coords, axis, targets);
        });
        w.line("sums[local] = acc;");
        w.line("workgroupBarrier();");
        w.open(if ragged { format!("if lane == 0u && own < {points}u") } else { "if lane == 0u".to_owned() });
        for other in 1..lanes {
            w.line(format!("acc += sums[local + {}u];", other * self.results));
        }
        match (axis, vector) {
            (_, true) => w.line("finish(z, 0u, point, acc);"),
            (None, _) => w.line(self.finish_one("point", "acc")),
            (Some(_), _) => {
                for (c, component) in COMPONENT.iter().enumerate() {
                    w.line(self.finish_one(&format!("point * 4u + {c}u"), &format!("acc.{component}")));
                }
            }
        }
        w.close();
        Ok(grid)
    }

    fn finish_one(&self, point: &str, sum: &str) -> String {
        let (m, n) = if self.cols { ("0u", point) } else { (point, "0u") };
        format!("finish_one(z, {m}, {n}, {sum});")
    }

    /// The loop over `steps` in strides of the lanes from `first`, several loads in flight. `load` is given a step (a
    /// name), a tag for names, and the variables to assign.
    fn walk(&self, w: &mut Writer, first: &str, steps: usize, sum: &str, load: Load<'_>) {
        let lanes = self.lanes;
        w.line(format!("var step = {first};"));
        let body = |w: &mut Writer, count: usize| {
            for u in 0..count {
                w.line(format!("var l{u}: {sum};"));
                w.line(format!("var r{u}: {sum};"));
                w.open("");
                w.bind(&format!("k{u}"), format!("step + {}u", u * lanes));
                load(w, &format!("k{u}"), &format!("u{u}"), [&format!("l{u}"), &format!("r{u}")]);
                w.close();
            }
            for u in 0..count {
                w.line(format!("acc = fma(l{u}, r{u}, acc);"));
            }
            w.line(format!("step += {}u;", count * lanes));
        };
        let full = steps / (lanes * IN_FLIGHT);
        if full > 0 {
            w.open(format!("for (var i = 0u; i < {full}u; i++)"));
            body(w, IN_FLIGHT);
            w.close();
        }
        if !steps.is_multiple_of(lanes * IN_FLIGHT) {
            w.open(format!("while step < {steps}u"));
            body(w, 1);
            w.close();
        }
    }

    /// Assigns both operands at a point, or at the quad along `axis` whose coordinate then counts quads.
    fn operands(&self, w: &mut Writer, coords: &Coords, axis: Option<usize>, targets: [&str; 2]) {
        for (root, target) in [(self.context.lhs, targets[0]), (self.context.rhs, targets[1])] {
            match axis {
                Some(axis) if varies(self.context.kernel, root, axis) => self.quad(w, root, coords, axis, target),
                Some(axis) => self.scalar(w, root, in_elements(coords, axis, 0), &[], target, "vec4<f32>"),
                None => self.scalar(w, root, coords.clone(), &[], target, "f32"),
            }
        }
    }

    fn quad(&self, w: &mut Writer, root: ExprId, coords: &Coords, axis: usize, target: &str) {
        let mut named = Vec::new();
        w.open("");
        for id in loads(self.context.kernel, root) {
            let Some((arg, index, mask)) = vector_load(self.context, id, axis) else { continue };
            let name = format!("v{}", id.0);
            load_vector(self.context, w, &name, coords, (arg, &index, &mask));
            named.push((id, name));
        }
        match named.as_slice() {
            [(id, name)] if *id == root => w.line(format!("{target} = vec4<f32>({name});")),
            _ => {
                for (c, component) in COMPONENT.iter().enumerate() {
                    let bound: Vec<(ExprId, String)> =
                        named.iter().map(|(id, name)| (*id, format!("{name}.{component}"))).collect();
                    let target = format!("{target}.{component}");
                    self.scalar(w, root, in_elements(coords, axis, c), &bound, &target, "f32");
                }
            }
        }
        w.close();
    }

    fn scalar(&self, w: &mut Writer, root: ExprId, coords: Coords, bound: &[(ExprId, String)], target: &str, ty: &str) {
        w.open("");
        let mut exprs = self.context.exprs(coords);
        bound.iter().for_each(|(id, text)| exprs.bind(*id, text.clone()));
        exprs.emit(w, &[root]);
        let value = exprs.text(root);
        w.line(match ty {
            "f32" => format!("{target} = f32({value});"),
            _ => format!("{target} = vec4<f32>(f32({value}));"),
        });
        w.close();
    }
}

/// Whether the value of `root` depends on the coordinate of an axis.
fn varies(kernel: &Kernel, root: ExprId, axis: usize) -> bool {
    let within = |bounds: &[Bound]| bounds.iter().any(|bound| bound.index.uses_axis(axis));
    kernel.needed_for(&[root], true).into_iter().any(|id| match kernel.expr(id) {
        Expr::Load { index, mask, .. } => index.uses_axis(axis) || within(mask),
        Expr::Index(index) | Expr::Random { counter: index, .. } => index.uses_axis(axis),
        Expr::Within(bounds) => within(bounds),
        _ => false,
    })
}
