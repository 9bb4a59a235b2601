//! Printed contractions against the interpreter, on whatever adapter there is, and through naga's back ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod build;
mod gpu;

use build::{Product, convolution};
use meganeura_core::dtype::DType;
use meganeura_core::kernel::{Access, Body, Expr, Kernel, interp};
use meganeura_core::scalar::{Binary, Unary};
use meganeura_core::schedule::{Caps, ContractSpec, Spec, Staging, Unit};
use meganeura_wgpu::wgsl::{Module, print};

fn module(kernel: &Kernel, spec: &Spec) -> Module {
    let writable: Vec<bool> = kernel.args.iter().map(|arg| arg.access != Access::Read).collect();
    let bindings: Vec<usize> = (0..kernel.args.len()).collect();
    let module = print(kernel, spec, &writable, &bindings, &Caps::h200()).unwrap();
    assert_eq!(module, print(kernel, spec, &writable, &bindings, &Caps::h200()).unwrap(), "texts differ");
    module
}

/// Random-looking values in `[-½, ½)`, representable in the type.
fn values(dtype: DType, count: usize, seed: u32) -> Vec<f64> {
    let value = |at: usize| {
        let bits = (at as u32 ^ seed.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b);
        let bits = (bits ^ (bits >> 15)).wrapping_mul(0xc2b2_ae35);
        f64::from((bits ^ (bits >> 13)) >> 8) / f64::from(1 << 24) - 0.5
    };
    (0..count).map(|at| dtype.round(value(at))).collect()
}

fn arguments(kernel: &Kernel) -> Vec<Vec<f64>> {
    let arg = |(at, arg): (usize, &meganeura_core::kernel::Arg)| match arg.access {
        Access::Write => vec![f64::NAN; arg.elements],
        _ => values(arg.dtype, arg.elements, at as u32 + 1),
    };
    kernel.args.iter().enumerate().map(arg).collect()
}

/// The same kernel with both operands replaced by their magnitudes: the scale of the rounding error.
fn magnitudes(kernel: &Kernel, args: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut kernel = kernel.clone();
    let Body::Contract { lhs, rhs, accumulate } = kernel.body else { panic!("no contraction") };
    let mut magnitude = |id| {
        kernel.exprs.push(Expr::Unary(Unary::Abs, id));
        kernel.dtypes.push(kernel.dtype(id));
        meganeura_core::kernel::ExprId(kernel.exprs.len() as u32 - 1)
    };
    let (lhs, rhs) = (magnitude(lhs), magnitude(rhs));
    kernel.body = Body::Contract { lhs, rhs, accumulate };
    // The epilogues of these tests add and subtract: with every addend positive they bound the result.
    for expr in &mut kernel.exprs {
        if let Expr::Binary(function @ Binary::Sub, ..) = expr {
            *function = Binary::Add;
        }
    }
    let mut args: Vec<Vec<f64>> = args.iter().map(|arg| arg.iter().map(|v| v.abs()).collect()).collect();
    interp(&kernel, &mut args).unwrap();
    args
}

/// Runs the kernel on the adapter and compares every argument with the interpreter.
fn check(kernel: &Kernel, spec: &Spec, tolerance: f64) {
    let module = module(kernel, spec);
    translate(&module);
    let Some(gpu) = gpu::gpu() else { return };
    if module.needs.cooperative && !gpu.cooperative || module.needs.f16 && !gpu.f16 {
        eprintln!("skipped: the adapter lacks a feature");
        return;
    }
    let mut found = arguments(kernel);
    let mut expected = found.clone();
    let scale = magnitudes(kernel, &found);
    interp(kernel, &mut expected).unwrap();
    gpu.run(&module, kernel, &mut found);
    for (arg, declared) in kernel.args.iter().enumerate().filter(|(_, arg)| arg.access != Access::Read) {
        let tolerance = if declared.dtype == DType::F16 { 1e-3 } else { tolerance };
        for (at, (&found, &expected)) in found[arg].iter().zip(&expected[arg]).enumerate() {
            let error = (found - expected).abs() / scale[arg][at].abs().max(1e-6);
            assert!(
                error <= tolerance,
                "{spec:?}\nargument {arg} element {at}: {found}, expected {expected}\n{}",
                module.source
            );
        }
    }
}

/// W1: naga accepts the text with exactly the features it names, and every back end translates it.
fn translate(module: &Module) {
    use naga::valid::{Capabilities, ValidationFlags, Validator};
    let parsed = naga::front::wgsl::parse_str(&module.source)
        .unwrap_or_else(|error| panic!("{}\n{}", error.emit_to_string(&module.source), module.source));
    let mut capabilities = Capabilities::default();
    capabilities.set(Capabilities::SHADER_FLOAT16, module.needs.f16);
    capabilities.set(Capabilities::COOPERATIVE_MATRIX, module.needs.cooperative);
    let info = Validator::new(ValidationFlags::all(), capabilities)
        .validate(&parsed)
        .unwrap_or_else(|error| panic!("{}\n{}", error.emit_to_string(&module.source), module.source));
    let spv = naga::back::spv::Options { lang_version: (1, 6), ..Default::default() };
    naga::back::spv::write_vec(&parsed, &info, &spv, None).unwrap();
    if module.needs.cooperative {
        return;
    }
    let msl = naga::back::msl::Options { lang_version: (2, 4), fake_missing_bindings: true, ..Default::default() };
    naga::back::msl::write_string(&parsed, &info, &msl, &Default::default()).unwrap();
    let hlsl = naga::back::hlsl::Options {
        shader_model: naga::back::hlsl::ShaderModel::V6_2,
        fake_missing_bindings: true,
        ..Default::default()
    };
    let mut text = String::new();
    naga::back::hlsl::Writer::new(&mut text, &hlsl, &Default::default()).write(&parsed, &info, None).unwrap();
}

fn scalar(tile: [u32; 3], thread: [u32; 2], staging: Staging) -> Spec {
    let unit = Unit::Scalar { thread };
    Spec::Contract(ContractSpec { tile, unit, prefetch: true, staging, row_group: 1 })
}

fn layouts(product: Product) -> [Product; 4] {
    [(false, false), (false, true), (true, false), (true, true)].map(|(left_transposed, right_transposed)| Product {
        left_transposed,
        right_transposed,
        ..product
    })
}

#[test]
fn every_layout_and_shape_on_small_tiles() {
    let spec = scalar([32, 32, 16], [4, 4], Staging::Swizzle);
    for [m, n, k] in [[1, 1, 1], [33, 65, 17], [7, 4, 64], [31, 29, 37], [64, 32, 16], [40, 36, 20], [5, 48, 8]] {
        for product in layouts(Product::new(m, n, k)) {
            check(&product.plain(), &spec, 1e-5);
        }
    }
}

#[test]
fn the_tiles_of_large_devices() {
    let tiles = [
        ([128, 256, 16], [8, 16], Staging::Swizzle),
        ([128, 128, 16], [8, 16], Staging::Pad(4)),
        ([128, 128, 32], [8, 8], Staging::Swizzle),
        ([64, 128, 16], [8, 8], Staging::Pad(4)),
        ([64, 64, 16], [8, 4], Staging::Swizzle),
        ([64, 64, 16], [4, 4], Staging::Pad(4)),
        ([64, 32, 16], [4, 4], Staging::Swizzle),
        ([32, 32, 32], [4, 4], Staging::Swizzle),
        ([16, 32, 16], [4, 4], Staging::Swizzle),
    ];
    for (tile, thread, staging) in tiles {
        for product in layouts(Product::new(132, 260, 40)) {
            check(&product.plain(), &scalar(tile, thread, staging), 1e-5);
        }
        check(&Product::new(129, 131, 35).plain(), &scalar(tile, thread, staging), 1e-5);
    }
}

#[test]
fn prologue_and_epilogue() {
    let spec = scalar([32, 32, 16], [4, 4], Staging::Swizzle);
    for [batch, m, n, k] in [[1, 33, 40, 24], [3, 17, 23, 19], [2, 32, 64, 48]] {
        for product in layouts(Product { batch, ..Product::new(m, n, k) }) {
            check(&product.rich(false), &spec, 1e-5);
        }
    }
}

#[test]
fn convolutions_are_products_through_index_maps() {
    for (images, size, ci, co, stride) in [(2, 7, 16, 20, 1), (1, 9, 5, 8, 2), (1, 6, 3, 7, 1), (1, 5, 32, 32, 2)] {
        let kernel = convolution(images, size, ci, co, stride);
        check(&kernel, &scalar([32, 32, 16], [4, 4], Staging::Swizzle), 1e-5);
        check(&kernel, &scalar([64, 32, 16], [4, 4], Staging::Pad(4)), 1e-5);
    }
}
