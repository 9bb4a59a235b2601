//! One random op over windows.

use super::fuzz::{ELEMENTS, Growth, RANK};
use crate::dtype::DType;
use crate::ops::{Conv, Unfold, Window};
use crate::scalar::Scalar;
use crate::shape::{Shape, TensorType};

impl<'g> Growth<'g> {
    /// A window over some elements, of any sign, that may look outside.
    fn window(&mut self, elements: usize) -> Window {
        let step = |growth: &mut Growth<'g>| growth.draws.pick(&[1, 1, 2, 3, -1, -2]);
        Window {
            extent: 1 + self.draws.below(elements + 2),
            taps: 1 + self.draws.below(3),
            stride: step(self),
            dilation: step(self),
            offset: self.draws.below(elements + 3) as i64 - 2,
            spread: self.draws.pick(&[1, 1, 2]),
        }
    }

    pub(super) fn conv(&mut self) {
        let x = self.pick(DType::F32, |item| matches!(item.value.shape().rank(), 3..=4));
        let shape = x.value.shape();
        if shape.rank() < 3 {
            return;
        }
        let grouped = shape.rank() == 4 && self.draws.chance(0.5);
        let leading = if grouped { 3 } else { 2 };
        let windows: Vec<Window> = shape[leading..].iter().map(|&elements| self.window(elements)).collect();
        let group = if grouped { Some(shape[1]) } else { None };
        let outputs = self.draws.pick(&[1, 2, 5]);
        let taps: Shape = group
            .into_iter()
            .chain([outputs, shape[leading - 1]])
            .chain(windows.iter().map(|window| window.taps))
            .collect();
        let positions: usize = windows.iter().map(|window| window.extent).product();
        if taps.elements() > ELEMENTS || shape[0] * group.unwrap_or(1) * outputs * positions > ELEMENTS {
            return;
        }
        let depth = taps.elements() / outputs / group.unwrap_or(1);
        let weight = self.leaf_of(TensorType::new(DType::F32, taps));
        let value = x.value.conv_general(weight.value, Conv::channels_first(grouped, windows, DType::F32));
        self.add(value, x.bound * weight.bound * depth as f64, false);
    }

    pub(super) fn unfold(&mut self) {
        let dtype = self.draws.pick(&[DType::F32, DType::F32, DType::U32, DType::Bool]);
        let x = self.pick(dtype, |item| (1..RANK).contains(&item.value.shape().rank()));
        let shape = x.value.shape();
        if !(1..RANK).contains(&shape.rank()) {
            return;
        }
        let dim = self.draws.below(shape.rank());
        let window = self.window(shape[dim]);
        let elements = shape.elements() / shape[dim].max(1) * window.extent * window.taps;
        if elements <= ELEMENTS {
            let unfold = Unfold { dims: vec![dim], windows: vec![window], tapped: false, fill: Scalar::one(dtype) };
            self.add(x.value.unfold(unfold), x.bound.max(1.0), x.exact);
        }
    }
}
