//! Convolutions.

use super::conv_dim::{ConvDim, cycled, parse_dims, swapped};
use super::{Lowering, Op, Operation, Sample, SampleOperand, Vjp, Window, operand_count, window};
use crate::dtype::DType;
use crate::index::Index;
use crate::ir::{Value, Violation, text};
use crate::kernel::{Bound, Expr, ExprId, Mismatch, PointContext};
use crate::oracle::{Array, for_each_point};
use crate::scalar::{Binary, Monoid, Scalar};
use crate::shape::TensorType;
use ConvDim::{Batch, Group, Input, Output, Spatial};

/// Which coordinate of a dimension: spatial ones have several.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// That of the result, or the position in a phase.
    Position,
    /// The tap, or its number in a phase.
    Tap,
    /// The phase, if the dimension has some.
    Phase,
}

/// `result[g, b, o, y] = Σ over i and k of lhs[g, b, i, x(y, k)] · rhs[g, o, i, k]`, where `y`, `k` and `x` stand for any
/// number of spatial dimensions and [`Window`]s tell the element `x` that tap `k` of position `y` looks at; taps that look
/// at nothing add nothing. Each tensor has these dimensions in an order of its own, named as in `bi01,oi01->bo01`.
///
/// A general dilated convolution (the window's taps are not reversed, as in PyTorch and XLA): strides, padding of either
/// sign, dilations of both operands, groups. Its derivatives are convolutions again, and so is a transposed convolution.
/// Both operands of one float type; `f16` products are summed in `f32` and given as `dtype`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conv {
    /// Dimensions of the left operand: `Batch`, `Input`, spatial, and perhaps `Group`.
    pub lhs: Vec<ConvDim>,
    /// Dimensions of the right operand: `Output`, `Input`, spatial (its taps), and `Group` if the left one has it.
    pub rhs: Vec<ConvDim>,
    /// Dimensions of the result: `Batch`, `Output`, spatial, and `Group` if the operands have it.
    pub result: Vec<ConvDim>,
    /// How windows slide along each spatial dimension.
    pub windows: Vec<Window>,
    /// The result's element type: the operands', or `f32` for `f16` operands.
    pub dtype: DType,
}

/// Per group so few rows or columns make no product of matrices: each result is rather folded on its own.
const NARROW: usize = 4;

impl Conv {
    /// The convolution of `[batch, channels, spatial…]` with `[outputs, channels, taps…]`, or, if `grouped`, of
    /// `[batch, group, channels, …]` with `[group, outputs, channels, …]`.
    pub fn channels_first(grouped: bool, windows: Vec<Window>, dtype: DType) -> Conv {
        let group = grouped.then_some(Group);
        let dims = |leading: [&[ConvDim]; 2]| {
            let spatial = (0..windows.len()).map(Spatial);
            leading[0].iter().copied().chain(group).chain(leading[1].iter().copied()).chain(spatial).collect()
        };
        let [lhs, rhs, result] =
            [dims([&[Batch], &[Input]]), dims([&[], &[Output, Input]]), dims([&[Batch], &[Output]])];
        Conv { lhs, rhs, result, windows, dtype }
    }

    /// The convolution that spreads a result's elements over this one's left operand, whose spatial extents are
    /// `elements`: its derivative with respect to that operand, and a transposed convolution.
    #[must_use]
    pub fn toward_lhs(&self, elements: &[usize]) -> Conv {
        let rename = |dims: &[ConvDim]| swapped(dims, [Output, Input]);
        let windows = self.windows.iter().zip(elements).map(|(window, &elements)| window.toward_elements(elements));
        Conv {
            lhs: rename(&self.result),
            rhs: rename(&self.rhs),
            result: rename(&self.lhs),
            windows: windows.collect(),
            dtype: self.dtype,
        }
    }

    /// The derivative with respect to the right operand as a convolution of the left operand, whose spatial extents are
    /// `elements`, and the cotangent; `true` if the cotangent is its left operand, which leaves fewer taps that look at
    /// nothing where elements are spread.
    fn toward_rhs(&self, elements: &[usize]) -> (Conv, bool) {
        let product =
            |of: fn(&Window) -> i64| self.windows.iter().map(of).fold(1, |a: i64, b| a.saturating_mul(b.abs()));
        let turned = product(|window| window.spread) > product(|window| window.stride);
        // The batch is summed over; the left factor's other channels become rows, the right one's columns.
        let (windows, [lhs, rhs, result]) = if turned {
            let window = |(window, &elements): (&Window, &usize)| window.toward_elements(elements).exchanged();
            let dims = [&self.result, &self.lhs, &self.rhs].map(|dims| cycled(dims, [Batch, Input, Output]));
            (self.windows.iter().zip(elements).map(window).collect(), dims)
        } else {
            let dims = [&self.lhs, &self.result, &self.rhs].map(|dims| swapped(dims, [Batch, Input]));
            (self.windows.iter().map(Window::exchanged).collect(), dims)
        };
        (Conv { lhs, rhs, result, windows, dtype: self.dtype }, turned)
    }

    /// The extents of one operand's or the result's spatial dimensions.
    fn spatial(dims: &[ConvDim], extents: &[usize]) -> Vec<usize> {
        let of = |at| dims.iter().zip(extents).find(|(dim, _)| **dim == Spatial(at)).map(|(_, &extent)| extent);
        (0..dims.len()).map_while(of).collect()
    }

    /// Extents of the dimensions named by letters, whichever operand has them.
    fn extent(&self, operands: &[TensorType], wanted: ConvDim) -> usize {
        let own = |(dims, operand): (&Vec<ConvDim>, &TensorType)| {
            dims.iter().position(|dim| *dim == wanted).map(|at| operand.shape[at])
        };
        [&self.lhs, &self.rhs].into_iter().zip(operands).find_map(own).unwrap_or(1)
    }

    fn is_grouped(&self) -> bool {
        self.result.contains(&Group)
    }

    /// The dimensions of batch, rows, cols and depth, of which those of the depth are taps where they are spatial.
    fn axes(&self, operands: &[TensorType]) -> [Vec<ConvDim>; 4] {
        let rows = self.result.iter().copied().filter(|dim| matches!(dim, Batch | Spatial(_))).collect();
        let taps: Vec<ConvDim> = (0..self.windows.len()).map(Spatial).collect();
        let product = |of: fn(&Window) -> usize| self.windows.iter().map(of).product::<usize>();
        // Fewer taps than positions: channels innermost, so that address and mask change once in many steps. Otherwise
        // (derivatives of weights) the positions of the cotangent are neighbours in memory.
        let few = product(|window| window.taps) <= product(|window| window.extent);
        let depth = match few && self.extent(operands, Input).is_multiple_of(4) {
            true => [&taps[..], &[Input]].concat(),
            false => [&[Input], &taps[..]].concat(),
        };
        let group = if self.is_grouped() { vec![Group] } else { Vec::new() };
        [group, rows, vec![Output], depth]
    }

    /// Spatial dimensions whose elements are spread, in phases: each phase is a contraction of its own taps, and none of them
    /// is looked at in vain. Batch axes follow the group for them, and rows count the positions of one phase.
    fn phased(&self) -> Vec<usize> {
        (0..self.windows.len()).filter(|&at| self.windows[at].phases() > 1).collect()
    }

    /// Extents of the axes of rows and columns, or those of the depth.
    fn extents(&self, operands: &[TensorType], dims: &[ConvDim], taps: bool) -> Vec<usize> {
        let extent = |dim: &ConvDim| match *dim {
            Spatial(at) if taps => self.windows[at].taps,
            Spatial(at) => self.windows[at].extent,
            dim => self.extent(operands, dim),
        };
        dims.iter().map(extent).collect()
    }

    /// The element of one operand, given each dimension's coordinate in the kernel's space.
    fn factor(
        &self,
        side: usize,
        operand: &TensorType,
        cx: &mut dyn PointContext,
        of: &dyn Fn(ConvDim, Part) -> Option<Index>,
    ) -> Result<ExprId, Mismatch> {
        let (axes, mut bounds) = (cx.axes().to_vec(), Vec::<Bound>::new());
        let at = |dim: ConvDim, part: Part| of(dim, part).unwrap_or_default();
        let mut coordinate = |(&dim, &extent): (&ConvDim, &usize)| {
            let Spatial(number) = dim else { return at(dim, Part::Position) };
            let (window, tap) = (&self.windows[number], at(dim, Part::Tap));
            match (of(dim, Part::Phase), side) {
                (None, 1) => tap,
                (None, _) => window.index(&at(dim, Part::Position), &tap, extent, &axes, &mut bounds),
                (Some(phase), 1) => window.phase_tap(&phase, &tap, &axes, &mut bounds),
                (Some(phase), _) => {
                    window.phase_element([&phase, &at(dim, Part::Position), &tap], extent, &axes, &mut bounds)
                }
            }
        };
        let dims = if side == 1 { &self.rhs } else { &self.lhs };
        let coords: Vec<Index> = dims.iter().zip(&*operand.shape).map(&mut coordinate).collect();
        let inside = cx.masked(&bounds, &mut |cx| cx.operand(side, &coords))?;
        Ok(cx.filled(bounds, inside, Scalar::zero(operand.dtype)))
    }

    fn check_dims(&self) -> Result<(), Violation> {
        let expected = |letters: [ConvDim; 2]| {
            let group = self.is_grouped().then_some(Group);
            letters.into_iter().chain(group).chain((0..self.windows.len()).map(Spatial)).collect::<Vec<_>>()
        };
        let sides = [(&self.lhs, [Batch, Input]), (&self.rhs, [Output, Input]), (&self.result, [Batch, Output])];
        let complete = sides.iter().all(|(dims, letters)| {
            let expected = expected(*letters);
            dims.len() == expected.len() && expected.iter().all(|dim| dims.contains(dim))
        });
        Violation::unless(complete, "dimensions are named like bi01,oi01->bo01, one digit a window", || {
            self.dims_text()
        })
    }

    fn dims_text(&self) -> String {
        let text = |dims: &[ConvDim]| dims.iter().map(ToString::to_string).collect::<String>();
        format!("{},{}->{}", text(&self.lhs), text(&self.rhs), text(&self.result))
    }
}

impl Operation for Conv {
    fn name(&self) -> &'static str {
        "conv"
    }
    fn attributes(&self) -> String {
        format!("dims=[{}], windows={}", self.dims_text(), window::display(&self.windows))
    }
    fn parse(name: &str, attributes: &str, result: &TensorType) -> Option<Self> {
        let dims = text::field(attributes, "dims").filter(|_| name == "conv")?;
        let (operands, out) = dims.strip_prefix('[')?.strip_suffix(']')?.split_once("->")?;
        let (lhs, rhs) = operands.split_once(',')?;
        Some(Conv {
            lhs: parse_dims(lhs)?,
            rhs: parse_dims(rhs)?,
            result: parse_dims(out)?,
            windows: Window::parse_list(text::field(attributes, "windows")?)?,
            dtype: result.dtype,
        })
    }
    fn infer(&self, operands: &[TensorType]) -> Result<TensorType, Violation> {
        operand_count(operands, 2)?;
        let dtypes = [operands[0].dtype, operands[1].dtype];
        Violation::unless(dtypes[0] == dtypes[1] && dtypes[0].is_float(), "both operands have one float type", || {
            format!("{} and {}", dtypes[0], dtypes[1])
        })?;
        let sums = self.dtype == dtypes[0] || self.dtype == DType::F32;
        Violation::unless(sums, "the result has the operands' type or f32", || self.dtype.to_string())?;
        self.check_dims()?;
        let named = operands[0].shape.rank() == self.lhs.len() && operands[1].shape.rank() == self.rhs.len();
        Violation::unless(named, "each dimension of both operands has a name", || {
            format!("{} for {} and {}", self.dims_text(), operands[0].shape, operands[1].shape)
        })?;
        self.windows.iter().try_for_each(Window::check)?;
        let agree = |wanted: ConvDim| {
            let of = |dims: &[ConvDim], side: usize| {
                dims.iter().position(|dim| *dim == wanted).map(|at| operands[side].shape[at])
            };
            of(&self.lhs, 0) == of(&self.rhs, 1)
        };
        Violation::unless(agree(Input) && agree(Group), "groups and input channels of both operands agree", || {
            format!("{} and {}", operands[0].shape, operands[1].shape)
        })?;
        let taps = Conv::spatial(&self.rhs, &operands[1].shape);
        let expected = self.windows.iter().map(|window| window.taps);
        Violation::unless(expected.eq(taps.iter().copied()), "windows have the right operand's taps", || {
            format!("{} for {}", window::display(&self.windows), operands[1].shape)
        })?;
        Ok(TensorType::new(self.dtype, self.extents(operands, &self.result, false)))
    }
    fn vjp<'g>(&self, at: &Vjp<'_, 'g>) -> Vec<Option<Value<'g>>> {
        let [lhs, rhs] = [at.operands[0], at.operands[1]];
        let dtype = at.cotangent.dtype();
        let elements = Conv::spatial(&self.lhs, &lhs.shape());
        let toward_lhs = || at.cotangent.conv_general(rhs.cast(dtype), self.toward_lhs(&elements)).cast(lhs.dtype());
        let toward_rhs = || {
            let (conv, turned) = self.toward_rhs(&elements);
            let lhs = lhs.cast(dtype);
            let product = match turned {
                true => at.cotangent.conv_general(lhs, conv),
                false => lhs.conv_general(at.cotangent, conv),
            };
            product.cast(rhs.dtype())
        };
        vec![at.wanted[0].then(toward_lhs), at.wanted[1].then(toward_rhs)]
    }
    fn eval(&self, operands: &[&Array], result: &TensorType) -> Array {
        let types = [operands[0].ty.clone(), operands[1].ty.clone()];
        let elements = Conv::spatial(&self.lhs, &types[0].shape);
        let taps: Vec<usize> = self.windows.iter().map(|window| window.taps).collect();
        let of = |coords: &[usize], wanted: ConvDim| {
            self.result.iter().position(|dim| *dim == wanted).map_or(0, |at| coords[at])
        };
        let inputs = self.extent(&types, Input);
        Array::from_fn(result, |coords| {
            let mut sum = 0.0;
            for_each_point(&taps, |tap| {
                let look = |at: usize| self.windows[at].element(of(coords, Spatial(at)), tap[at], elements[at]);
                let Some(x) = (0..taps.len()).map(look).collect::<Option<Vec<usize>>>() else { return };
                for input in 0..inputs {
                    let place = |dims: &[ConvDim], spatial: &[usize]| {
                        let coordinate = |&dim: &ConvDim| match dim {
                            Spatial(at) => spatial[at],
                            Input => input,
                            dim => of(coords, dim),
                        };
                        dims.iter().map(coordinate).collect::<Vec<usize>>()
                    };
                    sum += operands[0].at(&place(&self.lhs, &x)) * operands[1].at(&place(&self.rhs, tap));
                }
            });
            sum
        })
    }
    fn lower(&self, operands: &[TensorType], _: &TensorType) -> Lowering {
        let axes = self.axes(operands);
        let [mut batch, mut rows, cols] = [0, 1, 2].map(|group| self.extents(operands, &axes[group], false));
        let mut depth = self.extents(operands, &axes[3], true);
        let points = |extents: &[usize]| extents.iter().product::<usize>();
        let narrow = points(&rows).min(points(&cols)) <= NARROW && points(&batch) > 1;
        if narrow && operands[0].dtype == DType::F32 {
            return Lowering::Fold { monoid: Monoid::Sum, extents: depth };
        }
        let phased = self.phased();
        let groups = batch.len();
        for &at in &phased {
            let phases = self.windows[at].phases();
            batch.push(phases);
            let own = |dims: &[ConvDim]| dims.iter().position(|dim| *dim == Spatial(at));
            own(&axes[1]).into_iter().for_each(|row| rows[row] /= phases);
            own(&axes[3]).into_iter().for_each(|step| depth[step] = depth[step].div_ceil(phases));
        }
        let outer = axes[..3].concat();
        let position = |dim: &ConvDim| {
            let at = outer.iter().position(|own| own == dim)?;
            let axis = Index::axis(if at < groups { at } else { at + phased.len() });
            let phase = phased.iter().position(|&at| Spatial(at) == *dim);
            Some(phase.map_or(axis.clone(), |phase| {
                axis.times(batch[groups + phase] as i64).plus(&Index::axis(groups + phase))
            }))
        };
        let position = self.result.iter().filter_map(position).collect();
        Lowering::Contract { batch, rows, cols, depth, position }
    }
    fn point(
        &self,
        operands: &[TensorType],
        result: &TensorType,
        cx: &mut dyn PointContext,
        coords: &[Index],
    ) -> Result<ExprId, Mismatch> {
        let axes = self.axes(operands);
        let folds = matches!(self.lower(operands, result), Lowering::Fold { .. });
        let outer = if folds { self.result.clone() } else { axes[..3].concat() };
        let (phased, groups) = (if folds { Vec::new() } else { self.phased() }, axes[0].len());
        let find = |dims: &[ConvDim], wanted: ConvDim| dims.iter().position(|dim| *dim == wanted);
        let of = |wanted: ConvDim, part: Part| {
            let inner = || find(&axes[3], wanted).map(|at| outer.len() + phased.len() + at);
            let at = match part {
                Part::Phase => phased.iter().position(|&at| Spatial(at) == wanted).map(|at| groups + at),
                Part::Tap => inner(),
                Part::Position if wanted == Input => inner(),
                Part::Position => find(&outer, wanted).map(|at| if at < groups { at } else { at + phased.len() }),
            };
            at.map(|at| coords[at].clone())
        };
        if folds {
            let lhs = self.factor(0, &operands[0], cx, &of)?;
            let rhs = self.factor(1, &operands[1], cx, &of)?;
            return Ok(cx.push(Expr::Binary(Binary::Mul, lhs, rhs)));
        }
        let side = usize::from(coords.last().and_then(Index::as_constant) == Some(1));
        self.factor(side, &operands[side], cx, &of)
    }
    fn samples() -> Vec<Sample> {
        let sliding = |elements: usize, taps: usize, stride: usize, dilation: usize, padding: [usize; 2]| {
            Window::sliding(elements, taps, stride, dilation, padding)
        };
        type Case = (&'static [usize], &'static [usize], bool, Vec<Option<Window>>);
        let cases: Vec<Case> = vec![
            (&[1, 1, 1], &[1, 1, 1], false, vec![sliding(1, 1, 1, 1, [0, 0])]),
            (&[2, 3, 17], &[5, 3, 4], false, vec![sliding(17, 4, 2, 3, [2, 1])]),
            (&[2, 4, 7, 9], &[5, 4, 3, 3], false, vec![sliding(7, 3, 1, 1, [1, 1]), sliding(9, 3, 1, 1, [1, 1])]),
            (&[1, 3, 9, 6], &[7, 3, 3, 2], false, vec![sliding(9, 3, 2, 1, [1, 1]), sliding(6, 2, 2, 2, [0, 1])]),
            (&[3, 8, 5, 5], &[17, 8, 1, 1], false, vec![sliding(5, 1, 1, 1, [0, 0]); 2]),
            (&[2, 5, 5, 5], &[3, 5, 1, 1], false, vec![sliding(5, 1, 2, 1, [0, 0]); 2]),
            // Groups: two, and one for each channel.
            (&[2, 2, 3, 5, 5], &[2, 5, 3, 3, 3], true, vec![sliding(5, 3, 1, 1, [1, 1]), sliding(5, 3, 2, 1, [1, 1])]),
            (&[2, 7, 1, 5, 6], &[7, 1, 1, 3, 3], true, vec![sliding(5, 3, 1, 1, [1, 1]), sliding(6, 3, 2, 2, [2, 2])]),
            (&[3, 2, 1, 13], &[2, 3, 1, 5], true, vec![sliding(13, 5, 1, 1, [4, 0])]),
            // Dilated elements and reversed taps, as derivatives have them; padding of either sign.
            (
                &[2, 3, 5, 4],
                &[4, 3, 3, 3],
                false,
                vec![
                    Some(Window { extent: 10, taps: 3, stride: 1, dilation: -1, offset: 1, spread: 2 }),
                    Some(Window { extent: 6, taps: 3, stride: 1, dilation: -1, offset: 2, spread: 1 }),
                ],
            ),
            (
                &[2, 4, 11],
                &[3, 4, 2],
                false,
                vec![Some(Window { extent: 5, taps: 2, stride: 3, dilation: 2, offset: 3, spread: 2 })],
            ),
        ];
        let sample = |(lhs, rhs, grouped, windows): Case| {
            let conv = Conv::channels_first(grouped, windows.into_iter().flatten().collect(), DType::F32);
            Sample::new(Op::Conv(conv), [SampleOperand::float(lhs), SampleOperand::float(rhs)])
        };
        let mut samples: Vec<Sample> = cases.into_iter().map(sample).collect();
        // Channels last.
        let mut last = Conv::channels_first(false, sliding(7, 3, 1, 1, [1, 1]).into_iter().collect(), DType::F32);
        [last.lhs, last.rhs, last.result] =
            [vec![Batch, Spatial(0), Input], vec![Spatial(0), Input, Output], vec![Batch, Spatial(0), Output]];
        samples.push(Sample::new(Op::Conv(last), [SampleOperand::float([2, 7, 8]), SampleOperand::float([3, 8, 5])]));
        samples
    }
}
