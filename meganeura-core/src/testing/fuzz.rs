//! Random graphs.

use super::{Case, Draws};
use crate::dtype::DType;
use crate::ir::{Builder, Phase, StateSpec, Value};
use crate::ops::Fill;
use crate::oracle::Array;
use crate::scalar::Scalar;
use crate::shape::TensorType;
use std::collections::HashMap;

/// No tensor of a random graph has more elements.
pub(super) const ELEMENTS: usize = 2048;
/// Nor more dimensions, so that what comes next can add some.
pub(super) const RANK: usize = 4;
/// Where values may have become larger than this, they are squashed by `tanh`.
const TAME: f64 = 100.0;

/// A random well-typed program: every op, awkward extents, several outputs, states with updates, in half of all graphs
/// the gradients of a scalar loss. Equal seeds give equal cases.
///
/// Values are tame: no `NaN`, few infinities, magnitudes of at most some hundreds. Functions that jump (comparisons,
/// rounding, conversion to integers) are applied only to floats that every executor computes exactly, so that two
/// executors may be compared within a tolerance.
pub fn random_graph(seed: u64) -> Case {
    let builder = Builder::new();
    let mut growth = Growth::new(&builder, seed);
    let steps = 3 + growth.draws.below(18);
    let _ = [growth.leaf(DType::F32), growth.leaf(DType::F32)];
    (0..steps).for_each(|_| growth.step());
    let slopes = if growth.smooth { growth.gradients() } else { HashMap::new() };
    builder.in_phase(Phase::Update, || growth.updates(&slopes));
    growth.outputs();
    let (inputs, states) = (growth.inputs, growth.states);
    let graph = builder.finish().unwrap_or_else(|errors| panic!("random graph {seed}: {errors}"));
    Case { name: format!("random graph {seed}"), graph, inputs, states }
}

/// A value of the growing graph, and what is known of its elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'g> {
    /// The value.
    pub value: Value<'g>,
    /// No element is larger in magnitude, roughly.
    pub bound: f64,
    /// Whether every executor computes the same elements, to the bit (zeros may differ in sign).
    pub exact: bool,
}

/// A graph under random construction.
pub(super) struct Growth<'g> {
    pub builder: &'g Builder,
    pub draws: Draws,
    pub pool: Vec<Item<'g>>,
    /// Whether gradients will be taken, so that maxima are not taken of values that executors round differently.
    pub smooth: bool,
    /// Leaves with gradients.
    leaves: Vec<Value<'g>>,
    old: Vec<(String, Value<'g>)>,
    inputs: HashMap<String, Array>,
    states: HashMap<String, Array>,
}

impl<'g> Growth<'g> {
    fn new(builder: &'g Builder, seed: u64) -> Growth<'g> {
        let mut draws = Draws::new(seed);
        let smooth = draws.chance(0.5);
        let (pool, leaves, old, inputs, states) = Default::default();
        Growth { builder, draws, pool, smooth, leaves, old, inputs, states }
    }

    /// Adds to the pool; what is too wild is squashed first.
    pub fn add(&mut self, value: Value<'g>, bound: f64, exact: bool) {
        let wild = value.dtype().is_float() && (bound > TAME || bound.is_nan());
        let item = match wild {
            true => Item { value: value.tanh(), bound: 1.0, exact: false },
            false => Item { value, bound, exact },
        };
        self.pool.push(item);
    }

    /// An item that satisfies a condition, the later ones more often; a new leaf if there is none.
    pub fn pick(&mut self, dtype: DType, holds: impl Fn(&Item<'g>) -> bool) -> Item<'g> {
        let fitting: Vec<Item<'g>> =
            self.pool.iter().filter(|item| item.value.dtype() == dtype && holds(item)).copied().collect();
        match fitting.len() {
            0 => self.leaf(dtype),
            n => fitting[self.draws.below(n).max(self.draws.below(n))],
        }
    }

    /// Extents with few elements, often awkward.
    pub fn shape(&mut self, most: usize) -> Vec<usize> {
        let mut shape = Vec::new();
        for _ in 0..self.draws.below(RANK + 1) {
            let extent = self.draws.pick(&[1, 2, 3, 4, 5, 7, 13, 17, 33]);
            if shape.iter().product::<usize>() * extent <= most {
                shape.push(extent);
            }
        }
        shape
    }

    /// A new input, or at times a state.
    pub fn leaf(&mut self, dtype: DType) -> Item<'g> {
        let shape = self.shape(256);
        self.leaf_of(TensorType::new(dtype, shape))
    }

    /// A new input or state of a type.
    pub fn leaf_of(&mut self, ty: TensorType) -> Item<'g> {
        let (fill, bound) = match ty.dtype {
            DType::F32 | DType::F16 => (Fill::Uniform(-2.0, 2.0), 2.0),
            DType::U32 if self.draws.chance(0.3) => (Fill::Bits, f64::from(u32::MAX)),
            DType::U32 => (Fill::Uniform(0.0, 50.0), 50.0),
            DType::I32 => (Fill::Uniform(-20.0, 20.0), 20.0),
            DType::Bool => (Fill::Bool, 1.0),
        };
        let data = self.draws.fill(&ty, fill);
        let value = if self.draws.chance(0.3) { self.state(data) } else { self.input(data) };
        if ty.dtype.is_float() {
            self.leaves.push(value);
        }
        self.add(value, bound, true);
        Item { value, bound, exact: true }
    }

    /// A new input with these values.
    pub fn input(&mut self, data: Array) -> Value<'g> {
        let name = format!("in{}", self.inputs.len());
        let value = self.builder.input(name.clone(), data.ty.clone());
        self.inputs.insert(name, data);
        value
    }

    fn state(&mut self, data: Array) -> Value<'g> {
        let (name, init) = (format!("state{}", self.states.len()), Scalar::zero(data.ty.dtype));
        let group = self.draws.pick(&["parameters", "moments"]).to_string();
        let value = self.builder.state(StateSpec { name: name.clone(), ty: data.ty.clone(), group, init });
        self.old.push((name.clone(), value));
        self.states.insert(name, data);
        value
    }

    /// The gradients of some float's mean with respect to all float leaves; keyed by the leaf's position in the graph.
    fn gradients(&mut self) -> HashMap<usize, Value<'g>> {
        let of = self.pick(DType::F32, |item| !item.exact || item.value.shape().rank() == 0);
        let loss = of.value.tanh().mean_all();
        self.builder.output("loss", loss);
        let gradients = self.builder.gradients(loss, &self.leaves);
        let slopes = self.leaves.iter().map(|leaf| leaf.id().index()).zip(gradients);
        slopes.inspect(|&(leaf, slope)| self.builder.output(format!("slope{leaf}"), slope)).collect()
    }

    /// New values for most states: a step along the gradient, another value of the type, or a decayed old one.
    fn updates(&mut self, slopes: &HashMap<usize, Value<'g>>) {
        for (_, old) in self.old.clone() {
            let ty = old.ty();
            let like: Vec<Value<'g>> =
                self.pool.iter().map(|item| item.value).filter(|value| value.ty() == ty).collect();
            let new = match (slopes.get(&old.id().index()), self.draws.below(4)) {
                (_, 0) => continue,
                (Some(&slope), 1 | 2) => old - slope * 0.5,
                (None, 1) if ty.dtype.is_float() => old * 0.5,
                (None, 1) if ty.dtype == DType::Bool => old.not(),
                (None, 1) => old + old.like(1.0),
                _ => self.draws.pick(&like),
            };
            self.builder.update(old, new);
        }
    }

    /// The last value and some others are read; one may be read twice.
    fn outputs(&mut self) {
        let mut read = vec![self.pool.len() - 1];
        (0..self.draws.below(4)).for_each(|_| read.push(self.draws.below(self.pool.len())));
        for (at, position) in read.into_iter().enumerate() {
            self.builder.output(format!("out{at}"), self.pool[position].value);
        }
    }
}
