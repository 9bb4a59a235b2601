//! Functions built of ops: no new semantics, and no derivatives of their own. Fusion makes one kernel of each.

mod activation;
mod loss;
mod softmax;
mod statistics;
