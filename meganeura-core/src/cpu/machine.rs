//! Evaluates [`Code`] block by block.

use super::buffer::{Outside, View};
use super::code::{Address, Code, Op, Register, Within};
use super::lanes::{self, Divisor};
use crate::index::{ExprId, Index};
use crate::kernel::threefry;

/// An access outside an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) arg: usize,
    pub(super) outside: Outside,
}

fn fault(arg: usize) -> impl Fn(Outside) -> Fault {
    move |outside| Fault { arg, outside }
}

/// Registers and the position in the iteration space: the state of one thread.
pub(super) struct Machine<'a> {
    code: &'a Code,
    args: &'a [View<'a>],
    /// Register `r` is `file[r · width ..][.. width]`.
    file: Vec<u32>,
    width: usize,
    /// Coordinates along all axes; those of the lane axes are the first lane's.
    pub(super) point: Vec<usize>,
    cursor: Vec<usize>,
}

impl<'a> Machine<'a> {
    /// A machine for blocks of up to `width` lanes in a space of `axes` axes.
    pub(super) fn new(code: &'a Code, args: &'a [View<'a>], width: usize, axes: usize) -> Machine<'a> {
        let file = vec![0; code.ops.len() * width];
        Machine { code, args, file, width, point: vec![0; axes], cursor: Vec::with_capacity(axes) }
    }

    /// The lanes of a register.
    pub(super) fn lanes(&self, register: Register, length: usize) -> &[u32] {
        &self.file[register * self.width..][..length]
    }

    /// The lanes of a register that others write: a fold or a contraction's sum.
    pub(super) fn lanes_mut(&mut self, register: Register, length: usize) -> &mut [u32] {
        &mut self.file[register * self.width..][..length]
    }

    /// Gives every lane of the registers what their first one has.
    pub(super) fn spread(&mut self, registers: &[Register]) {
        for register in registers {
            let lanes = &mut self.file[register * self.width..][..self.width];
            lanes.fill(lanes[0]);
        }
    }

    /// Moves to a lane, counted over all lane axes.
    pub(super) fn seek(&mut self, lane: usize) {
        let mut rest = lane;
        for (&axis, &extent) in self.code.lane_axes.iter().zip(&self.code.lane_extents).rev() {
            self.point[axis] = rest % extent.max(1);
            rest /= extent.max(1);
        }
    }

    /// Evaluates instructions in order for the `length` lanes from the current position on.
    pub(super) fn run(&mut self, registers: &[Register], length: usize) -> Result<(), Fault> {
        for &register in registers {
            let (ready, rest) = self.file.split_at_mut(register * self.width);
            let mut step = Step {
                code: self.code,
                args: self.args,
                ready,
                width: self.width,
                point: &self.point,
                cursor: &mut self.cursor,
                length,
            };
            step.evaluate(&self.code.ops[register], &mut rest[..length])?;
        }
        Ok(())
    }

    /// Performs the stores of that kind for the `length` lanes from the current position on.
    pub(super) fn store(&mut self, per_element: bool, length: usize) -> Result<(), Fault> {
        let code = self.code;
        for store in code.stores.iter().filter(|store| store.per_element == per_element) {
            let view = self.args[store.arg];
            let mut step = Step {
                code,
                args: self.args,
                ready: &self.file,
                width: self.width,
                point: &self.point,
                cursor: &mut self.cursor,
                length,
            };
            let lanes = step.lanes(store.value);
            match &store.address {
                Address::Lanes(register) => view.store_lanes(step.lanes(*register), lanes),
                Address::Run { index, stride } => view.store_run(step.base(index), *stride, lanes),
                Address::Segments { index, stride } => step
                    .segments(|base, lane, length| view.store_run(base(index), *stride, &lanes[lane..lane + length])),
            }
            .map_err(fault(store.arg))?;
        }
        Ok(())
    }
}

/// One instruction at one block.
struct Step<'s> {
    code: &'s Code,
    args: &'s [View<'s>],
    /// The registers before the one that is written.
    ready: &'s [u32],
    width: usize,
    point: &'s [usize],
    cursor: &'s mut Vec<usize>,
    length: usize,
}

impl<'s> Step<'s> {
    fn lanes(&self, register: Register) -> &'s [u32] {
        &self.ready[register * self.width..][..self.length]
    }

    /// The value of an index at the first lane.
    fn base(&self, index: &Index) -> i64 {
        index.eval(self.point, &|register| i64::from(self.ready[register.0 as usize * self.width]))
    }

    /// Calls `each` with the first lane and the length of every piece of the block inside which the outer lane axes
    /// stand still, and with a function that evaluates indices at that lane.
    fn segments<E>(
        &mut self,
        mut each: impl FnMut(&dyn Fn(&Index) -> i64, usize, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let (axes, extents) = (&self.code.lane_axes, &self.code.lane_extents);
        let (ready, width) = (self.ready, self.width);
        self.cursor.clear();
        self.cursor.extend_from_slice(self.point);
        let (Some(&inner), Some(&extent)) = (axes.last(), extents.last()) else {
            let (point, value) = (self.point, |register: ExprId| i64::from(ready[register.0 as usize * width]));
            return each(&|index| index.eval(point, &value), 0, self.length);
        };
        let mut lane = 0;
        while lane < self.length {
            let length = (extent - self.cursor[inner]).min(self.length - lane);
            let cursor: &[usize] = self.cursor;
            let value = |register: ExprId| i64::from(ready[register.0 as usize * width + lane]);
            each(&|index| index.eval(cursor, &value), lane, length)?;
            lane += length;
            self.cursor[inner] = 0;
            for (&axis, &extent) in axes.iter().zip(extents).rev().skip(1) {
                self.cursor[axis] += 1;
                if self.cursor[axis] < extent {
                    break;
                }
                self.cursor[axis] = 0;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, op: &Op, to: &mut [u32]) -> Result<(), Fault> {
        match op {
            Op::Const(bits) => to.fill(*bits),
            Op::Load { arg, address, mask } => self.load(*arg, address, mask, to).map_err(fault(*arg))?,
            Op::LoadWhere { arg, indices, mask } => {
                self.args[*arg].load_lanes(self.lanes(*indices), Some(self.lanes(*mask)), to).map_err(fault(*arg))?
            }
            Op::Index(address) => self.index(address, to),
            Op::Coordinate(position) => self.coordinate(*position, to),
            Op::Within(mask) => self.within(mask, to),
            Op::Random { key, stream, counter } => {
                let (first, second, counter) = (self.lanes(key[0]), self.lanes(key[1]), self.lanes(*counter));
                for (lane, to) in to.iter_mut().enumerate() {
                    *to = threefry([first[lane], second[lane]], [counter[lane], *stream])[0];
                }
            }
            Op::Quotient(a, divisor, signed) => divide(self.lanes(*a), *divisor, *signed, false, to),
            Op::Remainder(a, divisor, signed) => divide(self.lanes(*a), *divisor, *signed, true, to),
            Op::MultiplyAdd(a, b, factor) => {
                for ((to, &a), &b) in to.iter_mut().zip(self.lanes(*a)).zip(self.lanes(*b)) {
                    *to = a.wrapping_add(b.wrapping_mul(*factor));
                }
            }
            Op::Unary(function, dtype, a) => lanes::unary(*function, *dtype, self.lanes(*a), to),
            Op::Binary(function, dtype, a, b) => {
                lanes::binary(*function, *dtype, self.lanes(*a), self.lanes(*b), to);
            }
            Op::Compare(relation, dtype, a, b) => {
                lanes::compare(*relation, *dtype, self.lanes(*a), self.lanes(*b), to);
            }
            Op::Select(a, b, c) => lanes::select(self.lanes(*a), self.lanes(*b), self.lanes(*c), to),
            Op::Cast(from, into, a) => lanes::cast(*from, *into, self.lanes(*a), to),
            Op::Copy(a) => to.copy_from_slice(self.lanes(*a)),
            Op::Fold(..) | Op::Acc | Op::Streamed(_) => {}
        }
        Ok(())
    }

    fn load(&mut self, arg: usize, address: &Address, mask: &[Within], to: &mut [u32]) -> Result<(), Outside> {
        let view = self.args[arg];
        match address {
            Address::Lanes(register) => view.load_lanes(self.lanes(*register), None, to),
            Address::Run { index, stride } if mask.is_empty() => view.load_run(self.base(index), *stride, to),
            Address::Run { index, stride } | Address::Segments { index, stride } => {
                self.segments(|base, lane, length| {
                    let to = &mut to[lane..lane + length];
                    let (first, last) = open_lanes(mask, base, length);
                    to[..first].fill(0);
                    to[last..].fill(0);
                    let start = base(index) + *stride * first as i64;
                    view.load_run(start, *stride, &mut to[first..last])
                })
            }
        }
    }

    fn index(&mut self, address: &Address, to: &mut [u32]) {
        let ramp = |start: i64, stride: i64, to: &mut [u32]| {
            for (lane, to) in to.iter_mut().enumerate() {
                *to = (start as u32).wrapping_add((stride as u32).wrapping_mul(lane as u32));
            }
        };
        match address {
            Address::Lanes(register) => to.copy_from_slice(self.lanes(*register)),
            Address::Run { index, stride } => ramp(self.base(index), *stride, to),
            Address::Segments { index, stride } => {
                let done: Result<(), std::convert::Infallible> = self.segments(|base, lane, length| {
                    ramp(base(index), *stride, &mut to[lane..lane + length]);
                    Ok(())
                });
                done.unwrap_or_default();
            }
        }
    }

    /// The coordinate along a lane axis, counted up like an odometer.
    fn coordinate(&self, position: usize, to: &mut [u32]) {
        let extents = &self.code.lane_extents;
        let repeat: usize = extents[position + 1..].iter().product();
        // How many lanes the coordinate has stood at its value already.
        let inner = self.code.lane_axes[position + 1..].iter().zip(&extents[position + 1..]);
        let mut stood = inner.fold(0, |sum, (&axis, &extent)| sum * extent + self.point[axis]);
        let mut coordinate = self.point[self.code.lane_axes[position]];
        let mut lane = 0;
        while lane < to.len() {
            let length = (repeat - stood).min(to.len() - lane);
            to[lane..lane + length].fill(coordinate as u32);
            lane += length;
            stood = 0;
            coordinate = if coordinate + 1 == extents[position] { 0 } else { coordinate + 1 };
        }
    }

    fn within(&mut self, mask: &[Within], to: &mut [u32]) {
        to.fill(1);
        for Within { address, extent } in mask {
            if let Address::Lanes(register) = address {
                let holds = |x: u32| u32::from((x as usize) < (*extent).min(1 << 31));
                to.iter_mut().zip(self.lanes(*register)).for_each(|(to, &x)| *to &= holds(x));
                continue;
            }
            let alone = [Within { address: address.clone(), extent: *extent }];
            let done: Result<(), std::convert::Infallible> = self.segments(|base, lane, length| {
                let (first, last) = open_lanes(&alone, base, length);
                to[lane..lane + first].fill(0);
                to[lane + last..lane + length].fill(0);
                Ok(())
            });
            done.unwrap_or_default();
        }
    }
}

/// The lanes `first..last` of a segment at which all conditions hold; they are runs or segments.
fn open_lanes(mask: &[Within], base: &dyn Fn(&Index) -> i64, length: usize) -> (usize, usize) {
    let (mut first, mut last) = (0, length as i64);
    for Within { address, extent } in mask {
        let (Address::Run { index, stride } | Address::Segments { index, stride }) = address else { continue };
        let (start, extent) = (base(index), *extent as i64);
        match *stride {
            0 if (0..extent).contains(&start) => {}
            0 => last = 0,
            // 0 ≤ start + stride · lane < extent
            stride if stride > 0 => {
                first = first.max(ceil_div(-start, stride));
                last = last.min(ceil_div(extent - start, stride));
            }
            stride => {
                first = first.max(ceil_div(start - extent + 1, -stride));
                last = last.min(ceil_div(start + 1, -stride));
            }
        }
    }
    let last = last.clamp(0, length as i64);
    (first.min(last) as usize, last as usize)
}

fn ceil_div(a: i64, b: i64) -> i64 {
    (a + b - 1).div_euclid(b)
}

fn divide(a: &[u32], divisor: u32, signed: bool, remainder: bool, to: &mut [u32]) {
    let pairs = to.iter_mut().zip(a);
    let reciprocal = Divisor::new(divisor);
    match (signed, remainder) {
        (true, false) => pairs.for_each(|(to, &a)| *to = (a as i32).div_euclid(divisor as i32) as u32),
        (true, true) => pairs.for_each(|(to, &a)| *to = (a as i32).rem_euclid(divisor as i32) as u32),
        (false, false) => pairs.for_each(|(to, &a)| *to = reciprocal.divide(a)),
        (false, true) => pairs.for_each(|(to, &a)| *to = a - reciprocal.divide(a) * divisor),
    }
}
