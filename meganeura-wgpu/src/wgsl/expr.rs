//! Scalar expressions of a kernel as WGSL `let`s, operands first, each at most once in a scope.

use super::bindings::Bindings;
use super::grid::{quotient, remainder};
use super::writer::Writer;
use super::{PrintError, random, scalar};
use meganeura_core::dtype::DType;
use meganeura_core::index::{Atom, ExprId, Index};
use meganeura_core::kernel::{Bound, Expr, Kernel};
use meganeura_core::scalar::Scalar;

/// Prints a kernel's expressions at one point of its iteration space and remembers which have a name already.
///
/// Truth values are WGSL `bool`; every other type is its own.
pub struct Exprs<'k> {
    kernel: &'k Kernel,
    bindings: &'k Bindings,
    extents: Vec<usize>,
    axes: Vec<String>,
    texts: Vec<Option<String>>,
    /// What got a text, in that order, so that leaving a block can forget it.
    log: Vec<ExprId>,
}

/// A state of [`Exprs`] to return to; see [`Exprs::enter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Mark(usize);

impl<'k> Exprs<'k> {
    /// Nothing has a name yet. `axes` has one text an axis of the kernel: a `u32` variable with the coordinate.
    pub fn new(kernel: &'k Kernel, bindings: &'k Bindings, axes: Vec<String>) -> Exprs<'k> {
        Exprs {
            kernel,
            bindings,
            extents: kernel.extents(),
            axes,
            texts: vec![None; kernel.exprs.len()],
            log: Vec::new(),
        }
    }

    /// To be called at the start of a WGSL block whose names must not be used after it.
    pub fn enter(&self) -> Mark {
        Mark(self.log.len())
    }

    /// Forgets what got its text since the mark: the block that declared it ends.
    pub fn leave(&mut self, mark: Mark) {
        for id in self.log.drain(mark.0.min(self.log.len())..) {
            self.texts[id.0 as usize] = None;
        }
    }

    /// Changes the text of an axis' coordinate; what depends on it must not have a name in this scope.
    pub fn set_axis(&mut self, axis: usize, text: impl Into<String>) {
        self.axes[axis] = text.into();
    }

    /// Gives an expression (an accumulator, a finished fold, a lane of a vector) a ready text.
    pub fn bind(&mut self, id: ExprId, text: String) {
        self.texts[id.0 as usize] = Some(text);
        self.log.push(id);
    }

    /// The bindings that loads and stores refer to.
    pub fn bindings(&self) -> &'k Bindings {
        self.bindings
    }

    /// Whether an expression has a text.
    pub fn is_bound(&self, id: ExprId) -> bool {
        self.texts[id.0 as usize].is_some()
    }

    /// The text of an expression that was emitted or bound; empty if it was not.
    pub fn text(&self, id: ExprId) -> String {
        self.texts[id.0 as usize].clone().unwrap_or_default()
    }

    /// Writes a `let` for every expression that `ids` need and that has no text yet. Folds and accumulators must be
    /// bound before.
    pub fn emit(&mut self, w: &mut Writer, ids: &[ExprId]) {
        let mut needed = vec![false; self.texts.len()];
        let mut pending = ids.to_vec();
        while let Some(id) = pending.pop() {
            if self.is_bound(id) || std::mem::replace(&mut needed[id.0 as usize], true) {
                continue;
            }
            if is_given(self.kernel.expr(id)) {
                w.fail(PrintError::NoValueYet { expr: id });
                continue;
            }
            pending.extend(self.kernel.expr(id).operands());
        }
        // Operands precede users in the list.
        for id in (0..self.texts.len() as u32).map(ExprId).filter(|id| needed[id.0 as usize]) {
            self.emit_one(w, id);
        }
    }

    fn emit_one(&mut self, w: &mut Writer, id: ExprId) {
        let text = self.value_text(w, id);
        if let Expr::Const(constant) = self.kernel.expr(id)
            && constant.value().is_finite()
        {
            return self.bind(id, text);
        }
        let name = format!("e{}", id.0);
        w.bind(&name, text);
        self.bind(id, name);
    }

    /// The text that computes one expression from its operands' texts.
    fn value_text(&mut self, w: &mut Writer, id: ExprId) -> String {
        let (kernel, dtype) = (self.kernel, self.kernel.dtype(id));
        match kernel.expr(id) {
            Expr::Const(constant) => scalar::constant(w, *constant),
            Expr::Load { arg, index, mask } => self.load_text(w, *arg, index, mask),
            Expr::Index(index) => self.index_text(index),
            Expr::Within(mask) => self.mask_text(mask).unwrap_or_else(|| "true".to_string()),
            Expr::Unary(function, a) => {
                let a = self.operands(w, &[*a]);
                scalar::unary(w, *function, dtype, &a[0])
            }
            Expr::Binary(function, a, b) => {
                let texts = self.operands(w, &[*a, *b]);
                scalar::binary(w, *function, dtype, [(&texts[0], self.constant(*a)), (&texts[1], self.constant(*b))])
            }
            Expr::Compare(relation, a, b) => {
                let texts = self.operands(w, &[*a, *b]);
                let operands = [(texts[0].as_str(), self.constant(*a)), (texts[1].as_str(), self.constant(*b))];
                scalar::compare(w, *relation, kernel.dtype(*a), operands)
            }
            Expr::Select(condition, yes, no) => {
                let texts = self.operands(w, &[*condition, *yes, *no]);
                format!("select({}, {}, {})", texts[2], texts[1], texts[0])
            }
            Expr::Cast(a, to) => {
                let texts = self.operands(w, &[*a]);
                scalar::cast(w, kernel.dtype(*a), *to, &texts[0])
            }
            Expr::Bitcast(a, to) => {
                let texts = self.operands(w, &[*a]);
                format!("bitcast<{}>({})", to.name(), texts[0])
            }
            Expr::Random { key, stream, counter } => {
                let key = [self.text(key[0]), self.text(key[1])];
                let counter = self.index_text(counter);
                random::first_word(w, [&key[0], &key[1]], &counter, *stream)
            }
            Expr::Reduce(..) | Expr::Acc | Expr::Score(_) | Expr::Peak | Expr::Total(_) => {
                w.fail(PrintError::NoValueYet { expr: id });
                String::new()
            }
        }
    }

    fn constant(&self, id: ExprId) -> Option<Scalar> {
        match self.kernel.expr(id) {
            Expr::Const(constant) => Some(*constant),
            _ => None,
        }
    }

    /// The texts of operands. If all are constants they get names first: WGSL rejects a module whose constant
    /// expressions overflow, and names are not constant expressions.
    fn operands(&mut self, w: &mut Writer, ids: &[ExprId]) -> Vec<String> {
        let constant = ids.iter().all(|id| self.constant(*id).is_some());
        let text = |id: &ExprId| match constant {
            false => self.text(*id),
            true => {
                let name = w.fresh("c");
                w.bind(&name, self.text(*id));
                name
            }
        };
        ids.iter().map(text).collect()
    }

    /// The value of an element, zero where the mask does not hold; the index is 0 there, so that no access is out of
    /// bounds.
    fn load_text(&mut self, w: &mut Writer, arg: usize, index: &Index, mask: &[Bound]) -> String {
        let at = self.index_text(index);
        let Some(condition) = self.mask_text(mask) else {
            return self.bindings.load(arg, &at);
        };
        let within = w.fresh("within");
        w.bind(&within, condition);
        let value = self.bindings.load(arg, &format!("select(0u, {at}, {within})"));
        match self.kernel.args[arg].dtype {
            DType::Bool => format!("{within} && {value}"),
            dtype => format!("select({}, {value}, {within})", scalar::constant(w, Scalar::zero(dtype))),
        }
    }

    /// The conjunction of bounds; `None` if they always hold. A negative index wraps to a large one, so one comparison
    /// tests both ends.
    pub fn mask_text(&mut self, mask: &[Bound]) -> Option<String> {
        let open: Vec<&Bound> = mask.iter().filter(|bound| !bound.always_holds(&self.extents)).collect();
        let test = |bound: &&Bound| format!("({} < {}u)", self.index_text(&bound.index), bound.extent);
        let tests: Vec<String> = open.iter().map(test).collect();
        (!tests.is_empty()).then(|| tests.join(" && "))
    }

    /// The value of an index in u32 arithmetic; negative values wrap. The values it reads must have their texts.
    pub fn index_text(&mut self, index: &Index) -> String {
        let (mut plus, mut minus) = (Vec::new(), Vec::new());
        for term in &index.terms {
            if let Atom::Axis(axis) = &term.atom
                && self.extents[*axis] <= 1
            {
                // The only coordinate is 0.
                continue;
            }
            let atom = self.atom_text(&term.atom);
            let text = match term.stride.unsigned_abs() {
                1 => atom,
                stride => format!("{atom} * {stride}u"),
            };
            if term.stride > 0 { plus.push(text) } else { minus.push(text) }
        }
        let offset = index.offset.unsigned_abs() as u32;
        if plus.is_empty() || index.offset > 0 {
            plus.push(format!("{}u", index.offset as u32));
        } else if index.offset < 0 {
            minus.push(format!("{offset}u"));
        }
        let sum = plus.join(" + ");
        minus.iter().fold(sum, |sum, term| format!("{sum} - {term}"))
    }

    fn atom_text(&mut self, atom: &Atom) -> String {
        match atom {
            Atom::Axis(axis) => self.axes[*axis].clone(),
            Atom::Value(id, _) => match self.kernel.dtype(*id) {
                DType::U32 => self.text(*id),
                _ => format!("u32({})", self.text(*id)),
            },
            Atom::Div(inner, divisor) => quotient(&self.nested(inner), *divisor as u64),
            Atom::Mod(inner, divisor) => remainder(&self.nested(inner), *divisor as u64),
        }
    }

    fn nested(&mut self, inner: &Index) -> String {
        let text = self.index_text(inner);
        if text.contains(' ') { format!("({text})") } else { text }
    }
}

/// Whether a loop around the expressions computes it, so that its text must be bound.
fn is_given(expr: &Expr) -> bool {
    matches!(expr, Expr::Reduce(..) | Expr::Acc | Expr::Score(_) | Expr::Peak | Expr::Total(_))
}
