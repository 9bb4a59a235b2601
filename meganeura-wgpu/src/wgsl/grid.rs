//! How many workgroups are dispatched, and how flattened indices split into coordinates again.

use super::PrintError;
use super::writer::Writer;
use meganeura_core::schedule::Caps;

/// The workgroups of a dispatch, numbered 0, 1, … in the text variable `tile`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Workgroups along each dimension.
    pub size: [u32; 3],
    count: u64,
}

impl Grid {
    /// A grid of at least `count` workgroups: one dimension where the device allows that many along one, else the
    /// fewest dimensions that do.
    ///
    /// # Errors
    /// If even three dimensions hold fewer.
    pub fn new(count: u64, caps: &Caps) -> Result<Grid, PrintError> {
        let most = u64::from(caps.max_workgroups);
        let limit = most.saturating_mul(most).saturating_mul(most).min(u64::from(u32::MAX));
        if count > limit {
            return Err(PrintError::TooMany { what: "workgroups", count, limit });
        }
        let layers = count.div_ceil(most.saturating_mul(most)).max(1);
        let rows = count.div_ceil(layers).div_ceil(most).max(1);
        let columns = count.div_ceil(layers * rows);
        Ok(Grid { size: [columns as u32, rows as u32, layers as u32], count })
    }

    /// Writes `let tile = …`, the number of the workgroup, and leaves the entry point where it exceeds the count.
    /// The exit is uniform: whole workgroups leave.
    pub fn bind(&self, writer: &mut Writer) {
        let [columns, rows, layers] = self.size;
        match (rows, layers) {
            (1, 1) => writer.bind("tile", "group.x"),
            (_, 1) => writer.bind("tile", format!("group.y * {columns}u + group.x")),
            _ => writer.bind("tile", format!("(group.z * {rows}u + group.y) * {columns}u + group.x")),
        }
        if u64::from(columns) * u64::from(rows) * u64::from(layers) > self.count {
            writer.line(format!("if tile >= {}u {{ return; }}", self.count));
        }
    }
}

/// `text / divisor` in u32; a shift where the divisor is a power of two. Operand and result are names,
/// literals or parenthesised, as WGSL wants around shifts and masks.
pub fn quotient(text: &str, divisor: u64) -> String {
    match divisor {
        1 => text.to_string(),
        _ if divisor.is_power_of_two() => format!("({text} >> {}u)", divisor.trailing_zeros()),
        _ => format!("({text} / {divisor}u)"),
    }
}

/// `text % divisor` in u32; a mask where the divisor is a power of two; parentheses as for [`quotient`].
pub fn remainder(text: &str, divisor: u64) -> String {
    match divisor {
        1 => "0u".to_string(),
        _ if divisor.is_power_of_two() => format!("({text} & {}u)", divisor - 1),
        _ => format!("({text} % {divisor}u)"),
    }
}

/// Writes a `let` for the coordinate of each of the axes `(name, extent)`, flattened row-major in the variable `flat`;
/// gives the texts of the coordinates. Axes of one point get none: their coordinate is the text `0u`.
pub fn unflatten(writer: &mut Writer, flat: &str, axes: &[(String, usize)]) -> Vec<String> {
    let mut inner = 1_u64;
    let mut texts = vec![String::from("0u"); axes.len()];
    let outermost = axes.iter().position(|(_, extent)| *extent > 1);
    for (at, (name, extent)) in axes.iter().enumerate().rev() {
        if *extent <= 1 {
            continue;
        }
        let shifted = quotient(flat, inner);
        inner *= *extent as u64;
        let text = if Some(at) == outermost { shifted } else { remainder(&shifted, *extent as u64) };
        writer.bind(name, text);
        texts[at] = name.clone();
    }
    texts
}
