//! A tiny harness: builds kernels by hand, prints them, translates them with naga, runs them on an adapter, and compares
//! with the interpreter.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

use meganeura_core::dtype::DType;
use meganeura_core::index::{ExprId, Index};
use meganeura_core::kernel::{Access, Arg, Axis, Body, Bound, Expr, Kernel, Role, Store, interp};
use meganeura_core::scalar::{Binary, Compare, Monoid, Scalar, Unary};
use meganeura_core::schedule::{Caps, Spec};
use meganeura_wgpu::wgsl::{Module, print};

pub mod gpu;
pub mod translate;

/// A kernel in the making.
pub struct Build(pub Kernel);

impl Build {
    pub fn new(parallel: &[usize], reduce: &[usize]) -> Build {
        let axis = |role: Role| move |&extent: &usize| Axis { extent, role };
        let axes = parallel.iter().map(axis(Role::Parallel)).chain(reduce.iter().map(axis(Role::Reduce))).collect();
        Build(Kernel { axes, args: vec![], exprs: vec![], dtypes: vec![], body: Body::Loop, stores: vec![] })
    }

    pub fn arg(&mut self, dtype: DType, elements: usize, access: Access) -> usize {
        self.0.args.push(Arg { dtype, elements, access });
        self.0.args.len() - 1
    }

    pub fn read(&mut self, dtype: DType, elements: usize) -> usize {
        self.arg(dtype, elements, Access::Read)
    }

    pub fn push(&mut self, expr: Expr, dtype: DType) -> ExprId {
        self.0.exprs.push(expr);
        self.0.dtypes.push(dtype);
        ExprId(self.0.exprs.len() as u32 - 1)
    }

    pub fn load(&mut self, arg: usize, index: Index) -> ExprId {
        self.load_masked(arg, index, vec![])
    }

    pub fn load_masked(&mut self, arg: usize, index: Index, mask: Vec<Bound>) -> ExprId {
        let dtype = self.0.args[arg].dtype;
        self.push(Expr::Load { arg, index, mask }, dtype)
    }

    pub fn constant(&mut self, dtype: DType, value: f64) -> ExprId {
        self.push(Expr::Const(Scalar::new(dtype, value)), dtype)
    }

    pub fn unary(&mut self, function: Unary, a: ExprId) -> ExprId {
        let dtype = self.0.dtype(a);
        self.push(Expr::Unary(function, a), dtype)
    }

    pub fn binary(&mut self, function: Binary, a: ExprId, b: ExprId) -> ExprId {
        let dtype = self.0.dtype(a);
        self.push(Expr::Binary(function, a, b), dtype)
    }

    pub fn compare(&mut self, relation: Compare, a: ExprId, b: ExprId) -> ExprId {
        self.push(Expr::Compare(relation, a, b), DType::Bool)
    }

    pub fn cast(&mut self, a: ExprId, to: DType) -> ExprId {
        self.push(Expr::Cast(a, to), to)
    }

    pub fn reduce(&mut self, monoid: Monoid, a: ExprId) -> ExprId {
        let dtype = self.0.dtype(a);
        self.push(Expr::Reduce(monoid, a), dtype)
    }

    /// Stores to a new argument of `elements` elements.
    pub fn store(&mut self, elements: usize, index: Index, value: ExprId, per_element: bool) -> usize {
        let arg = self.arg(self.0.dtype(value), elements, Access::Write);
        self.store_to(arg, index, value, per_element);
        arg
    }

    pub fn store_to(&mut self, arg: usize, index: Index, value: ExprId, per_element: bool) {
        self.0.stores.push(Store { arg, index, value, per_element });
    }

    /// The row-major index over all axes.
    pub fn linear(&self) -> Index {
        let extents = self.0.extents();
        let coords: Vec<Index> = (0..extents.len()).map(Index::axis).collect();
        meganeura_core::index::flatten(&coords, &extents.as_slice().into())
    }
}

/// How far a float may be from the interpreter's.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    pub relative: f64,
    pub absolute: f64,
}

pub const EXACT: Tolerance = Tolerance { relative: 0.0, absolute: 0.0 };

pub fn tolerance(relative: f64, absolute: f64) -> Tolerance {
    Tolerance { relative, absolute }
}

/// Prints with one binding an argument.
pub fn print_plain(kernel: &Kernel, spec: &Spec, caps: &Caps) -> Module {
    let writable: Vec<bool> = kernel.args.iter().map(|arg| arg.access != Access::Read).collect();
    let arg_binding: Vec<usize> = (0..kernel.args.len()).collect();
    let module = print(kernel, spec, &writable, &arg_binding, caps).unwrap();
    assert_eq!(module, print(kernel, spec, &writable, &arg_binding, caps).unwrap(), "W2: the text varies");
    translate::check(&module);
    module
}

/// Prints, translates, runs and compares with the interpreter; `inputs` are the contents of all arguments before.
pub fn check(kernel: &Kernel, spec: &Spec, inputs: &[Vec<f64>], allowed: Tolerance) {
    check_with(kernel, spec, &Caps { f16: true, ..Caps::base() }, inputs, allowed);
}

pub fn check_with(kernel: &Kernel, spec: &Spec, caps: &Caps, inputs: &[Vec<f64>], allowed: Tolerance) {
    let rounded = |(arg, values): (&Arg, &Vec<f64>)| values.iter().map(|&value| arg.dtype.round(value)).collect();
    let inputs: Vec<Vec<f64>> = kernel.args.iter().zip(inputs).map(rounded).collect();
    let mut expected = inputs.clone();
    interp(kernel, &mut expected).unwrap();
    let module = print_plain(kernel, spec, caps);
    let Some(gpu) = gpu::device() else { return };
    if module.needs.f16 && !gpu.f16 {
        eprintln!("skipped: the adapter has no f16");
        return;
    }
    for checked in [true, false] {
        let found = gpu.run(kernel, &module, &inputs, checked);
        compare(kernel, &module, &found, &expected, allowed);
    }
}

fn compare(kernel: &Kernel, module: &Module, found: &[Vec<f64>], expected: &[Vec<f64>], allowed: Tolerance) {
    for (arg, declared) in kernel.args.iter().enumerate() {
        for (at, (&found, &exact)) in found[arg].iter().zip(&expected[arg]).enumerate() {
            let rounded = declared.dtype.round(exact);
            let near = if declared.dtype.is_float() && exact.is_finite() && rounded.is_finite() {
                (found - exact).abs()
                    <= allowed.absolute.max(allowed.relative * exact.abs()).max((rounded - exact).abs())
            } else {
                found == rounded || found.is_nan() && rounded.is_nan()
            };
            assert!(near, "argument {arg} at {at}: {found} instead of {exact}\n{}", module.source);
        }
    }
}

/// Deterministic values in `[-scale, scale]`, all different in practice.
pub fn noise(elements: usize, seed: u32, scale: f64) -> Vec<f64> {
    let word = |at: u32| meganeura_core::kernel::threefry([seed, 0], [at, 0])[0];
    (0..elements as u32).map(|at| (f64::from(word(at)) / f64::from(u32::MAX) * 2.0 - 1.0) * scale).collect()
}
