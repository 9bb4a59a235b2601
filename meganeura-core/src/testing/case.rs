//! One op, its operands behind different views.

use super::Draws;
use crate::ir::{Builder, Graph, Value};
use crate::ops::{Op, Sample};
use crate::oracle::Array;
use crate::shape::{Shape, TensorType};
use std::collections::HashMap;

/// A graph and values for it.
#[derive(Clone, Debug)]
pub struct Case {
    /// For messages.
    pub name: String,
    /// What is computed; the cases of an op have one output, `y`.
    pub graph: Graph,
    /// Inputs by name; the operands of an op are `x0`, `x1`, ….
    pub inputs: HashMap<String, Array>,
    /// States by name; none in the cases of an op.
    pub states: HashMap<String, Array>,
}

/// How a sample's operands are declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// As the op takes them.
    Plain,
    /// With dimensions in reverse order, and permuted back.
    Permuted,
    /// With an extent of 1 or without a leading dimension, and broadcast back.
    Broadcast,
}

impl Variant {
    /// All of them.
    pub const ALL: [Variant; 3] = [Variant::Plain, Variant::Permuted, Variant::Broadcast];

    /// The type under which the operand at `position` of an op is declared.
    pub fn declared(self, ty: &TensorType, position: usize) -> TensorType {
        let mut extents = ty.shape.to_vec();
        match self {
            Variant::Plain => {}
            Variant::Permuted => extents.reverse(),
            Variant::Broadcast => match (position + extents.len()) % 3 {
                0 if !extents.is_empty() => drop(extents.remove(0)),
                1 => extents.iter_mut().rev().find(|extent| **extent != 1).into_iter().for_each(|extent| *extent = 1),
                _ => extents.iter_mut().find(|extent| **extent != 1).into_iter().for_each(|extent| *extent = 1),
            },
        }
        TensorType::new(ty.dtype, extents)
    }

    /// The operand of type `ty` from what was declared.
    pub fn restored<'g>(self, declared: Value<'g>, ty: &TensorType) -> Value<'g> {
        match self {
            Variant::Permuted if ty.shape.rank() > 1 => {
                declared.permute((0..ty.shape.rank()).rev().collect::<Vec<_>>())
            }
            _ => declared.broadcast(&ty.shape),
        }
    }

    /// Whether the variant differs from the plain form for a sample.
    pub fn applies_to(self, sample: &Sample) -> bool {
        let rank = sample.operands.iter().map(|operand| operand.ty.shape.rank()).max().unwrap_or(0);
        let mut operands = sample.operands.iter().enumerate();
        match self {
            Variant::Plain => true,
            Variant::Permuted => rank > 1,
            Variant::Broadcast => operands.any(|(at, operand)| self.declared(&operand.ty, at) != operand.ty),
        }
    }

    /// The sample's op on its operands, made of `declared` ones.
    #[track_caller]
    pub fn build<'g>(self, builder: &'g Builder, sample: &Sample, declared: &[Value<'g>]) -> Value<'g> {
        let restore = |(&value, operand): (&Value<'g>, &crate::ops::SampleOperand)| self.restored(value, &operand.ty);
        let operands: Vec<Value<'g>> = declared.iter().zip(&sample.operands).map(restore).collect();
        builder.push(sample.op.clone(), &operands)
    }

    /// Values for the declared operands. `seed` is usually the sample's position.
    pub fn values(self, sample: &Sample, seed: u64) -> Vec<Array> {
        let mut draws = Draws::new(seed);
        let operands = sample.operands.iter().enumerate();
        operands.map(|(at, operand)| draws.fill(&self.declared(&operand.ty, at), operand.fill)).collect()
    }
}

/// The variants of one sample that differ from each other.
pub fn cases_of_sample(name: &str, sample: &Sample, seed: u64) -> Vec<Case> {
    let variants = Variant::ALL.into_iter().filter(|variant| variant.applies_to(sample));
    variants.map(|variant| case(format!("{name} {variant:?}"), sample, variant, seed)).collect()
}

/// Every variant of every sample of every op.
pub fn cases_of_op_table() -> Vec<Case> {
    let mut cases = Vec::new();
    for (entry, samples) in Op::registry() {
        for (at, sample) in samples.iter().enumerate() {
            cases.extend(cases_of_sample(&format!("{entry} {at}"), sample, at as u64));
        }
    }
    cases
}

fn case(name: String, sample: &Sample, variant: Variant, seed: u64) -> Case {
    use crate::ops::Operation;
    let values = variant.values(sample, seed);
    let shapes: Vec<&Shape> = sample.operands.iter().map(|operand| &operand.ty.shape).collect();
    let name = format!("{name}: {}[{}] {shapes:?}", sample.op.name(), sample.op.attributes());
    let builder = Builder::new();
    let declared: Vec<Value<'_>> =
        values.iter().enumerate().map(|(at, value)| builder.input(format!("x{at}"), value.ty.clone())).collect();
    builder.output("y", variant.build(&builder, sample, &declared));
    let graph = builder.finish().unwrap_or_else(|errors| panic!("{name}: {errors}"));
    let inputs = values.into_iter().enumerate().map(|(at, value)| (format!("x{at}"), value)).collect();
    Case { name, graph, inputs, states: HashMap::new() }
}
