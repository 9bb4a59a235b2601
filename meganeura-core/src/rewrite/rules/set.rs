//! Which rules are on.

use super::RULES;
use crate::rewrite::engine::Rule;
use std::fmt;

/// A subset of [`RULES`], one bit a rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RuleSet(u64);

const _: () = assert!(RULES.len() <= u64::BITS as usize, "a rule set has one bit a rule");

impl RuleSet {
    /// Every rule.
    pub const ALL: RuleSet = RuleSet(u64::MAX >> (u64::BITS as usize - RULES.len()));
    /// No rule: equal nodes are still shared and dead ones dropped.
    pub const NONE: RuleSet = RuleSet(0);

    /// The rule of that name alone; `None` if there is no such rule.
    pub fn only(name: &str) -> Option<RuleSet> {
        RULES.iter().position(|rule| rule.name == name).map(|at| RuleSet(1 << at))
    }

    /// This set without the rule of that name; `None` if there is no such rule.
    pub fn without(self, name: &str) -> Option<RuleSet> {
        RuleSet::only(name).map(|rule| RuleSet(self.0 & !rule.0))
    }

    /// The rules that are on, in the order in which they are tried.
    pub fn rules(self) -> Vec<Rule> {
        RULES.iter().enumerate().filter(|(at, _)| self.0 >> at & 1 == 1).map(|(_, rule)| *rule).collect()
    }
}

impl Default for RuleSet {
    fn default() -> RuleSet {
        RuleSet::ALL
    }
}

impl fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.rules()).finish()
    }
}
