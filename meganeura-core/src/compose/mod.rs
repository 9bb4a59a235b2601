//! Functions built of ops: no new semantics, and no derivatives of their own. Fusion makes one kernel of each.

mod activation;
mod attention;
mod border;
mod conv;
mod elementwise;
mod loss;
mod norm;
mod order;
mod pool;
mod resize;
mod rope;
mod scan;
mod softmax;
mod statistics;
mod structure;

pub use attention::{AttentionOptions, attention_reference};
pub use border::Border;
pub use conv::ConvOptions;
pub use loss::{CrossEntropy, RowLosses};
pub use norm::BatchNorm;
pub use order::Sorted;
pub use pool::PoolOptions;
pub use resize::Resize;
pub use rope::{Positions, Rope, RopePairs, RopeScaling};
pub use scan::Direction;
