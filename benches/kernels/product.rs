//! Which product: its extents, how operands are stored, its types.

use meganeura::ops::Dot;
use meganeura::prelude::*;
use meganeura::schedule::Numerics;
use std::fmt;
use std::str::FromStr;

/// The names of the operands' states.
pub const OPERANDS: [&str; 2] = ["lhs", "rhs"];
/// The name of the output.
pub const RESULT: &str = "product";

/// `f32[rows, cols] = operand[rows, depth] × operand[depth, cols]`.
#[derive(Clone, Debug)]
pub struct Product {
    pub rows: usize,
    pub depth: usize,
    pub cols: usize,
    /// Whether the left and the right operand are stored as their transposes.
    pub transposed: [bool; 2],
    pub operand: DType,
    pub numerics: Numerics,
}

impl Product {
    /// Extents of an operand (0 left, 1 right) as it is stored.
    pub fn stored(&self, side: usize) -> [usize; 2] {
        let [rows, cols] = [[self.rows, self.depth], [self.depth, self.cols]][side];
        if self.transposed[side] { [cols, rows] } else { [rows, cols] }
    }

    /// States [`OPERANDS`], output [`RESULT`].
    pub fn graph(&self) -> Result<Graph, BuildErrors> {
        let builder = Builder::new();
        // A group each: together they may exceed what one binding holds.
        let state = |name: &str, dtype: DType, shape: Shape| {
            let (name, group) = (name.to_owned(), name.to_owned());
            builder.state(StateSpec { name, ty: TensorType::new(dtype, shape), group, init: Scalar::zero(dtype) })
        };
        let [lhs, rhs] = [0, 1].map(|side| state(OPERANDS[side], self.operand, Shape::from(self.stored(side))));
        let contract = [vec![usize::from(!self.transposed[0])], vec![usize::from(self.transposed[1])]];
        let dims = Dot { batch: [vec![], vec![]], contract, result: DType::F32 };
        builder.output(RESULT, lhs.dot(rhs, dims));
        builder.finish()
    }

    /// Whether operands may be rounded.
    pub fn is_accelerated(&self) -> bool {
        self.numerics == Numerics::Accelerated
    }

    /// Error allowed relative to the sum of magnitudes: a rounding of 2⁻²⁴ for each of √depth terms. Independent
    /// roundings add up like that, and partial sums of random terms are smaller than the magnitudes' sum.
    pub fn tolerance(&self) -> f64 {
        (self.depth as f64).sqrt() * 2f64.powi(-24)
    }
}

impl FromStr for Product {
    type Err = String;

    fn from_str(text: &str) -> Result<Product, String> {
        let mut parts = text.split(':');
        let extent = |digits: &str| digits.parse::<usize>().ok().filter(|&extent| extent > 0);
        let extents: Option<Vec<usize>> = parts.next().unwrap_or_default().split('x').map(extent).collect();
        let [rows, depth, cols] = match extents.as_deref() {
            Some(&[side]) => [side; 3],
            Some(&[rows, depth, cols]) => [rows, depth, cols],
            _ => return Err(format!("{text}: expected ROWSxDEPTHxCOLS or a side, such as 4096 or 128x576x1536")),
        };
        let transposed = [false; 2];
        let mut product = Product { rows, depth, cols, transposed, operand: DType::F32, numerics: Numerics::Strict };
        for part in parts {
            match part {
                "nn" => product.transposed = [false, false],
                "nt" => product.transposed = [false, true],
                "tn" => product.transposed = [true, false],
                "tt" => product.transposed = [true, true],
                "f16" => product.operand = DType::F16,
                "accelerated" => product.numerics = Numerics::Accelerated,
                _ => return Err(format!("{text}: expected nn, nt, tn, tt, f16 or accelerated, found {part:?}")),
            }
        }
        Ok(product)
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.rows, self.depth, self.cols)?;
        let letter = |transposed: bool| if transposed { 't' } else { 'n' };
        write!(f, ":{}{}", letter(self.transposed[0]), letter(self.transposed[1]))?;
        if self.operand == DType::F16 {
            f.write_str(":f16")?;
        }
        if self.numerics == Numerics::Accelerated { f.write_str(":accelerated") } else { Ok(()) }
    }
}
