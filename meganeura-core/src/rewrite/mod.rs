//! Simplification of graphs by directed rules, with sharing of equal nodes and removal of dead ones.
//!
//! The graph is rebuilt operands first; at each node the rules are tried until none fires, and a node equal to an
//! earlier one is that one. A rule replaces a node by one of the values below it or by a new node over such values; it
//! never sees users. `README.md` beside this file is the rulebook.

mod engine;
mod rules;
#[cfg(test)]
mod tests;

pub use engine::{Rewrite, Rule, Site, simplify, verify_clean};
pub use rules::{RULES, RuleSet};
