//! Contractions on scalar units: a workgroup stages a tile of both operands depth-major in workgroup memory, each
//! invocation keeps a tile of sums in registers.
//!
//! Measured on an NVIDIA H200 (4096³, f32): one staging buffer with the next tile prefetched into registers right after
//! the first barrier makes 47 TFLOP/s, two buffers 43 (workgroup memory decides how many workgroups are resident), no
//! prefetch 34–38; depth steps unrolled in the text 45 against 36 in a loop.

use super::context::Context;
use super::epilogue;
use super::operand::{COMPONENT, Fill, Operand, Tile};
use super::order::Order;
use super::walk::Walk;
use crate::wgsl::writer::Writer;
use meganeura_core::schedule::{ContractSpec, Staging};

/// Sizes of the kernel that is printed.
struct Sizes {
    tile: [usize; 3],
    thread: [usize; 2],
    /// Invocations of 32 that are neighbours, across and down.
    lanes: [usize; 2],
    threads: usize,
}

impl Sizes {
    fn new(spec: &ContractSpec, thread: [u32; 2]) -> Sizes {
        let tile = spec.tile.map(|extent| extent as usize);
        let thread = thread.map(|extent| extent as usize);
        let (down, across) = (tile[0] / thread[0], tile[1] / thread[1]);
        // 32 lanes are 8 × 4, so that they read 8 vectors of one operand and 4 of the other; tall where 8 would not fit.
        let wide = if thread[1] == 16 && across == 8 { 4 } else { 8 };
        let wide = wide.min(1 << across.trailing_zeros());
        let high = (32 / wide).min(1 << down.trailing_zeros());
        Sizes { tile, thread, lanes: [wide, high], threads: down * across }
    }
}

/// Where an operand's tile lies in workgroup memory: depth-major rows of vectors.
struct Stage {
    array: &'static str,
    /// Vectors of a row.
    row: usize,
    /// By how much each depth group of four permutes the columns, with exclusive or; 0 = not.
    swizzle: usize,
    transposing: bool,
}

impl Stage {
    fn new(array: &'static str, operand: &Operand<'_>, spec: &ContractSpec, width: usize) -> Stage {
        let transposing = operand.fill != Fill::Across;
        let depth = spec.tile[2] as usize;
        let (pad, swizzle) = match spec.staging {
            _ if !transposing => (0, 0),
            Staging::Pad(pad) => (pad as usize, 0),
            // The permuted columns must stay within the row.
            Staging::Swizzle if width.is_multiple_of(32) => (0, (8 / (depth / 4)).max(1)),
            Staging::Swizzle => (4, 0),
        };
        Stage { array, row: (width + pad) / 4, swizzle, transposing }
    }

    fn vectors(&self, depth: usize) -> usize {
        self.row * depth
    }

    /// Stores an item's quad.
    fn place(&self, w: &mut Writer, name: char, item: usize, value: &str) {
        let (array, row) = (self.array, self.row);
        let (k, d) = (format!("{name}k{item}"), format!("{name}d{item}"));
        if !self.transposing {
            w.line(format!("{array}[{k} * {row}u + {d}] = {value};"));
            return;
        }
        let column = match self.swizzle {
            0 => format!("({d} >> 2u)"),
            1 => format!("(({d} >> 2u) ^ ({k} & 7u))"),
            factor => format!("(({d} >> 2u) ^ ({k} * {factor}u))"),
        };
        w.line(format!("let at = {k} * {}u + {column};", 4 * row));
        w.line(format!("let quad = {value};"));
        for (c, component) in COMPONENT.iter().enumerate() {
            w.line(format!("{array}[at + {}u][{d} & 3u] = quad.{component};", c * row));
        }
    }

    /// The vector at depth `k` of the tile and column `base + shift`.
    fn read(&self, k: usize, base: &str, shift: usize) -> String {
        let flip = (k / 4 * self.swizzle) & 7;
        let column = match (shift, flip) {
            (0, 0) => base.to_owned(),
            (shift, 0) => format!("{base} + {shift}u"),
            (0, flip) => format!("({base} ^ {flip}u)"),
            (shift, flip) => format!("(({base} + {shift}u) ^ {flip}u)"),
        };
        format!("{}[{}u + {column}]", self.array, k * self.row)
    }
}

/// Prints the workgroup variables, `finish`, and the body of `main`.
pub fn print(context: &Context<'_>, w: &mut Writer, spec: &ContractSpec, thread: [u32; 2], order: &Order) {
    let sizes = Sizes::new(spec, thread);
    let tile = |width: u32| Tile { width, steps: spec.tile[2], threads: sizes.threads as u32 };
    let a = Operand::new(context, 'a', context.lhs, context.rows.clone(), &tile(spec.tile[0]), "ty");
    let b = Operand::new(context, 'b', context.rhs, context.cols.clone(), &tile(spec.tile[1]), "tx");
    let sa = Stage::new("sa", &a, spec, sizes.tile[0]);
    let sb = Stage::new("sb", &b, spec, sizes.tile[1]);
    for stage in [&sa, &sb] {
        w.declare(format!("var<workgroup> {}: array<vec4<f32>, {}>;", stage.array, stage.vectors(sizes.tile[2])));
    }
    epilogue::finish(context, w);
    order.bind(w);
    context.declare_batch(w);
    declare_lanes(w, &sizes);
    a.prepare(w);
    b.prepare(w);
    declare_sums(w, &sizes);
    let place = |w: &mut Writer, operand: &Operand<'_>, item: usize, value: &str| {
        let stage = if operand.name == 'a' { &sa } else { &sb };
        stage.place(w, operand.name, item, value);
    };
    Walk { spec, depth: context.depth.points(), operands: [&a, &b], staged: "f32", place: &place }
        .print(w, &|w| multiply(w, &sizes, &sa, &sb));
    store_sums(context, w, &sizes);
}

fn declare_lanes(w: &mut Writer, sizes: &Sizes) {
    let ([wide, high], [down, across]) = (sizes.lanes, sizes.thread);
    let per_row = sizes.tile[1] / sizes.thread[1] / wide;
    w.line(format!("let lane = local % {}u;", wide * high));
    w.line(format!("let warp = local / {}u;", wide * high));
    w.line(format!("let row = warp / {per_row}u * {}u + lane / {wide}u;", high * down / 4));
    w.line(format!("let col = warp % {per_row}u * {}u + lane % {wide}u;", wide * across / 4));
}

fn declare_sums(w: &mut Writer, sizes: &Sizes) {
    for i in 0..sizes.thread[0] {
        for j in 0..sizes.thread[1] / 4 {
            w.line(format!("var r{i}_{j} = vec4<f32>();"));
        }
    }
}

fn multiply(w: &mut Writer, sizes: &Sizes, sa: &Stage, sb: &Stage) {
    let ([wide, high], [down, across]) = (sizes.lanes, sizes.thread);
    for k in 0..sizes.tile[2] {
        w.open("");
        for i in 0..down / 4 {
            w.line(format!("let a{i} = {};", sa.read(k, "row", i * high)));
        }
        for j in 0..across / 4 {
            w.line(format!("let b{j} = {};", sb.read(k, "col", j * wide)));
        }
        for i in 0..down {
            for j in 0..across / 4 {
                let component = COMPONENT[i % 4];
                w.line(format!("r{i}_{j} = fma(vec4<f32>(a{}.{component}), b{j}, r{i}_{j});", i / 4));
            }
        }
        w.close();
    }
}

fn store_sums(context: &Context<'_>, w: &mut Writer, sizes: &Sizes) {
    let ([wide, high], [down, across]) = (sizes.lanes, sizes.thread);
    let [height, width, _] = sizes.tile;
    let (rows, cols) = (context.rows.points(), context.cols.points());
    let scale = if context.cols.quad_axis().is_some() { 4 } else { 1 };
    for i in 0..down {
        w.open("");
        w.line(format!("let m = ty * {height}u + (row + {}u) * 4u + {}u;", i / 4 * high, i % 4));
        let guard = if rows.is_multiple_of(height) { String::new() } else { format!("if m < {rows}u") };
        w.open(guard);
        for j in 0..across / 4 {
            let n = match scale {
                4 => format!("tx * {}u + col + {}u", width / 4, j * wide),
                _ => format!("tx * {width}u + (col + {}u) * 4u", j * wide),
            };
            let call = format!("finish(z, m, {n}, r{i}_{j});");
            if cols.is_multiple_of(width) {
                w.line(&call);
            } else {
                w.line(format!("if {n} < {}u {{ {call} }}", cols.div_ceil(scale)));
            }
        }
        w.close();
        w.close();
    }
}
