//! How one kernel is spread over invocations. The printer of shaders and the grid computation read the same fields.

use crate::dtype::DType;
use serde::{Deserialize, Serialize};

/// The schedule of one dispatch. Two dispatches with equal kernels and equal specs share one pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Spec {
    /// For kernels without reduce axes: one invocation computes `per_thread` consecutive points of the parallel axes
    /// (flattened row-major); a workgroup has `threads` invocations.
    Map {
        /// Invocations of a workgroup.
        threads: u32,
        /// Points an invocation computes; consecutive, so that loads and stores of unit stride can be vectors.
        per_thread: u32,
    },
    /// For row programs.
    Row(RowSpec),
    /// For contractions whose sum stays in registers.
    Contract(ContractSpec),
    /// For contractions with few results: matrix times vector, or a short dot product.
    Gemv(GemvSpec),
    /// For streams.
    Stream(StreamSpec),
}

/// A row program: a workgroup of `lanes × rows` invocations; `lanes` invocations share a row and combine their partial
/// folds through workgroup memory (or shuffles), `rows` rows are done by one workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RowSpec {
    /// Invocations that share one row; a power of two. 1 = each invocation walks its row alone.
    pub lanes: u32,
    /// Rows of one workgroup.
    pub rows: u32,
    /// Which of the two is adjacent in memory: decides which one neighbouring invocations walk.
    pub adjacent: Adjacent,
}

/// What neighbouring invocations of a row program's workgroup touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Adjacent {
    /// Neighbouring elements of one row: rows are contiguous in memory.
    Elements,
    /// The same element of neighbouring rows: columns are folded.
    Rows,
}

/// A tiled contraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ContractSpec {
    /// Rows, columns and depth of the tile that a workgroup stages in workgroup memory.
    pub tile: [u32; 3],
    /// Who multiplies.
    pub unit: Unit,
    /// Load the next tile into registers while this one is multiplied.
    pub prefetch: bool,
    /// How staged rows are laid out so that stores and loads meet different banks.
    pub staging: Staging,
    /// Result tiles are walked in groups of this many tile rows, so that workgroups in flight share operands in cache;
    /// 1 = plain row-major order.
    pub row_group: u32,
}

/// Bank-conflict avoidance of staged tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Staging {
    /// Each staged row is lengthened by this many elements.
    Pad(u32),
    /// Columns are permuted by the depth group with exclusive or; needs no extra memory.
    Swizzle,
}

/// What multiplies staged tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Unit {
    /// Each invocation keeps `thread[0] × thread[1]` sums and uses fused multiply-add.
    Scalar {
        /// Rows and columns of the sums of one invocation.
        thread: [u32; 2],
    },
    /// Each subgroup keeps `subgroup[0] × subgroup[1]` sums as cooperative matrices of `size`².
    Cooperative {
        /// Rows, columns and depth of one hardware product.
        size: u32,
        /// Rows and columns of the sums of one subgroup.
        subgroup: [u32; 2],
        /// Lanes of a subgroup.
        lanes: u32,
        /// Type that operands are staged in; f32 operands are converted on the way.
        operand: DType,
    },
}

/// A contraction with at most one row (or one column): bound by reading the matrix once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GemvSpec {
    /// Invocations that share one result; a power of two, combined like a row program's.
    pub lanes: u32,
    /// Results of one workgroup; with [`Adjacent::Rows`] groups of four neighbouring results, where they can be vectors.
    pub results: u32,
    /// Whether neighbouring invocations walk the depth or the results: the one that is adjacent in the matrix.
    pub adjacent: Adjacent,
}

/// A stream: a workgroup keeps `rows` rows and `cols` columns of each total while tiles of `elements` elements pass by. An
/// invocation has four rows and four elements of a tile, and of the totals the same rows and every so many columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StreamSpec {
    /// Rows of a workgroup.
    pub rows: u32,
    /// Elements of a tile.
    pub elements: u32,
    /// Depth of scores that is staged in workgroup memory at once.
    pub depth: u32,
    /// Columns of a workgroup; others compute the scores again.
    pub cols: u32,
}

impl StreamSpec {
    /// Rows, and elements, of one invocation.
    pub const PART: u32 = 4;

    /// Invocations that share a row.
    pub fn lanes(&self) -> u32 {
        self.elements / StreamSpec::PART
    }

    /// Invocations of one workgroup.
    pub fn threads(&self) -> u32 {
        self.rows / StreamSpec::PART * self.lanes()
    }

    /// Vectors of four from one staged row of a score's operand to the next: odd, so that rows meet different banks.
    pub fn depth_stride(&self) -> u32 {
        self.depth / 4 + 1
    }

    /// Vectors of four from one row of staged weights to the next; odd likewise.
    pub fn weight_stride(&self) -> u32 {
        self.elements / 4 + 1
    }

    /// Vectors of four for staged operands: of scores, then of totals.
    pub fn stage(&self) -> u32 {
        ((self.rows + self.elements) * self.depth_stride()).max(self.elements * self.cols / 4)
    }

    /// Bytes of workgroup memory: staged operands, weights, and a number of each invocation and row.
    pub fn bytes(&self) -> u32 {
        16 * (self.stage() + self.rows * self.weight_stride()) + 4 * self.rows * self.lanes()
    }
}

impl Spec {
    /// The kind of kernel that this is a schedule of, for profiles.
    pub const fn family(&self) -> &'static str {
        match self {
            Spec::Map { .. } => "map",
            Spec::Row(_) => "row",
            Spec::Contract(ContractSpec { unit: Unit::Scalar { .. }, .. }) => "contract tile",
            Spec::Contract(ContractSpec { unit: Unit::Cooperative { .. }, .. }) => "contract coop",
            Spec::Gemv(_) => "contract gemv",
            Spec::Stream(_) => "stream",
        }
    }

    /// Invocations of one workgroup.
    pub fn threads(&self) -> u32 {
        match self {
            Spec::Map { threads, .. } => *threads,
            Spec::Row(row) => row.lanes * row.rows,
            Spec::Contract(contract) => contract.threads(),
            Spec::Gemv(gemv) => gemv.lanes * gemv.results,
            Spec::Stream(stream) => stream.threads(),
        }
    }
}

impl ContractSpec {
    /// Invocations of one workgroup.
    pub fn threads(&self) -> u32 {
        let [rows, cols, _] = self.tile;
        match self.unit {
            Unit::Scalar { thread } => (rows / thread[0]) * (cols / thread[1]),
            Unit::Cooperative { subgroup, lanes, .. } => (rows / subgroup[0]) * (cols / subgroup[1]) * lanes,
        }
    }

    /// Bytes of workgroup memory for the staged operands.
    pub fn staged_bytes(&self) -> u32 {
        let [rows, cols, depth] = self.tile;
        let (pad, bytes) = match (self.staging, self.unit) {
            (Staging::Swizzle, _) => (0, 4),
            (Staging::Pad(pad), Unit::Cooperative { operand, .. }) => (pad, operand.bytes() as u32),
            (Staging::Pad(pad), Unit::Scalar { .. }) => (pad, 4),
        };
        match self.unit {
            // Both operands are staged depth-major: a row of the stage is one depth step.
            Unit::Scalar { .. } => depth * (rows + pad + cols + pad) * bytes,
            // Each operand is staged in its stored order, and its rows are padded: there are at most so many of them.
            Unit::Cooperative { .. } => {
                (rows * depth + rows.max(depth) * pad + cols * depth + cols.max(depth) * pad) * bytes
            }
        }
    }

    /// Elements from one row to the next of the workgroup memory through which cooperative sums reach an epilogue.
    pub fn scratch_stride(&self) -> u32 {
        let Unit::Cooperative { size, lanes, .. } = self.unit else { return 0 };
        // Padded only while two workgroups still share 48 KiB.
        let padded = self.threads() / lanes * size * (size + 4) * 4;
        if self.staged_bytes() + padded <= 24 << 10 { size + 4 } else { size }
    }

    /// Bytes of workgroup memory for an epilogue of cooperative sums: one matrix a subgroup.
    pub fn scratch_bytes(&self) -> u32 {
        match self.unit {
            Unit::Scalar { .. } => 0,
            Unit::Cooperative { size, lanes, .. } => self.threads() / lanes * size * self.scratch_stride() * 4,
        }
    }
}
