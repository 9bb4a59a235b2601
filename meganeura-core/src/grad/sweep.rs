//! The reverse walk: cotangents flow from the loss to what is asked for, and to nothing else.

use crate::ir::{BuildError, Builder, NodeId, Origin, Phase, Value};
use crate::ops::{Operation, Vjp};
use std::collections::HashMap;
use std::panic::Location;
use web_time::Instant;

impl Builder {
    /// The gradient of `loss` (one float) with respect to each value in `wrt`: tensors of their types, zeros where the
    /// loss does not depend on them. Works on any values, not only on states and inputs.
    ///
    /// Nodes that lead from nothing in `wrt` are not visited, so frozen parts of a model cost nothing.
    #[track_caller]
    pub fn gradients<'g>(&'g self, loss: Value<'g>, wrt: &[Value<'g>]) -> Vec<Value<'g>> {
        let location = Location::caller();
        if loss.is_poisoned() || wrt.iter().any(|value| value.is_poisoned()) {
            return wrt.iter().map(|_| self.poison()).collect();
        }
        if wrt.iter().chain([&loss]).any(|value| !std::ptr::eq(value.builder(), self)) {
            self.report(BuildError::Foreign { op: "gradients", location });
            return wrt.iter().map(|_| self.poison()).collect();
        }
        let ty = loss.ty();
        if ty.elements() != 1 || !ty.dtype.is_float() {
            self.report(BuildError::LossNotScalar { found: ty, location });
            return wrt.iter().map(|_| self.poison()).collect();
        }
        if let Some(found) = wrt.iter().map(|value| value.ty()).find(|ty| !ty.dtype.is_float()) {
            self.report(BuildError::NotDifferentiable { found, location });
            return wrt.iter().map(|_| self.poison()).collect();
        }
        let start = Instant::now();
        let cotangents = self.sweep(loss, wrt);
        let gradient = |value: &Value<'g>| match cotangents.get(&value.id()) {
            Some(&cotangent) => cotangent,
            None => value.like(0.0).broadcast(value.shape()),
        };
        let gradients = wrt.iter().map(gradient).collect();
        self.spent_differentiating(start.elapsed());
        gradients
    }

    fn sweep<'g>(&'g self, loss: Value<'g>, wrt: &[Value<'g>]) -> HashMap<NodeId, Value<'g>> {
        let wanted = self.dependents(loss.id(), wrt);
        let mut cotangents: HashMap<NodeId, Value<'g>> = HashMap::new();
        cotangents.insert(loss.id(), loss.like(1.0).broadcast(loss.shape()));
        for at in (0..=loss.id().index()).rev().filter(|&at| wanted[at]) {
            let id = NodeId(at as u32);
            let Some(&cotangent) = cotangents.get(&id) else { continue };
            let node = self.look(|graph| graph.node(id).clone());
            let operands: Vec<Value<'g>> = node.operands.iter().map(|&id| Value { builder: self, id }).collect();
            let asked: Vec<bool> = node.operands.iter().map(|operand| wanted[operand.index()]).collect();
            if !asked.contains(&true) {
                continue;
            }
            let origin = Origin { scope: node.origin.scope.clone(), phase: Phase::Backward };
            self.with_origin(origin, || {
                let result = Value { builder: self, id };
                let flows = node.op.vjp(&Vjp { operands: &operands, result, cotangent, wanted: &asked });
                for ((operand, flow), asked) in operands.iter().zip(flows).zip(asked) {
                    let Some(flow) = flow.filter(|_| asked) else { continue };
                    let sum = cotangents.get(&operand.id()).map_or(flow, |&sum| sum + flow);
                    cotangents.insert(operand.id(), sum);
                }
            });
        }
        cotangents
    }

    /// For each node up to `loss` whether it is in `wrt` or depends on something there.
    fn dependents(&self, loss: NodeId, wrt: &[Value<'_>]) -> Vec<bool> {
        self.look(|graph| {
            let mut dependent = vec![false; loss.index() + 1];
            wrt.iter().filter(|value| value.id() <= loss).for_each(|value| dependent[value.id().index()] = true);
            for at in 0..dependent.len() {
                let from_operand = graph.nodes()[at].operands.iter().any(|operand| dependent[operand.index()]);
                dependent[at] |= from_operand;
            }
            dependent
        })
    }
}
