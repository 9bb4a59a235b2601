//! Printed contractions against the interpreter, on whatever adapter there is, and through naga's back ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

#[path = "contract/build.rs"]
mod build;
#[path = "contract/emulate.rs"]
mod emulate;
mod support;

use build::{Product, convolution};
use meganeura_core::dtype::DType;
use meganeura_core::kernel::{Access, Body, Expr, Kernel, interp};
use meganeura_core::scalar::{Binary, Unary};
use meganeura_core::schedule::expand::{Source, split_contraction};
use meganeura_core::schedule::{
    Adjacent, Caps, Choice, ContractSpec, Cooperative, GemvSpec, Numerics, Spec, Staging, Unit, choose,
};
use meganeura_wgpu::wgsl::{Module, print};

/// An H200 with matrices of both sizes and the subgroups of the adapter.
fn device() -> Caps {
    let mut caps = Caps::h200();
    caps.cooperative.push(Cooperative { size: 8, operand: DType::F16, accumulate: DType::F32 });
    caps.subgroup = support::gpu::device().map_or(Some(32), |gpu| gpu.subgroup);
    caps
}

fn module(kernel: &Kernel, spec: &Spec, caps: &Caps) -> Module {
    let writable: Vec<bool> = kernel.args.iter().map(|arg| arg.access != Access::Read).collect();
    let bindings: Vec<usize> = (0..kernel.args.len()).collect();
    let module = print(kernel, spec, &writable, &bindings, caps).unwrap();
    assert_eq!(module, print(kernel, spec, &writable, &bindings, caps).unwrap(), "texts differ");
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

/// Runs the kernel on the adapter; `None` if there is none with the features it needs.
fn run(kernel: &Kernel, spec: &Spec, caps: &Caps, args: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let module = module(kernel, spec, caps);
    support::translate::check(&module);
    let gpu = support::gpu::device()?;
    if module.needs.cooperative && !gpu.cooperative || module.needs.f16 && !gpu.f16 {
        eprintln!("skipped: the adapter has no matrix unit or no f16");
        return None;
    }
    Some(gpu.run(kernel, &module, args, false))
}

/// Runs the kernel on the adapter and compares what it wrote with the interpreter.
fn check(kernel: &Kernel, spec: &Spec, tolerance: f64) {
    check_on(&device(), kernel, spec, tolerance);
}

fn check_on(caps: &Caps, kernel: &Kernel, spec: &Spec, tolerance: f64) {
    let args = arguments(kernel);
    if let Some(found) = run(kernel, spec, caps, &args) {
        compare(kernel, &args, &found, tolerance, &format!("{spec:?}"));
    }
}

/// Compares with the interpreter, relative to the sum of the magnitudes of the products.
fn compare(kernel: &Kernel, args: &[Vec<f64>], found: &[Vec<f64>], tolerance: f64, what: &str) {
    let scale = magnitudes(kernel, args);
    let mut expected = args.to_vec();
    interp(kernel, &mut expected).unwrap();
    for (arg, declared) in kernel.args.iter().enumerate().filter(|(_, arg)| arg.access != Access::Read) {
        let tolerance = if declared.dtype == DType::F16 { 1e-3 } else { tolerance };
        for (at, (&found, &expected)) in found[arg].iter().zip(&expected[arg]).enumerate() {
            let error = (found - expected).abs() / scale[arg][at].abs().max(1e-6);
            assert!(error <= tolerance, "{what}\nargument {arg} element {at}: {found}, expected {expected}");
        }
    }
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
        ([32, 16, 16], [4, 4], Staging::Pad(4)),
    ];
    for (at, (tile, thread, staging)) in tiles.into_iter().enumerate() {
        // Half of the layouts for each tile, in turn.
        for (_, product) in layouts(Product::new(132, 260, 40)).into_iter().enumerate().filter(|(n, _)| n % 2 == at % 2)
        {
            check(&product.plain(), &scalar(tile, thread, staging), 1e-5);
        }
        check(&Product::new(129, 131, 35).plain(), &scalar(tile, thread, staging), 1e-5);
    }
}

#[test]
fn prologue_and_epilogue() {
    let spec = scalar([32, 32, 16], [4, 4], Staging::Swizzle);
    for [batch, m, n, k] in [[1, 33, 40, 24], [3, 17, 23, 19], [2, 32, 64, 48]] {
        check(&Product { batch, ..Product::new(m, n, k) }.transposed(), &spec, 1e-5);
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

#[test]
fn half_operands_are_summed_in_single() {
    for product in layouts(Product { dtype: DType::F16, ..Product::new(33, 36, 44) }) {
        check(&product.plain(), &scalar([32, 32, 16], [4, 4], Staging::Swizzle), 1e-5);
        check(&product.rich(true), &scalar([64, 64, 16], [8, 4], Staging::Pad(4)), 1e-5);
    }
}

fn cooperative(tile: [u32; 3], subgroup: [u32; 2], size: u32, operand: DType, row_group: u32) -> Spec {
    let unit = Unit::Cooperative { size, subgroup, lanes: 32, operand };
    Spec::Contract(ContractSpec { tile, unit, prefetch: true, staging: Staging::Pad(8), row_group })
}

#[test]
fn matrix_units() {
    for dtype in [DType::F16, DType::F32] {
        for [m, n, k] in [[128, 256, 64], [130, 77, 50], [100, 100, 16]] {
            for product in layouts(Product { dtype, batch: 2, ..Product::new(m, n, k) }) {
                for (tile, subgroup) in [([128, 128, 32], [64, 64]), ([64, 64, 32], [32, 32])] {
                    check(&product.plain(), &cooperative(tile, subgroup, 16, DType::F16, 8), 2e-3);
                }
                check(&product.rich(false), &cooperative([64, 64, 32], [32, 32], 16, DType::F16, 1), 2e-3);
            }
        }
    }
    check(&convolution(2, 7, 16, 20, 1), &cooperative([64, 64, 32], [32, 32], 16, DType::F16, 1), 2e-3);
}

#[test]
fn matrix_units_emulated() {
    let Some(gpu) = support::gpu::device().filter(|gpu| gpu.f16) else { return };
    let check = |kernel: &Kernel, size: u32, tile: [u32; 3], subgroup: [u32; 2]| {
        let spec = cooperative(tile, subgroup, size, DType::F16, 2);
        let module = emulate::emulate(&module(kernel, &spec, &device()), size as usize);
        support::translate::check(&module);
        let args = arguments(kernel);
        let found = gpu.run(kernel, &module, &args, false);
        compare(kernel, &args, &found, 2e-3, &format!("{spec:?}"));
    };
    for (at, product) in layouts(Product { batch: 2, ..Product::new(128, 64, 64) }).into_iter().enumerate() {
        let dtype = if at % 2 == 0 { DType::F16 } else { DType::F32 };
        let sizes = if at < 2 { [8, 16] } else { [16, 8] };
        check(&Product { dtype, batch: 1, ..product }.plain(), sizes[0], [64, 64, 32], [32, 32]);
        let ragged = Product { dtype, m: 33, n: 50 + at, k: 45, ..product };
        check(&ragged.rich(false), sizes[1], [64, 64, 32], [32, 32]);
    }
}

#[test]
fn small_matrices_translate_for_metal() {
    for dtype in [DType::F16, DType::F32] {
        for product in layouts(Product { dtype, ..Product::new(128, 64, 70) }) {
            for kernel in [product.plain(), product.rich(false)] {
                let module = module(&kernel, &cooperative([64, 64, 32], [32, 32], 8, DType::F16, 4), &device());
                support::translate::check(&module);
            }
        }
    }
}

#[test]
fn grouped_rows_and_many_batches() {
    let Spec::Contract(spec) = scalar([32, 32, 16], [4, 4], Staging::Swizzle) else { unreachable!() };
    let grouped = Spec::Contract(ContractSpec { row_group: 4, ..spec });
    check(&Product { batch: 2, ..Product::new(300, 70, 20) }.plain(), &grouped, 1e-5);
    let plain = Spec::Contract(ContractSpec { prefetch: false, ..spec });
    check(&Product { batch: 70_000, ..Product::new(2, 3, 5) }.plain(), &plain, 1e-5);
}

#[test]
fn matrix_times_vector() {
    let gemv = |lanes, results, adjacent| Spec::Gemv(GemvSpec { lanes, results, adjacent });
    let specs = [
        gemv(32, 8, Adjacent::Elements),
        gemv(256, 1, Adjacent::Elements),
        gemv(8, 4, Adjacent::Elements),
        gemv(8, 32, Adjacent::Rows),
        gemv(1, 64, Adjacent::Rows),
    ];
    let shapes = [[1, 1, 1, 1031], [3, 1, 100, 36], [1, 100, 1, 2048], [2, 1, 129, 1], [1, 37, 1, 515]];
    for (at, [batch, m, n, k]) in shapes.into_iter().enumerate() {
        for (layout, product) in layouts(Product { batch, ..Product::new(m, n, k) }).into_iter().enumerate() {
            check(&product.plain(), &specs[(at + layout) % 5], 1e-5);
            check(&product.rich(false), &specs[(at + layout + 2) % 5], 1e-5);
            check_on(&Caps { subgroup: None, ..device() }, &product.plain(), &specs[(at + layout + 3) % 5], 1e-5);
        }
    }
    check(&Product { dtype: DType::F16, ..Product::new(1, 64, 256) }.plain(), &specs[3], 1e-5);
}

/// Runs what a choice expands to.
fn check_choice(kernel: &Kernel, choice: &Choice) {
    let expansion = match split_contraction(kernel, choice.parts) {
        Some(expansion) if choice.parts > 1 => expansion,
        _ => return check(kernel, &choice.spec, 1e-5),
    };
    let args = arguments(kernel);
    let mut temporaries: Vec<Vec<f64>> = expansion.temporaries.iter().map(|t| vec![f64::NAN; t.elements]).collect();
    let mut tensors = args.clone();
    for (at, step) in expansion.steps.iter().enumerate() {
        let source = |source: &Source| match *source {
            Source::Arg(arg) => tensors[arg].clone(),
            Source::Temporary(temporary) => temporaries[temporary].clone(),
        };
        let mut values: Vec<Vec<f64>> = step.args.iter().map(source).collect();
        let spec = if at == 0 { choice.spec } else { choose(&step.kernel, &Caps::base(), Numerics::Strict).spec };
        match run(&step.kernel, &spec, &device(), &values) {
            Some(found) => values = found,
            None => return,
        }
        for (source, values) in step.args.iter().zip(values) {
            match *source {
                Source::Arg(arg) => tensors[arg] = values,
                Source::Temporary(temporary) => temporaries[temporary] = values,
            }
        }
    }
    compare(kernel, &args, &tensors, 1e-5, &format!("{choice:?}"));
}

#[test]
fn chosen_schedules_compute_the_product() {
    let devices = [Caps::base(), Caps::h200(), Caps { multiprocessors: 2, ..Caps::base() }];
    let shapes =
        [[64, 64, 64], [50, 72, 500], [129, 40, 1030], [30, 49, 700], [1, 200, 3000], [200, 1, 3000], [7, 300, 9]];
    for [m, n, k] in shapes {
        for (layout, product) in layouts(Product::new(m, n, k)).into_iter().enumerate() {
            let kernel = if layout % 2 == 0 { product.plain() } else { product.rich(false) };
            let caps = &devices[(m + layout) % 3];
            check_choice(&kernel, &choose(&kernel, caps, Numerics::Strict));
        }
    }
    for kernel in [convolution(1, 9, 20, 24, 1), convolution(2, 8, 5, 7, 2)] {
        for parts in [1, 2, 3, 5, 9] {
            let choice = choose(&kernel, &Caps::h200(), Numerics::Strict);
            check_choice(&kernel, &Choice { parts, ..choice });
        }
    }
}
