//! Moving an operand's tile from memory through registers into workgroup memory.
//!
//! A thread moves quads: four values that lie along the contracted axes or along the operand's own (*free*) axes. Loads
//! go into registers one tile ahead of the products; the operand's elementwise prologue is evaluated when the registers
//! are stored, so that no arithmetic waits for memory.

use super::context::Context;
use super::quad::{common_bound, fixed, quartered};
use super::space::{Coords, Flat, Group};
use crate::wgsl::bindings::value_type;
use crate::wgsl::expr::Exprs;
use crate::wgsl::writer::Writer;
use meganeura_core::index::Index;
use meganeura_core::kernel::{Bound, Expr, ExprId, Kernel};

/// Names of a vector's components.
pub const COMPONENT: [char; 4] = ['x', 'y', 'z', 'w'];

/// How the quads of a tile are dealt to threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// A quad lies along the free axes, neighbouring threads too.
    Across,
    /// A quad lies along the contracted axes, neighbouring threads too.
    Along,
    /// A quad lies along the contracted axes, neighbouring threads along the free axes: scalar loads are coalesced.
    Columns,
}

/// How a load of the prologue gets the four values of a quad.
#[derive(Clone, Debug)]
enum Form {
    /// One vector load at this index over quad coordinates, where these bounds hold.
    Vector { index: Index, mask: Vec<Bound> },
    /// One scalar, the same for the quad.
    Common,
    /// Four scalar loads.
    Scalars,
}

/// What is held in registers between load and store.
#[derive(Clone, Debug)]
struct Register {
    /// A load of the prologue; `None` for the whole operand, evaluated as it is loaded.
    load: Option<ExprId>,
    form: Form,
}

/// One operand of a tiled contraction.
pub struct Operand<'c> {
    context: &'c Context<'c>,
    /// Prefix of its names: `a` or `b`.
    pub name: char,
    root: ExprId,
    free: Group,
    depth: Group,
    /// Order in which quads are dealt.
    pub fill: Fill,
    registers: Vec<Register>,
    /// Points of the tile along the free axes.
    width: usize,
    /// Points of the tile along the contracted axes.
    steps: usize,
    threads: usize,
    /// Text of the tile's number along the free axes.
    tile: &'static str,
    /// Whether rows of quads along the contracted axes are dealt so that 16 lanes cover rows r and r + 4: with a row
    /// stride of an odd multiple of 16 bytes their stores meet different banks (5 % of a cooperative kernel).
    pub permuted: bool,
}

/// Where a tile lies and how big it is.
pub struct Tile {
    /// Points along the operand's free axes.
    pub width: u32,
    /// Points along the contracted axes.
    pub steps: u32,
    /// Invocations that fill it.
    pub threads: u32,
}

impl<'c> Operand<'c> {
    /// The operand `root` whose free axes are `free`; `number` is the text of the tile's number along them.
    pub fn new(
        context: &'c Context<'c>,
        name: char,
        root: ExprId,
        free: Group,
        tile: &Tile,
        number: &'static str,
    ) -> Self {
        let depth = context.depth.clone();
        let fill = choose_fill(context, root, &free, &depth);
        let axis = if fill == Fill::Across { free.quad_axis() } else { depth.quad_axis() };
        let registers = registers(context, root, axis);
        let (width, steps) = (tile.width as usize, tile.steps as usize);
        Operand {
            context,
            name,
            root,
            free,
            depth,
            fill,
            registers,
            width,
            steps,
            threads: tile.threads as usize,
            tile: number,
            permuted: false,
        }
    }

    /// Quads that one thread moves.
    fn items(&self) -> usize {
        (self.width * self.steps / 4).div_ceil(self.threads)
    }

    /// The test of an item that only some threads move, or nothing.
    fn guard(&self, item: usize) -> String {
        let quads = self.width * self.steps / 4;
        if (item + 1) * self.threads <= quads {
            String::new()
        } else {
            format!("if {} < {quads}u", self.quad_number(item))
        }
    }

    fn quad_number(&self, item: usize) -> String {
        if item == 0 { "local".to_owned() } else { format!("(local + {}u)", item * self.threads) }
    }

    /// Declares the registers and all that does not change along the contracted axes.
    pub fn prepare(&self, w: &mut Writer) {
        for item in 0..self.items() {
            self.declare_position(w, item);
            let coords = self.free_coords(w, item);
            for (n, register) in self.registers.iter().enumerate() {
                self.declare_register(w, item, n, register, &coords);
            }
        }
    }

    fn declare_position(&self, w: &mut Writer, item: usize) {
        let (q, a) = (self.quad_number(item), self.name);
        if self.permuted && self.fill == Fill::Along && self.width.is_multiple_of(8) {
            let row = format!("{a}r{item}");
            w.bind(&format!("{a}k{item}"), format!("{q} % {}u", self.steps / 4));
            w.bind(&row, format!("{q} / {}u", self.steps / 4));
            w.bind(&format!("{a}d{item}"), format!("({row} & 0xfff8u) | (({row} & 1u) << 2u) | (({row} >> 1u) & 3u)"));
            return;
        }
        let (k, d) = match self.fill {
            Fill::Across => (format!("{q} / {}u", self.width / 4), format!("{q} % {}u", self.width / 4)),
            Fill::Along => (format!("{q} % {}u", self.steps / 4), format!("{q} / {}u", self.steps / 4)),
            Fill::Columns => (format!("{q} / {}u", self.width), format!("{q} % {}u", self.width)),
        };
        w.line(format!("let {a}k{item} = {k};"));
        w.line(format!("let {a}d{item} = {d};"));
    }

    /// Decodes the free coordinates of an item's quad, clamped to the edge: what lies beyond is never stored.
    fn free_coords(&self, w: &mut Writer, item: usize) -> Coords {
        let (a, tile) = (self.name, self.tile);
        let mut coords = self.context.batch_coords();
        let quads = self.fill == Fill::Across;
        let scale = if quads { 4 } else { 1 };
        let (points, width) = (self.free.points() / scale, self.width / scale);
        let flat = Flat::split(format!("{tile} * {width}u"), format!("{a}d{item}"), width);
        let flat = if self.free.points().is_multiple_of(self.width) { flat } else { flat.clamped(points - 1) };
        let tag = format!("{a}{item}");
        w.line(format!("let {a}f{item} = {};", flat.text()));
        let flat = Flat::any(format!("{a}f{item}"));
        if quads {
            self.free.decode_quads(w, &flat, &tag, &mut coords);
        } else {
            self.free.decode(w, &flat, &tag, &mut coords);
        }
        coords
    }

    fn declare_register(&self, w: &mut Writer, item: usize, n: usize, register: &Register, coords: &Coords) {
        let name = self.register(item, n);
        let scalar = self.context.scalar_type(register.load.unwrap_or(self.root));
        match &register.form {
            Form::Common => w.line(format!("var {name}: {scalar};")),
            Form::Scalars => w.line(format!("var {name}: vec4<{scalar}>;")),
            Form::Vector { index, mask } => {
                w.line(format!("var {name}: vec4<{scalar}>;"));
                if !mask.is_empty() {
                    w.line(format!("var {name}ok: bool;"));
                }
                let constant = self.part(index, false);
                w.bind(&format!("{name}p"), self.context.exprs(coords.clone()).index_text(&constant));
            }
        }
    }

    fn register(&self, item: usize, n: usize) -> String {
        format!("{}{item}_{n}", self.name)
    }

    /// The terms of an index that vary along the contracted axes, or the others with the constant.
    fn part(&self, index: &Index, varying: bool) -> Index {
        let varies = |index: &Index| self.depth.axes.iter().any(|&axis| index.uses_axis(axis));
        let terms = index.terms.iter().filter(|term| {
            let term = Index { offset: 0, terms: vec![(*term).clone()] };
            varies(&term) == varying
        });
        Index { offset: if varying { 0 } else { index.offset }, terms: terms.cloned().collect() }
    }

    /// Loads the tile that begins at the contracted position `start` (a name) into registers.
    pub fn load(&self, w: &mut Writer, start: &str) {
        for item in 0..self.items() {
            w.open(self.guard(item));
            let points = self.points(w, item, start);
            for (n, register) in self.registers.iter().enumerate() {
                self.load_register(w, item, n, register, &points);
            }
            w.close();
        }
    }

    /// Coordinates of the four values of an item's quad, in quads (`[whole]`) where the quad lies along one axis.
    fn points(&self, w: &mut Writer, item: usize, start: &str) -> Points {
        let a = self.name;
        let mut coords = self.free_texts(item);
        let (extent, ragged) = (self.depth.points(), !self.depth.points().is_multiple_of(self.steps));
        let clamp = |flat: Flat, limit: usize| if ragged { flat.clamped(limit) } else { flat };
        if self.fill == Fill::Across {
            let flat = Flat::split(start, format!("{a}k{item}"), self.steps);
            self.depth.decode(w, &clamp(flat, extent - 1), "", &mut coords);
            return Points::Quad(coords, self.free.quad_axis().unwrap_or_default());
        }
        if let Some(axis) = self.depth.quad_axis() {
            let flat = Flat::split(format!("{start} / 4u"), format!("{a}k{item}"), self.steps / 4);
            self.depth.decode_quads(w, &clamp(flat, extent / 4 - 1), "", &mut coords);
            return Points::Quad(coords, axis);
        }
        Points::Each(std::array::from_fn(|c| {
            let mut coords = coords.clone();
            let flat = Flat::split(start, format!("({a}k{item} * 4u + {c}u)"), self.steps);
            self.depth.decode(w, &clamp(flat, extent - 1), &format!("c{c}"), &mut coords);
            coords
        }))
    }

    /// The names that [`Self::free_coords`] declared.
    fn free_texts(&self, item: usize) -> Coords {
        let mut unused = Writer::new();
        self.free_coords(&mut unused, item)
    }

    fn load_register(&self, w: &mut Writer, item: usize, n: usize, register: &Register, points: &Points) {
        let name = self.register(item, n);
        let id = register.load.unwrap_or(self.root);
        match (&register.form, points) {
            (Form::Vector { index, mask }, Points::Quad(coords, _)) => {
                let mut exprs = self.context.exprs(coords.clone());
                let varying = exprs.index_text(&self.part(index, true));
                let at = format!("{name}p + {varying}");
                let arg = match self.context.kernel.expr(id) {
                    Expr::Load { arg, .. } => *arg,
                    _ => return,
                };
                if mask.is_empty() {
                    w.line(format!("{name} = {};", self.context.vector(arg, &at)));
                } else {
                    w.line(format!("{name}ok = {};", bounds_text(&mut exprs, mask)));
                    let at = format!("select(0u, {at}, {name}ok)");
                    w.line(format!("{name} = {};", self.context.vector(arg, &at)));
                }
            }
            (Form::Common, _) => self.assign(w, &name, id, points.at(0), &[]),
            _ => {
                for (c, component) in COMPONENT.iter().enumerate() {
                    self.assign(w, &format!("{name}.{component}"), id, points.at(c), &[]);
                }
            }
        }
    }

    /// Assigns the expression `id` at a point to `target`, with some expressions already named.
    fn assign(&self, w: &mut Writer, target: &str, id: ExprId, coords: Coords, bound: &[(ExprId, String)]) {
        w.open("");
        let mut exprs = self.context.exprs(coords);
        bound.iter().for_each(|(id, text)| exprs.bind(*id, text.clone()));
        exprs.emit(w, &[id]);
        w.line(format!("{target} = {};", exprs.text(id)));
        w.close();
    }

    /// Evaluates the prologue of the loaded tile, which begins at `start`, and hands each item's quad to `place`, the
    /// writer of its stores: item, text of the value.
    pub fn store(&self, w: &mut Writer, start: &str, staged: &str, place: &dyn Fn(&mut Writer, usize, &str)) {
        for item in 0..self.items() {
            w.open(self.guard(item));
            let value = self.value(w, item, start);
            let value = self.convert(value, staged);
            let value = self.masked_edge(w, item, start, value, staged);
            place(w, item, &value);
            w.close();
        }
    }

    fn convert(&self, value: String, staged: &str) -> String {
        if self.context.scalar_type(self.root) == staged { value } else { format!("vec4<{staged}>({value})") }
    }

    /// The text of an item's quad after the prologue.
    fn value(&self, w: &mut Writer, item: usize, start: &str) -> String {
        let scalar = self.context.scalar_type(self.root);
        if let [register] = self.registers.as_slice()
            && register.load.is_none_or(|load| load == self.root)
        {
            let value = self.held(item, 0, register, scalar);
            return match register.form {
                Form::Common => format!("vec4<{scalar}>({value})"),
                _ => value,
            };
        }
        let points = self.points(w, item, start);
        w.line(format!("var value: vec4<{scalar}>;"));
        let mut named = Vec::new();
        for (n, register) in self.registers.iter().enumerate() {
            let Some(load) = register.load else { continue };
            let held = self.held(item, n, register, self.context.scalar_type(load));
            w.line(format!("let held{n} = {held};"));
            named.push((load, n, matches!(register.form, Form::Common)));
        }
        for (c, component) in COMPONENT.iter().enumerate() {
            let text =
                |n: usize, common: bool| if common { format!("held{n}") } else { format!("held{n}.{component}") };
            let bound: Vec<_> = named.iter().map(|&(id, n, common)| (id, text(n, common))).collect();
            self.assign(w, &format!("value.{component}"), self.root, points.at(c), &bound);
        }
        "value".to_owned()
    }

    /// A register's value with its mask applied.
    fn held(&self, item: usize, n: usize, register: &Register, scalar: &str) -> String {
        let name = self.register(item, n);
        match &register.form {
            Form::Vector { mask, .. } if !mask.is_empty() => format!("select(vec4<{scalar}>(), {name}, {name}ok)"),
            _ => name,
        }
    }

    /// Zeroes what lies beyond the end of the contracted axes, if the tile does not divide them.
    fn masked_edge(&self, w: &mut Writer, item: usize, start: &str, value: String, staged: &str) -> String {
        let (a, extent) = (self.name, self.depth.points());
        if extent.is_multiple_of(self.steps) {
            return value;
        }
        let inside = match self.fill {
            Fill::Across => format!("{start} + {a}k{item} < {extent}u"),
            _ if extent.is_multiple_of(4) => format!("{start} / 4u + {a}k{item} < {}u", extent / 4),
            _ => {
                w.line(format!("let k = vec4<u32>({start} + {a}k{item} * 4u) + vec4<u32>(0u, 1u, 2u, 3u);"));
                format!("k < vec4<u32>({extent}u)")
            }
        };
        format!("select(vec4<{staged}>(), {value}, {inside})")
    }
}

/// Coordinates of a quad's values.
enum Points {
    /// The quad lies along this axis, whose coordinate counts quads.
    Quad(Coords, usize),
    /// Each value has coordinates of its own.
    Each([Coords; 4]),
}

impl Points {
    /// Coordinates of one value, in elements.
    fn at(&self, component: usize) -> Coords {
        match self {
            Points::Quad(coords, axis) => in_elements(coords, *axis, component),
            Points::Each(each) => each[component].clone(),
        }
    }
}

/// Coordinates of one value of a quad along `axis`, whose coordinate counts quads.
pub fn in_elements(coords: &Coords, axis: usize, component: usize) -> Coords {
    let mut coords = coords.clone();
    coords[axis] = format!("({} * 4u + {component}u)", coords[axis]);
    coords
}

/// The conjunction of bounds.
pub fn bounds_text(exprs: &mut Exprs<'_>, bounds: &[Bound]) -> String {
    exprs.mask_text(bounds).unwrap_or_else(|| "true".to_owned())
}

/// The vector form of a load along the quads of `axis`, if it has one and its binding is one of vectors.
pub fn vector_load(context: &Context<'_>, id: ExprId, axis: usize) -> Option<(usize, Index, Vec<Bound>)> {
    quad_load(context.kernel, id, axis).filter(|(arg, ..)| context.vectors[*arg])
}

/// The vector form of a load along the quads of `axis`: argument, vector number over quad coordinates, bounds.
pub fn quad_load(kernel: &Kernel, id: ExprId, axis: usize) -> Option<(usize, Index, Vec<Bound>)> {
    let Expr::Load { arg, index, mask } = kernel.expr(id) else { return None };
    let mask = mask.iter().map(|bound| common_bound(bound, axis)).collect::<Option<Vec<_>>>()?;
    Some((*arg, quartered(index, axis)?, mask))
}

/// Names the vector that a load gets at a quad, zero where its bounds do not hold.
pub fn load_vector(
    context: &Context<'_>,
    w: &mut Writer,
    name: &str,
    coords: &Coords,
    (arg, index, mask): (usize, &Index, &[Bound]),
) {
    let mut exprs = context.exprs(coords.clone());
    let at = exprs.index_text(index);
    match exprs.mask_text(mask) {
        None => w.bind(name, context.vector(arg, &at)),
        Some(inside) => {
            w.bind(&format!("{name}ok"), inside);
            let zero = format!("vec4<{}>()", value_type(context.kernel.args[arg].dtype));
            let element = context.vector(arg, &format!("select(0u, {at}, {name}ok)"));
            w.bind(name, format!("select({zero}, {element}, {name}ok)"));
        }
    }
}

/// All loads that an expression needs.
pub fn loads(kernel: &Kernel, root: ExprId) -> Vec<ExprId> {
    let needed = kernel.needed_for(&[root], true);
    needed.into_iter().filter(|&id| matches!(kernel.expr(id), Expr::Load { .. })).collect()
}

fn choose_fill(context: &Context<'_>, root: ExprId, free: &Group, depth: &Group) -> Fill {
    let vectors = |group: &Group| {
        let Some(axis) = group.quad_axis() else { return 0 };
        loads(context.kernel, root).into_iter().filter(|&id| vector_load(context, id, axis).is_some()).count()
    };
    let unit_stride = |group: &Group| {
        let Some(&axis) = group.axes.last() else { return false };
        loads(context.kernel, root).iter().any(|&id| match context.kernel.expr(id) {
            Expr::Load { index, .. } => index.stride(axis) == Some(1),
            _ => false,
        })
    };
    match (vectors(free), vectors(depth)) {
        (across, along) if across > along => Fill::Across,
        (_, along) if along > 0 => Fill::Along,
        _ if unit_stride(free) && !unit_stride(depth) => Fill::Columns,
        _ => Fill::Along,
    }
}

fn registers(context: &Context<'_>, root: ExprId, axis: Option<usize>) -> Vec<Register> {
    let loads = loads(context.kernel, root);
    // A gather's index is computed from other loads: evaluate the operand as it is loaded.
    if loads.iter().any(|&id| !context.kernel.expr(id).operands().is_empty()) {
        return vec![Register { load: None, form: Form::Scalars }];
    }
    let form = |id: ExprId| {
        let Some(axis) = axis else { return Form::Scalars };
        if let Some((_, index, mask)) = vector_load(context, id, axis) {
            return Form::Vector { index, mask };
        }
        match context.kernel.expr(id) {
            Expr::Load { index, mask, .. }
                if fixed(index, axis).is_some() && mask.iter().all(|bound| fixed(&bound.index, axis).is_some()) =>
            {
                Form::Common
            }
            _ => Form::Scalars,
        }
    };
    loads.into_iter().map(|id| Register { load: Some(id), form: form(id) }).collect()
}
