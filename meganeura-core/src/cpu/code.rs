//! Kernels lowered to straight-line instructions over blocks of lanes.
//!
//! *Lanes* are consecutive points of some axes (the lane axes, flattened row-major); the other coordinates are fixed
//! while a block is evaluated. Register `r` is written by instruction `r` alone, and operands have smaller numbers.
//! How each index moves along the lanes is decided here once, so that loads are copies of runs wherever they can be.

use super::lanes::encode;
use crate::dtype::DType;
use crate::index::{Atom, Index, Term};
use crate::kernel::{Bound, Expr, ExprId, Kernel, Role};
use crate::scalar::{Binary, Compare, Monoid, Unary};
use std::collections::HashMap;

/// Below this extent of the innermost lane axis, runs are so short that indices are rather computed lane by lane.
const SHORTEST_RUN: usize = 16;

/// Marks, among the axes that a register varies with, that it depends on a contraction's sum.
pub(super) const SUM: u64 = 1 << 63;

/// Number of a register and of the instruction that writes it.
pub(super) type Register = usize;

/// How an index moves along the lanes. `Atom::Value`s in `index` name registers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Address {
    /// `index` at the first lane, plus `stride` a lane.
    Run { index: Index, stride: i64 },
    /// The same as long as the outer lane axes stand still.
    Segments { index: Index, stride: i64 },
    /// Computed in a register.
    Lanes(Register),
}

/// The condition `0 ≤ address < extent`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Within {
    pub(super) address: Address,
    pub(super) extent: usize,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Op {
    Const(u32),
    /// Masks are runs or segments, like the address; others are computed in a register and become [`Op::LoadWhere`].
    Load {
        arg: usize,
        address: Address,
        mask: Vec<Within>,
    },
    LoadWhere {
        arg: usize,
        indices: Register,
        mask: Register,
    },
    /// The value of an address that is not in a register.
    Index(Address),
    /// The coordinate along the lane axis of that position among the lane axes.
    Coordinate(usize),
    /// `a + b · factor`, wrapping.
    MultiplyAdd(Register, Register, u32),
    /// `⌊a / divisor⌋`; the flag tells that `a` may be negative.
    Quotient(Register, u32, bool),
    /// `a mod divisor`, likewise.
    Remainder(Register, u32, bool),
    Within(Vec<Within>),
    Unary(Unary, DType, Register),
    Binary(Binary, DType, Register, Register),
    Compare(Compare, DType, Register, Register),
    Select(Register, Register, Register),
    Cast(DType, DType, Register),
    Copy(Register),
    Random {
        key: [Register; 2],
        stream: u32,
        counter: Register,
    },
    /// Written by whoever folds the operand.
    Fold(Monoid, DType, Register),
    /// Written by the contraction.
    Acc,
    /// Written by the stream.
    Streamed(Streamed),
}

/// What a stream writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Streamed {
    Score(usize),
    Peak,
    Total(usize),
}

/// A store of a register.
#[derive(Clone, Debug)]
pub(super) struct StoreCode {
    pub(super) arg: usize,
    pub(super) address: Address,
    pub(super) value: Register,
    pub(super) per_element: bool,
}

/// The instructions of a kernel, or of a part of it.
#[derive(Clone, Debug)]
pub(super) struct Code {
    pub(super) ops: Vec<Op>,
    /// For each register the axes it varies with, as bits.
    pub(super) varies: Vec<u64>,
    pub(super) stores: Vec<StoreCode>,
    /// Axes that lanes run over, slowest first.
    pub(super) lane_axes: Vec<usize>,
    /// Extents of the lane axes.
    pub(super) lane_extents: Vec<usize>,
    /// Registers of the expressions asked for.
    pub(super) roots: Vec<Register>,
}

impl Code {
    /// Lowers what `roots` need, or all stores and what they need if there are no roots.
    pub(super) fn new(kernel: &Kernel, lane_axes: Vec<usize>, roots: &[ExprId]) -> Code {
        let stored = kernel.stores.iter().flat_map(|store| [store.index.values(), vec![store.value]].concat());
        let wanted: Vec<ExprId> = if roots.is_empty() { stored.collect() } else { roots.to_vec() };
        let mut lowering = Lowering::new(kernel, lane_axes);
        for id in kernel.needed_for(&wanted, true) {
            lowering.lower(id);
        }
        let mut stores = Vec::new();
        for store in kernel.stores.iter().filter(|_| roots.is_empty()) {
            let (address, value) = (lowering.address(&store.index), lowering.register(store.value));
            stores.push(StoreCode { arg: store.arg, address, value, per_element: store.per_element });
        }
        let roots = roots.iter().map(|&root| lowering.register(root)).collect();
        let lane_extents = lowering.lane_axes.iter().map(|&axis| kernel.axes[axis].extent).collect();
        let Lowering { ops, varies, lane_axes, .. } = lowering;
        Code { ops, varies, stores, lane_axes, lane_extents, roots }
    }

    /// How many loads are contiguous along the lanes.
    pub(super) fn contiguous_loads(&self) -> usize {
        let contiguous = |op: &&Op| match op {
            Op::Load { address: Address::Run { stride, .. } | Address::Segments { stride, .. }, .. } => *stride == 1,
            _ => false,
        };
        self.ops.iter().filter(contiguous).count()
    }

    /// Number of lanes.
    pub(super) fn lanes(&self) -> usize {
        self.lane_extents.iter().product()
    }

    /// The registers needed for `roots`, in order, without those behind folds; the contraction's sum and the folds
    /// themselves are left out, as others write them.
    pub(super) fn needed_for(&self, roots: &[Register]) -> Vec<Register> {
        let mut needed = vec![false; self.ops.len()];
        roots.iter().for_each(|&root| needed[root] = true);
        for at in (0..self.ops.len()).rev() {
            if needed[at] && !matches!(self.ops[at], Op::Fold(..)) {
                self.ops[at].operands().into_iter().for_each(|operand| needed[operand] = true);
            }
        }
        (0..self.ops.len())
            .filter(|&at| needed[at] && !matches!(self.ops[at], Op::Fold(..) | Op::Acc | Op::Streamed(_)))
            .collect()
    }
}

impl Address {
    pub(super) fn operands(&self) -> Vec<Register> {
        match self {
            Address::Run { index, .. } | Address::Segments { index, .. } => {
                index.values().into_iter().map(|id| id.0 as usize).collect()
            }
            Address::Lanes(register) => vec![*register],
        }
    }
}

impl Op {
    pub(super) fn operands(&self) -> Vec<Register> {
        let of_mask = |mask: &[Within]| mask.iter().flat_map(|within| within.address.operands()).collect::<Vec<_>>();
        match self {
            Op::Const(_) | Op::Coordinate(_) | Op::Acc | Op::Streamed(_) => Vec::new(),
            Op::Load { address, mask, .. } => [address.operands(), of_mask(mask)].concat(),
            Op::Index(address) => address.operands(),
            Op::Within(mask) => of_mask(mask),
            Op::Quotient(a, ..) | Op::Remainder(a, ..) | Op::Unary(_, _, a) => vec![*a],
            Op::Cast(_, _, a) | Op::Copy(a) | Op::Fold(_, _, a) => vec![*a],
            Op::LoadWhere { indices: a, mask: b, .. } | Op::MultiplyAdd(a, b, _) => vec![*a, *b],
            Op::Binary(_, _, a, b) | Op::Compare(_, _, a, b) => vec![*a, *b],
            Op::Select(a, b, c) => vec![*a, *b, *c],
            Op::Random { key, counter, .. } => vec![key[0], key[1], *counter],
        }
    }
}

/// The state of lowering.
struct Lowering<'k> {
    kernel: &'k Kernel,
    extents: Vec<usize>,
    lane_axes: Vec<usize>,
    /// Bits of the lane axes.
    lane_bits: u64,
    ops: Vec<Op>,
    varies: Vec<u64>,
    /// Equal instructions share a register.
    known: HashMap<Op, Register>,
    registers: Vec<Option<Register>>,
}

impl<'k> Lowering<'k> {
    fn new(kernel: &'k Kernel, lane_axes: Vec<usize>) -> Lowering<'k> {
        let lane_bits = lane_axes.iter().fold(0, |bits, axis| bits | 1 << axis);
        Lowering {
            kernel,
            extents: kernel.extents(),
            lane_axes,
            lane_bits,
            ops: Vec::new(),
            varies: Vec::new(),
            known: HashMap::new(),
            registers: vec![None; kernel.exprs.len()],
        }
    }

    /// The register of an expression lowered before; operands precede users (K4).
    fn register(&self, id: ExprId) -> Register {
        self.registers[id.0 as usize].unwrap_or_default()
    }

    fn lower(&mut self, id: ExprId) {
        let kernel = self.kernel;
        let dtype_of = |id: ExprId| kernel.dtype(id);
        let op = match kernel.expr(id) {
            Expr::Const(scalar) => Op::Const(encode(scalar.dtype(), scalar.value())),
            Expr::Load { arg, index, mask } => self.load(*arg, index, mask),
            Expr::Index(index) => match self.address(index) {
                Address::Lanes(register) => Op::Copy(register),
                address => Op::Index(address),
            },
            Expr::Within(mask) => Op::Within(self.mask(mask)),
            Expr::Unary(function, a) => Op::Unary(*function, dtype_of(*a), self.register(*a)),
            Expr::Binary(function, a, b) => Op::Binary(*function, dtype_of(*a), self.register(*a), self.register(*b)),
            Expr::Compare(relation, a, b) => Op::Compare(*relation, dtype_of(*a), self.register(*a), self.register(*b)),
            Expr::Select(a, b, c) => Op::Select(self.register(*a), self.register(*b), self.register(*c)),
            Expr::Cast(a, dtype) => Op::Cast(dtype_of(*a), *dtype, self.register(*a)),
            Expr::Bitcast(a, _) => Op::Copy(self.register(*a)),
            Expr::Random { key, stream, counter } => {
                let counter = self.value_of(counter);
                Op::Random { key: key.map(|id| self.register(id)), stream: *stream, counter }
            }
            Expr::Reduce(monoid, a) => Op::Fold(*monoid, dtype_of(*a), self.register(*a)),
            Expr::Acc => Op::Acc,
            Expr::Score(at) => Op::Streamed(Streamed::Score(*at)),
            Expr::Peak => Op::Streamed(Streamed::Peak),
            Expr::Total(at) => Op::Streamed(Streamed::Total(*at)),
        };
        self.registers[id.0 as usize] = Some(self.emit(op));
    }

    fn emit(&mut self, op: Op) -> Register {
        if let Some(&known) = self.known.get(&op) {
            return known;
        }
        let varies = self.op_varies(&op);
        self.ops.push(op.clone());
        self.varies.push(varies);
        self.known.insert(op, self.ops.len() - 1);
        self.ops.len() - 1
    }

    fn op_varies(&self, op: &Op) -> u64 {
        let reduce = self.kernel.axes_of(Role::Reduce).iter().fold(0, |bits, axis| bits | 1_u64 << axis);
        let all = (1_u64 << self.extents.len()) - 1;
        let of_address = |address: &Address| match address {
            Address::Run { index, .. } | Address::Segments { index, .. } => self.index_varies(index),
            Address::Lanes(_) => 0,
        };
        let of_mask = |mask: &[Within]| mask.iter().fold(0, |bits, within| bits | of_address(&within.address));
        let own = match op {
            Op::Load { address, mask, .. } => of_address(address) | of_mask(mask),
            Op::Index(address) => of_address(address),
            Op::Within(mask) => of_mask(mask),
            Op::Coordinate(position) => 1 << self.lane_axes[*position],
            Op::Acc => all & !reduce | SUM,
            // Of all axes: how far is the stream's to know.
            Op::Streamed(_) => all | SUM,
            _ => 0,
        };
        let inherited = op.operands().into_iter().fold(0, |bits, operand| bits | self.varies[operand]);
        if matches!(op, Op::Fold(..)) { inherited & !reduce } else { own | inherited }
    }

    /// Axes that an index over registers varies with.
    fn index_varies(&self, index: &Index) -> u64 {
        let axes = (0..self.extents.len()).filter(|&axis| index.uses_axis(axis));
        let bits = axes.fold(0, |bits, axis| bits | 1 << axis);
        index.values().iter().fold(bits, |bits, register| bits | self.varies[register.0 as usize])
    }

    fn load(&mut self, arg: usize, index: &Index, mask: &[Bound]) -> Op {
        let (address, mask) = (self.address(index), self.mask(mask));
        let computed = |address: &Address| matches!(address, Address::Lanes(_));
        let any_computed = computed(&address) || mask.iter().any(|within| computed(&within.address));
        if mask.is_empty() || !any_computed {
            return Op::Load { arg, address, mask };
        }
        let indices = match address {
            Address::Lanes(register) => register,
            address => self.emit(Op::Index(address)),
        };
        Op::LoadWhere { arg, indices, mask: self.emit(Op::Within(mask)) }
    }

    fn mask(&mut self, mask: &[Bound]) -> Vec<Within> {
        mask.iter().map(|bound| Within { address: self.address(&bound.index), extent: bound.extent }).collect()
    }

    /// How an index of the kernel moves along the lanes.
    fn address(&mut self, index: &Index) -> Address {
        let index = self.over_registers(index);
        match self.classify(&index) {
            Some(address) => address,
            None => Address::Lanes(self.lanes_of(&index)),
        }
    }

    fn value_of(&mut self, index: &Index) -> Register {
        match self.address(index) {
            Address::Lanes(register) => register,
            address => self.emit(Op::Index(address)),
        }
    }

    /// The index with registers in the place of expressions.
    fn over_registers(&self, index: &Index) -> Index {
        let rewrite = |atom: &Atom| match atom {
            Atom::Axis(axis) => Atom::Axis(*axis),
            Atom::Div(inner, divisor) => Atom::Div(Box::new(self.over_registers(inner)), *divisor),
            Atom::Mod(inner, divisor) => Atom::Mod(Box::new(self.over_registers(inner)), *divisor),
            Atom::Value(id, bound) => Atom::Value(ExprId(self.register(*id) as u32), *bound),
        };
        let terms = index.terms.iter().map(|term| Term { atom: rewrite(&term.atom), stride: term.stride }).collect();
        Index { offset: index.offset, terms }
    }

    /// Whether an index is a run, or consists of runs.
    fn classify(&self, index: &Index) -> Option<Address> {
        let index = index.clone();
        let Some(&innermost) = self.lane_axes.last() else { return Some(Address::Run { index, stride: 0 }) };
        let values = index.values().iter().fold(0, |bits, register| bits | self.varies[register.0 as usize]);
        let stride = index.stride(innermost).filter(|_| values & (1 << innermost) == 0)?;
        if values & self.lane_bits == 0 && flat_stride(&index, &self.lane_axes, &self.extents).is_some() {
            return Some(Address::Run { index, stride });
        }
        (self.extents[innermost] >= SHORTEST_RUN).then_some(Address::Segments { index, stride })
    }

    /// Computes an index lane by lane, as 32 bits of two's complement.
    fn lanes_of(&mut self, index: &Index) -> Register {
        // What does not vary along the lanes is one number of the block.
        let steady = |term: &&Term| {
            let alone = Index { offset: 0, terms: vec![(*term).clone()] };
            self.index_varies(&alone) & self.lane_bits == 0
        };
        let (steady, moving): (Vec<&Term>, Vec<&Term>) = index.terms.iter().partition(steady);
        let base = Index { offset: index.offset, terms: steady.into_iter().cloned().collect() };
        let mut sum = self.emit(Op::Index(Address::Run { index: base, stride: 0 }));
        for Term { atom, stride } in moving {
            let part = self.lanes_of_atom(atom);
            sum = self.emit(Op::MultiplyAdd(sum, part, *stride as u32));
        }
        sum
    }

    fn lanes_of_atom(&mut self, atom: &Atom) -> Register {
        let may_be_negative =
            |index: &Index, extents: &[usize]| index.range(extents).is_none_or(|(low, high)| low < 0 || high > 1 << 30);
        match atom {
            Atom::Axis(axis) => {
                let position = self.lane_axes.iter().position(|own| own == axis).unwrap_or_default();
                self.emit(Op::Coordinate(position))
            }
            Atom::Div(inner, divisor) => {
                let register = self.lanes_of(inner);
                self.emit(Op::Quotient(register, *divisor as u32, may_be_negative(inner, &self.extents)))
            }
            Atom::Mod(inner, divisor) => {
                let register = self.lanes_of(inner);
                self.emit(Op::Remainder(register, *divisor as u32, may_be_negative(inner, &self.extents)))
            }
            Atom::Value(register, _) => register.0 as usize,
        }
    }
}

/// How far an index moves from one point of `axes`, flattened row-major, to the next; `None` if that differs.
pub(super) fn flat_stride(index: &Index, axes: &[usize], extents: &[usize]) -> Option<i64> {
    let Some(&innermost) = axes.last() else { return Some(0) };
    let stride = index.stride(innermost)?;
    let mut step = stride;
    for &axis in axes.iter().rev() {
        if extents[axis] != 1 && index.stride(axis) != Some(step) {
            return None;
        }
        step *= extents[axis] as i64;
    }
    Some(stride)
}
