//! Which workgroup computes which tile of the result.

use crate::wgsl::PrintError;
use crate::wgsl::grid::Grid;
use crate::wgsl::writer::Writer;
use meganeura_core::schedule::Caps;

/// The tiles of a result and the workgroups that compute them.
pub struct Order {
    /// Tiles across and down, and batch points.
    tiles: [usize; 3],
    /// Tile rows walked together; 1 = plain.
    row_group: usize,
    /// The dispatch.
    pub grid: Grid,
}

impl Order {
    /// The order for so many tiles across, down, and batch points.
    ///
    /// # Errors
    /// If the device cannot dispatch so many workgroups.
    pub fn new(tiles: [usize; 3], row_group: u32, caps: &Caps) -> Result<Order, PrintError> {
        let row_group = (row_group as usize).clamp(1, tiles[1].max(1));
        let grid = Grid::new(tiles.iter().map(|&extent| extent as u64).product(), caps)?;
        Ok(Order { tiles, row_group, grid })
    }

    /// Declares the tile's numbers `tx` (across) and `ty` (down) and the batch point `z`.
    pub fn bind(&self, w: &mut Writer) {
        let [across, down, batch] = self.tiles;
        self.grid.bind(w);
        let mut tile = "tile";
        if batch > 1 {
            w.bind("z", format!("tile / {}u", across * down));
            w.bind("plane", format!("tile % {}u", across * down));
            tile = "plane";
        } else {
            w.bind("z", "0u");
        }
        if self.row_group > 1 {
            let band = self.row_group * across;
            w.bind("band", format!("{tile} / {band}u"));
            w.bind("within", format!("{tile} % {band}u"));
            w.bind("height", format!("min({down}u - band * {0}u, {0}u)", self.row_group));
            w.bind("ty", format!("band * {}u + within % height", self.row_group));
            w.bind("tx", "within / height");
        } else {
            w.bind("ty", format!("{tile} / {across}u"));
            w.bind("tx", format!("{tile} % {across}u"));
        }
    }
}
