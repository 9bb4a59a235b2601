//! Reading back the text form of a graph.

use super::builder::check_limits;
use super::error::Violation;
use super::graph::{Graph, Node, NodeId, Origin, Output, Phase, StateDecl, StateId, Update};
use super::text;
use super::verify::{GraphError, verify};
use crate::ops::{Op, Operation};
use crate::shape::TensorType;
use std::str::FromStr;

/// Why a text is not a graph. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The line is not of the expected form.
    #[error("line {line}: expected {expected}, found `{found}`")]
    Syntax {
        /// Where.
        line: usize,
        /// What should come.
        expected: &'static str,
        /// The rest of the line.
        found: String,
    },
    /// There is no op of that name that has such attributes.
    #[error("line {line}: there is no op `{name}[{attributes}]`")]
    UnknownOp {
        /// Where.
        line: usize,
        /// Name of the op.
        name: String,
        /// Its attributes.
        attributes: String,
    },
    /// Nodes and states count up from 0, a line each.
    #[error("line {line}: the next number is {expected}, found {found}")]
    Number {
        /// Where.
        line: usize,
        /// The next number.
        expected: usize,
        /// The number written.
        found: usize,
    },
    /// A node, or state, that is not there or does not precede its user.
    #[error("line {line}: {found} is not defined above")]
    Undefined {
        /// Where.
        line: usize,
        /// What is missing, such as `%7` or `@0`.
        found: String,
    },
    /// The operands break the op's type rule, or the type exceeds a limit.
    #[error("line {line}: {violation}")]
    Operands {
        /// Where.
        line: usize,
        /// The broken rule.
        violation: Violation,
    },
    /// The type written is not the type of the op's result.
    #[error("line {line}: the result is {inferred}, but {written} is written")]
    ResultType {
        /// Where.
        line: usize,
        /// The type by inference.
        inferred: TensorType,
        /// The type in the text.
        written: TensorType,
    },
    /// The graph as a whole breaks an invariant.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl FromStr for Graph {
    type Err = ParseError;

    /// Reads what [`Display`](std::fmt::Display) wrote: the result is equal to the graph written, and verified. Empty lines
    /// and those that begin with `#` are skipped.
    fn from_str(text: &str) -> Result<Graph, ParseError> {
        let mut graph = Graph::default();
        for (at, line) in text.lines().enumerate() {
            let mut line = Line { number: at + 1, rest: line.trim() };
            match line.rest.split_once(' ').map_or(line.rest, |(first, _)| first) {
                first if first.is_empty() || first.starts_with('#') => {}
                "state" => state(&mut line, &mut graph)?,
                "update" => update(&mut line, &mut graph)?,
                "output" => output(&mut line, &mut graph)?,
                _ => node(&mut line, &mut graph)?,
            }
        }
        verify(&graph)?;
        Ok(graph)
    }
}

/// `state @0 "name" : f32[3] in "group" = 0f32`
fn state(line: &mut Line<'_>, graph: &mut Graph) -> Result<(), ParseError> {
    line.skip("state")?;
    line.counted("@", graph.states.len())?;
    let name = line.quoted()?.into();
    line.skip(":")?;
    let ty = line.ty()?;
    line.skip("in")?;
    let group = line.quoted()?.into();
    line.skip("=")?;
    let init = line.word("a scalar", &[' '], text::scalar)?;
    graph.states.push(StateDecl { name, ty, group, init });
    line.end()
}

/// `update @0 = %3`
fn update(line: &mut Line<'_>, graph: &mut Graph) -> Result<(), ParseError> {
    line.skip("update")?;
    let state = line.defined("@", graph.states.len())?;
    line.skip("=")?;
    let value = NodeId(line.defined("%", graph.nodes.len())?);
    graph.updates.push(Update { state: StateId(state), value });
    line.end()
}

/// `output "name" = %3`
fn output(line: &mut Line<'_>, graph: &mut Graph) -> Result<(), ParseError> {
    line.skip("output")?;
    let name = line.quoted()?;
    line.skip("=")?;
    let value = NodeId(line.defined("%", graph.nodes.len())?);
    graph.outputs.push(Output { name, value });
    line.end()
}

/// `%3 = reduce[monoid=sum, axes=[1]](%2) : f32[5] in "scope" backward`; the scope and phase may be missing.
fn node(line: &mut Line<'_>, graph: &mut Graph) -> Result<(), ParseError> {
    line.counted("%", graph.nodes.len())?;
    line.skip("=")?;
    let name = line.take(line.rest.find(['[', '(']).unwrap_or(0));
    let attributes = if line.skip("[").is_ok() {
        let attributes = line.take(text::outer_length(line.rest, &[']']));
        line.skip("]")?;
        attributes
    } else {
        ""
    };
    let operands = operands(line, graph.nodes.len())?;
    line.skip(":")?;
    let ty = line.ty()?;
    let origin = origin(line)?;
    let op = Op::parse(name, attributes, &ty).ok_or_else(|| ParseError::UnknownOp {
        line: line.number,
        name: name.to_string(),
        attributes: attributes.to_string(),
    })?;
    let types: Vec<TensorType> = operands.iter().map(|&operand| graph.node(operand).ty.clone()).collect();
    let inferred = op.infer(&types).map_err(|violation| ParseError::Operands { line: line.number, violation })?;
    if inferred != ty {
        return Err(ParseError::ResultType { line: line.number, inferred, written: ty });
    }
    graph.nodes.push(Node { op, operands, ty, origin });
    line.end()
}

fn operands(line: &mut Line<'_>, defined: usize) -> Result<Vec<NodeId>, ParseError> {
    line.skip("(")?;
    let mut operands = Vec::new();
    while line.skip(")").is_err() {
        if !operands.is_empty() {
            line.skip(",")?;
        }
        operands.push(NodeId(line.defined("%", defined)?));
    }
    Ok(operands)
}

fn origin(line: &mut Line<'_>) -> Result<Origin, ParseError> {
    if line.skip("in").is_err() {
        return Ok(Origin::default());
    }
    let scope = line.quoted()?.into();
    let phase = line.word("forward, backward or update", &[' '], Phase::from_name)?;
    Ok(Origin { scope, phase })
}

/// What is left of one line.
struct Line<'a> {
    number: usize,
    rest: &'a str,
}

impl<'a> Line<'a> {
    fn wrong<T>(&self, expected: &'static str) -> Result<T, ParseError> {
        Err(ParseError::Syntax { line: self.number, expected, found: self.rest.to_string() })
    }

    /// The first `length` bytes; the rest begins after the spaces that follow.
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest.trim_start();
        taken
    }

    fn skip(&mut self, literal: &'static str) -> Result<(), ParseError> {
        if !self.rest.starts_with(literal) {
            return self.wrong(literal);
        }
        self.take(literal.len());
        Ok(())
    }

    /// What stands before one of `ends`, outside quotes and brackets, read by `read`.
    fn word<T>(
        &mut self,
        expected: &'static str,
        ends: &[char],
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, ParseError> {
        let length = text::outer_length(self.rest, ends);
        let Some(value) = read(&self.rest[..length]) else { return self.wrong(expected) };
        self.take(length);
        Ok(value)
    }

    fn quoted(&mut self) -> Result<String, ParseError> {
        self.word("a quoted name", &[' '], text::unquote)
    }

    fn ty(&mut self) -> Result<TensorType, ParseError> {
        let ty = self.word("a type such as f32[2, 3]", &[' '], text::tensor_type)?;
        check_limits(&ty).map_err(|violation| ParseError::Operands { line: self.number, violation })?;
        Ok(ty)
    }

    fn index(&mut self, sigil: &'static str) -> Result<usize, ParseError> {
        self.skip(sigil)?;
        let digits = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        match self.rest[..digits].parse() {
            Ok(index) => {
                self.take(digits);
                Ok(index)
            }
            Err(_) => self.wrong("a number"),
        }
    }

    /// A number that has to be `next`.
    fn counted(&mut self, sigil: &'static str, next: usize) -> Result<(), ParseError> {
        match self.index(sigil)? {
            found if found == next => Ok(()),
            found => Err(ParseError::Number { line: self.number, expected: next, found }),
        }
    }

    /// A number below `defined`.
    fn defined(&mut self, sigil: &'static str, defined: usize) -> Result<u32, ParseError> {
        match self.index(sigil)? {
            index if index < defined => Ok(index as u32),
            index => Err(ParseError::Undefined { line: self.number, found: format!("{sigil}{index}") }),
        }
    }

    fn end(&self) -> Result<(), ParseError> {
        if self.rest.is_empty() { Ok(()) } else { self.wrong("the end of the line") }
    }
}
