//! Hand-built kernels and plans, and the devices that tests run them on.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::explicit_write)]

use meganeura_core::debug;
use meganeura_core::dtype::DType;
use meganeura_core::fuse::Provenance;
use meganeura_core::index::{ExprId, Index};
use meganeura_core::kernel::{Access, Arg, Axis, Body, Expr, Kernel, Role, Store};
use meganeura_core::memory::{Binding, Buffer, Dispatch, Owner, Place, Plan, Port, StateLayout, StateSlot};
use meganeura_core::scalar::{Binary, Scalar};
use meganeura_core::schedule::Spec;
use meganeura_core::shape::TensorType;
use meganeura_wgpu::{Device, DeviceKind, Selector, adapters};
use std::io::Write;

/// Elements of every tensor of the plans here: not a multiple of a workgroup.
pub const N: usize = 77;
/// Their bytes.
pub const BYTES: usize = 4 * N;

/// Any GPU, a software one too. A machine without an adapter skips visibly, or fails if a GPU is required.
pub fn gpu() -> Option<Device> {
    let Some(first) = adapters().into_iter().next() else {
        assert!(!debug::require_gpu(), "MEGANEURA_REQUIRE_GPU=1, but there is no adapter");
        // Past the capture of tests that pass.
        writeln!(std::io::stderr(), "SKIPPED: there is no adapter").unwrap();
        return None;
    };
    // Not by `from_selector`, which takes the user's cache.
    Some(Device::gpu(&Selector::Index(first.index)).unwrap())
}

/// The devices that run everything: the CPU device, and a GPU if there is one.
pub fn devices() -> Vec<Device> {
    std::iter::once(Device::cpu()).chain(gpu()).collect()
}

/// `c = a ∘ b` over `N` elements, or `a ∘ a` with the sum written back to `a` when `in_place`.
pub fn binary(function: Binary, in_place: bool) -> Kernel {
    let arg = |access| Arg { dtype: DType::F32, elements: N, access };
    let load = |arg| Expr::Load { arg, index: Index::axis(0), mask: Vec::new() };
    let args = match in_place {
        true => vec![arg(Access::ReadWrite), arg(Access::Read)],
        false => vec![arg(Access::Read), arg(Access::Read), arg(Access::Write)],
    };
    let target = if in_place { 0 } else { 2 };
    Kernel {
        axes: vec![Axis { extent: N, role: Role::Parallel }],
        args,
        exprs: vec![load(0), load(1), Expr::Binary(function, ExprId(0), ExprId(1))],
        dtypes: vec![DType::F32; 3],
        body: Body::Loop,
        stores: vec![Store { arg: target, index: Index::axis(0), value: ExprId(2), per_element: true }],
    }
}

/// `b = scale · a` over `N` elements.
pub fn scale(scale: f32) -> Kernel {
    let mut kernel = binary(Binary::Mul, false);
    kernel.args.remove(1);
    kernel.exprs[1] = Expr::Const(Scalar::f32(scale));
    kernel.stores[0].arg = 1;
    kernel
}

pub fn spec() -> Spec {
    Spec::Map { threads: 64, per_thread: 1 }
}

pub fn f32s() -> TensorType {
    TensorType::new(DType::F32, [N])
}

/// The whole of a buffer's first tensor.
pub fn place(buffer: usize) -> Place {
    Place { buffer, offset: 0, bytes: BYTES }
}

pub fn port(name: &str, buffer: usize) -> Port {
    Port { name: name.to_owned(), ty: f32s(), place: place(buffer) }
}

pub fn buffer(owner: Owner) -> Buffer {
    Buffer { bytes: BYTES, owner }
}

/// A dispatch whose arguments are whole buffers; `true` marks the written ones.
pub fn dispatch(kernel: usize, group: usize, bound: &[(usize, bool)]) -> Dispatch {
    Dispatch {
        kernel,
        spec: spec(),
        bindings: bound.iter().map(|&(buffer, writable)| Binding { place: place(buffer), writable }).collect(),
        arg_binding: (0..bound.len()).collect(),
        group,
        label: format!("dispatch {group}"),
        provenance: Provenance::default(),
    }
}

/// `y = (2x + x) · 3` in two dispatches, the second reading what the first wrote.
pub fn chain() -> Plan {
    Plan {
        kernels: vec![scale(2.0), binary(Binary::Add, false), scale(3.0)],
        buffers: vec![buffer(Owner::Input), buffer(Owner::Scratch), buffer(Owner::Scratch), buffer(Owner::Output)],
        dispatches: vec![
            dispatch(0, 0, &[(0, false), (1, true)]),
            dispatch(1, 1, &[(1, false), (0, false), (2, true)]),
            dispatch(2, 2, &[(2, false), (3, true)]),
        ],
        inputs: vec![port("x", 0)],
        outputs: vec![port("y", 3)],
        states: Vec::new(),
    }
}

/// One state `total` of `N` elements.
pub fn layout() -> StateLayout {
    let slot = StateSlot { name: "total".to_owned(), ty: f32s(), arena: 0, offset: 0 };
    StateLayout { arenas: vec![BYTES], states: vec![slot] }
}

/// `total += x`, in place; the output is the state itself.
pub fn accumulate() -> Plan {
    Plan {
        kernels: vec![binary(Binary::Add, true)],
        buffers: vec![buffer(Owner::Input), buffer(Owner::Arena(0))],
        dispatches: vec![dispatch(0, 0, &[(1, true), (0, false)])],
        inputs: vec![port("x", 0)],
        outputs: vec![port("sum", 1)],
        states: vec![port("total", 1)],
    }
}

/// No dispatch at all: what goes in comes out.
pub fn passthrough() -> Plan {
    Plan {
        kernels: Vec::new(),
        buffers: vec![buffer(Owner::Input)],
        dispatches: Vec::new(),
        inputs: vec![port("x", 0)],
        outputs: vec![port("y", 0)],
        states: Vec::new(),
    }
}

pub fn is_software(device: &Device) -> bool {
    device.info().kind == DeviceKind::SoftwareGpu
}
