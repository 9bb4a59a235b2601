//! Scores of a tile, and what is made of them.

use super::emit::COMPONENTS;
use super::{PART, Printer};
use crate::wgsl::grid::{quotient, remainder};
use crate::wgsl::scalar;
use crate::wgsl::writer::Writer;
use meganeura_core::dtype::DType;
use meganeura_core::scalar::Unary;
use meganeura_core::schedule::StreamSpec;

impl Printer<'_> {
    /// Sums a score of the tile: `s{score}_{i}` has four elements of the invocation's row `i`.
    pub(super) fn score(&mut self, w: &mut Writer, score: usize) {
        let StreamSpec { depth, rows, elements, .. } = self.spec;
        let axis = self.stream.scores[score].depth;
        for i in Self::parts() {
            w.line(format!("var s{score}_{i} = vec4<f32>();"));
        }
        w.open(format!("for (var deep = 0u; deep < {}u; deep += {depth}u)", self.extent(axis)));
        w.line("workgroupBarrier();");
        self.stage_score(w, score, false);
        self.stage_score(w, score, true);
        w.line("workgroupBarrier();");
        let stride = self.spec.depth_stride();
        w.open(format!("for (var four = 0u; four < {}u; four += 1u)", depth / 4));
        for i in Self::parts() {
            w.bind(&format!("a{i}"), format!("stage[(own + {}u) * {stride}u + four]", i * rows / PART));
        }
        for j in Self::parts() {
            let slot = rows + j * elements / PART;
            w.bind(&format!("x{j}"), format!("stage[({slot}u + lane) * {stride}u + four]"));
        }
        for i in Self::parts() {
            let products: Vec<String> = Self::parts().map(|j| format!("dot(a{i}, x{j})")).collect();
            w.line(format!("s{score}_{i} += vec4<f32>({});", products.join(", ")));
        }
        w.close();
        w.close();
    }

    /// Stages a part of the depth of one operand of a score. Elements lie so that lanes, which have four neighbouring ones
    /// each, read neighbouring rows of the stage.
    fn stage_score(&mut self, w: &mut Writer, score: usize, of_elements: bool) {
        let StreamSpec { depth, rows, elements, .. } = self.spec;
        let parts = self.stream.scores[score];
        let (lines, root, axis, first, line) = match of_elements {
            false => (rows, parts.lhs, self.row, "row_first", "line".to_string()),
            true => {
                let slot = format!("({} * {}u + {})", remainder("line", 4), elements / PART, quotient("line", 4));
                (elements, parts.rhs, self.last, "base", format!("({rows}u + {slot})"))
            }
        };
        let (quads, threads) = (depth / 4, self.spec.threads());
        let count = lines * quads;
        w.open(format!("for (var item = local; item < {count}u; item += {threads}u)"));
        let mark = self.exprs.enter();
        w.bind("line", quotient("item", u64::from(quads)));
        w.bind("four", remainder("item", u64::from(quads)));
        let last = self.extent(axis).saturating_sub(1);
        w.bind("at_line", format!("min({first} + line, {last}u)"));
        w.bind("at_depth", "deep + four * 4u");
        self.exprs.set_axis(axis, "at_line");
        self.quad(w, root, parts.depth, "at_depth", "value");
        w.line(format!("stage[{line} * {}u + four] = value;", self.spec.depth_stride()));
        self.exprs.leave(mark);
        w.close();
    }

    /// Peaks and weights of the tile: `w{total}_{i}` has four elements of the invocation's row `i`.
    pub(super) fn between(&mut self, w: &mut Writer) {
        for j in Self::parts() {
            let last = self.last;
            self.hoist(w, &self.of_element.clone(), last, &format!("elem{j}"), &format!("e{j}"));
        }
        if self.stream.peak.is_some() {
            self.raise_peak(w);
        }
        let totals = &self.stream.totals;
        // Totals of one weight share it.
        let distinct = |&total: &usize| totals[..total].iter().all(|other| other.weight != totals[total].weight);
        let distinct: Vec<usize> = (0..totals.len()).filter(distinct).collect();
        for (total, i) in distinct.iter().flat_map(|&total| Self::parts().map(move |i| (total, i))) {
            w.line(format!("var w{total}_{i}: vec4<f32>;"));
        }
        for (i, j) in Self::parts().flat_map(|i| Self::parts().map(move |j| (i, j))) {
            let counts = self.counts(i, j);
            self.at_pair(w, i, j, |printer, w| {
                for &total in &distinct {
                    let weight = totals[total].weight;
                    printer.exprs.emit(w, &[weight]);
                    let text = printer.exprs.text(weight);
                    w.line(format!("w{total}_{i}.{} = select(0f, {text}, {counts});", COMPONENTS[j as usize]));
                }
            });
        }
    }

    /// Takes the tile's values for the peaks; where one grows, the totals of its row shrink.
    fn raise_peak(&mut self, w: &mut Writer) {
        let Some(root) = self.stream.peak else { return };
        let StreamSpec { rows, .. } = self.spec;
        let lanes = self.spec.lanes();
        w.declare(format!("var<workgroup> shared_rows: array<f32, {}>;", rows * lanes));
        for i in Self::parts() {
            w.line(format!("var most{i} = peak{i};"));
        }
        for (i, j) in Self::parts().flat_map(|i| Self::parts().map(move |j| (i, j))) {
            let counts = self.counts(i, j);
            self.at_pair(w, i, j, |printer, w| {
                printer.exprs.emit(w, &[root]);
                let text = printer.exprs.text(root);
                w.line(format!("most{i} = select(most{i}, max(most{i}, {text}), {counts});"));
            });
        }
        let shared = |i: u32| format!("(own + {}u) * {lanes}u", i * rows / PART);
        for i in Self::parts() {
            w.line(format!("shared_rows[{} + lane] = most{i};", shared(i)));
        }
        w.line("workgroupBarrier();");
        w.open(format!("for (var other = 0u; other < {lanes}u; other += 1u)"));
        for i in Self::parts() {
            w.line(format!("most{i} = max(most{i}, shared_rows[{} + other]);", shared(i)));
        }
        w.close();
        for i in Self::parts() {
            let less = format!("shrink{i}");
            w.bind(&format!("{less}_by"), format!("peak{i} - most{i}"));
            let factor = scalar::unary(w, Unary::Exp, DType::F32, &format!("{less}_by"));
            w.bind(&less, factor);
            w.line(format!("peak{i} = most{i};"));
            self.scale_totals(w, i, &less);
        }
    }
}
