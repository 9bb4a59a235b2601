//! Windows as dimensions.

use super::{Fill, Op, Operation, Sample, SampleOperand, Vjp, Window, operand_count, window};
use crate::dtype::DType;
use crate::index::Index;
use crate::ir::{Value, Violation, text};
use crate::kernel::{Bound, ExprId, Mismatch, PointContext};
use crate::oracle::Array;
use crate::scalar::Scalar;
use crate::shape::TensorType;

/// `result[…, y, …, k] = x[…, e(y, k), …]`, where `y` and `k` stand for the positions and taps of a [`Window`] over each
/// of the dimensions `dims`, and `e` is the element that it looks at; `fill` where it looks at nothing. Dimensions of taps
/// come last, in the order of `dims`.
///
/// If `tapped`, the operand has these last dimensions already and `result[…, y, …, k] = x[…, e(y, k), …, k]`: for each
/// element, the windows that look at it; what is summed over its taps is the derivative of the other form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unfold {
    /// Dimensions that windows slide along, each once.
    pub dims: Vec<usize>,
    /// How they slide.
    pub windows: Vec<Window>,
    /// Whether the operand has dimensions of taps.
    pub tapped: bool,
    /// What is seen outside; has the operand's type.
    pub fill: Scalar,
}

impl Unfold {
    /// The operand's coordinates from those of the result, and the conditions under which there is such an element.
    fn source(&self, operand: &TensorType, coords: &[Index], axes: &[usize]) -> (Vec<Index>, Vec<Bound>) {
        let outer = coords.len() - self.dims.len();
        let (mut source, mut bounds) = (coords.to_vec(), Vec::new());
        for (at, (&dim, window)) in self.dims.iter().zip(&self.windows).enumerate() {
            source[dim] = window.index(&coords[dim], &coords[outer + at], operand.shape[dim], axes, &mut bounds);
        }
        source.truncate(operand.shape.rank());
        (source, bounds)
    }
}

impl Operation for Unfold {
    fn name(&self) -> &'static str {
        "unfold"
    }
    fn attributes(&self) -> String {
        let windows = window::display(&self.windows);
        format!("dims={:?}, windows={windows}, tapped={}, fill={}", self.dims, self.tapped, self.fill)
    }
    fn parse(name: &str, attributes: &str, _: &TensorType) -> Option<Self> {
        let dims = text::list(text::field(attributes, "dims")?).filter(|_| name == "unfold")?;
        let windows = Window::parse_list(text::field(attributes, "windows")?)?;
        let fill = text::scalar(text::field(attributes, "fill")?)?;
        Some(Unfold { dims, windows, tapped: text::number(attributes, "tapped")?, fill })
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 1)?;
        let (shape, dtype) = (&operands[0].shape, operands[0].dtype);
        let taps = if self.tapped { self.dims.len() } else { 0 };
        let outer = shape.rank().checked_sub(taps);
        let distinct = (1..self.dims.len()).all(|at| !self.dims[..at].contains(&self.dims[at]));
        let inside = self.dims.iter().all(|&dim| outer.is_some_and(|outer| dim < outer));
        let paired = self.windows.len() == self.dims.len();
        Violation::unless(
            distinct && inside && paired,
            "distinct dimensions of the operand, with a window each",
            || format!("{:?} of {shape} and {}", self.dims, window::display(&self.windows)),
        )?;
        self.windows.iter().try_for_each(Window::check)?;
        let same = self.fill.dtype() == dtype;
        Violation::unless(same, "the border has the operand's element type", || self.fill.to_string())?;
        let outer = outer.unwrap_or_default();
        let taps = self.windows.iter().map(|window| window.taps);
        let fits = !self.tapped || taps.clone().eq(shape[outer..].iter().copied());
        Violation::unless(fits, "the operand's last dimensions are the windows' taps", || shape.to_string())?;
        let mut extents: Vec<usize> = shape[..outer].iter().copied().chain(taps).collect();
        self.dims.iter().zip(&self.windows).for_each(|(&dim, window)| extents[dim] = window.extent);
        Ok(TensorType::new(dtype, extents))
    }
    fn vjp<'g>(&self, at: &Vjp<'_, 'g>) -> Vec<Option<Value<'g>>> {
        let shape = at.operands[0].shape();
        let back = |(&dim, window): (&usize, &Window)| window.toward_elements(shape[dim]);
        let windows = self.dims.iter().zip(&self.windows).map(back).collect();
        let fill = Scalar::zero(at.cotangent.dtype());
        let seen = at.cotangent.unfold(Unfold { dims: self.dims.clone(), windows, tapped: true, fill });
        vec![Some(if self.tapped {
            seen
        } else {
            seen.sum((shape.rank()..shape.rank() + self.dims.len()).collect::<Vec<_>>())
        })]
    }
    fn eval(&self, operands: &[&Array], result: &TensorType) -> Array {
        let shape = &operands[0].ty.shape;
        let outer = result.shape.rank() - self.dims.len();
        Array::from_fn(result, |coords| {
            let mut source = coords[..shape.rank()].to_vec();
            for (at, (&dim, window)) in self.dims.iter().zip(&self.windows).enumerate() {
                match window.element(coords[dim], coords[outer + at], shape[dim]) {
                    Some(element) => source[dim] = element,
                    None => return self.fill.value(),
                }
            }
            operands[0].at(&source)
        })
    }
    fn point(
        &self,
        operands: &[TensorType],
        _: &TensorType,
        cx: &mut dyn PointContext,
        coords: &[Index],
    ) -> Result<ExprId, Mismatch> {
        let axes = cx.axes().to_vec();
        let (source, bounds) = self.source(&operands[0], coords, &axes);
        let inside = cx.masked(&bounds, &mut |cx| cx.operand(0, &source))?;
        Ok(cx.filled(bounds, inside, self.fill))
    }
    fn is_view(&self) -> bool {
        true
    }
    fn samples() -> Vec<Sample> {
        let sliding =
            |elements, taps, stride, dilation, padding| Window::sliding(elements, taps, stride, dilation, padding);
        type Case = (&'static [usize], &'static [usize], bool, f64, Vec<Option<Window>>);
        let spread = Window { extent: 9, taps: 3, stride: 1, dilation: -1, offset: 1, spread: 2 };
        let reversed = Window { extent: 13, taps: 1, stride: -1, dilation: 1, offset: 12, spread: 1 };
        let cases: Vec<Case> = vec![
            (&[1], &[0], false, 0.0, vec![sliding(1, 1, 1, 1, [0, 0])]),
            (&[3, 17], &[1], false, -1.0, vec![sliding(17, 3, 2, 1, [1, 1])]),
            (&[2, 7, 5], &[1, 2], false, 0.0, vec![sliding(7, 3, 2, 2, [2, 2]), sliding(5, 2, 1, 1, [0, 1])]),
            (&[13, 3], &[0], false, 0.0, vec![Some(reversed)]),
            (&[5, 2], &[0], false, 0.5, vec![Some(spread)]),
            (&[5, 2, 3], &[0], true, 0.0, vec![Some(spread)]),
            (&[2, 5, 4, 3, 2], &[2, 1], true, 0.0, vec![sliding(4, 3, 1, 1, [1, 1]), sliding(5, 2, 2, 1, [1, 0])]),
            (&[3, 4], &[], false, 0.0, vec![]),
        ];
        let op = |dims: &[usize], tapped, fill, windows: &[Option<Window>]| {
            let windows = windows.iter().copied().flatten().collect();
            Op::Unfold(Unfold { dims: dims.to_vec(), windows, tapped, fill })
        };
        let sample = |(shape, dims, tapped, fill, windows): &Case| {
            Sample::new(op(dims, *tapped, Scalar::new(DType::F32, *fill), windows), [SampleOperand::float(*shape)])
        };
        let mut samples: Vec<Sample> = cases.iter().map(sample).collect();
        // Moved as whole words: other types too.
        for dtype in [DType::U32, DType::Bool] {
            let fill = if dtype == DType::Bool { Fill::Bool } else { Fill::Bits };
            let unfold = op(&[1], false, Scalar::one(dtype), &[sliding(7, 3, 1, 1, [1, 0])]);
            samples.push(Sample::new(unfold, [SampleOperand::of(dtype, [5, 7], fill)]));
        }
        samples
    }
}
