//! Contractions on matrix units: subgroups multiply cooperative matrices of staged tiles.
//!
//! Measured on an NVIDIA H200 (4096³, f16 → f32): 285–318 TFLOP/s with 128×128×32 tiles, rows padded to an odd multiple
//! of 16 bytes, and the loop over the tile's depth left a loop: unrolled, the driver spills and makes 237.

use super::context::Context;
use super::epilogue;
use super::operand::{COMPONENT, Fill, Operand, Tile};
use super::order::Order;
use super::space::Group;
use super::walk::Walk;
use crate::wgsl::PrintError;
use crate::wgsl::writer::Writer;
use meganeura_core::dtype::DType;
use meganeura_core::index::Index;
use meganeura_core::kernel::{Expr, Kernel, Role};
use meganeura_core::schedule::{ContractSpec, Staging};

/// Sizes of the kernel that is printed.
pub struct Sizes {
    /// Rows, columns and depth of a matrix.
    pub size: usize,
    /// Rows and columns of a subgroup's sums.
    pub subgroup: [usize; 2],
    /// Lanes of a subgroup.
    pub lanes: usize,
    /// Type of staged operands.
    pub operand: DType,
}

/// An operand's tile in workgroup memory, in its stored order.
struct Stage {
    array: &'static str,
    /// `A` or `B`.
    role: char,
    /// Elements from one row to the next.
    stride: usize,
    rows: usize,
    /// Whether a row runs along the contracted axes.
    along: bool,
    /// Elements of an array element: vectors where pointers to them are portable enough, else scalars.
    unit: usize,
}

impl Stage {
    fn new(operand: &Operand<'_>, spec: &ContractSpec, width: usize, unit: usize) -> Stage {
        let steps = spec.tile[2] as usize;
        let pad = match spec.staging {
            Staging::Pad(pad) => pad as usize,
            Staging::Swizzle => 0,
        };
        let along = operand.fill != Fill::Across;
        let (rows, cols) = if along { (width, steps) } else { (steps, width) };
        let (array, role) = if operand.name == 'a' { ("sa", 'A') } else { ("sb", 'B') };
        Stage { array, role, stride: cols + pad, rows, along, unit }
    }

    fn declare(&self, w: &mut Writer, scalar: &str) {
        let element = if self.unit == 4 { format!("vec4<{scalar}>") } else { scalar.to_owned() };
        w.declare(format!("var<workgroup> {}: array<{element}, {}>;", self.array, self.rows * self.stride / self.unit));
    }

    fn place(&self, w: &mut Writer, name: char, item: usize, value: &str) {
        let (k, d) = (format!("{name}k{item}"), format!("{name}d{item}"));
        let (row, quad) = if self.along { (d, k) } else { (k, d) };
        if self.unit == 4 {
            w.line(format!("{}[{row} * {}u + {quad}] = {value};", self.array, self.stride / 4));
            return;
        }
        w.bind("at", format!("{row} * {}u + {quad} * 4u", self.stride));
        w.bind("quad", value);
        for (c, component) in COMPONENT.iter().enumerate() {
            w.line(format!("{}[at + {c}u] = quad.{component};", self.array));
        }
    }

    /// Loads the matrix at depth `kk` (a variable) and `base + shift` along the free axes.
    fn load(&self, size: usize, scalar: &str, base: &str, shift: usize) -> String {
        let (stride, unit) = (self.stride / self.unit, self.unit);
        // A row-major left operand has depth along its rows, a row-major right operand across them.
        let row_major = self.along == (self.role == 'A');
        let at = match self.along {
            true => format!("({base} + {shift}u) * {stride}u + kk / {unit}u"),
            false => format!("kk * {stride}u + ({base} + {shift}u) / {unit}u"),
        };
        let function = if row_major { "coopLoadT" } else { "coopLoad" };
        format!("{function}<coop_mat{size}x{size}<{scalar}, {}>>(&{}[{at}], {stride}u)", self.role, self.array)
    }
}

/// Prints the workgroup variables, `finish` unless sums go straight to memory, and the body of `main`.
///
/// # Errors
/// If the tile does not consist of whole matrices.
pub fn print(
    context: &Context<'_>,
    w: &mut Writer,
    spec: &ContractSpec,
    sizes: &Sizes,
    order: &Order,
) -> Result<(), PrintError> {
    let [height, width, steps] = spec.tile.map(|extent| extent as usize);
    let whole = |extent: usize, part: usize| part > 0 && extent.is_multiple_of(part);
    if !whole(height, sizes.subgroup[0])
        || !whole(width, sizes.subgroup[1])
        || !sizes.subgroup.iter().chain([&steps]).all(|&extent| whole(extent, sizes.size))
    {
        return Err(PrintError::FeatureMissing { feature: "cooperative matrices that divide the tile" });
    }
    let tile = |width: u32| Tile { width, steps: spec.tile[2], threads: spec.threads() };
    let mut a = Operand::new(context, 'a', context.lhs, context.rows.clone(), &tile(spec.tile[0]), "ty");
    let mut b = Operand::new(context, 'b', context.rhs, context.cols.clone(), &tile(spec.tile[1]), "tx");
    (a.permuted, b.permuted) = (true, true);
    // Metal takes no pointers to vectors; its matrices are the small ones.
    let unit = if sizes.size == 16 { 4 } else { 1 };
    let (sa, sb) = (Stage::new(&a, spec, height, unit), Stage::new(&b, spec, width, unit));
    let scalar = sizes.operand.name();
    [&sa, &sb].iter().for_each(|stage| stage.declare(w, scalar));
    let direct = direct_store(context.kernel, spec);
    if direct.is_none() {
        epilogue::finish(context, w);
    }
    order.bind(w);
    context.declare_batch(w);
    let across = width / sizes.subgroup[1];
    w.bind("sy", format!("subgroup / {across}u * {}u", sizes.subgroup[0]));
    w.bind("sx", format!("subgroup % {across}u * {}u", sizes.subgroup[1]));
    a.prepare(w);
    b.prepare(w);
    each_sum(sizes, |i, j| w.line(format!("var r{i}_{j} = coop_mat{0}x{0}<f32, C>();", sizes.size)));
    let place = |w: &mut Writer, operand: &Operand<'_>, item: usize, value: &str| {
        let stage = if operand.name == 'a' { &sa } else { &sb };
        stage.place(w, operand.name, item, value);
    };
    Walk { spec, depth: context.depth.points(), operands: [&a, &b], staged: scalar, place: &place }
        .print(w, &|w| multiply(w, sizes, steps, &sa, &sb));
    match direct {
        Some(direct) => store_direct(context, w, spec, sizes, &direct),
        None => store_staged(context, w, spec, sizes, unit),
    }
    Ok(())
}

fn each_sum(sizes: &Sizes, mut visit: impl FnMut(usize, usize)) {
    for i in 0..sizes.subgroup[0] / sizes.size {
        (0..sizes.subgroup[1] / sizes.size).for_each(|j| visit(i, j));
    }
}

fn multiply(w: &mut Writer, sizes: &Sizes, steps: usize, sa: &Stage, sb: &Stage) {
    let (size, scalar) = (sizes.size, sizes.operand.name());
    w.open(format!("for (var kk = 0u; kk < {steps}u; kk += {size}u)"));
    for i in 0..sizes.subgroup[0] / size {
        w.bind(&format!("a{i}"), sa.load(size, scalar, "sy", i * size));
    }
    for j in 0..sizes.subgroup[1] / size {
        w.bind(&format!("b{j}"), sb.load(size, scalar, "sx", j * size));
        for i in 0..sizes.subgroup[0] / size {
            w.line(format!("r{i}_{j} = coopMultiplyAdd(a{i}, b{j}, r{i}_{j});"));
        }
    }
    w.close();
}

/// A store that matrices can do themselves.
pub struct Direct {
    /// Argument that is stored to.
    pub arg: usize,
    /// Its index at the first row and column.
    index: Index,
    /// Elements from one row to the next.
    stride: usize,
}

/// The kernel's only store, if it is the bare sum as `f32`, row-major with neighbouring columns adjacent, and tiles divide
/// the result.
pub fn direct_store(kernel: &Kernel, spec: &ContractSpec) -> Option<Direct> {
    let [store] = kernel.stores.as_slice() else { return None };
    let (rows, cols) = (Group::of(kernel, Role::Row), Group::of(kernel, Role::Col));
    let [height, width, _] = spec.tile.map(|extent| extent as usize);
    let plain = matches!(kernel.expr(store.value), Expr::Acc) && kernel.args[store.arg].dtype == DType::F32;
    if !plain || !rows.points().is_multiple_of(height) || !cols.points().is_multiple_of(width) {
        return None;
    }
    if flat_stride(&store.index, &cols)? != 1 {
        return None;
    }
    let stride = flat_stride(&store.index, &rows)?;
    let constant = |axis: usize| rows.axes.contains(&axis) || cols.axes.contains(&axis);
    let terms = store
        .index
        .terms
        .iter()
        .filter(|term| !matches!(term.atom, meganeura_core::index::Atom::Axis(axis) if constant(axis)));
    let index = Index { offset: store.index.offset, terms: terms.cloned().collect() };
    (!rows.axes.iter().chain(&cols.axes).any(|&axis| index.uses_axis(axis))).then_some(Direct {
        arg: store.arg,
        index,
        stride,
    })
}

/// The stride of an index along a group walked as one, if it has one.
fn flat_stride(index: &Index, group: &Group) -> Option<usize> {
    let fastest = index.stride(*group.axes.last()?)?;
    let mut expected = fastest;
    for (&axis, &extent) in group.axes.iter().zip(&group.extents).rev() {
        if index.stride(axis)? != expected {
            return None;
        }
        expected *= extent as i64;
    }
    usize::try_from(fastest).ok().filter(|&stride| stride > 0)
}

fn store_direct(context: &Context<'_>, w: &mut Writer, spec: &ContractSpec, sizes: &Sizes, direct: &Direct) {
    let [height, width, _] = spec.tile;
    let base = context.exprs(context.batch_coords()).index_text(&direct.index);
    w.bind("stride", format!("{}u", direct.stride));
    w.bind("base", format!("{base} + (ty * {height}u + sy) * {}u + tx * {width}u + sx", direct.stride));
    each_sum(sizes, |i, j| {
        // naga's SPIR-V writer wants indices and strides of stores named.
        w.bind(&format!("o{i}_{j}"), format!("base + {}u", i * sizes.size * direct.stride + j * sizes.size));
        w.line(format!("coopStoreT(r{i}_{j}, &{}, stride);", context.scalar_element(direct.arg, &format!("o{i}_{j}"))));
    });
}

/// Sums go through workgroup memory, one matrix of each subgroup at a time, to the epilogue.
fn store_staged(context: &Context<'_>, w: &mut Writer, spec: &ContractSpec, sizes: &Sizes, unit: usize) {
    let (size, lanes) = (sizes.size, sizes.lanes);
    let row = size + 4;
    let subgroups = spec.threads() as usize / lanes;
    let element = if unit == 4 { "vec4<f32>" } else { "f32" };
    w.declare(format!("var<workgroup> sums: array<{element}, {}>;", subgroups * size * row / unit));
    w.bind("lane", format!("local % {lanes}u"));
    w.bind("scratch", format!("subgroup * {}u", size * row / unit));
    w.bind("stride", format!("{}u", row / unit));
    each_sum(sizes, |i, j| {
        w.line(format!("coopStoreT(r{i}_{j}, &sums[scratch], stride);"));
        w.line("workgroupBarrier();");
        let quads = size * size / 4;
        for first in (0..quads).step_by(lanes) {
            let guard = if first + lanes > quads { format!("if lane + {first}u < {quads}u") } else { String::new() };
            w.open(guard);
            w.bind("r", format!("(lane + {first}u) / {}u", size / 4));
            w.bind("q", format!("(lane + {first}u) % {}u", size / 4));
            finish_call(context, w, spec, [i * size, j * size], unit, row);
            w.close();
        }
        w.line("workgroupBarrier();");
    });
}

fn finish_call(context: &Context<'_>, w: &mut Writer, spec: &ContractSpec, at: [usize; 2], unit: usize, row: usize) {
    let [height, width, _] = spec.tile.map(|extent| extent as usize);
    let (rows, cols) = (context.rows.points(), context.cols.points());
    w.bind("m", format!("ty * {height}u + sy + {}u + r", at[0]));
    let column = format!("tx * {width}u + sx + {}u", at[1]);
    let scale = if context.cols.quad_axis().is_some() { 4 } else { 1 };
    match scale {
        4 => w.bind("n", format!("({column}) / 4u + q")),
        _ => w.bind("n", format!("{column} + q * 4u")),
    }
    match unit {
        4 => w.bind("sum", format!("sums[scratch + r * {}u + q]", row / 4)),
        _ => {
            w.bind("from", format!("scratch + r * {row}u + q * 4u"));
            w.bind("sum", "vec4<f32>(sums[from], sums[from + 1u], sums[from + 2u], sums[from + 3u])");
        }
    }
    let mut tests = Vec::new();
    if !rows.is_multiple_of(height) {
        tests.push(format!("m < {rows}u"));
    }
    if !cols.is_multiple_of(width) {
        tests.push(format!("n < {}u", cols.div_ceil(scale)));
    }
    let call = "finish(z, m, n, sum);";
    w.line(if tests.is_empty() { call.to_owned() } else { format!("if {} {{ {call} }}", tests.join(" && ")) });
}
