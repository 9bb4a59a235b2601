//! The table of compositions: functions over ops, with operands that tests run them on, forward and backward.
//!
//! A function of `compose/` needs an entry here; the entry drives the gradient check, the plan's interpreter, the CPU
//! device and every GPU, as samples do for an op.

mod activation;
mod row;
mod structure;
mod windows;

use super::{Case, Draws};
use crate::ir::{Builder, Value};
use crate::ops::{Fill, SampleOperand};
use crate::oracle::Array;
use crate::shape::{Shape, TensorType};
use std::collections::HashMap;

/// A function of tensors. Other values come from the builder of its operands.
pub type Function = for<'g> fn(&[Value<'g>]) -> Value<'g>;

/// A function over ops on operands of given types and kinds of values.
#[derive(Clone, Debug)]
pub struct Composition {
    /// For messages; entries of one function start alike.
    pub name: &'static str,
    /// Its operands.
    pub operands: Vec<SampleOperand>,
    /// What is computed.
    pub function: Function,
    /// Whether its derivatives are checked too: with respect to each float operand.
    pub smooth: bool,
}

impl Composition {
    fn new(name: &'static str, operands: impl Into<Vec<SampleOperand>>, function: Function) -> Composition {
        Composition { name, operands: operands.into(), function, smooth: true }
    }

    /// Without derivatives: there are none, or the operands lie where differences do not show them.
    fn jumping(name: &'static str, operands: impl Into<Vec<SampleOperand>>, function: Function) -> Composition {
        Composition { smooth: false, ..Composition::new(name, operands, function) }
    }

    /// Values for the operands.
    pub fn values(&self) -> Vec<Array> {
        let mut draws = Draws::new(17);
        self.operands.iter().map(|operand| draws.fill(&operand.ty, operand.fill)).collect()
    }

    /// The program that computes the function, as output `y`, and for a smooth one the gradients of `Σ y · r` with respect
    /// to each float operand `i`, as outputs `g0`, `g1`, …
    pub fn case(&self) -> Case {
        let values = self.values();
        let mut inputs: HashMap<String, Array> =
            values.iter().enumerate().map(|(at, value)| (format!("x{at}"), value.clone())).collect();
        let builder = Builder::new();
        let operands: Vec<Value<'_>> =
            values.iter().enumerate().map(|(at, value)| builder.input(format!("x{at}"), value.ty.clone())).collect();
        let y = (self.function)(&operands);
        builder.output("y", y);
        if self.smooth {
            let r = Draws::new(23).fill(&y.ty(), Fill::Uniform(-1.0, 1.0));
            let loss = (y * builder.input("r", r.ty.clone())).sum_all();
            inputs.insert("r".to_string(), r);
            let floats: Vec<usize> = (0..values.len()).filter(|&at| values[at].ty.dtype.is_float()).collect();
            let wanted: Vec<Value<'_>> = floats.iter().map(|&at| operands[at]).collect();
            let gradients = builder.gradients(loss, &wanted);
            floats.iter().zip(gradients).for_each(|(at, gradient)| builder.output(format!("g{at}"), gradient));
        }
        let graph = builder.finish().unwrap_or_else(|errors| panic!("{}: {errors}", self.name));
        Case { name: self.name.to_string(), graph, inputs, states: HashMap::new() }
    }
}

/// Every entry of the table.
pub fn compositions() -> Vec<Composition> {
    [activation::table(), row::table(), structure::table(), windows::table()].concat()
}

/// The program of every entry.
pub fn cases_of_compositions() -> Vec<Case> {
    compositions().iter().map(Composition::case).collect()
}

/// Floats without two close to each other, and none close to a whole number: away from jumps and kinks.
fn spaced(shape: impl Into<Shape>) -> SampleOperand {
    let ty = TensorType::new(crate::dtype::DType::F32, shape);
    SampleOperand { ty, fill: Fill::Spaced(-7.63, 7.59) }
}
