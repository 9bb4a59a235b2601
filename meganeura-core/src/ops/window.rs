//! How windows slide along one dimension.

use crate::index::Index;
use crate::ir::{Violation, text};
use crate::kernel::Bound;
use std::fmt;

/// One dimension along which windows slide: position `y < extent`, tap `k < taps` of the window looks at the element
/// `(y · stride + k · dilation + offset) / spread`, or at nothing if that is no whole number or outside of the dimension.
///
/// In XLA's terms `stride` is the window stride, `dilation` that of the window, `spread` that of the base, and `offset` is
/// minus the padding before the first element. Signs are free, so that every derivative of a window is a window again:
/// a negative dilation reads the taps in reverse order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Positions.
    pub extent: usize,
    /// Elements of a window.
    pub taps: usize,
    /// Steps from one position to the next, not 0.
    pub stride: i64,
    /// Steps from one tap to the next, not 0.
    pub dilation: i64,
    /// Steps of the first tap of the first position; negative where padding comes before the first element.
    pub offset: i64,
    /// Steps from one element to the next, positive: elements lie that far apart, with nothing between them.
    pub spread: i64,
}

/// Steps are below this, so that they are exact in 32 bits.
const MOST_STEPS: i64 = 1 << 30;

impl Window {
    /// Windows of `taps` elements, `dilation` apart, that slide by `stride` over `elements` elements and a border of
    /// `padding` on both sides, and stay inside. `None` if there is no room for one or a number is out of range.
    pub fn sliding(
        elements: usize,
        taps: usize,
        stride: usize,
        dilation: usize,
        padding: [usize; 2],
    ) -> Option<Window> {
        let reach = taps.checked_sub(1)?.checked_mul(dilation)?.checked_add(1)?;
        let room = elements.checked_add(padding[0])?.checked_add(padding[1])?.checked_sub(reach)?;
        Some(Window {
            extent: room.checked_div(stride)?.checked_add(1)?,
            taps,
            stride: i64::try_from(stride).ok()?,
            dilation: i64::try_from(dilation).ok()?,
            offset: -i64::try_from(padding[0]).ok()?,
            spread: 1,
        })
    }

    /// For each of `elements` elements and each tap the position whose tap looks at that element.
    #[must_use]
    pub fn toward_elements(&self, elements: usize) -> Window {
        let Window { extent: _, taps, stride, dilation, offset, spread } = *self;
        // x · spread = y · stride + k · dilation + offset, solved for y.
        let turned =
            Window { extent: elements, taps, stride: spread, dilation: -dilation, offset: -offset, spread: stride };
        turned.upright()
    }

    /// The same elements with positions and taps exchanged.
    #[must_use]
    pub fn exchanged(&self) -> Window {
        let Window { extent, taps, stride, dilation, .. } = *self;
        Window { extent: taps, taps: extent, stride: dilation, dilation: stride, ..*self }
    }

    /// A negative spread made positive: both sides of a quotient change their sign.
    fn upright(self) -> Window {
        let sign = self.spread.signum();
        Window {
            stride: self.stride * sign,
            dilation: self.dilation * sign,
            offset: self.offset * sign,
            spread: self.spread * sign,
            ..self
        }
    }

    /// # Errors
    /// If a number is 0 that must not be, or too large.
    pub(super) fn check(&self) -> Result<(), Violation> {
        let whole = self.stride != 0 && self.dilation != 0 && self.spread > 0;
        Violation::unless(whole, "strides and dilations of windows are not 0", || self.to_string())?;
        let along = |extent: usize, step: i64| {
            let steps = i64::try_from(extent).unwrap_or(i64::MAX);
            steps.checked_mul(step.checked_abs().unwrap_or(i64::MAX))
        };
        let farthest = along(self.extent, self.stride)
            .and_then(|steps| steps.checked_add(along(self.taps, self.dilation)?))
            .and_then(|steps| steps.checked_add(self.offset.checked_abs()?))
            .and_then(|steps| steps.checked_add(self.spread));
        Violation::unless(farthest.is_some_and(|steps| steps < MOST_STEPS), "windows end before 2^30 steps", || {
            self.to_string()
        })
    }

    /// The element of a dimension of `elements` that a position's tap looks at.
    pub(super) fn element(&self, position: usize, tap: usize, elements: usize) -> Option<usize> {
        let steps = position as i64 * self.stride + tap as i64 * self.dilation + self.offset;
        let element = steps.div_euclid(self.spread);
        let inside = steps.rem_euclid(self.spread) == 0 && (0..elements as i64).contains(&element);
        inside.then_some(element as usize)
    }

    /// [`Window::element`] as an index, and the conditions under which there is one, added to `bounds`.
    pub(super) fn index(
        &self,
        position: &Index,
        tap: &Index,
        elements: usize,
        axes: &[usize],
        bounds: &mut Vec<Bound>,
    ) -> Index {
        let steps = position.times(self.stride).plus(&tap.times(self.dilation)).shifted(self.offset);
        let element = match self.spread {
            1 => steps,
            spread => {
                // Quotients are of what is not negative.
                let lowest = steps.range(axes).map_or(0, |(low, _)| low.min(0));
                let before = lowest.div_euclid(spread);
                let steps = steps.shifted(-before * spread);
                bounds.push(Bound { index: steps.rem(spread, axes), extent: 1 });
                steps.div(spread, axes).shifted(before)
            }
        };
        bounds.push(Bound { index: element.clone(), extent: elements });
        element
    }

    /// Into how many *phases* positions can be dealt so that all positions `spread · q + phase` of one phase share the taps
    /// that look at elements; 1 if they cannot, or if there is nothing between the elements.
    pub(super) fn phases(&self) -> usize {
        let dealt = self.extent.is_multiple_of(self.spread as usize) && self.extent > 0;
        if dealt && self.inverse().is_some() { self.spread as usize } else { 1 }
    }

    /// The inverse of the dilation modulo the spread, if there is one.
    fn inverse(&self) -> Option<i64> {
        (0..self.spread.min(64)).find(|&factor| (factor * self.dilation - 1).rem_euclid(self.spread) == 0)
    }

    /// The first tap that looks at elements in a phase: `phase · stride + tap · dilation + offset` is a multiple of the
    /// spread. Every `spread`-th tap from it does.
    fn first_tap(&self, phase: &Index, axes: &[usize]) -> Index {
        let factor = |steps: i64| (-steps * self.inverse().unwrap_or_default()).rem_euclid(self.spread);
        phase.times(factor(self.stride)).shifted(factor(self.offset)).rem(self.spread, axes)
    }

    /// The tap of that number in a phase, and the condition under which there is one.
    pub(super) fn phase_tap(&self, phase: &Index, number: &Index, axes: &[usize], bounds: &mut Vec<Bound>) -> Index {
        let tap = self.first_tap(phase, axes).plus(&number.times(self.spread));
        bounds.push(Bound { index: tap.clone(), extent: self.taps });
        tap
    }

    /// The element that the tap of that number looks at in the position `spread · q + phase`, and the condition under which
    /// there is one.
    pub(super) fn phase_element(
        &self,
        [phase, q, number]: [&Index; 3],
        elements: usize,
        axes: &[usize],
        bounds: &mut Vec<Bound>,
    ) -> Index {
        let first = self.first_tap(phase, axes).times(self.dilation);
        let steps = phase.times(self.stride).plus(&first).shifted(self.offset);
        let before = steps.range(axes).map_or(0, |(low, _)| low.min(0)).div_euclid(self.spread);
        let start = steps.shifted(-before * self.spread).div(self.spread, axes).shifted(before);
        let element = start.plus(&q.times(self.stride)).plus(&number.times(self.dilation));
        bounds.push(Bound { index: element.clone(), extent: elements });
        element
    }

    /// What [`fmt::Display`] printed, in brackets.
    fn parse(text: &str) -> Option<Window> {
        let numbers = text.strip_prefix('[')?.strip_suffix(']')?.split(',');
        let numbers: Vec<i64> = numbers.map(|part| part.trim().parse().ok()).collect::<Option<_>>()?;
        let [extent, taps, stride, dilation, offset, spread] = numbers.try_into().ok()?;
        let size = |number: i64| usize::try_from(number).ok();
        Some(Window { extent: size(extent)?, taps: size(taps)?, stride, dilation, offset, spread })
    }

    /// The windows of a list.
    pub(super) fn parse_list(text: &str) -> Option<Vec<Window>> {
        text::list_of(text, Window::parse)
    }
}

/// `[extent, taps, stride, dilation, offset, spread]`.
impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Window { extent, taps, stride, dilation, offset, spread } = self;
        write!(f, "[{extent}, {taps}, {stride}, {dilation}, {offset}, {spread}]")
    }
}

/// A list of windows, as attributes have it.
pub(super) fn display(windows: &[Window]) -> String {
    format!("[{}]", windows.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOWS: [Window; 4] = [
        Window { extent: 5, taps: 3, stride: 2, dilation: 1, offset: -1, spread: 1 },
        Window { extent: 7, taps: 2, stride: 1, dilation: 3, offset: 2, spread: 2 },
        Window { extent: 9, taps: 3, stride: -1, dilation: -2, offset: 6, spread: 3 },
        Window { extent: 4, taps: 4, stride: -3, dilation: 2, offset: 5, spread: 1 },
    ];

    #[test]
    fn derivatives_of_windows_look_back() {
        let elements = 6;
        for window in WINDOWS {
            let (back, exchanged) = (window.toward_elements(elements), window.exchanged());
            assert!(back.spread > 0);
            for (y, k) in (0..window.extent).flat_map(|y| (0..window.taps).map(move |k| (y, k))) {
                let element = window.element(y, k, elements);
                assert_eq!(exchanged.element(k, y, elements), element);
                for x in 0..elements {
                    assert_eq!(
                        back.element(x, k, window.extent) == Some(y),
                        element == Some(x),
                        "{window} {y} {k} {x}"
                    );
                }
            }
        }
    }

    #[test]
    fn indices_are_the_elements() {
        let (elements, value) = (6, |_| 0);
        for window in WINDOWS {
            let axes = [window.extent, window.taps];
            let mut bounds = Vec::new();
            let index = window.index(&Index::axis(0), &Index::axis(1), elements, &axes, &mut bounds);
            for (y, k) in (0..window.extent).flat_map(|y| (0..window.taps).map(move |k| (y, k))) {
                let open =
                    bounds.iter().all(|bound| (0..bound.extent as i64).contains(&bound.index.eval(&[y, k], &value)));
                let found = open.then(|| index.eval(&[y, k], &value) as usize);
                assert_eq!(found, window.element(y, k, elements), "{window} at {y} {k}");
            }
        }
    }

    #[test]
    fn phases_visit_every_tap_that_looks_at_an_element() {
        let (elements, value) = (6, |_| 0);
        let more = Window { extent: 12, taps: 5, stride: 2, dilation: -1, offset: -5, spread: 3 };
        for window in [WINDOWS[2], Window { extent: 8, ..WINDOWS[1] }, more] {
            let (phases, spread) = (window.phases(), window.spread as usize);
            assert_eq!(phases, spread, "{window}");
            let axes = [phases, window.extent / phases, window.taps.div_ceil(phases)];
            let [phase, q, number] = [0, 1, 2].map(Index::axis);
            let mut bounds = Vec::new();
            let tap = window.phase_tap(&phase, &number, &axes, &mut bounds);
            let element = window.phase_element([&phase, &q, &number], elements, &axes, &mut bounds);
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            crate::oracle::for_each_point(&axes, |point| {
                let open = |bound: &Bound| (0..bound.extent as i64).contains(&bound.index.eval(point, &value));
                if bounds.iter().all(open) {
                    let at = |index: &Index| index.eval(point, &value) as usize;
                    found.push((spread * point[1] + point[0], at(&tap), at(&element)));
                }
            });
            crate::oracle::for_each_point(&[window.extent, window.taps], |point| {
                expected.extend(window.element(point[0], point[1], elements).map(|x| (point[0], point[1], x)));
            });
            found.sort_unstable();
            assert_eq!(found, expected, "{window}");
        }
        // Two taps in three look at nothing whatever the phase; an extent that phases do not divide.
        assert_eq!([Window { dilation: 2, spread: 4, ..WINDOWS[0] }, WINDOWS[1]].map(|window| window.phases()), [1, 1]);
    }

    #[test]
    fn text_comes_back_and_wild_windows_are_refused() {
        assert_eq!(Window::parse_list(&display(&WINDOWS)), Some(WINDOWS.to_vec()));
        assert_eq!(Window::parse_list("[[1, 2]]"), None);
        let wild = [
            Window { stride: 0, ..WINDOWS[0] },
            Window { dilation: 0, ..WINDOWS[0] },
            Window { spread: 0, ..WINDOWS[0] },
            Window { extent: usize::MAX, ..WINDOWS[0] },
            Window { stride: i64::MIN, ..WINDOWS[0] },
            Window { offset: i64::MIN, ..WINDOWS[0] },
        ];
        assert!(wild.iter().all(|window| window.check().is_err()));
        assert_eq!(Window::sliding(5, 3, 2, 1, [1, 1]).map(|window| window.extent), Some(3));
        assert_eq!(Window::sliding(5, 0, 1, 1, [0, 0]), None);
        assert_eq!(Window::sliding(5, 3, 0, 1, [0, 0]), None);
        assert_eq!(Window::sliding(5, 3, 1, 3, [0, 1]), None);
        assert_eq!(Window::sliding(5, 3, 1, usize::MAX, [0, 1]), None);
    }
}
