//! The four groups of axes of a contraction and the texts of coordinates along them.

use crate::wgsl::grid::{quotient, remainder};
use crate::wgsl::writer::Writer;
use meganeura_core::kernel::{Kernel, Role};

/// Some axes of a kernel walked as one, row-major.
#[derive(Clone, Debug)]
pub struct Group {
    /// The axes, slowest first; those of extent 1 are left out.
    pub axes: Vec<usize>,
    /// Their extents.
    pub extents: Vec<usize>,
}

impl Group {
    /// All axes of a role.
    pub fn of(kernel: &Kernel, role: Role) -> Group {
        let axes: Vec<usize> = kernel.axes_of(role).into_iter().filter(|&axis| kernel.axes[axis].extent != 1).collect();
        let extents = axes.iter().map(|&axis| kernel.axes[axis].extent).collect();
        Group { axes, extents }
    }

    /// Number of points.
    pub fn points(&self) -> usize {
        self.extents.iter().product()
    }

    /// The fastest axis, if four consecutive points from a multiple of four always lie along it.
    pub fn quad_axis(&self) -> Option<usize> {
        match (self.axes.last(), self.extents.last()) {
            (Some(&axis), Some(extent)) if extent.is_multiple_of(4) => Some(axis),
            _ => None,
        }
    }

    /// Names the coordinates of the point `flat` (a text): declares them with names that end in `tag` and puts them into
    /// `coords`. If `flat` is the sum `base + rest` of a multiple of `aligned` and something smaller, a fastest axis of a
    /// multiple of `aligned` points lets the slower coordinates depend on `base` alone, which is the same for a workgroup.
    pub fn decode(&self, w: &mut Writer, flat: &Flat, tag: &str, coords: &mut Coords) {
        self.decode_scaled(w, flat, tag, coords, 1);
    }

    /// As [`Group::decode`], but `flat` counts quads, and so does the fastest coordinate.
    pub fn decode_quads(&self, w: &mut Writer, flat: &Flat, tag: &str, coords: &mut Coords) {
        self.decode_scaled(w, flat, tag, coords, 4);
    }

    fn decode_scaled(&self, w: &mut Writer, flat: &Flat, tag: &str, coords: &mut Coords, scale: usize) {
        let Some((&fastest, slower)) = self.axes.split_last() else { return };
        let extent = self.extents[slower.len()] / scale;
        if slower.is_empty() {
            coords[fastest] = flat.text();
            return;
        }
        let uniform = flat.aligned.is_some_and(|aligned| extent.is_multiple_of(aligned));
        let (position, within) = match &flat.base {
            Some(base) if uniform => (base.clone(), format!("{} + {}", remainder(base, extent as u64), flat.rest)),
            _ => {
                w.bind(&format!("flat_{tag}"), flat.text());
                (format!("flat_{tag}"), remainder(&format!("flat_{tag}"), extent as u64))
            }
        };
        w.bind(&format!("i{fastest}{tag}"), within);
        coords[fastest] = format!("i{fastest}{tag}");
        let mut divisor = extent;
        for (at, &axis) in slower.iter().enumerate().rev() {
            let outer = quotient(&position, divisor as u64);
            let text = if at == 0 { outer } else { remainder(&outer, self.extents[at] as u64) };
            w.bind(&format!("i{axis}{tag}"), text);
            coords[axis] = format!("i{axis}{tag}");
            divisor *= self.extents[at];
        }
    }
}

/// For each axis of the kernel the text of its coordinate.
pub type Coords = Vec<String>;

/// Coordinates before anything is decoded: 0 everywhere, which is right for axes of extent 1.
pub fn origin(kernel: &Kernel) -> Coords {
    vec!["0u".to_owned(); kernel.axes.len()]
}

/// The text of a flattened coordinate, possibly known to be the sum of an aligned part and a smaller rest.
#[derive(Clone, Debug)]
pub struct Flat {
    base: Option<String>,
    rest: String,
    aligned: Option<usize>,
}

impl Flat {
    /// Any text that is a primary expression.
    pub fn any(text: impl Into<String>) -> Flat {
        Flat { base: None, rest: text.into(), aligned: None }
    }

    /// `base + rest` where `aligned` divides `base` and `rest` is below it.
    pub fn split(base: impl Into<String>, rest: impl Into<String>, aligned: usize) -> Flat {
        Flat { base: Some(base.into()), rest: rest.into(), aligned: Some(aligned) }
    }

    /// The whole as a primary expression.
    pub fn text(&self) -> String {
        match &self.base {
            Some(base) => format!("({base} + {})", self.rest),
            None => self.rest.clone(),
        }
    }

    /// `min(self, limit)`.
    pub fn clamped(&self, limit: usize) -> Flat {
        Flat::any(format!("min({}, {limit}u)", self.text()))
    }
}
