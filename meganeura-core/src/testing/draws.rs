//! Deterministic values.

use crate::dtype::DType;
use crate::kernel::threefry;
use crate::ops::Fill;
use crate::oracle::Array;
use crate::shape::TensorType;

/// A stream of numbers that its seed determines, the same on every machine.
#[derive(Clone, Debug)]
pub struct Draws {
    key: [u32; 2],
    next: u32,
}

impl Draws {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Draws {
        Draws { key: [seed as u32, (seed >> 32) as u32], next: 0 }
    }

    /// Any 32 bits.
    pub fn bits(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        threefry(self.key, [self.next, 0])[0]
    }

    /// Uniform over `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        f64::from(self.bits()) / 4_294_967_296.0
    }

    /// Uniform over the integers below `bound`; 0 if there are none.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.unit() * bound as f64) as usize
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// One of a list that is not empty.
    pub fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    /// A random order of `0..n`.
    pub fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        (1..n).rev().for_each(|at| order.swap(at, self.below(at + 1)));
        order
    }

    /// A tensor of such values, each exact in its element type.
    pub fn fill(&mut self, ty: &TensorType, fill: Fill) -> Array {
        let n = ty.elements();
        let data = match fill {
            Fill::Spaced(low, high) => {
                let step = (high - low) / (n.max(2) - 1) as f64;
                self.order(n).into_iter().map(|at| ty.dtype.round(low + step * at as f64)).collect()
            }
            Fill::List(list) => list.iter().cycle().take(n).map(|&value| ty.dtype.round(value)).collect(),
            _ => (0..n).map(|_| self.element(ty.dtype, fill)).collect(),
        };
        Array::new(ty.clone(), data)
    }

    fn element(&mut self, dtype: DType, fill: Fill) -> f64 {
        match fill {
            Fill::Uniform(low, high) | Fill::Spaced(low, high) => {
                let value = low + (high - low) * self.unit();
                dtype.round(if dtype.is_float() { value } else { value.floor() })
            }
            Fill::List(list) => dtype.round(self.pick(list)),
            Fill::Bool => f64::from(self.bits() & 1),
            Fill::Bits => match dtype {
                DType::U32 => f64::from(self.bits()),
                DType::I32 => f64::from(self.bits() as i32),
                DType::Bool => f64::from(self.bits() & 1),
                DType::F32 => f64::from(f32::from_bits(self.bits())),
                DType::F16 => half::f16::from_bits(self.bits() as u16).to_f64(),
            },
        }
    }
}
