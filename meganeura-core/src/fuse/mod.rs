//! Partition of a graph into kernels.
//!
//! `classify` says which nodes are computed where they are used and which are candidates for storing. `cluster`
//! groups the latter, greedily and in order: a node joins the cluster of its latest dependency if its element lies at a
//! point of that cluster's space, else it opens a new one. As every member depends on earlier clusters only, the result
//! is acyclic by construction (P2). `lower` then builds one kernel a cluster, last cluster first, so that each stores
//! exactly what later ones and the outside use (P3).

mod classify;
mod cluster;
mod fragment;
mod lower;
mod provenance;
mod verify;

pub use classify::FuseOptions;
pub use fragment::{Fragment, Partition, Source, partition};
pub use provenance::{Part, Provenance};
pub use verify::{PartitionError, verify};
