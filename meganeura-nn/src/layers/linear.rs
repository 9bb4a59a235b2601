//! The affine map.

use crate::init::Init;
use crate::params::Scope;
use meganeura_core::ir::Value;

/// `y = x Wᵀ + b`: `[…, in] → […, out]` with the parameters `weight` `[out, in]` and `bias` `[out]`, filled as in
/// PyTorch: uniform over `±1 / √in`, unless told otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Linear {
    outputs: usize,
    bias: bool,
    init: Option<Init>,
}

impl Linear {
    /// A map to `outputs` features, with a bias.
    pub fn new(outputs: usize) -> Linear {
        Linear { outputs, bias: true, init: None }
    }

    /// The same without a bias.
    #[must_use]
    pub fn without_bias(self) -> Linear {
        Linear { bias: false, ..self }
    }

    /// The same with a weight filled by `init` and a bias of zeros.
    #[must_use]
    pub fn with_init(self, init: Init) -> Linear {
        Linear { init: Some(init), ..self }
    }

    /// Applies it to `x`, `f32[…, in]`.
    #[track_caller]
    pub fn forward<'g>(&self, g: &Scope<'_, 'g>, x: Value<'g>) -> Value<'g> {
        let inputs = x.shape().last().copied().unwrap_or(1);
        let default = Init::fan_in_uniform(inputs);
        let weight = g.parameter("weight", [self.outputs, inputs], self.init.unwrap_or(default));
        let bias_init = if self.init.is_some() { Init::Zeros } else { default };
        let bias = self.bias.then(|| g.parameter("bias", [self.outputs], bias_init));
        g.mark(|| {
            let product = x.matmul(weight.transpose());
            bias.map_or(product, |bias| product + bias)
        })
    }
}
