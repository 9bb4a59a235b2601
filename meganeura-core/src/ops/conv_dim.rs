//! Names of a convolution's dimensions.

use ConvDim::{Batch, Group, Input, Output, Spatial};
use std::fmt;

/// What a dimension of a convolution's tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConvDim {
    /// `g`: independent convolutions.
    Group,
    /// `b`: of the left operand and the result.
    Batch,
    /// `o`: output channels, of the right operand and the result.
    Output,
    /// `i`: input channels, of both operands; summed over.
    Input,
    /// `0`, `1`, …: elements of the left operand, taps of the right one, positions of the result.
    Spatial(usize),
}

/// The dimensions with two letters exchanged.
pub(super) fn swapped(dims: &[ConvDim], [a, b]: [ConvDim; 2]) -> Vec<ConvDim> {
    let rename = |&dim: &ConvDim| {
        if dim == a {
            b
        } else if dim == b {
            a
        } else {
            dim
        }
    };
    dims.iter().map(rename).collect()
}

/// The dimensions with each letter replaced by the next of the list, the last by the first.
pub(super) fn cycled(dims: &[ConvDim], letters: [ConvDim; 3]) -> Vec<ConvDim> {
    let next = |at: usize| letters[(at + 1) % letters.len()];
    dims.iter().map(|dim| letters.iter().position(|letter| letter == dim).map_or(*dim, next)).collect()
}

impl fmt::Display for ConvDim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Group => f.write_str("g"),
            Batch => f.write_str("b"),
            Output => f.write_str("o"),
            Input => f.write_str("i"),
            Spatial(at) => write!(f, "{at}"),
        }
    }
}

/// What displayed as these letters.
pub(super) fn parse_dims(text: &str) -> Option<Vec<ConvDim>> {
    let parse = |letter: char| match letter {
        'g' => Some(Group),
        'b' => Some(Batch),
        'o' => Some(Output),
        'i' => Some(Input),
        digit => digit.to_digit(10).map(|digit| Spatial(digit as usize)),
    };
    text.chars().map(parse).collect()
}
