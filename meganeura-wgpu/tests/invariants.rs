//! What tests over printed modules rely on: that the checks can fail.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;
#[path = "invariants/translation.rs"]
mod translation;

use meganeura_core::dtype::DType;
use meganeura_core::index::Index;
use meganeura_core::scalar::Unary;
use meganeura_core::schedule::{Caps, Spec};
use meganeura_wgpu::wgsl::{Module, print};
use std::panic::catch_unwind;
use support::Build;

fn negated_halves() -> Module {
    let mut b = Build::new(&[16], &[]);
    let a = b.read(DType::F16, 16);
    let x = b.load(a, Index::axis(0));
    let y = b.unary(Unary::Neg, x);
    b.store(16, Index::axis(0), y, false);
    let caps = Caps { f16: true, ..Caps::base() };
    print(&b.0, &Spec::Map { threads: 16, per_thread: 1 }, &[false, true], &[0, 1], &caps).unwrap()
}

#[test]
fn w1_a_module_that_names_too_few_capabilities_is_refused() {
    let mut module = negated_halves();
    support::translate::check(&module);
    module.needs.f16 = false;
    assert!(catch_unwind(|| support::translate::check(&module)).is_err());
}

#[test]
fn w2_equal_kernels_print_equal_bytes() {
    let first = negated_halves();
    assert!((0..8).all(|_| negated_halves() == first));
}

#[test]
fn k3_a_barrier_under_a_condition_is_refused() {
    let mut module = negated_halves();
    module.needs.f16 = false;
    module.source = "
        @compute @workgroup_size(8) fn main(@builtin(local_invocation_id) lane: vec3<u32>) {
            for (var i = 0u; i < 2u; i++) { workgroupBarrier(); }
        }"
    .to_owned();
    support::translate::check(&module);
    module.source = module.source.replace("for (var i = 0u; i < 2u; i++)", "if lane.x < 3u");
    assert!(catch_unwind(|| support::translate::check(&module)).is_err());
}
