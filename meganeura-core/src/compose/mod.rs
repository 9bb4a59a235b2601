//! Functions built of ops: no new semantics, and no derivatives of their own. Fusion makes one kernel of each.

mod activation;
mod attention;
mod border;
mod conv;
mod elementwise;
mod loss;
mod pool;
mod resize;
mod rope;
mod softmax;
mod statistics;

pub use attention::{AttentionOptions, attention_reference};
pub use border::Border;
pub use conv::ConvOptions;
pub use pool::PoolOptions;
pub use resize::Resize;
pub use rope::{Positions, Rope, RopePairs, RopeScaling};
