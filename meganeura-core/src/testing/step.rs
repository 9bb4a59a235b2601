//! One random op.

use super::fuzz::{ELEMENTS, Growth, Item, RANK};
use crate::compose::AttentionOptions;
use crate::dtype::DType;
use crate::ir::Value;
use crate::ops::{Dot, Fill};
use crate::scalar::{Binary, Compare, Monoid, Scalar, Unary};
use crate::shape::{Shape, TensorType};

impl<'g> Growth<'g> {
    /// Adds a random op, with the guards that keep values tame.
    pub(super) fn step(&mut self) {
        match self.draws.below(25) {
            0..=2 => self.unary(),
            3..=6 => self.binary(),
            7 => self.select(),
            8 => self.cast(),
            9 => self.bitcast(),
            10 => self.reshape(),
            11 => self.permute(),
            12 => self.broadcast(),
            13 => self.slice(),
            14 => self.pad(),
            15..=16 => self.reduce(),
            17..=18 => self.dot(),
            19 => self.gather(),
            20 => self.scatter_add(),
            21 => self.conv(),
            22 => self.unfold(),
            23 => self.attention(),
            _ => self.made(),
        }
    }

    fn dtype(&mut self) -> DType {
        self.draws.pick(&[DType::F32, DType::F32, DType::F32, DType::U32, DType::I32, DType::Bool])
    }

    fn any(&mut self) -> Item<'g> {
        let dtype = self.dtype();
        self.pick(dtype, |_| true)
    }

    fn unary(&mut self) {
        let x = self.any();
        let dtype = x.value.dtype();
        let taken: Vec<Unary> = Unary::ALL.iter().copied().filter(|function| function.takes(dtype)).collect();
        let function = self.draws.pick(&taken);
        if !dtype.is_float() {
            self.add(x.value.unary(function), f64::from(u32::MAX), true);
            return;
        }
        use Unary::*;
        // Into the domain, away from poles, and not up the exponential.
        let (operand, bound) = match function {
            Exp | Expm1 => (x.value.tanh(), 2.8),
            Log | Recip | Rsqrt => (x.value.abs() + 0.5, 5.0),
            Log1p => (x.value.abs(), x.bound),
            Sqrt => (x.value.abs() + 0.25, x.bound + 1.0),
            Sign | Floor | Ceil | Round if !x.exact => (x.value.stop_gradient().tanh() * 0.25 + 0.5, 1.0),
            Floor | Ceil | Round => (x.value, x.bound + 1.0),
            Sin | Cos | Tanh | Erf | Sigmoid | Sign | IsNan => (x.value, 1.0),
            _ => (x.value, x.bound),
        };
        // Half-way to an integer is nowhere near a jump of these but `round`.
        let function = if function == Round && !x.exact { Floor } else { function };
        let exact = matches!(function, Neg | Abs | Sign | Floor | Ceil | Round | IsNan) && x.exact;
        self.add(operand.unary(function), bound, exact);
    }

    /// Another value of the same type of element, that broadcasts with `x` to something small.
    fn partner(&mut self, x: Item<'g>) -> Item<'g> {
        let shape = x.value.shape();
        let fits = |other: &Item<'g>| {
            let common = shape.broadcast(&other.value.shape());
            common.is_some_and(|common| common.elements() <= ELEMENTS && common.rank() <= RANK)
        };
        let dtype = x.value.dtype();
        if self.pool.iter().any(|item| item.value.dtype() == dtype && fits(item)) { self.pick(dtype, fits) } else { x }
    }

    fn binary(&mut self) {
        let a = self.any();
        let b = self.partner(a);
        let dtype = a.value.dtype();
        let taken: Vec<Binary> = Binary::ALL.iter().copied().filter(|function| function.takes(dtype)).collect();
        let function = self.draws.pick(&taken);
        if !dtype.is_float() {
            self.add(a.value.binary(function, b.value), f64::from(u32::MAX), true);
            return;
        }
        let (value, bound) = match function {
            Binary::Add => (a.value + b.value, a.bound + b.bound),
            Binary::Mul => (a.value * b.value, a.bound * b.bound),
            Binary::Div => (a.value / (b.value.abs() + 0.5), a.bound * 2.0),
            Binary::Pow => ((a.value.abs() + 0.5).pow(b.value.tanh()), a.bound + 2.0),
            // Jumps where the quotient is an integer.
            Binary::Rem if a.exact => (a.value % 0.75, 0.75),
            Binary::Max => (a.value.maximum(b.value), a.bound.max(b.bound)),
            Binary::Min => (a.value.minimum(b.value), a.bound.max(b.bound)),
            _ => (a.value - b.value, a.bound + b.bound),
        };
        let exact = matches!(function, Binary::Max | Binary::Min) && a.exact && b.exact;
        self.add(value, bound, exact);
    }

    fn condition(&mut self) -> Item<'g> {
        let dtype = self.draws.pick(&[DType::F32, DType::U32, DType::I32]);
        let a = self.pick(dtype, |item| item.exact);
        let b = match self.partner(a) {
            b if b.exact => b.value,
            _ => a.value.like(1.0),
        };
        let relation = self.draws.pick(Compare::ALL);
        let value = a.value.compare(relation, b);
        self.add(value, 1.0, true);
        Item { value, bound: 1.0, exact: true }
    }

    fn select(&mut self) {
        let condition = self.condition();
        let shape = condition.value.shape();
        let dtype = self.dtype();
        let yes = self.pick(dtype, |item| item.value.shape().broadcast(&shape).is_some());
        let no = self.partner(yes);
        let common = [yes, no].iter().try_fold(shape, |common, item| common.broadcast(&item.value.shape()));
        if common.is_some_and(|common| common.elements() <= ELEMENTS && common.rank() <= RANK) {
            let value = condition.value.select(yes.value, no.value);
            self.add(value, yes.bound.max(no.bound), yes.exact && no.exact);
        }
    }

    fn cast(&mut self) {
        let (from, to) = (self.dtype(), self.dtype());
        let x = self.pick(from, |item| item.exact);
        if !x.exact {
            return;
        }
        // Above 2^24 an f32 rounds integers.
        let exact = x.bound < 16_777_216.0;
        let (bound, scale) = if exact { (x.bound, 1.0) } else { (4.0, 2_f32.powi(-30)) };
        let cast = x.value.cast(to);
        let value = if to.is_float() && !from.is_float() { cast * scale } else { cast };
        self.add(value, if to.is_float() { bound } else { f64::from(u32::MAX) }, exact);
    }

    fn bitcast(&mut self) {
        let from = self.draws.pick(&[DType::F32, DType::U32, DType::I32]);
        let value = match from {
            // A fresh leaf has no negative zeros, whose bits executors may lose.
            DType::F32 => self.leaf(from).value.bitcast(DType::U32),
            DType::U32 => {
                let x = self.pick(from, |_| true).value;
                let fill = |bits: u32| self.builder.fill(Scalar::u32(bits), Shape::scalar());
                // Any mantissa with the exponent of [1, 2).
                x.and(fill(0x007f_ffff)).or(fill(0x3f80_0000)).bitcast(DType::F32)
            }
            _ => self.pick(from, |_| true).value.bitcast(DType::U32),
        };
        self.add(value, if from == DType::U32 { 2.0 } else { f64::from(u32::MAX) }, true);
    }

    fn reshape(&mut self) {
        let x = self.any();
        let mut shape = x.value.shape().to_vec();
        match self.draws.below(3) {
            0 => shape = vec![shape.iter().product()],
            1 if shape.len() > 1 => {
                let at = self.draws.below(shape.len() - 1);
                shape[at] *= shape.remove(at + 1);
            }
            _ if shape.len() < RANK => {
                let at = self.draws.below(shape.len() + 1);
                shape.insert(at, 1);
                // A divisor moves from the next dimension into the new one.
                let divisor =
                    [7, 5, 3, 2].into_iter().find(|d| shape.get(at + 1).is_some_and(|n| n.is_multiple_of(*d)));
                if let Some(divisor) = divisor {
                    shape[at] = divisor;
                    shape[at + 1] /= divisor;
                }
            }
            _ => return,
        }
        self.add(x.value.reshape(shape), x.bound, x.exact);
    }

    fn permute(&mut self) {
        let dtype = self.dtype();
        let x = self.pick(dtype, |item| item.value.shape().rank() > 1);
        let order = self.draws.order(x.value.shape().rank());
        self.add(x.value.permute(order), x.bound, x.exact);
    }

    fn broadcast(&mut self) {
        let x = self.any();
        let mut shape = x.value.shape().to_vec();
        let extent = self.draws.pick(&[1, 2, 3, 5]);
        match shape.iter().position(|&extent| extent == 1) {
            Some(one) => shape[one] = extent,
            None => shape.insert(0, extent),
        }
        if shape.len() <= RANK && shape.iter().product::<usize>() <= ELEMENTS {
            self.add(x.value.broadcast(shape), x.bound, x.exact);
        }
    }

    fn slice(&mut self) {
        let x = self.any();
        let shape = x.value.shape();
        let starts: Vec<usize> = shape.iter().map(|&extent| self.draws.below(extent.min(3))).collect();
        let rest = |(extent, start): (&usize, &usize)| extent - start;
        let mut extents: Vec<usize> = shape.iter().zip(&starts).map(rest).collect();
        extents.iter_mut().for_each(|extent| *extent -= self.draws.below((*extent).min(3)));
        self.add(x.value.slice(starts, extents), x.bound, x.exact);
    }

    fn pad(&mut self) {
        let x = self.any();
        let shape = x.value.shape();
        let mut widths = || -> Vec<usize> { shape.iter().map(|_| self.draws.below(3)).collect() };
        let (before, after) = (widths(), widths());
        let extents = (0..shape.rank()).map(|dim| shape[dim] + before[dim] + after[dim]);
        if extents.product::<usize>() > ELEMENTS {
            return;
        }
        let lasts = shape.rank().checked_sub(1);
        match lasts.filter(|_| x.value.dtype().is_float() && (x.exact || !self.smooth) && self.draws.chance(0.4)) {
            // Rows of −∞, then out of infinity again: pooling with a border.
            Some(axis) => {
                let largest = x.value.pad(before, after, f64::NEG_INFINITY).max([axis]);
                self.add(largest.maximum(largest.like(-5.0)), x.bound.max(5.0), x.exact)
            }
            None => self.add(x.value.pad(before, after, 1.0), x.bound.max(1.0), x.exact),
        }
    }

    fn reduce(&mut self) {
        let x = self.any();
        let (shape, dtype) = (x.value.shape(), x.value.dtype());
        let axes: Vec<usize> = (0..shape.rank()).filter(|_| self.draws.chance(0.5)).collect();
        let monoid = self.draws.pick(Monoid::ALL);
        let n: usize = axes.iter().map(|&axis| shape[axis]).product();
        match (monoid, dtype.is_float()) {
            (_, false) if !monoid.takes(dtype) => {}
            (_, false) => self.add(x.value.reduce(monoid, axes), f64::from(u32::MAX), true),
            (Monoid::Sum, true) => self.add(x.value.sum(axes), x.bound * n as f64, false),
            (Monoid::Prod, true) => self.add(x.value.tanh().reduce(monoid, axes), 1.0, false),
            // Which element is the largest shows in the derivative.
            (Monoid::Max | Monoid::Min, true) if self.smooth && !x.exact => {}
            (Monoid::Max | Monoid::Min, true) => self.add(x.value.reduce(monoid, axes), x.bound, x.exact),
        }
    }

    fn dot(&mut self) {
        let a = self.pick(DType::F32, |item| matches!(item.value.shape().rank(), 1..=3));
        let shape = a.value.shape();
        // Each dimension of the left operand is contracted, a batch, or free.
        let roles: Vec<usize> = shape.iter().map(|_| self.draws.below(3)).collect();
        let of = |role: usize| (0..shape.rank()).filter(|&dim| roles[dim] == role).collect::<Vec<_>>();
        let (contract, batch) = (of(0), of(1));
        let own = self.draws.pick(&[1, 2, 5, 17]);
        let free = self.draws.below(2);
        // The right operand: contracted, batch and free dimensions in a random order.
        let made: Vec<usize> =
            contract.iter().chain(&batch).map(|&dim| shape[dim]).chain((0..free).map(|_| own)).collect();
        let order = self.draws.order(made.len());
        let place = |at: usize| order.iter().position(|&from| from == at).unwrap_or(at);
        let right = Shape::new(order.iter().map(|&from| made[from]).collect::<Vec<_>>());
        let rows: usize = of(2).iter().chain(&batch).map(|&dim| shape[dim]).product();
        if right.elements() > ELEMENTS || rows * own > ELEMENTS || shape.rank() + free > RANK {
            return;
        }
        let dims = Dot {
            contract: [contract.clone(), (0..contract.len()).map(place).collect()],
            batch: [batch.clone(), (contract.len()..contract.len() + batch.len()).map(place).collect()],
            result: DType::F32,
        };
        let fits = |item: &Item<'g>| item.value.ty() == TensorType::new(DType::F32, &right);
        let b = match self.pool.iter().any(fits) {
            true => self.pick(DType::F32, fits),
            false => self.leaf_of(TensorType::new(DType::F32, &right)),
        };
        let depth: usize = contract.iter().map(|&dim| shape[dim]).product();
        self.add(a.value.dot(b.value, dims), a.bound * b.bound * depth as f64, false);
    }

    /// Indices below `bound`, computed or given.
    fn indices(&mut self, shape: &[usize], bound: usize) -> Value<'g> {
        let computed = self.pool.iter().find(|item| item.value.ty() == TensorType::new(DType::U32, shape)).copied();
        match computed {
            Some(item) => item.value % item.value.like(bound as f64),
            None => {
                let data = self.draws.fill(&TensorType::new(DType::U32, shape), Fill::Uniform(0.0, bound as f64));
                self.input(data)
            }
        }
    }

    fn gather(&mut self) {
        let dtype = self.dtype();
        let x = self.pick(dtype, |item| item.value.shape().rank() > 0);
        let shape = x.value.shape();
        if shape.rank() == 0 {
            return;
        }
        let axis = self.draws.below(shape.rank());
        let listed = self.draws.pick(&[vec![], vec![1], vec![7], vec![2, 3]]);
        if shape.rank() + listed.len() > RANK + 1 || shape.elements() * 7 > ELEMENTS {
            return;
        }
        // Out of range is NaN for floats.
        let bound = shape[axis] + if dtype.is_float() { 0 } else { 2 };
        let indices = self.indices(&listed, bound);
        self.add(x.value.gather(indices, axis), x.bound, x.exact);
    }

    fn scatter_add(&mut self) {
        let dtype = self.draws.pick(&[DType::F32, DType::F32, DType::U32, DType::I32]);
        let x = self.pick(dtype, |item| item.value.shape().rank() > 0);
        let shape = x.value.shape();
        let extent = self.draws.pick(&[1, 3, 5, 13]);
        if shape.rank() == 0 || shape.elements() * extent > ELEMENTS {
            return;
        }
        let axis = self.draws.below(shape.rank());
        let indices = self.indices(&[shape[axis]], extent + 1);
        self.add(x.value.scatter_add(indices, axis, extent), x.bound * shape[axis] as f64, !dtype.is_float());
    }

    /// Rows of something attend to five others.
    fn attention(&mut self) {
        let x = self.pick(DType::F32, |item| item.value.shape().rank() > 0);
        let shape = x.value.shape();
        let Some(&width) = shape.last().filter(|_| shape.elements() > 0) else { return };
        let rows = shape.elements() / width;
        let keys = TensorType::new(DType::F32, [1, 1, 5, width]);
        if width * 5 > ELEMENTS {
            return;
        }
        let (key, value) = (self.leaf_of(keys.clone()), self.leaf_of(keys));
        let query = x.value.tanh().reshape([1, 1, rows, width]);
        let window = self.draws.chance(0.3).then_some(3);
        let options = AttentionOptions { causal: self.draws.chance(0.5), window, ..AttentionOptions::default() };
        let attended = query.attention(key.value, value.value, options);
        self.add(attended.reshape(shape), value.bound, false);
    }

    /// Something made of little: a constant, coordinates, random numbers, or a value without its gradient.
    fn made(&mut self) {
        let shape = self.shape(256);
        match self.draws.below(4) {
            0 => self.add(self.builder.fill(Scalar::f32(0.5), shape), 0.5, true),
            1 if !shape.is_empty() => {
                let axis = self.draws.below(shape.len());
                self.add(self.builder.iota(shape, axis), 33.0, true);
            }
            2 => {
                let data = self.draws.fill(&TensorType::new(DType::U32, [2]), Fill::Bits);
                let key = self.input(data);
                let stream = self.draws.bits();
                self.add(self.builder.random_uniform(key, shape, stream), 1.0, true);
            }
            _ => {
                let x = self.pick(DType::F32, |_| true);
                self.add(x.value.stop_gradient(), x.bound, x.exact);
            }
        }
    }
}
