//! Building graphs: never panics, never needs `?`; [`Builder::finish`] reports every mistake with the caller's line.

use super::error::{BuildError, BuildErrors, Violation};
use super::graph::{Graph, Node, NodeId, Origin, Output, Phase, StateDecl, StateId, Update};
use super::value::Value;
use crate::dtype::DType;
use crate::ops::{Constant, Input, Iota, Op, Operation, Random, State};
use crate::scalar::Scalar;
use crate::shape::{Shape, TensorType};
use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::Location;
use std::sync::Arc;
use web_time::{Duration, Instant};

/// A graph under construction. Methods take `&self`, so calls nest; values are `Copy`.
///
/// A call with wrong operands gives a poisoned value that later calls accept silently, so one mistake is reported once.
#[derive(Debug, Default)]
pub struct Builder {
    draft: RefCell<Draft>,
}

#[derive(Debug)]
struct Draft {
    graph: Graph,
    begun: Instant,
    errors: Vec<BuildError>,
    names: HashSet<(&'static str, String)>,
    updated: HashSet<StateId>,
    origin: Origin,
}

impl Default for Draft {
    fn default() -> Draft {
        Draft {
            graph: Graph::default(),
            begun: Instant::now(),
            errors: Vec::new(),
            names: HashSet::new(),
            updated: HashSet::new(),
            origin: Origin::default(),
        }
    }
}

/// What a state is.
#[derive(Clone, Debug, PartialEq)]
pub struct StateSpec {
    /// Unique name, such as `encoder.layers.0.fc1.weight`.
    pub name: String,
    /// Its type.
    pub ty: TensorType,
    /// States of one group lie side by side in one arena.
    pub group: String,
    /// What a new store fills it with.
    pub init: Scalar,
}

/// The id of a value whose making failed.
pub(super) const POISON: NodeId = NodeId(u32::MAX);

impl Builder {
    /// An empty graph.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// A tensor that the host writes before a step.
    #[track_caller]
    pub fn input(&self, name: impl Into<String>, ty: TensorType) -> Value<'_> {
        let name: String = name.into();
        if !self.claim_name("an input", &name, Location::caller()) {
            return self.poison();
        }
        self.push(Op::Input(Input { name: name.into(), ty }), &[])
    }

    /// A value that outlives the step; the result is its value before the step.
    #[track_caller]
    pub fn state(&self, spec: StateSpec) -> Value<'_> {
        if !self.claim_name("a state", &spec.name, Location::caller()) {
            return self.poison();
        }
        if spec.init.dtype() != spec.ty.dtype {
            let violation = Violation::new("a state is filled with its own element type", spec.init.to_string());
            let location = Location::caller();
            self.report(BuildError::Operands { op: "state", operands: vec![spec.ty], violation, location });
            return self.poison();
        }
        let decl = StateDecl { name: spec.name.into(), ty: spec.ty.clone(), group: spec.group.into(), init: spec.init };
        let id = {
            let states = &mut self.draft.borrow_mut().graph.states;
            states.push(decl);
            StateId(states.len() as u32 - 1)
        };
        self.push(Op::State(State { id, ty: spec.ty }), &[])
    }

    /// Lets the state that `old` reads have the value `new` in the next step.
    #[track_caller]
    pub fn update<'g>(&'g self, old: Value<'g>, new: Value<'g>) {
        let location = Location::caller();
        if old.is_poisoned() || new.is_poisoned() {
            return;
        }
        if !std::ptr::eq(old.builder, self) || !std::ptr::eq(new.builder, self) {
            return self.report(BuildError::Foreign { op: "update", location });
        }
        let mut draft = self.draft.borrow_mut();
        let draft = &mut *draft;
        let Op::State(State { id, .. }) = draft.graph.node(old.id).op else {
            let found = draft.graph.node(old.id).op.name();
            return draft.errors.push(BuildError::NotAState { op: "update", found, location });
        };
        let decl = draft.graph.state(id);
        let found = &draft.graph.node(new.id).ty;
        if *found != decl.ty {
            let error = BuildError::UpdateType {
                name: decl.name.to_string(),
                expected: decl.ty.clone(),
                found: found.clone(),
                location,
            };
            draft.errors.push(error);
        } else if !draft.updated.insert(id) {
            draft.errors.push(BuildError::UpdatedTwice { name: decl.name.to_string(), location });
        } else {
            draft.graph.updates.push(Update { state: id, value: new.id });
        }
    }

    /// Lets the host read `value` after a step.
    #[track_caller]
    pub fn output<'g>(&'g self, name: impl Into<String>, value: Value<'g>) {
        let name: String = name.into();
        let location = Location::caller();
        if !self.claim_name("an output", &name, location) || value.is_poisoned() {
            return;
        }
        if !std::ptr::eq(value.builder, self) {
            return self.report(BuildError::Foreign { op: "output", location });
        }
        self.draft.borrow_mut().graph.outputs.push(Output { name, value: value.id });
    }

    /// A tensor filled with one `f32`.
    #[track_caller]
    pub fn constant(&self, value: f32) -> Value<'_> {
        self.fill(Scalar::f32(value), Shape::scalar())
    }

    /// A tensor filled with one scalar.
    #[track_caller]
    pub fn fill(&self, value: Scalar, shape: impl Into<Shape>) -> Value<'_> {
        self.push(Op::Constant(Constant { value, shape: shape.into() }), &[])
    }

    /// `u32` coordinates along one axis of a shape: `iota([2, 3], 1)` is `[[0, 1, 2], [0, 1, 2]]`.
    #[track_caller]
    pub fn iota(&self, shape: impl Into<Shape>, axis: usize) -> Value<'_> {
        self.push(Op::Iota(Iota { shape: shape.into(), axis }), &[])
    }

    /// Random `u32`, uniform over all 2³². `key` is `u32[2]`: seed and step. Equal keys and streams give equal numbers,
    /// so each use takes its own `stream`; see [`crate::ops::Random`].
    #[track_caller]
    pub fn random_bits<'g>(&'g self, key: Value<'g>, shape: impl Into<Shape>, stream: u32) -> Value<'g> {
        self.push(Op::Random(Random { shape: shape.into(), stream }), &[key])
    }

    /// Random `f32`, uniform over the multiples of 2⁻²⁴ in `[0, 1)`; see [`Builder::random_bits`].
    #[track_caller]
    pub fn random_uniform<'g>(&'g self, key: Value<'g>, shape: impl Into<Shape>, stream: u32) -> Value<'g> {
        let shape = shape.into();
        let bits = self.random_bits(key, shape.clone(), stream);
        let eight = self.fill(Scalar::u32(8), Shape::scalar());
        bits.shift_right(eight).cast(DType::F32) * (-24_f32).exp2()
    }

    /// Runs `build` with `name` appended to the scope of the nodes it makes.
    pub fn scoped<R>(&self, name: &str, build: impl FnOnce() -> R) -> R {
        let outer = self.draft.borrow().origin.clone();
        let scope: Arc<str> =
            if outer.scope.is_empty() { name.into() } else { format!("{}.{name}", outer.scope).into() };
        self.with_origin(Origin { scope, phase: outer.phase }, build)
    }

    /// Runs `build` with nodes marked as part of a phase.
    pub fn in_phase<R>(&self, phase: Phase, build: impl FnOnce() -> R) -> R {
        let scope = self.draft.borrow().origin.scope.clone();
        self.with_origin(Origin { scope, phase }, build)
    }

    pub(crate) fn with_origin<R>(&self, origin: Origin, build: impl FnOnce() -> R) -> R {
        let outer = std::mem::replace(&mut self.draft.borrow_mut().origin, origin);
        let result = build();
        self.draft.borrow_mut().origin = outer;
        result
    }

    /// The graph, or every mistake made in building it.
    ///
    /// # Errors
    /// All [`BuildError`]s, in the order in which they were made.
    pub fn finish(self) -> Result<Graph, BuildErrors> {
        let mut draft = self.draft.into_inner();
        let time = &mut draft.graph.time;
        time.build = draft.begun.elapsed().saturating_sub(time.differentiate);
        if draft.errors.is_empty() { Ok(draft.graph) } else { Err(BuildErrors(draft.errors)) }
    }

    /// Adds a node; the only way in which nodes come to be.
    #[track_caller]
    pub(crate) fn push<'g>(&'g self, op: Op, operands: &[Value<'g>]) -> Value<'g> {
        let location = Location::caller();
        if operands.iter().any(|operand| operand.is_poisoned()) {
            return self.poison();
        }
        if operands.iter().any(|operand| !std::ptr::eq(operand.builder, self)) {
            self.report(BuildError::Foreign { op: op.name(), location });
            return self.poison();
        }
        let mut draft = self.draft.borrow_mut();
        let types: Vec<TensorType> = operands.iter().map(|operand| draft.graph.node(operand.id).ty.clone()).collect();
        match op.infer(&types).and_then(|ty| check_limits(&ty).map(|()| ty)) {
            Ok(ty) => {
                let origin = draft.origin.clone();
                let operands = operands.iter().map(|operand| operand.id).collect();
                draft.graph.nodes.push(Node { op, operands, ty, origin });
                Value { builder: self, id: NodeId(draft.graph.nodes.len() as u32 - 1) }
            }
            Err(violation) => {
                draft.errors.push(BuildError::Operands { op: op.name(), operands: types, violation, location });
                self.poison()
            }
        }
    }

    /// Reports that `op`, which is built of several primitive ops, does not take these operands; gives a poisoned value.
    /// Silent if an operand is poisoned.
    #[track_caller]
    pub(crate) fn refuse<'g>(&'g self, op: &'static str, operands: &[Value<'g>], violation: Violation) -> Value<'g> {
        if operands.iter().all(|operand| !operand.is_poisoned()) {
            let operands = operands.iter().map(|operand| operand.ty()).collect();
            self.report(BuildError::Operands { op, operands, violation, location: Location::caller() });
        }
        self.poison()
    }

    pub(crate) fn report(&self, error: BuildError) {
        self.draft.borrow_mut().errors.push(error);
    }

    pub(crate) fn poison(&self) -> Value<'_> {
        Value { builder: self, id: POISON }
    }

    /// Counts time as that of differentiation.
    pub(crate) fn spent_differentiating(&self, time: Duration) {
        self.draft.borrow_mut().graph.time.differentiate += time;
    }

    /// Looks at the graph so far.
    pub(crate) fn look<R>(&self, read: impl FnOnce(&Graph) -> R) -> R {
        read(&self.draft.borrow().graph)
    }

    fn claim_name(&self, kind: &'static str, name: &str, location: &'static Location<'static>) -> bool {
        let fresh = self.draft.borrow_mut().names.insert((kind, name.to_string()));
        if !fresh {
            self.report(BuildError::DuplicateName { kind, name: name.to_string(), location });
        }
        fresh
    }
}

/// Limits that hold for every tensor, whatever made it.
pub(super) fn check_limits(ty: &TensorType) -> Result<(), Violation> {
    let rank = ty.shape.rank();
    Violation::unless(rank <= crate::shape::MAX_RANK, "a tensor has at most 6 dimensions", || format!("{rank}"))?;
    // Element indices are u32 in shaders.
    let few = ty.shape.checked_elements().is_some_and(|elements| elements < u32::MAX as usize);
    Violation::unless(few, "a tensor has fewer than 2^32 - 1 elements", || ty.to_string())
}
