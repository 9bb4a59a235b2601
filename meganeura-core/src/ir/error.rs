//! What can be wrong with a graph under construction.

use crate::shape::TensorType;
use std::fmt;
use std::panic::Location;

/// A broken type rule of an op: which, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What is expected.
    pub rule: &'static str,
    /// What was found, such as the extents that differ; may be empty.
    pub found: String,
}

impl Violation {
    /// A violation of `rule`, with what was found.
    pub fn new(rule: &'static str, found: impl Into<String>) -> Violation {
        Violation { rule, found: found.into() }
    }

    /// Fails with a violation unless `holds`; `found` is only called then.
    pub fn unless(holds: bool, rule: &'static str, found: impl FnOnce() -> String) -> Result<(), Violation> {
        if holds { Ok(()) } else { Err(Violation::new(rule, found())) }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.found.as_str() {
            "" => f.write_str(self.rule),
            found => write!(f, "{}, found {found}", self.rule),
        }
    }
}

/// One mistake in building a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// An op was given operands that it does not take.
    #[error("{location}: {op}({}): {violation}", list(operands))]
    Operands {
        /// Name of the op.
        op: &'static str,
        /// Types of the operands.
        operands: Vec<TensorType>,
        /// The broken rule.
        violation: Violation,
        /// Where the caller built it.
        location: &'static Location<'static>,
    },
    /// Two inputs, two states or two outputs have the same name.
    #[error("{location}: there is already {kind} named `{name}`; names must be unique")]
    DuplicateName {
        /// `an input`, `a state` or `an output`.
        kind: &'static str,
        /// The name.
        name: String,
        /// The second declaration.
        location: &'static Location<'static>,
    },
    /// A state is updated twice.
    #[error("{location}: state `{name}` is updated a second time; a step writes a state at most once")]
    UpdatedTwice {
        /// The state.
        name: String,
        /// The second update.
        location: &'static Location<'static>,
    },
    /// An update's value has another type than the state.
    #[error("{location}: state `{name}` is {expected}, but its update is {found}")]
    UpdateType {
        /// The state.
        name: String,
        /// The state's type.
        expected: TensorType,
        /// The value's type.
        found: TensorType,
        /// The update.
        location: &'static Location<'static>,
    },
    /// A value that is not a state was used as one.
    #[error("{location}: {op} expects a value made by `Builder::state`, found the result of {found}")]
    NotAState {
        /// What was called.
        op: &'static str,
        /// The op that made the value.
        found: &'static str,
        /// The call.
        location: &'static Location<'static>,
    },
    /// A value of another builder was used.
    #[error("{location}: {op} was given a value of another builder")]
    Foreign {
        /// What was called.
        op: &'static str,
        /// The call.
        location: &'static Location<'static>,
    },
    /// Gradients were asked of something that is not one number.
    #[error(
        "{location}: gradients are of one floating-point number, but the loss is {found}; reduce it with `sum` or `mean`"
    )]
    LossNotScalar {
        /// The loss' type.
        found: TensorType,
        /// The call.
        location: &'static Location<'static>,
    },
    /// A gradient was asked with respect to something that carries none.
    #[error(
        "{location}: no gradient with respect to a tensor of type {found}; only floating-point values have gradients"
    )]
    NotDifferentiable {
        /// The type.
        found: TensorType,
        /// The call.
        location: &'static Location<'static>,
    },
}

fn list(types: &[TensorType]) -> String {
    types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// All mistakes made in building one graph, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildErrors(pub Vec<BuildError>);

impl fmt::Display for BuildErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the graph has {} mistake{}:", self.0.len(), if self.0.len() == 1 { "" } else { "s" })?;
        for (at, error) in self.0.iter().enumerate() {
            write!(f, "{}  {error}", if at == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for BuildErrors {}
