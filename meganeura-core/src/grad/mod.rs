//! Reverse-mode differentiation, on the graph under construction, before anything is fused.

mod sweep;
