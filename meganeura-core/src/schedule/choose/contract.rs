//! Schedules of contractions, by shape and device.
//!
//! The numbers come from one NVIDIA H200 through Vulkan: which tile wins is decided by how many of its workgroups fill
//! the device's multiprocessors in whole rounds, far more than by the inner loop.

use super::{Choice, Numerics};
use crate::dtype::DType;
use crate::kernel::{Body, Expr, ExprId, Kernel, Role};
use crate::schedule::{Adjacent, Caps, ContractSpec, Cooperative, GemvSpec, Spec, Staging, Unit};

/// Extents of a contraction.
#[derive(Clone, Copy, Debug)]
struct Extents {
    batch: usize,
    rows: usize,
    cols: usize,
    depth: usize,
}

/// The schedule of a contraction and into how many parts its sum is split.
///
/// Kernels that are no contractions get the schedule of one with a single result.
pub fn choose(kernel: &Kernel, caps: &Caps, numerics: Numerics) -> Choice {
    // As printers see it.
    let kernel = &kernel.oriented();
    let extents = Extents {
        batch: kernel.points(Role::Parallel).max(1),
        rows: kernel.points(Role::Row).max(1),
        cols: kernel.points(Role::Col).max(1),
        depth: kernel.points(Role::Reduce).max(1),
    };
    if extents.rows == 1 || extents.cols == 1 {
        return gemv(kernel, &extents, caps);
    }
    match matrix_unit(kernel, caps, numerics) {
        Some((unit, lanes)) if fits_matrix_unit(&extents, unit) => cooperative(&extents, caps, unit, lanes),
        _ => scalar(&extents, caps),
    }
}

/// A tile of scalar units with its measured speed where it fills the device.
struct Tile {
    tile: [u32; 3],
    thread: [u32; 2],
    staging: Staging,
    /// TFLOP/s at 4096³ on an H200; only ratios matter.
    rate: f64,
    /// Least depth for which it is worth its registers, and of a part where the sum is split.
    least_depth: [usize; 2],
}

const fn tile(tile: [u32; 3], thread: [u32; 2], staging: Staging, rate: f64, least_depth: [usize; 2]) -> Tile {
    Tile { tile, thread, staging, rate, least_depth }
}

/// Stands for tiles that are not split.
const WHOLE: usize = usize::MAX;

/// Tiles worth considering, largest first. 128×128×32 is left out: more than 24 KiB of workgroup memory leaves one
/// workgroup on a multiprocessor. Parts of less than 64 deep lose to the pass that adds them.
const TILES: [Tile; 9] = [
    tile([128, 256, 16], [8, 16], Staging::Swizzle, 47.1, [256, WHOLE]),
    tile([128, 128, 16], [8, 16], Staging::Pad(4), 46.9, [256, WHOLE]),
    tile([64, 128, 16], [8, 8], Staging::Pad(4), 45.8, [256, 512]),
    tile([128, 64, 16], [8, 8], Staging::Pad(4), 45.8, [256, 512]),
    tile([64, 64, 16], [8, 4], Staging::Pad(4), 42.0, [0, 64]),
    tile([64, 32, 16], [4, 4], Staging::Pad(4), 32.0, [0, 64]),
    tile([32, 32, 16], [4, 4], Staging::Pad(4), 26.0, [0, 64]),
    // For ten classes and the like; not measured, but half of a larger tile would be idle.
    tile([32, 16, 16], [4, 4], Staging::Pad(4), 16.0, [0, 64]),
    tile([16, 32, 16], [4, 4], Staging::Pad(4), 16.0, [0, 64]),
];

fn scalar(extents: &Extents, caps: &Caps) -> Choice {
    let smallest = &TILES[TILES.len() - 1];
    let mut best: Option<(f64, Choice)> = None;
    for candidate in TILES.iter().filter(|candidate| is_legal(&candidate.spec(), caps)) {
        if is_small(caps) && candidate.tile[0] * candidate.tile[1] > SMALL_TILE
            || extents.depth < candidate.least_depth[0]
        {
            continue;
        }
        for parts in part_counts(extents, candidate, caps) {
            let workgroups = tiles(extents, candidate.tile) * parts;
            // A large tile must fill the device: 128×128 at 1024³ (64 workgroups) made 22 TFLOP/s instead of 39.
            if candidate.least_depth[0] > 0 && workgroups * 100 < caps.multiprocessors as usize * 96 {
                continue;
            }
            let cost = cost(extents, candidate, parts, caps);
            // Strictly less: earlier candidates win ties, so the choice does not depend on anything else.
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, Choice { parts, spec: candidate.spec() }));
            }
        }
    }
    best.map_or(Choice { parts: 1, spec: smallest.spec() }, |(_, choice)| choice)
}

impl Tile {
    fn spec(&self) -> Spec {
        let unit = Unit::Scalar { thread: self.thread };
        Spec::Contract(ContractSpec { tile: self.tile, unit, prefetch: true, staging: self.staging, row_group: 1 })
    }
}

/// Software devices and the smallest integrated ones: a big tile is only wasted work there.
fn is_small(caps: &Caps) -> bool {
    caps.multiprocessors <= 8 || caps.resident_workgroup_bytes < 16 << 10
}

/// The most results of a tile on a small device.
const SMALL_TILE: u32 = 64 * 32;

/// Whether a device can run this schedule (S1).
pub(super) fn is_legal(spec: &Spec, caps: &Caps) -> bool {
    let staged = match spec {
        Spec::Contract(contract) => contract.staged_bytes() + contract.scratch_bytes(),
        _ => 0,
    };
    let threads = spec.threads();
    threads <= caps.max_invocations && threads <= caps.max_workgroup_size[0] && staged <= caps.workgroup_bytes
}

fn tiles(extents: &Extents, tile: [u32; 3]) -> usize {
    extents.rows.div_ceil(tile[0] as usize) * extents.cols.div_ceil(tile[1] as usize) * extents.batch
}

/// Splits that make just under one to five whole rounds of workgroups, and no split.
fn part_counts(extents: &Extents, candidate: &Tile, caps: &Caps) -> Vec<usize> {
    // Columns that are loaded one by one take longer to get going: longer and fewer parts.
    let (least, rounds) = match extents.cols.is_multiple_of(4) {
        true => (candidate.least_depth[1], 5),
        false => (candidate.least_depth[1].max(144), 2),
    };
    let most = (extents.depth / least).max(1);
    let tiles = tiles(extents, candidate.tile);
    // Large tiles that fill the device already: at 2048³ two parts lost 4 %.
    if candidate.least_depth[0] > 0 && tiles * 100 >= caps.multiprocessors as usize * 96 {
        return vec![1];
    }
    let rounds = (1..=rounds).map(|round| round * caps.multiprocessors as usize / tiles);
    let mut counts: Vec<usize> = std::iter::once(1).chain(rounds.map(|parts| parts.clamp(1, most))).collect();
    counts.dedup();
    counts
}

/// Estimated microseconds on a device with an H200's speed a multiprocessor.
///
/// The workgroups run in rounds, one on each multiprocessor; convolutions of 64 channels at 56² took 37, 29 and 34 µs
/// with 196, 392 and 588 workgroups, in proportion to rounds × work. A split pays for writing and adding its planes.
fn cost(extents: &Extents, tile: &Tile, parts: usize, caps: &Caps) -> f64 {
    let [rows, cols, steps] = tile.tile.map(|extent| extent as usize);
    let depth = extents.depth.div_ceil(parts).next_multiple_of(steps);
    let workgroups = tiles(extents, tile.tile) * parts;
    let rounds = workgroups.div_ceil(caps.multiprocessors as usize) as f64;
    let resident = f64::from(caps.resident_workgroup_bytes / staged_bytes(tile)).max(1.0);
    // Sums in flight on a multiprocessor hide its latencies: 64 × 128 of them make 38.7 of 45.8 TFLOP/s (1024³), four
    // times as many 46.5 of 47.1 (2048³).
    let in_flight = (rows * cols) as f64 * rounds.min(resident);
    let hidden = (in_flight / 32_768.0).min(1.0).powf(0.2);
    // On a software device (llvmpipe, two cores) tiles of 1024 to 4096 sums made 1.9 ± 0.3 GFLOP/s alike: there only
    // wasted work counts.
    let relative = if is_small(caps) { 1.0 } else { tile.rate * hidden };
    let speed = relative * 1e6 / 132.0;
    let products = 2.0 * (rows * cols * depth) as f64;
    // Filling the first tile, and the last workgroup's stores: about a microsecond for what overlaps nothing.
    let ramp = 1.0 + 0.2 * rounds;
    let results = (extents.batch * extents.rows * extents.cols) as f64;
    let planes = if parts > 1 { 2.5 + results * 8.0 * parts as f64 / 6e6 } else { 0.0 };
    rounds * products / speed + ramp + planes
}

fn staged_bytes(tile: &Tile) -> u32 {
    match tile.spec() {
        Spec::Contract(contract) => contract.staged_bytes(),
        _ => 1,
    }
}

/// The product that a subgroup of this device computes for this kernel's operands, and the lanes of a subgroup.
fn matrix_unit(kernel: &Kernel, caps: &Caps, numerics: Numerics) -> Option<(Cooperative, u32)> {
    let Body::Contract { lhs, rhs, accumulate } = kernel.body else { return None };
    let types = [kernel.dtype(lhs), kernel.dtype(rhs)];
    let rounds = types.contains(&DType::F32);
    if !types.iter().all(|dtype| dtype.is_float()) || rounds && numerics == Numerics::Strict {
        return None;
    }
    let fits = |unit: &&Cooperative| unit.operand == DType::F16 && unit.accumulate == accumulate;
    let unit = caps.cooperative.iter().find(fits)?;
    Some((*unit, caps.subgroup.filter(|_| caps.f16)?))
}

/// Small products are not worth a matrix unit: staging them costs more than multiplying.
fn fits_matrix_unit(extents: &Extents, unit: Cooperative) -> bool {
    let size = unit.size as usize;
    // More than a system of 32 bits counts.
    let products: u64 =
        [extents.batch, extents.rows, extents.cols, extents.depth].map(|extent| extent as u64).iter().product();
    extents.rows >= size && extents.cols >= size && extents.depth >= size && products >= 1 << 22
}

/// 128×128 tiles where they or their parts are many enough, else 64×64.
fn cooperative(extents: &Extents, caps: &Caps, unit: Cooperative, lanes: u32) -> Choice {
    let spec = |tile: [u32; 3], subgroup: [u32; 2]| {
        let unit = Unit::Cooperative { size: unit.size, subgroup, lanes, operand: unit.operand };
        // A row stride of an odd multiple of 16 bytes: 285 TFLOP/s against 223 with 32 bytes and 116 without padding.
        let staging = Staging::Pad(8);
        Spec::Contract(ContractSpec { tile, unit, prefetch: true, staging, row_group: 8 })
    };
    let (large, small) = (spec([128, 128, 32], [64, 64]), spec([64, 64, 32], [32, 32]));
    let processors = caps.multiprocessors as usize;
    let tiles = |tile| tiles(extents, tile).max(1);
    // Split until 70–160 workgroups on 132 multiprocessors, each part 192 deep or more.
    let parts = |tiles: usize| (processors * 6 / 5 / tiles).clamp(1, (extents.depth / 192).max(1));
    let many = tiles([128, 128, 32]);
    let split = parts(many);
    if is_legal(&large, caps) {
        if many * 100 >= processors * 190 {
            return Choice { parts: 1, spec: large };
        }
        if extents.depth >= 1500 && many * split * 100 >= processors * 53 {
            return Choice { parts: split, spec: large };
        }
    }
    if is_legal(&small, caps) {
        return Choice { parts: parts(tiles([64, 64, 32])), spec: small };
    }
    scalar(extents, caps)
}

/// A matrix times a vector: reading the matrix once is all that counts.
fn gemv(kernel: &Kernel, extents: &Extents, caps: &Caps) -> Choice {
    let results = extents.rows.max(extents.cols) * extents.batch;
    let lanes = caps.subgroup.unwrap_or(32).clamp(8, 32);
    let threads = caps.max_invocations.min(256);
    let along_depth = GemvSpec { lanes, results: (threads / lanes).max(1), adjacent: Adjacent::Elements };
    // Few results: more invocations to each. Many: a subgroup to a row, which needs no more than its own lanes.
    let lone = GemvSpec { lanes: threads, results: 1, adjacent: Adjacent::Elements };
    // 32 lanes of four columns and 8 depth steps at a time.
    let along_results = GemvSpec { lanes: threads / 32, results: 32, adjacent: Adjacent::Rows };
    let (spec, groups) = match adjacency(kernel, extents) {
        Adjacent::Rows if threads >= 64 => (along_results, results.div_ceil(128)),
        _ if results < 4 * caps.multiprocessors as usize && extents.depth >= 4 * threads as usize => (lone, results),
        _ => (along_depth, results.div_ceil(along_depth.results as usize)),
    };
    // Reading saturates the memory with about three workgroups a multiprocessor: 380 on an H200.
    let wanted = (caps.multiprocessors as usize * 3).div_ceil(groups.max(1));
    let least = if spec.adjacent == Adjacent::Rows { 128 } else { 16 * threads as usize };
    let parts = wanted.clamp(1, (extents.depth / least).max(1));
    Choice { parts, spec: Spec::Gemv(spec) }
}

/// What is adjacent in the matrix of a matrix-vector product: elements of the sum, or results.
fn adjacency(kernel: &Kernel, extents: &Extents) -> Adjacent {
    let Body::Contract { lhs, rhs, .. } = kernel.body else { return Adjacent::Elements };
    let (matrix, role) = if extents.cols == 1 { (lhs, Role::Row) } else { (rhs, Role::Col) };
    match (unit_stride(kernel, matrix, Role::Reduce), unit_stride(kernel, matrix, role)) {
        (false, true) => Adjacent::Rows,
        _ => Adjacent::Elements,
    }
}

/// Whether some load of `root` runs over neighbouring elements along the fastest axis of a role.
fn unit_stride(kernel: &Kernel, root: ExprId, role: Role) -> bool {
    let Some(axis) = kernel.axes_of(role).into_iter().rfind(|&axis| kernel.axes[axis].extent > 1) else { return false };
    kernel.needed_for(&[root], true).into_iter().any(|id| match kernel.expr(id) {
        Expr::Load { index, .. } => index.stride(axis) == Some(1),
        _ => false,
    })
}

#[cfg(test)]
#[path = "contract_tests.rs"]
mod tests;
