//! Products of strided matrices in memory.

use super::buffer::{Outside, View};
use crate::dtype::DType;
use crate::scalar::Binary;
use std::marker::PhantomData;

/// Elements along each side of a tile that is transposed at once: a cache line.
const TILE: usize = 16;

/// A matrix of 32-bit elements somewhere in memory; all of its elements are inside what it was made from.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    start: *mut f32,
    pub(super) shape: [usize; 2],
    strides: [i64; 2],
    memory: PhantomData<&'a [f32]>,
}

// SAFETY: a matrix is a checked range of memory that is borrowed for its lifetime; only `multiply`'s result is written,
// and no two threads have the same result.
unsafe impl Send for Matrix<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for Matrix<'_> {}

impl<'a> Matrix<'a> {
    /// The elements `base + row · strides[0] + col · strides[1]` of a tensor of 32-bit elements.
    pub(super) fn of_view(
        view: &View<'a>,
        base: i64,
        shape: [usize; 2],
        strides: [i64; 2],
    ) -> Result<Matrix<'a>, Outside> {
        Ok(Matrix { start: view.matrix(base, shape, strides)?, shape, strides, memory: PhantomData })
    }

    /// A matrix in packed words that is only read: one of its strides is 1, the other the length of its lines.
    pub(super) fn of_words(words: &'a [u32], shape: [usize; 2], row_major: bool) -> Matrix<'a> {
        let shape = fit(words.len(), shape);
        let strides = if row_major { [shape[1] as i64, 1] } else { [1, shape[0] as i64] };
        Matrix { start: words.as_ptr().cast::<f32>().cast_mut(), shape, strides, memory: PhantomData }
    }

    /// A row-major matrix in words that a product is written to.
    pub(super) fn of_words_mut(words: &'a mut [u32], shape: [usize; 2]) -> Matrix<'a> {
        let shape = fit(words.len(), shape);
        Matrix { start: words.as_mut_ptr().cast(), shape, strides: [shape[1] as i64, 1], memory: PhantomData }
    }

    /// The rows from `first` on, `count` of them.
    pub(super) fn rows(self, first: usize, count: usize) -> Matrix<'a> {
        let first = first.min(self.shape[0]);
        let count = count.min(self.shape[0] - first);
        let start = self.start.wrapping_offset(self.strides[0] as isize * first as isize);
        Matrix { start, shape: [count, self.shape[1]], ..self }
    }

    /// Rows and columns exchanged.
    pub(super) fn transposed(self) -> Matrix<'a> {
        let ([rows, cols], [down, right]) = (self.shape, self.strides);
        Matrix { shape: [cols, rows], strides: [right, down], ..self }
    }

    /// Whether neighbouring rows are neighbours in memory, as a product wants its operands' free dimensions.
    pub(super) fn is_row_contiguous(&self) -> bool {
        self.strides[0] == 1 || self.shape[0] <= 1
    }

    /// Copies the columns from `first` on into lines of `to`, one line a column, so that rows become contiguous.
    ///
    /// The product's own packing copies such an operand element by element: 128 × 784 times 784 × 256 with the depth
    /// contiguous took 2.0 ms without this copy and 1.0 ms with it, measured on one core.
    /// A tile's rows are read once, whole, as rows whose distance is a power of two evict each other from the cache.
    pub(super) fn copy_columns(&self, first: usize, to: &mut [u32]) {
        let [rows, cols] = self.shape;
        let count = (to.len() / rows.max(1)).min(cols.saturating_sub(first));
        let mut tile = [[0_u32; TILE]; TILE];
        for row in (0..rows).step_by(TILE) {
            let height = (rows - row).min(TILE);
            for col in (0..count).step_by(TILE) {
                let width = (count - col).min(TILE);
                for (down, line) in tile[..height].iter_mut().enumerate() {
                    for (right, element) in line[..width].iter_mut().enumerate() {
                        // SAFETY: in bounds, as rows and columns are below the shape, and nobody writes an operand.
                        *element = unsafe { self.at(row + down, first + col + right).cast::<u32>().read() };
                    }
                }
                for right in 0..width {
                    let line = &mut to[(col + right) * rows + row..][..height];
                    line.iter_mut().zip(&tile).for_each(|(to, line)| *to = line[right]);
                }
            }
        }
    }

    fn at(&self, row: usize, col: usize) -> *mut f32 {
        let [down, right] = self.strides.map(|stride| stride as isize);
        self.start.wrapping_offset(row as isize * down + col as isize * right)
    }
}

/// A shape that has no more elements than there are words.
fn fit(words: usize, shape: [usize; 2]) -> [usize; 2] {
    debug_assert!(shape[0] * shape[1] <= words);
    if shape[0] * shape[1] <= words { shape } else { [0, 0] }
}

/// `out = lhs · rhs` of shapes `[m, k] × [k, n] → [m, n]`; `out` must overlap nothing that another thread touches.
pub(super) fn multiply(accumulate: DType, lhs: Matrix<'_>, rhs: Matrix<'_>, out: Matrix<'_>) {
    let m = lhs.shape[0].min(out.shape[0]);
    let n = rhs.shape[1].min(out.shape[1]);
    let k = lhs.shape[1].min(rhs.shape[0]);
    if !accumulate.is_float() || k == 0 {
        return multiply_words(accumulate, [m, n, k], lhs, rhs, out);
    }
    if n == 1 && multiply_vector([m, k], lhs, rhs, out) {
        return;
    }
    if m == 1 && multiply_vector([n, k], rhs.transposed(), lhs.transposed(), out.transposed()) {
        return;
    }
    let stride = |matrix: &Matrix<'_>| matrix.strides.map(|stride| stride as isize);
    let ([lhs_down, lhs_right], [rhs_down, rhs_right]) = (stride(&lhs), stride(&rhs));
    let [out_down, out_right] = stride(&out);
    // SAFETY: m, n and k are within the matrices' shapes, and these within memory.
    unsafe {
        matrixmultiply::sgemm(
            m, k, n, 1.0, lhs.start, lhs_down, lhs_right, rhs.start, rhs_down, rhs_right, 0.0, out.start, out_down,
            out_right,
        );
    }
}

/// Matrix times vector, read once and without packing; false if the matrix is contiguous along neither dimension.
fn multiply_vector([m, k]: [usize; 2], matrix: Matrix<'_>, vector: Matrix<'_>, out: Matrix<'_>) -> bool {
    // SAFETY: in bounds, as k is within the vector's shape.
    let vector: Vec<f32> = (0..k).map(|depth| unsafe { vector.at(depth, 0).read() }).collect();
    let [down, right] = matrix.strides;
    if right == 1 {
        for row in 0..m {
            // SAFETY: the row is inside the matrix, and nobody writes an operand while it is used.
            let line = unsafe { std::slice::from_raw_parts(matrix.at(row, 0).cast_const(), k) };
            // SAFETY: in bounds, as m is within the result's shape.
            unsafe { out.at(row, 0).write(dot(line, &vector)) };
        }
        return true;
    }
    if down != 1 {
        return false;
    }
    let mut sums = vec![0.0_f32; m.min(4096)];
    for first in (0..m).step_by(sums.len().max(1)) {
        let sums = &mut sums[..(m - first).min(4096)];
        sums.fill(0.0);
        let length = sums.len();
        let line = |depth: usize| {
            // SAFETY: this part of the column is inside the matrix, and nobody writes an operand while it is used.
            unsafe { std::slice::from_raw_parts(matrix.at(first, depth).cast_const(), length) }
        };
        // Four columns at a time, so that four streams of memory are under way.
        let (groups, rest) = vector.as_chunks::<4>();
        for (group, factors) in groups.iter().enumerate() {
            let [a, b, c, d] = [0, 1, 2, 3].map(|at| line(4 * group + at));
            for (at, sum) in sums.iter_mut().enumerate() {
                *sum += (factors[0] * a[at] + factors[1] * b[at]) + (factors[2] * c[at] + factors[3] * d[at]);
            }
        }
        for (at, factor) in rest.iter().enumerate() {
            let line = line(4 * groups.len() + at);
            sums.iter_mut().zip(line).for_each(|(sum, &x)| *sum += factor * x);
        }
        for (row, &sum) in sums.iter().enumerate() {
            // SAFETY: in bounds, as m is within the result's shape.
            unsafe { out.at(first + row, 0).write(sum) };
        }
    }
    true
}

/// Sum of products in 16 interleaved partial sums, added in order.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut partials = [0.0_f32; 16];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    for (a, b) in a.iter().zip(b) {
        for ((partial, a), b) in partials.iter_mut().zip(a).zip(b) {
            *partial += a * b;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    partials.iter().sum::<f32>() + rest
}

/// Products of integers, which wrap; also the products of nothing, which are zero for every type.
fn multiply_words(accumulate: DType, [m, n, k]: [usize; 3], lhs: Matrix<'_>, rhs: Matrix<'_>, out: Matrix<'_>) {
    let read = |matrix: &Matrix<'_>, row, col| {
        // SAFETY: callers stay within the matrices' shapes.
        unsafe { matrix.at(row, col).cast::<u32>().read() }
    };
    let words = if accumulate == DType::Bool { 1 } else { u32::MAX };
    for row in 0..m {
        for col in 0..n {
            let products = (0..k).map(|depth| read(&lhs, row, depth).wrapping_mul(read(&rhs, depth, col)));
            let sum = products.fold(0, |sum, product| Binary::Add.eval_u32(sum, product) & words);
            // SAFETY: in bounds, as m and n are within the result's shape.
            unsafe { out.at(row, col).cast::<u32>().write(sum) };
        }
    }
}
