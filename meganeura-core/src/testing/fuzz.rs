//! Random graphs.
