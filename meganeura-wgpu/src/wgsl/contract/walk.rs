//! The loop over tiles of the contracted axes.

use super::operand::Operand;
use crate::wgsl::writer::Writer;
use meganeura_core::schedule::ContractSpec;

/// Writes one quad into workgroup memory: operand, item, text of the value.
pub type Place<'p> = dyn Fn(&mut Writer, &Operand<'_>, usize, &str) + 'p;

/// How operands reach the tile that is multiplied.
pub struct Walk<'p> {
    /// Depth of a tile and whether the next one is prefetched.
    pub spec: &'p ContractSpec,
    /// Points along the contracted axes.
    pub depth: usize,
    /// Both operands.
    pub operands: [&'p Operand<'p>; 2],
    /// Type of a staged element.
    pub staged: &'static str,
    /// Writes one quad into workgroup memory.
    pub place: &'p Place<'p>,
}

impl Walk<'_> {
    /// Prints the loop; `multiply` prints the products of a staged tile.
    pub fn print(&self, w: &mut Writer, multiply: &dyn Fn(&mut Writer)) {
        let steps = self.spec.tile[2] as usize;
        let last = (self.depth.div_ceil(steps).max(1) - 1) * steps;
        if last == 0 {
            w.bind("k0", "0u");
            self.load(w, "k0");
            self.stage(w);
            multiply(w);
            return;
        }
        if self.spec.prefetch {
            w.line("var kn = 0u;");
            self.load(w, "kn");
        }
        w.open(format!("for (var k0 = 0u; k0 <= {last}u; k0 += {steps}u)"));
        if !self.spec.prefetch {
            self.load(w, "k0");
        }
        self.stage(w);
        if self.spec.prefetch {
            // The last tile is loaded once more rather than tested for.
            w.line(format!("kn = min(k0 + {steps}u, {last}u);"));
            self.load(w, "kn");
        }
        multiply(w);
        w.line("workgroupBarrier();");
        w.close();
    }

    fn load(&self, w: &mut Writer, start: &str) {
        self.operands.iter().for_each(|operand| operand.load(w, start));
    }

    fn stage(&self, w: &mut Writer) {
        for operand in self.operands {
            operand.store(w, "k0", self.staged, &|w, item, value| (self.place)(w, operand, item, value));
        }
        w.line("workgroupBarrier();");
    }
}
