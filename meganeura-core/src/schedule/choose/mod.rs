//! Choosing schedules: pure functions of a kernel, a device and the wanted numerics.

mod contract;

pub use contract::contract;

use super::Spec;

/// Which arithmetic products may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Numerics {
    /// Operands are multiplied in their own type: `f32` operands never go to units that round them to `f16`.
    #[default]
    Strict,
    /// `f32` operands may be rounded to `f16` for matrix units; sums stay `f32`.
    Accelerated,
}

/// How a kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Choice {
    /// Into how many parts the folded axes are split first, by [`super::expand`]; 1 = not. The expansion may make fewer.
    pub parts: usize,
    /// The schedule of the kernel, or of the parts' kernel if there are several.
    pub spec: Spec,
}
