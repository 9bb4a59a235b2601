//! What a kernel costs at least: arithmetic and memory traffic, from its description alone.
//!
//! The figures are what the kernel's definition asks for, not what a schedule does: tiles that reload an operand, caches
//! and rounding up to whole workgroups are not in it. A time over these figures is hence the rate of *useful* work, and
//! its share of what the device can do at most is what a better schedule could gain.

use crate::dtype::DType;
use crate::index::Index;
use crate::kernel::{Access, Body, Expr, ExprId, Kernel, Role, Store, Stream};
use std::collections::HashMap;

/// Work of one run of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cost {
    /// Floating-point operations: additions, multiplications, comparisons and functions count 1 each, a step of a
    /// contraction's sum 2. Selections, conversions and integer arithmetic count nothing.
    pub flops: u64,
    /// Bytes of the distinct elements that are loaded; an upper bound where indices are computed.
    pub bytes_read: u64,
    /// Bytes of the distinct elements that are stored.
    pub bytes_written: u64,
}

impl Cost {
    /// The cost of one run of a kernel.
    pub fn of(kernel: &Kernel) -> Cost {
        if kernel.is_idle() {
            return Cost::default();
        }
        let [bytes_read, bytes_written] = [Access::Read, Access::Write].map(|side| bytes(kernel, side));
        Cost { flops: flops(kernel), bytes_read, bytes_written }
    }

    /// Bytes that pass between memory and the device's processors.
    pub fn bytes(&self) -> u64 {
        self.bytes_read + self.bytes_written
    }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.flops += other.flops;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
    }
}

impl std::iter::Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        costs.fold(Cost::default(), |mut sum, cost| {
            sum += cost;
            sum
        })
    }
}

fn flops(kernel: &Kernel) -> u64 {
    let points = |roles: &[Role]| roles.iter().map(|&role| kernel.points(role) as u64).product::<u64>();
    let mut total = 0;
    let folds = match &kernel.body {
        Body::Loop => varying(kernel, &kernel.varies_in_row(), &mut total),
        Body::Stream(stream) => return streamed(kernel, stream),
        &Body::Contract { lhs, rhs, .. } => {
            total += 2 * points(&[Role::Parallel, Role::Row, Role::Col, Role::Reduce]);
            // Work on an operand counts once for each of its elements.
            let sides = [(lhs, Role::Row), (rhs, Role::Col)];
            for (operand, side) in sides {
                total += arithmetic(kernel, &kernel.needed_for(&[operand], true))
                    * points(&[Role::Parallel, side, Role::Reduce]);
            }
            vec![]
        }
    };
    let per_result = if kernel.is_contraction() { stored(kernel) } else { folds };
    total + arithmetic(kernel, &per_result) * points(&[Role::Parallel, Role::Row, Role::Col])
}

/// Products, what is done at each pair of a row and an element that counts for it, and what the stores need besides. Lengths are not
/// known: they count as if all keys were there.
fn streamed(kernel: &Kernel, stream: &Stream) -> u64 {
    let extent = |axis: Option<usize>| axis.map_or(1, |axis| kernel.axes[axis].extent as u64);
    let scores: u64 = stream.scores.iter().map(|score| 2 * extent(Some(score.depth))).sum();
    let totals: u64 = (0..stream.totals.len()).map(|total| 2 * extent(stream.column(kernel, total))).sum();
    let weights: Vec<ExprId> = stream.totals.iter().map(|total| total.weight).chain(stream.peak).collect();
    // A peak is a comparison more.
    let each = arithmetic(kernel, &kernel.needed_for(&weights, true)) + u64::from(stream.peak.is_some());
    let pairs = kernel.points(Role::Parallel) as u64 * stream.pairs(kernel);
    let results: u64 = kernel.stores.iter().map(|store| stored_by(kernel, store)).sum();
    pairs * (scores + totals + each) + results
}

/// The arithmetic of one store, at each of its points.
fn stored_by(kernel: &Kernel, store: &Store) -> u64 {
    let needed = kernel.needed_for(&[store.value], true);
    let varying = |axis: &usize| varies(kernel, &store.index, *axis);
    let points: u64 = (0..kernel.axes.len()).filter(varying).map(|axis| kernel.axes[axis].extent as u64).product();
    arithmetic(kernel, &needed) * points
}

/// Adds what is computed at each element of the rows to `total`; the expressions that are computed once a row.
fn varying(kernel: &Kernel, varies: &[bool], total: &mut u64) -> Vec<ExprId> {
    let elements: u64 = kernel.axes.iter().map(|axis| axis.extent as u64).product();
    let ids = (0..kernel.exprs.len() as u32).map(ExprId);
    let folds = |id: &ExprId| matches!(kernel.expr(*id), Expr::Reduce(..));
    // A fold combines once for each element, though its value is one a row.
    let (inner, outer): (Vec<ExprId>, Vec<ExprId>) = ids.partition(|id| varies[id.0 as usize] || folds(id));
    *total += arithmetic(kernel, &inner) * elements;
    outer
}

/// What a contraction's stores need besides its operands.
fn stored(kernel: &Kernel) -> Vec<ExprId> {
    let roots: Vec<ExprId> =
        kernel.stores.iter().flat_map(|store| store.index.values().into_iter().chain([store.value])).collect();
    kernel.needed_for(&roots, true)
}

/// How many of some expressions are floating-point arithmetic.
fn arithmetic(kernel: &Kernel, exprs: &[ExprId]) -> u64 {
    let counts = |&&id: &&ExprId| match kernel.expr(id) {
        Expr::Unary(..) | Expr::Binary(..) | Expr::Reduce(..) => kernel.dtype(id).is_float(),
        Expr::Compare(_, a, _) => kernel.dtype(*a).is_float(),
        Expr::Const(_) | Expr::Load { .. } | Expr::Index(_) | Expr::Within(_) | Expr::Select(..) => false,
        Expr::Cast(..) | Expr::Bitcast(..) | Expr::Random { .. } | Expr::Acc => false,
        Expr::Score(_) | Expr::Peak | Expr::Total(_) => false,
    };
    exprs.iter().filter(counts).count() as u64
}

/// Bytes loaded or stored: for each argument the distinct elements that its accesses touch.
fn bytes(kernel: &Kernel, side: Access) -> u64 {
    let mut accesses: Vec<(usize, &Index)> = Vec::new();
    if side == Access::Read {
        accesses.extend(kernel.exprs.iter().filter_map(|expr| match expr {
            Expr::Load { arg, index, .. } => Some((*arg, index)),
            _ => None,
        }));
    } else {
        accesses.extend(kernel.stores.iter().map(|store| (store.arg, &store.index)));
    }
    accesses.sort_unstable();
    accesses.dedup();
    let mut touched: HashMap<usize, u64> = HashMap::new();
    for (arg, index) in accesses {
        *touched.entry(arg).or_default() += distinct(kernel, index);
    }
    let of_arg = |(arg, touched): (usize, u64)| {
        let dtype: DType = kernel.args[arg].dtype;
        touched.min(kernel.args[arg].elements as u64) * dtype.bytes() as u64
    };
    touched.into_iter().map(of_arg).sum()
}

/// The most elements that an index can reach: no more than it has points to vary over, and than its range has elements.
fn distinct(kernel: &Kernel, index: &Index) -> u64 {
    let axes: Vec<usize> = (0..kernel.axes.len()).filter(|&axis| varies(kernel, index, axis)).collect();
    let points: u64 = axes.iter().map(|&axis| kernel.axes[axis].extent as u64).product();
    match index.range(&kernel.extents()) {
        Some((low, high)) => points.min((high - low).unsigned_abs() + 1),
        None => points,
    }
}

fn varies(kernel: &Kernel, index: &Index, axis: usize) -> bool {
    let computed = || {
        let varying = kernel.varies_with(&[axis]);
        index.values().iter().any(|id| varying[id.0 as usize])
    };
    index.uses_axis(axis) || (!index.values().is_empty() && computed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::AttentionOptions;
    use crate::ir::{Builder, Graph};
    use crate::memory::Dispatch;
    use crate::options::Options;
    use crate::pipeline::compile;
    use crate::schedule::Caps;
    use crate::shape::TensorType;

    /// The cost of a graph that is one kernel.
    fn cost(graph: &Graph) -> Cost {
        let program = compile(graph, &Options::default(), &Caps::cpu(1), None).unwrap();
        assert_eq!(program.plan.kernels.len(), 1, "{:?}", program.plan.kernels);
        Cost::of(&program.plan.kernels[0])
    }

    fn built(build: impl for<'g> FnOnce(&'g Builder)) -> Graph {
        let builder = Builder::new();
        build(&builder);
        builder.finish().unwrap()
    }

    fn f32s<const N: usize>(shape: [usize; N]) -> TensorType {
        TensorType::new(DType::F32, shape)
    }

    #[test]
    fn a_product_with_an_epilogue() {
        let graph = built(|g| {
            let product = g.input("a", f32s([30, 50])).matmul(g.input("b", f32s([50, 70])));
            g.output("y", (product + g.input("bias", f32s([70]))).relu());
        });
        let (read, written) = (4 * (30 * 50 + 50 * 70 + 70), 4 * 30 * 70);
        let flops = 2 * 30 * 50 * 70 + 2 * 30 * 70;
        assert_eq!(cost(&graph), Cost { flops, bytes_read: read, bytes_written: written });
    }

    #[test]
    fn a_chain_reads_each_element_once_and_a_broadcast_one_row() {
        let graph = built(|g| {
            let x = g.input("x", f32s([64, 100]));
            g.output("y", (x * x + g.input("row", f32s([100]))).exp());
        });
        let expected = Cost { flops: 3 * 6400, bytes_read: 4 * 6500, bytes_written: 4 * 6400 };
        assert_eq!(cost(&graph), expected);
    }

    #[test]
    fn a_softmax_reads_its_rows_once_however_many_passes_it_takes() {
        let graph = built(|g| g.output("y", g.input("x", f32s([32, 1000])).softmax(1)));
        let cost = cost(&graph);
        assert_eq!((cost.bytes_read, cost.bytes_written), (4 * 32_000, 4 * 32_000));
        // Maximum, difference, exponential, sum, quotient; the same bounds hold if the quotient is a product.
        assert!((5 * 32_000..=7 * 32_000).contains(&cost.flops), "{cost:?}");
    }

    #[test]
    fn a_slice_is_charged_for_what_it_takes_and_a_gather_for_what_it_can_take_at_most() {
        let graph = built(|g| g.output("y", g.input("x", f32s([1000, 8])).slice([10, 0], [10, 8]) * 2.0));
        assert_eq!(cost(&graph).bytes_read, 4 * 80);
        let graph = built(|g| {
            let ids = g.input("ids", TensorType::new(DType::U32, [12]));
            g.output("y", g.input("table", f32s([1000, 8])).gather(ids, 0));
        });
        assert_eq!(cost(&graph).bytes_read, 4 * 12 + 4 * 12 * 8);
    }

    /// Batch, heads, heads of key and value, queries, keys, width, width of values.
    const ATTENTION: [usize; 7] = [2, 6, 3, 33, 50, 16, 8];

    fn attention(g: &Builder, options: AttentionOptions<'_>) -> [u64; 3] {
        let [b, h, kv, queries, keys, width, out] = ATTENTION;
        let q = g.input("q", f32s([b, h, queries, width]));
        let k = g.input("k", f32s([b, kv, keys, width]));
        let v = g.input("v", f32s([b, kv, keys, out]));
        let y = q.attention(k, v, options);
        g.output("y", y);
        let loss = (y * y).mean_all();
        for (name, gradient) in ["dq", "dk", "dv"].iter().zip(g.gradients(loss, &[q, k, v])) {
            g.output(*name, gradient);
        }
        [b * h * queries * keys, width, out].map(|number| number as u64)
    }

    /// The costs of a graph's streams, in order.
    fn streams(graph: &Graph, caps: &Caps) -> Vec<Cost> {
        let plan = compile(graph, &Options::default(), caps, None).unwrap().plan;
        let of = |dispatch: &Dispatch| {
            let kernel = &plan.kernels[dispatch.kernel];
            assert_eq!(dispatch.family(kernel) == "stream", kernel.stream().is_some(), "{}", dispatch.label);
            kernel.stream().is_some().then(|| Cost::of(kernel))
        };
        plan.dispatches.iter().filter_map(of).collect()
    }

    #[test]
    fn attention_is_charged_for_its_products_and_what_it_reads_and_writes_once() {
        let [b, h, kv, queries, keys, width, out] = ATTENTION.map(|extent| extent as u64);
        let mut sizes = [0; 3];
        let graph = built(|g| sizes = attention(g, AttentionOptions::default()));
        let [pairs, ..] = sizes;
        for caps in [Caps::cpu(1), Caps::base()] {
            let streams = streams(&graph, &caps);
            assert_eq!(streams.len(), 3, "the output, the gradient of the query, that of key and value");
            // Products, and between them a handful of scalar operations for each pair.
            let products = [width + out, 2 * width + out, 2 * width + 2 * out].map(|each| 2 * each * pairs);
            for (cost, products) in streams.iter().zip(products) {
                assert!((products..=products + 12 * pairs).contains(&cost.flops), "{cost:?}: products are {products}");
            }
            let [q, k, v, y] = [h * queries * width, kv * keys * width, kv * keys * out, h * queries * out];
            let row = h * queries;
            let bytes = |elements: u64| 4 * b * elements;
            assert_eq!(streams[0].bytes_read, bytes(q + k + v));
            assert_eq!(streams[0].bytes_written, bytes(y + row), "the result, and the log-sum-exp of each row");
            assert_eq!(streams[1].bytes_written, bytes(q));
            // The heads that share a key are added up afterwards.
            assert!(streams[2].bytes_written >= bytes(k + v), "{:?}", streams[2]);
        }
    }

    #[test]
    fn attention_is_charged_for_the_keys_that_queries_see() {
        let flops = |options: AttentionOptions<'static>| {
            let graph = built(|g| {
                attention(g, options);
            });
            streams(&graph, &Caps::base()).iter().map(|cost| cost.flops).collect::<Vec<_>>()
        };
        let all = flops(AttentionOptions::default());
        let share =
            |part: &[u64]| part.iter().zip(&all).map(|(&part, &all)| part as f64 / all as f64).collect::<Vec<_>>();
        let [_, _, _, queries, keys, ..] = ATTENTION;
        // The last query sees all keys, each before it one less.
        let seen = (0..queries).map(|query| keys - query).sum::<usize>() as f64 / (queries * keys) as f64;
        let causal = flops(AttentionOptions { causal: true, ..AttentionOptions::default() });
        assert!(share(&causal).iter().all(|share| (share - seen).abs() < 0.02), "{:?}, not {seen}", share(&causal));
        let window = flops(AttentionOptions { causal: true, window: Some(5), ..AttentionOptions::default() });
        let seen = 5.0 / keys as f64;
        assert!(share(&window).iter().all(|share| (share - seen).abs() < 0.02), "{:?}, not {seen}", share(&window));
    }

    #[test]
    fn integers_and_nothing_cost_no_arithmetic() {
        let graph = built(|g| {
            let x = g.input("x", TensorType::new(DType::U32, [77]));
            g.output("y", x + x);
        });
        assert_eq!(cost(&graph), Cost { flops: 0, bytes_read: 4 * 77, bytes_written: 4 * 77 });
        let kernel =
            Kernel { axes: vec![], args: vec![], exprs: vec![], dtypes: vec![], body: Body::Loop, stores: vec![] };
        assert_eq!(Cost::of(&kernel), Cost::default());
    }
}
