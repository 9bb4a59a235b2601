//! Functions built of ops: no new semantics, and no derivatives of their own. Fusion makes one kernel of each.

mod activation;
mod attention;
mod conv;
mod elementwise;
mod loss;
mod rope;
mod softmax;
mod statistics;

pub use attention::{AttentionOptions, attention_reference};
pub use conv::ConvOptions;
pub use rope::{Positions, Rope, RopePairs, RopeScaling};
