//! What a caller may choose about compilation.

use crate::fuse::FuseOptions;
use crate::rewrite::RuleSet;
use crate::schedule::Numerics;

/// Compilation settings. The default is what one wants; the rest serves comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// Rewrite the graph by `rules`, share equal nodes, drop dead ones.
    pub simplify: bool,
    /// The rules to rewrite by.
    pub rules: RuleSet,
    /// Choose the dimension order of stored values by their readers; off: everything row-major.
    pub layout: bool,
    /// What becomes one kernel.
    pub fuse: FuseOptions,
    /// Split contractions and folds that would leave the device idle over several dispatches.
    pub expand: bool,
    /// Which arithmetic products may use.
    pub numerics: Numerics,
    /// Check the invariants of every stage; a broken one is an error of this library.
    pub verify: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            simplify: true,
            rules: RuleSet::ALL,
            layout: true,
            fuse: FuseOptions::default(),
            expand: true,
            numerics: Numerics::Strict,
            verify: cfg!(debug_assertions),
        }
    }
}

impl Options {
    /// Every optimisation switched off: one kernel an op.
    pub fn plain() -> Options {
        let fuse = FuseOptions { elementwise: false, rows: false, epilogues: false };
        Options {
            simplify: false,
            rules: RuleSet::NONE,
            layout: false,
            fuse,
            expand: false,
            numerics: Numerics::Strict,
            verify: true,
        }
    }
}
