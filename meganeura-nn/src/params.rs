//! Parameters with hierarchical names, as in PyTorch's state dictionaries: `encoder.layers.0.fc1.weight`.

use crate::init::Init;
use meganeura_core::dtype::DType;
use meganeura_core::ir::{Builder, StateSpec, Value};
use meganeura_core::scalar::Scalar;
use meganeura_core::shape::{Shape, TensorType};
use std::cell::RefCell;
use std::fmt;

/// The state group of what an optimiser changes.
pub const PARAMETERS: &str = "parameters";
/// The state group of what belongs to a model but is not trained: statistics, frozen weights.
pub const BUFFERS: &str = "buffers";

/// What a parameter is, apart from a graph: enough to fill it, save it and load it.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterSpec {
    /// Full name; also the name of its state.
    pub name: String,
    /// Its type.
    pub ty: TensorType,
    /// Its first value.
    pub init: Init,
    /// Whether an optimiser changes it.
    pub trainable: bool,
}

/// The parameters of a model under construction, made by the layers that use them through a [`Scope`].
#[derive(Debug)]
pub struct Parameters<'g> {
    builder: &'g Builder,
    list: RefCell<Vec<(ParameterSpec, Value<'g>)>>,
}

impl<'g> Parameters<'g> {
    /// No parameters yet.
    pub fn new(builder: &'g Builder) -> Parameters<'g> {
        Parameters { builder, list: RefCell::default() }
    }

    /// The scope without a name, in which a model is built.
    pub fn root(&self) -> Scope<'_, 'g> {
        Scope { parameters: self, path: String::new(), trainable: true }
    }

    /// The graph under construction.
    pub fn builder(&self) -> &'g Builder {
        self.builder
    }

    /// All parameters, in the order of their making; outlives the graph's construction.
    pub fn specs(&self) -> Vec<ParameterSpec> {
        self.list.borrow().iter().map(|(spec, _)| spec.clone()).collect()
    }

    /// Names and values of the parameters that an optimiser changes, in the order of their making.
    pub fn trainable(&self) -> Vec<(String, Value<'g>)> {
        let list = self.list.borrow();
        list.iter().filter(|(spec, _)| spec.trainable).map(|(spec, value)| (spec.name.clone(), *value)).collect()
    }
}

/// A place in the tree of names: makes parameters whose names begin with its path.
#[derive(Clone)]
pub struct Scope<'p, 'g> {
    parameters: &'p Parameters<'g>,
    path: String,
    trainable: bool,
}

impl<'p, 'g> Scope<'p, 'g> {
    /// The scope of a part, such as `fc1` or the number of a layer.
    #[must_use]
    pub fn sub(&self, name: impl fmt::Display) -> Scope<'p, 'g> {
        Scope { path: self.name(&name.to_string()), ..self.clone() }
    }

    /// The same scope, whose new parameters no optimiser changes.
    #[must_use]
    pub fn frozen(&self) -> Scope<'p, 'g> {
        Scope { trainable: false, ..self.clone() }
    }

    /// Its path, such as `encoder.layers.0`; empty at the root.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The graph under construction.
    pub fn builder(&self) -> &'g Builder {
        self.parameters.builder
    }

    /// Runs `build` with the nodes that it makes marked as this scope's, for profiles.
    pub fn mark<R>(&self, build: impl FnOnce() -> R) -> R {
        self.builder().scoped(&self.path, build)
    }

    /// The `f32` parameter of that name in this scope, made at the first call. Asked for again, it is the same value:
    /// tied weights, or a model applied twice.
    ///
    /// A second call with another shape is reported by the builder's `finish` as a duplicate name.
    #[track_caller]
    pub fn parameter(&self, name: &str, shape: impl Into<Shape>, init: Init) -> Value<'g> {
        self.state(name, shape.into(), init, self.trainable)
    }

    /// As [`parameter`](Scope::parameter), for what is saved with a model but never trained, such as running means.
    #[track_caller]
    pub fn buffer(&self, name: &str, shape: impl Into<Shape>, init: Init) -> Value<'g> {
        self.state(name, shape.into(), init, false)
    }

    #[track_caller]
    fn state(&self, name: &str, shape: Shape, init: Init, trainable: bool) -> Value<'g> {
        let spec = ParameterSpec { name: self.name(name), ty: TensorType::new(DType::F32, shape), init, trainable };
        let mut list = self.parameters.list.borrow_mut();
        let same = list.iter().find(|(own, _)| own.name == spec.name && own.ty == spec.ty);
        if let Some((_, value)) = same {
            return *value;
        }
        let group = if trainable { PARAMETERS } else { BUFFERS };
        let value = self.builder().state(StateSpec {
            name: spec.name.clone(),
            ty: spec.ty.clone(),
            group: group.to_owned(),
            init: Scalar::zero(DType::F32),
        });
        list.push((spec, value));
        value
    }

    fn name(&self, last: &str) -> String {
        if self.path.is_empty() { last.to_owned() } else { format!("{}.{last}", self.path) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_paths_and_equal_names_are_one_parameter() {
        let builder = Builder::new();
        let parameters = Parameters::new(&builder);
        let root = parameters.root();
        let weight = root.sub("layers").sub(0).parameter("weight", [2, 3], Init::Zeros);
        assert_eq!(root.sub("layers").sub(0).parameter("weight", [2, 3], Init::Zeros).id(), weight.id());
        root.frozen().sub("head").parameter("weight", [3], Init::Ones);
        root.buffer("mean", [3], Init::Zeros);
        let specs = parameters.specs();
        let names: Vec<_> = specs.iter().map(|spec| (spec.name.as_str(), spec.trainable)).collect();
        assert_eq!(names, [("layers.0.weight", true), ("head.weight", false), ("mean", false)]);
        assert_eq!(parameters.trainable().len(), 1);
        assert!(builder.finish().is_ok());
    }

    #[test]
    fn one_name_with_two_shapes_is_a_mistake() {
        let builder = Builder::new();
        let parameters = Parameters::new(&builder);
        parameters.root().parameter("w", [2], Init::Zeros);
        parameters.root().parameter("w", [3], Init::Zeros);
        assert!(builder.finish().unwrap_err().to_string().contains("`w`"));
    }
}
