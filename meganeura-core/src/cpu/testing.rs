//! Makes kernels for tests and runs them.

use super::lanes::{decode, encode};
use super::{Buffer, Executor, RunError};
use crate::dtype::DType;
use crate::fuse::Provenance;
use crate::index::Index;
use crate::kernel::{Access, Arg, Axis, Body, Bound, Expr, ExprId, Kernel, Role, Store, interp, verify};
use crate::memory::{self, Binding, Dispatch, Owner, Place, Plan};
use crate::schedule::Spec;
use std::sync::Arc;

/// Numbers that look random: the steps of a linear congruential generator (Knuth's MMIX constants).
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn value(&mut self, dtype: DType) -> f64 {
        match dtype {
            DType::F32 | DType::F16 => (self.below(4001) as f64 - 2000.0) / 1024.0,
            DType::U32 => self.below(50) as f64,
            DType::I32 => self.below(100) as f64 - 50.0,
            DType::Bool => self.below(2) as f64,
        }
    }
}

/// Builds kernels expression by expression.
#[derive(Clone)]
pub(super) struct Builder {
    pub(super) kernel: Kernel,
}

impl Builder {
    pub(super) fn new(axes: &[(usize, Role)]) -> Builder {
        let axes = axes.iter().map(|&(extent, role)| Axis { extent, role }).collect();
        let (args, exprs, dtypes, stores) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Builder { kernel: Kernel { axes, args, exprs, dtypes, body: Body::Loop, stores } }
    }

    pub(super) fn arg(&mut self, dtype: DType, elements: usize, access: Access) -> usize {
        self.kernel.args.push(Arg { dtype, elements, access });
        self.kernel.args.len() - 1
    }

    pub(super) fn push(&mut self, dtype: DType, expr: Expr) -> ExprId {
        self.kernel.exprs.push(expr);
        self.kernel.dtypes.push(dtype);
        ExprId(self.kernel.exprs.len() as u32 - 1)
    }

    pub(super) fn load(&mut self, dtype: DType, elements: usize, index: Index) -> ExprId {
        self.load_where(dtype, elements, index, Vec::new())
    }

    pub(super) fn load_where(&mut self, dtype: DType, elements: usize, index: Index, mask: Vec<Bound>) -> ExprId {
        let arg = self.arg(dtype, elements, Access::Read);
        self.push(dtype, Expr::Load { arg, index, mask })
    }

    pub(super) fn store(&mut self, elements: usize, index: Index, value: ExprId, per_element: bool) {
        let arg = self.arg(self.kernel.dtype(value), elements, Access::Write);
        self.kernel.stores.push(Store { arg, index, value, per_element });
    }
}

/// A plan of one dispatch whose arguments have a buffer each.
pub(super) fn plan_of(kernel: &Kernel) -> Plan {
    let bytes = |arg: &Arg| (arg.elements * arg.dtype.bytes()).next_multiple_of(4).max(4);
    let buffers = kernel.args.iter().map(|arg| memory::Buffer { bytes: bytes(arg), owner: Owner::Scratch }).collect();
    let bindings = kernel.args.iter().enumerate().map(|(buffer, arg)| Binding {
        place: Place { buffer, offset: 0, bytes: bytes(arg) },
        writable: arg.access != Access::Read,
    });
    let dispatch = Dispatch {
        kernel: 0,
        spec: Spec::Map { threads: 64, per_thread: 1 },
        bindings: bindings.collect(),
        arg_binding: (0..kernel.args.len()).collect(),
        group: 0,
        label: "test".into(),
        provenance: Provenance::default(),
    };
    let (inputs, outputs, states) = (Vec::new(), Vec::new(), Vec::new());
    Plan { kernels: vec![kernel.clone()], buffers, dispatches: vec![dispatch], inputs, outputs, states }
}

fn write(buffer: &Buffer, dtype: DType, values: &[f64]) {
    let bytes: Vec<u8> = match dtype {
        DType::F16 => values.iter().flat_map(|&x| half::f16::from_f64(x).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|&x| encode(dtype, x).to_le_bytes()).collect(),
    };
    buffer.write(0, &bytes).unwrap();
}

fn read(buffer: &Buffer, dtype: DType, elements: usize) -> Vec<f64> {
    let mut bytes = vec![0; elements * dtype.bytes()];
    buffer.read(0, &mut bytes).unwrap();
    match dtype {
        DType::F16 => bytes.as_chunks().0.iter().map(|&word| half::f16::from_le_bytes(word).to_f64()).collect(),
        _ => bytes.as_chunks().0.iter().map(|&word| decode(dtype, u32::from_le_bytes(word))).collect(),
    }
}

pub(super) fn execute(kernel: &Kernel, args: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, RunError> {
    let executor = Executor::new(Arc::new(plan_of(kernel)));
    let buffers: Vec<Buffer> = executor.plan().buffers.iter().map(|buffer| Buffer::zeroed(buffer.bytes)).collect();
    for ((buffer, arg), values) in buffers.iter().zip(&kernel.args).zip(args) {
        write(buffer, arg.dtype, values);
    }
    executor.run(&buffers)?;
    Ok(buffers.iter().zip(&kernel.args).map(|(buffer, arg)| read(buffer, arg.dtype, arg.elements)).collect())
}

fn arguments(kernel: &Kernel, numbers: &mut Numbers) -> Vec<Vec<f64>> {
    let values = |arg: &Arg, numbers: &mut Numbers| match arg.access {
        Access::Write => vec![0.0; arg.elements],
        _ => (0..arg.elements).map(|_| arg.dtype.round(numbers.value(arg.dtype))).collect(),
    };
    kernel.args.iter().map(|arg| values(arg, numbers)).collect()
}

/// Runs a kernel on 1 and on 4 threads: the bits must agree, and the values be those of `interp` to `tolerance`,
/// relative to the largest value of each result (f16 results: half a unit of their last place besides).
pub(super) fn check(kernel: &Kernel, numbers: &mut Numbers, tolerance: f64) {
    verify(kernel).unwrap();
    let mut args = arguments(kernel, numbers);
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let results = pool(1).install(|| execute(kernel, &args)).unwrap();
    let again = pool(4).install(|| execute(kernel, &args)).unwrap();
    interp(kernel, &mut args).unwrap();
    for (at, ((found, again), expected)) in results.iter().zip(&again).zip(&args).enumerate() {
        let bits = |values: &[f64]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(found), bits(again), "argument {at} depends on the number of threads");
        let scale = expected.iter().filter(|x| x.is_finite()).fold(1.0_f64, |scale, x| scale.max(x.abs()));
        let slack = match kernel.args[at].dtype {
            DType::F32 => tolerance * scale,
            DType::F16 => (tolerance + 2.0_f64.powi(-10)) * scale,
            _ => 0.0,
        };
        for (point, (&found, &expected)) in found.iter().zip(expected).enumerate() {
            let close = (found - expected).abs() <= slack || found == expected;
            assert!(close || found.is_nan() && expected.is_nan(), "{at}[{point}] is {found}, not {expected}\n{kernel}");
        }
    }
}
