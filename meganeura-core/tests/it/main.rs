//! Tests over the op table, the builder, the text form and random graphs.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod attention;
mod builder;
mod compose;
mod conv;
mod counts;
mod fuzz;
mod gradient;
mod pool;
mod registry;
mod text;
