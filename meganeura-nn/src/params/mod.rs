//! Parameters with hierarchical names, as in PyTorch's state dictionaries: `encoder.layers.0.fc1.weight`.
//!
//! # Models
//! A model is plain Rust: a struct whose fields are layers (or other such structs), with a method
//! `fn forward<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>) -> Value<'g>` that gives each field the scope of its name. The
//! struct holds the choices (widths, rates), the [`Scope`] makes the parameters, so that one struct builds the training
//! program, the program for inference, and any other:
//!
//! ```
//! use meganeura_core::ir::Value;
//! use meganeura_nn::layers::{Dropout, Linear};
//! use meganeura_nn::params::Scope;
//!
//! struct Classifier {
//!     fc1: Linear,
//!     dropout: Dropout,
//!     fc2: Linear,
//! }
//!
//! impl Classifier {
//!     fn forward<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>) -> Value<'g> {
//!         let hidden = self.fc1.forward(&g.sub("fc1"), x).relu();
//!         self.fc2.forward(&g.sub("fc2"), self.dropout.forward(g, hidden))
//!     }
//! }
//! ```
//!
//! Whether a program trains is the scope's, as [`Parameters::new`] or [`Parameters::inference`] made it: dropout drops and
//! batch norm counts only while training. Lists of layers take their numbers as names: `g.sub("layers").sub(i)`.
//! Applying a layer twice under one scope shares its weights.

mod pattern;
mod summary;

pub use pattern::matches;
pub use summary::summary;

use crate::init::Init;
use crate::layers::Randomness;
use meganeura_core::dtype::DType;
use meganeura_core::ir::{Builder, StateSpec, Value};
use meganeura_core::scalar::Scalar;
use meganeura_core::shape::{Shape, TensorType};
use std::cell::{OnceCell, RefCell};
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

/// The state name of a parameter's moving average; see [`Parameters::averaged`].
pub(crate) fn average_name(parameter: &str) -> String {
    format!("average.{parameter}")
}

/// The parameters of a model under construction, made by the layers that use them through a [`Scope`].
#[derive(Debug)]
pub struct Parameters<'g> {
    builder: &'g Builder,
    training: bool,
    averaged: bool,
    frozen: Vec<String>,
    list: RefCell<Vec<(ParameterSpec, Value<'g>)>>,
    randomness: OnceCell<Randomness<'g>>,
}

impl<'g> Parameters<'g> {
    /// No parameters yet, of a program that trains.
    pub fn new(builder: &'g Builder) -> Parameters<'g> {
        Parameters {
            builder,
            training: true,
            averaged: false,
            frozen: Vec::new(),
            list: RefCell::default(),
            randomness: OnceCell::new(),
        }
    }

    /// No parameters yet, of a program for validation or inference: dropout does nothing, batch norm uses its running
    /// statistics.
    pub fn inference(builder: &'g Builder) -> Parameters<'g> {
        Parameters { training: false, ..Parameters::new(builder) }
    }

    /// As [`inference`](Parameters::inference), on the moving averages that
    /// [`Training::average`](crate::optim::Training::average) keeps. What is frozen has none, so the same patterns have
    /// to be frozen here as in training.
    pub fn averaged(builder: &'g Builder) -> Parameters<'g> {
        Parameters { averaged: true, ..Parameters::inference(builder) }
    }

    /// Freezes parameters whose names match a pattern, in which `*` stands for any characters and `?` for one:
    /// `encoder.*`. They get no gradient and no optimiser state, and keep their values. To be called before the model is
    /// built.
    #[must_use]
    pub fn freeze(mut self, pattern: impl Into<String>) -> Parameters<'g> {
        self.frozen.push(pattern.into());
        self
    }

    /// The scope without a name, in which a model is built.
    pub fn root(&self) -> Scope<'_, 'g> {
        Scope { parameters: self, path: String::new(), trainable: true, training: self.training }
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
    training: bool,
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

    /// The same scope, in which dropout and batch norm do what they do in inference.
    #[must_use]
    pub fn evaluating(&self) -> Scope<'p, 'g> {
        Scope { training: false, ..self.clone() }
    }

    /// Whether the program trains here.
    pub fn is_training(&self) -> bool {
        self.training
    }

    /// Whether a parameter of that name in this scope would not be trained.
    pub fn is_frozen(&self, name: &str) -> bool {
        let name = self.name(name);
        !self.trainable || self.parameters.frozen.iter().any(|pattern| matches(pattern, &name))
    }

    /// The source of random numbers while training, one for the program and declared at its first use; nothing in
    /// inference.
    #[track_caller]
    pub fn randomness(&self) -> Option<&'p Randomness<'g>> {
        self.training.then(|| self.parameters.randomness.get_or_init(|| Randomness::new(self.builder())))
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
    /// It is not trained where the scope or its name is frozen. A second call with another shape is reported by the builder's `finish` as a duplicate name.
    #[track_caller]
    pub fn parameter(&self, name: &str, shape: impl Into<Shape>, init: Init) -> Value<'g> {
        self.state(name, shape.into(), init, !self.is_frozen(name))
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
        let averaged = trainable && self.parameters.averaged;
        let value = self.builder().state(StateSpec {
            name: if averaged { average_name(&spec.name) } else { spec.name.clone() },
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
    fn what_matches_a_frozen_pattern_is_not_trained() {
        let builder = Builder::new();
        let parameters = Parameters::new(&builder).freeze("encoder.*").freeze("head.bia?");
        let root = parameters.root();
        for (scope, name) in [("encoder", "w"), ("head", "w"), ("head", "bias"), ("decoder", "w")] {
            root.sub(scope).parameter(name, [1], Init::Zeros);
        }
        let trained: Vec<String> = parameters.trainable().into_iter().map(|(name, _)| name).collect();
        assert_eq!(trained, ["head.w", "decoder.w"]);
        assert!(root.sub("encoder").is_frozen("w") && root.frozen().is_frozen("x") && !root.is_frozen("x"));
        assert!(root.is_training() && !root.evaluating().is_training());
        assert!(Parameters::inference(&builder).root().randomness().is_none());
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
