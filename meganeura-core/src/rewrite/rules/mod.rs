//! The rules, by family. Order matters only for speed.

mod arithmetic;
mod constants;
mod set;
mod views;

use super::engine::Rule;
pub use set::RuleSet;

/// Every rule.
pub const RULES: &[Rule] = &[
    Rule { name: "fold-constants", apply: constants::fold },
    Rule { name: "view-of-constant", apply: constants::view },
    Rule { name: "neutral-element", apply: arithmetic::neutral_element },
    Rule { name: "double-negation", apply: arithmetic::double_negation },
    Rule { name: "negated-summand", apply: arithmetic::negated_summand },
    Rule { name: "minus-one", apply: arithmetic::minus_one },
    Rule { name: "needless-choice", apply: arithmetic::needless_choice },
    Rule { name: "stop-gradient", apply: views::stop_gradient },
    Rule { name: "view-without-effect", apply: views::without_effect },
    Rule { name: "view-of-view", apply: views::of_view },
    Rule { name: "fold-of-single-elements", apply: views::fold_of_single_elements },
];
