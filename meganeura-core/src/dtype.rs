//! Element types and their sizes in memory.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16; on a GPU only where the device has it.
    F16,
    /// Unsigned 32-bit integer; also indices and class labels.
    U32,
    /// Signed 32-bit integer.
    I32,
    /// Truth value, stored as a `u32` that is 0 or 1.
    Bool,
}

impl DType {
    /// Every type, for tests that walk all of them.
    pub const ALL: [DType; 5] = [DType::F32, DType::F16, DType::U32, DType::I32, DType::Bool];

    /// Bytes of one element in a device buffer.
    pub const fn bytes(self) -> usize {
        match self {
            DType::F16 => 2,
            DType::F32 | DType::U32 | DType::I32 | DType::Bool => 4,
        }
    }

    /// True for `f32` and `f16`: the types that carry gradients.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F16)
    }

    /// True for `u32` and `i32`.
    pub const fn is_integer(self) -> bool {
        matches!(self, DType::U32 | DType::I32)
    }

    /// The name used in text forms: `f32`, `f16`, `u32`, `i32`, `bool`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::U32 => "u32",
            DType::I32 => "i32",
            DType::Bool => "bool",
        }
    }

    /// The type of that [`name`](Self::name), if there is one.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// `a + b` as this type adds: integers wrap, floats keep f64's precision.
    pub fn wrapping_sum(self, a: f64, b: f64) -> f64 {
        crate::scalar::Binary::Add.eval(self, a, b)
    }

    /// What storing `value` in this type and reading it back gives: the rounding or wrapping of one element.
    ///
    /// Integers out of range saturate as Rust's `as` does; a `NaN` becomes 0 in integer types.
    pub fn round(self, value: f64) -> f64 {
        match self {
            DType::F32 => f64::from(value as f32),
            DType::F16 => half::f16::from_f64(value).to_f64(),
            DType::U32 => f64::from(value as u32),
            DType::I32 => f64::from(value as i32),
            DType::Bool => f64::from(u8::from(value != 0.0)),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
