//! Convolutions.

use crate::init::Init;
use crate::params::Scope;
use meganeura_core::compose::ConvOptions;
use meganeura_core::ir::Value;

/// A convolution over `RANK` spatial dimensions, `[n, in, x…] → [n, out, y…]` with the parameters `weight`
/// `[out, in / groups, size…]` and `bias` `[out]`; see [`Value::conv`]. Filled as in PyTorch (Kaiming uniform with a = √5):
/// uniform over `±1 / √(in / groups · Π size)`, unless told otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Conv<const RANK: usize> {
    outputs: usize,
    size: [usize; RANK],
    options: ConvOptions,
    bias: bool,
    init: Option<Init>,
}

/// [`Conv`] of sequences `[n, in, length]`.
pub type Conv1d = Conv<1>;
/// [`Conv`] of images `[n, in, height, width]`.
pub type Conv2d = Conv<2>;

/// A transposed convolution over `RANK` spatial dimensions, `[n, in, x…] → [n, out, y…]` with the parameters `weight`
/// `[in, out / groups, size…]` and `bias` `[out]`; see [`Value::conv_transpose`]. Filled as in PyTorch: uniform over
/// `±1 / √(out / groups · Π size)`, unless told otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvTranspose<const RANK: usize> {
    conv: Conv<RANK>,
    output_padding: Vec<usize>,
}

/// [`ConvTranspose`] of sequences `[n, in, length]`.
pub type ConvTranspose1d = ConvTranspose<1>;
/// [`ConvTranspose`] of images `[n, in, height, width]`.
pub type ConvTranspose2d = ConvTranspose<2>;

impl<const RANK: usize> Conv<RANK> {
    /// A convolution to `outputs` channels with windows of `size` elements along each dimension, stride 1, no padding, and
    /// a bias.
    pub fn new(outputs: usize, size: usize) -> Conv<RANK> {
        Conv { outputs, size: [size; RANK], options: ConvOptions::default(), bias: true, init: None }
    }

    /// The same with windows of another size along each dimension.
    #[must_use]
    pub fn with_size(self, size: [usize; RANK]) -> Conv<RANK> {
        Conv { size, ..self }
    }

    /// The same with other strides, padding, dilations and groups.
    #[must_use]
    pub fn with_options(self, options: ConvOptions) -> Conv<RANK> {
        Conv { options, ..self }
    }

    /// The same with that stride.
    #[must_use]
    pub fn stride(self, stride: usize) -> Conv<RANK> {
        Conv { options: self.options.stride(stride), ..self }
    }

    /// The same with that padding on every side.
    #[must_use]
    pub fn padding(self, padding: usize) -> Conv<RANK> {
        Conv { options: self.options.padding(padding), ..self }
    }

    /// The same with that dilation.
    #[must_use]
    pub fn dilation(self, dilation: usize) -> Conv<RANK> {
        Conv { options: self.options.dilation(dilation), ..self }
    }

    /// The same in groups.
    #[must_use]
    pub fn groups(self, groups: usize) -> Conv<RANK> {
        Conv { options: self.options.groups(groups), ..self }
    }

    /// The same without a bias.
    #[must_use]
    pub fn without_bias(self) -> Conv<RANK> {
        Conv { bias: false, ..self }
    }

    /// The same with a weight filled by `init` and a bias of zeros.
    #[must_use]
    pub fn with_init(self, init: Init) -> Conv<RANK> {
        Conv { init: Some(init), ..self }
    }

    /// Applies it to `x`, `f32[n, in, x…]`.
    #[track_caller]
    pub fn forward<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>) -> Value<'g> {
        let inputs = channels(x).checked_div(self.options.groups).unwrap_or(1);
        let (weight, bias) = self.parameters(g, [self.outputs, inputs]);
        g.mark(|| with_bias(x.conv(weight, &self.options), bias, RANK))
    }

    /// The weight, whose first dimensions are `leading`, and the bias.
    #[track_caller]
    fn parameters<'g>(&self, g: &Scope<'_, 'g>, leading: [usize; 2]) -> (Value<'g>, Option<Value<'g>>) {
        let taps: usize = self.size.iter().product();
        let default = Init::fan_in_uniform(leading[1].saturating_mul(taps));
        let shape = [&leading[..], &self.size].concat();
        let weight = g.parameter("weight", shape, self.init.unwrap_or(default));
        let bias_init = if self.init.is_some() { Init::Zeros } else { default };
        (weight, self.bias.then(|| g.parameter("bias", [self.outputs], bias_init)))
    }
}

impl<const RANK: usize> ConvTranspose<RANK> {
    /// What `conv` is the transpose of, with the same outputs, options and bias.
    pub fn new(conv: Conv<RANK>) -> ConvTranspose<RANK> {
        ConvTranspose { conv, output_padding: vec![0] }
    }

    /// The same with so many more elements at the end of each dimension.
    #[must_use]
    pub fn output_padding(self, more: usize) -> ConvTranspose<RANK> {
        ConvTranspose { output_padding: vec![more], ..self }
    }

    /// Applies it to `x`, `f32[n, in, x…]`.
    #[track_caller]
    pub fn forward<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>) -> Value<'g> {
        let outputs = self.conv.outputs.checked_div(self.conv.options.groups).unwrap_or(1);
        let (weight, bias) = self.conv.parameters(g, [channels(x), outputs]);
        g.mark(|| with_bias(x.conv_transpose(weight, &self.conv.options, &self.output_padding), bias, RANK))
    }
}

/// Extent of the dimension of channels; a tensor without one is refused by the convolution.
fn channels(x: Value<'_>) -> usize {
    x.shape().get(1).copied().unwrap_or(1)
}

#[track_caller]
fn with_bias<'g>(y: Value<'g>, bias: Option<Value<'g>>, rank: usize) -> Value<'g> {
    match bias {
        Some(bias) => {
            let outputs = bias.shape().to_vec();
            y + bias.reshape([&outputs[..], &vec![1; rank]].concat())
        }
        None => y,
    }
}
