//! Contraction kernels to test with.

use meganeura_core::dtype::DType;
use meganeura_core::index::Index;
use meganeura_core::kernel::{Access, Arg, Axis, Body, Bound, Expr, ExprId, Kernel, Role, Store};
use meganeura_core::scalar::{Binary, Compare, Scalar, Unary};

pub struct Build {
    pub kernel: Kernel,
}

impl Build {
    pub fn new(axes: &[(usize, Role)]) -> Build {
        let axes = axes.iter().map(|&(extent, role)| Axis { extent, role }).collect();
        let body = Body::Loop;
        Build { kernel: Kernel { axes, args: vec![], exprs: vec![], dtypes: vec![], body, stores: vec![] } }
    }

    pub fn arg(&mut self, dtype: DType, elements: usize, access: Access) -> usize {
        self.kernel.args.push(Arg { dtype, elements, access });
        self.kernel.args.len() - 1
    }

    pub fn expr(&mut self, dtype: DType, expr: Expr) -> ExprId {
        self.kernel.exprs.push(expr);
        self.kernel.dtypes.push(dtype);
        ExprId(self.kernel.exprs.len() as u32 - 1)
    }

    pub fn load(&mut self, arg: usize, index: Index) -> ExprId {
        self.masked(arg, index, vec![])
    }

    pub fn masked(&mut self, arg: usize, index: Index, mask: Vec<Bound>) -> ExprId {
        self.expr(self.kernel.args[arg].dtype, Expr::Load { arg, index, mask })
    }

    pub fn constant(&mut self, value: f32) -> ExprId {
        self.expr(DType::F32, Expr::Const(Scalar::f32(value)))
    }

    pub fn unary(&mut self, function: Unary, a: ExprId) -> ExprId {
        self.expr(self.kernel.dtype(a), Expr::Unary(function, a))
    }

    pub fn binary(&mut self, function: Binary, a: ExprId, b: ExprId) -> ExprId {
        self.expr(self.kernel.dtype(a), Expr::Binary(function, a, b))
    }

    pub fn relu(&mut self, a: ExprId) -> ExprId {
        let zero = self.constant(0.0);
        let positive = self.expr(DType::Bool, Expr::Compare(Compare::Gt, a, zero));
        self.expr(DType::F32, Expr::Select(positive, a, zero))
    }

    pub fn contract(&mut self, lhs: ExprId, rhs: ExprId) -> ExprId {
        self.kernel.body = Body::Contract { lhs, rhs, accumulate: DType::F32 };
        self.expr(DType::F32, Expr::Acc)
    }

    pub fn store(&mut self, arg: usize, index: Index, value: ExprId) {
        self.kernel.stores.push(Store { arg, index, value, per_element: false });
    }
}

/// `Σ coordinate · stride`.
pub fn strided(terms: &[(usize, i64)]) -> Index {
    terms.iter().fold(Index::constant(0), |sum, &(axis, stride)| sum.plus(&Index::axis(axis).times(stride)))
}

/// Shape of a plain product: batch, rows, columns, depth.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    pub batch: usize,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// Whether the left operand is stored `[k, m]`.
    pub left_transposed: bool,
    /// Whether the right operand is stored `[n, k]`.
    pub right_transposed: bool,
    pub dtype: DType,
}

impl Product {
    pub fn new(m: usize, n: usize, k: usize) -> Product {
        Product { batch: 1, m, n, k, left_transposed: false, right_transposed: false, dtype: DType::F32 }
    }

    fn operands(&self) -> (Build, ExprId, ExprId) {
        let Product { batch, m, n, k, .. } = *self;
        let mut build = Build::new(&[(batch, Role::Parallel), (m, Role::Row), (n, Role::Col), (k, Role::Reduce)]);
        let a = build.arg(self.dtype, batch * m * k, Access::Read);
        let b = build.arg(self.dtype, batch * k * n, Access::Read);
        let (im, ik) = if self.left_transposed { (1, m) } else { (k, 1) };
        let (jk, jn) = if self.right_transposed { (1, k) } else { (n, 1) };
        let lhs = build.load(a, strided(&[(0, (m * k) as i64), (1, im as i64), (3, ik as i64)]));
        let rhs = build.load(b, strided(&[(0, (k * n) as i64), (2, jn as i64), (3, jk as i64)]));
        (build, lhs, rhs)
    }

    fn result(&self) -> Index {
        strided(&[(0, (self.m * self.n) as i64), (1, self.n as i64), (2, 1)])
    }

    fn elements(&self) -> usize {
        self.batch * self.m * self.n
    }

    /// `c = a · b`.
    pub fn plain(&self) -> Kernel {
        let (mut build, lhs, rhs) = self.operands();
        let acc = build.contract(lhs, rhs);
        let c = build.arg(DType::F32, self.elements(), Access::Write);
        build.store(c, self.result(), acc);
        build.kernel
    }

    /// `c = relu(relu(a) · b + bias) `, `d = a·b + bias` in f16 where `half`, stored transposed.
    pub fn rich(&self, half: bool) -> Kernel {
        let (mut build, lhs, rhs) = self.operands();
        let lhs = if self.dtype == DType::F32 { build.relu(lhs) } else { lhs };
        let acc = build.contract(lhs, rhs);
        let bias = build.arg(DType::F32, self.n, Access::Read);
        let c = build.arg(DType::F32, self.elements(), Access::ReadWrite);
        let out = if half { DType::F16 } else { DType::F32 };
        let d = build.arg(out, self.elements(), Access::Write);
        let bias = build.load(bias, Index::axis(2));
        let sum = build.binary(Binary::Add, acc, bias);
        let old = build.load(c, self.result());
        let relu = build.relu(sum);
        let new = build.binary(Binary::Sub, old, relu);
        let sum = if half { build.expr(DType::F16, Expr::Cast(sum, DType::F16)) } else { sum };
        build.store(c, self.result(), new);
        build.store(d, strided(&[(0, (self.m * self.n) as i64), (2, self.m as i64), (1, 1)]), sum);
        build.kernel
    }
}

/// A `3 × 3` convolution with padding 1 of `[image, height, width, ci]` by `[3, 3, ci, co]`, as an implicit product with
/// rows (image, y, x), columns co and depth (ky, kx, ci).
pub fn convolution(images: usize, size: usize, ci: usize, co: usize, stride: usize) -> Kernel {
    let out = (size - 1) / stride + 1;
    let mut build = Build::new(&[
        (images, Role::Row),
        (out, Role::Row),
        (out, Role::Row),
        (co, Role::Col),
        (3, Role::Reduce),
        (3, Role::Reduce),
        (ci, Role::Reduce),
    ]);
    let x = build.arg(DType::F32, images * size * size * ci, Access::Read);
    let weight = build.arg(DType::F32, 9 * ci * co, Access::Read);
    let y = build.arg(DType::F32, images * out * out * co, Access::Write);
    let row = strided(&[(1, stride as i64), (4, 1)]).shifted(-1);
    let col = strided(&[(2, stride as i64), (5, 1)]).shifted(-1);
    let pixel = Index::axis(0).times((size * size) as i64).plus(&row.times(size as i64)).plus(&col);
    let mask = vec![Bound { index: row, extent: size }, Bound { index: col, extent: size }];
    let lhs = build.masked(x, pixel.times(ci as i64).plus(&Index::axis(6)), mask);
    let (ci, co) = (ci as i64, co as i64);
    let rhs = build.load(weight, strided(&[(4, 3 * ci * co), (5, ci * co), (6, co), (3, 1)]));
    let acc = build.contract(lhs, rhs);
    let out = out as i64;
    build.store(y, strided(&[(0, out * out * co), (1, out * co), (2, co), (3, 1)]), acc);
    build.kernel
}
