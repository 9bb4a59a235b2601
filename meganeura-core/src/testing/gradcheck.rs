//! Derivatives against differences, in f64.

use super::Draws;
use crate::ir::{BuildErrors, Builder, Graph, Value};
use crate::ops::Fill;
use crate::oracle::{Array, OracleError, run};
use std::collections::HashMap;

/// Why a gradient is wrong, or was not obtained.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GradientError {
    /// The graph does not build.
    #[error(transparent)]
    Build(#[from] BuildErrors),
    /// The graph does not run.
    #[error(transparent)]
    Run(#[from] OracleError),
    /// A derivative differs from the difference quotient.
    #[error("operand {operand}, {along}: gradient {gradient}, by differences {difference}; norm {norm}")]
    Differs {
        /// Position of the operand.
        operand: usize,
        /// The element, or a random direction.
        along: String,
        /// The derivative of the graph.
        gradient: f64,
        /// The difference quotient.
        difference: f64,
        /// Norm of the operand's whole gradient.
        norm: f64,
    },
}

/// Elements of one operand that are checked singly.
const ELEMENTS: usize = 40;
/// Half the width of a difference: about the cube root of f64's precision, where truncation and rounding balance.
const STEP: f64 = 1e-5;
/// Relative to the norm of the gradient.
const TOLERANCE: f64 = 1e-6;

/// Checks `Builder::gradients` of `Σ function(operands) · r` for a random `r`, with respect to every float operand, by
/// central differences: up to 40 elements one by one, and all of them together along a random direction.
///
/// # Errors
/// The first [`GradientError`].
pub fn gradcheck(
    operands: &[Array],
    function: &dyn for<'g> Fn(&'g Builder, &[Value<'g>]) -> Value<'g>,
) -> Result<(), GradientError> {
    let mut draws = Draws::new(0x9e37_79b9);
    let forward = graph(operands, function, false)?;
    let backward = graph(operands, function, true)?;
    let mut inputs: HashMap<String, Array> =
        operands.iter().enumerate().map(|(at, value)| (format!("x{at}"), value.clone())).collect();
    let ty = &forward.nodes()[cotangent_position(&forward)].ty;
    inputs.insert("r".to_string(), draws.fill(ty, Fill::Uniform(-1.0, 1.0)));
    let gradients = run(&backward, &inputs, &HashMap::new())?.outputs;
    for at in (0..operands.len()).filter(|&at| operands[at].ty.dtype.is_float()) {
        let gradient = &gradients[&format!("g{at}")];
        let mut check = Check { forward: &forward, inputs: &mut inputs, operand: at, gradient };
        check.elements(&mut draws)?;
        check.direction(&mut draws)?;
    }
    Ok(())
}

fn cotangent_position(graph: &Graph) -> usize {
    let is_cotangent = |node: &crate::ir::Node| matches!(&node.op, crate::ops::Op::Input(input) if &*input.name == "r");
    graph.nodes().iter().position(is_cotangent).unwrap_or(0)
}

fn graph(
    operands: &[Array],
    function: &dyn for<'g> Fn(&'g Builder, &[Value<'g>]) -> Value<'g>,
    backward: bool,
) -> Result<Graph, BuildErrors> {
    let builder = Builder::new();
    let xs: Vec<Value<'_>> =
        operands.iter().enumerate().map(|(at, value)| builder.input(format!("x{at}"), value.ty.clone())).collect();
    let y = function(&builder, &xs);
    let r = builder.input("r", y.ty());
    let loss = (y * r).sum_all();
    builder.output("loss", loss);
    if backward {
        let floats: Vec<usize> = (0..xs.len()).filter(|&at| xs[at].dtype().is_float()).collect();
        let wrt: Vec<Value<'_>> = floats.iter().map(|&at| xs[at]).collect();
        let gradients = builder.gradients(loss, &wrt);
        floats.iter().zip(gradients).for_each(|(at, gradient)| builder.output(format!("g{at}"), gradient));
    }
    builder.finish()
}

/// The check of one operand.
struct Check<'a> {
    forward: &'a Graph,
    inputs: &'a mut HashMap<String, Array>,
    operand: usize,
    gradient: &'a Array,
}

impl Check<'_> {
    fn elements(&mut self, draws: &mut Draws) -> Result<(), GradientError> {
        let n = self.gradient.data.len();
        for at in draws.order(n).into_iter().take(ELEMENTS) {
            let difference = self.difference(&mut |data, step| data[at] += step)?;
            self.compare(format!("element {at}"), self.gradient.data[at], difference)?;
        }
        Ok(())
    }

    fn direction(&mut self, draws: &mut Draws) -> Result<(), GradientError> {
        let mut direction: Vec<f64> = self.gradient.data.iter().map(|_| draws.unit() - 0.5).collect();
        let norm = norm(&direction).max(f64::MIN_POSITIVE);
        direction.iter_mut().for_each(|x| *x /= norm);
        let move_along =
            |data: &mut [f64], step: f64| data.iter_mut().zip(&direction).for_each(|(x, d)| *x += step * d);
        let difference = self.difference(&mut { move_along })?;
        let slope = direction.iter().zip(&self.gradient.data).map(|(d, g)| d * g).sum();
        self.compare("a random direction".to_string(), slope, difference)
    }

    /// The central difference of the loss along a displacement of the operand.
    fn difference(&mut self, displace: &mut dyn FnMut(&mut [f64], f64)) -> Result<f64, GradientError> {
        let name = format!("x{}", self.operand);
        let original = self.inputs[&name].clone();
        let mut losses = [0.0; 2];
        for (loss, step) in losses.iter_mut().zip([STEP, -STEP]) {
            let mut moved = original.clone();
            displace(&mut moved.data, step);
            self.inputs.insert(name.clone(), moved);
            *loss = run(self.forward, self.inputs, &HashMap::new())?.outputs["loss"].data[0];
        }
        self.inputs.insert(name, original);
        Ok((losses[0] - losses[1]) / (2.0 * STEP))
    }

    fn compare(&self, along: String, gradient: f64, difference: f64) -> Result<(), GradientError> {
        let norm = norm(&self.gradient.data);
        // Below a norm of 1e-3 the rounding of the loss itself shows in a difference.
        let close = (gradient - difference).abs() <= TOLERANCE * norm.max(1e-3);
        match close {
            true => Ok(()),
            // Also where one of them is NaN.
            false => Err(GradientError::Differs { operand: self.operand, along, gradient, difference, norm }),
        }
    }
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|x| x * x).sum::<f64>().sqrt()
}
