//! The affine map.

use crate::init::Init;
use crate::params::Scope;
use meganeura_core::ir::Value;

/// `y = x Wᵀ + b`: `[…, in] → […, out]` with the parameters `weight` `[out, in]` and `bias` `[out]`, filled as in
/// PyTorch: uniform over `±1 / √in`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    outputs: usize,
    bias: bool,
}

impl Linear {
    /// A map to `outputs` features, with a bias.
    pub fn new(outputs: usize) -> Linear {
        Linear { outputs, bias: true }
    }

    /// The same without a bias.
    #[must_use]
    pub fn without_bias(self) -> Linear {
        Linear { bias: false, ..self }
    }

    /// Applies it to `x`, `f32[…, in]`.
    #[track_caller]
    pub fn apply<'g>(&self, scope: &Scope<'_, 'g>, x: Value<'g>) -> Value<'g> {
        let inputs = x.shape().last().copied().unwrap_or(1);
        let init = Init::fan_in_uniform(inputs);
        let weight = scope.parameter("weight", [self.outputs, inputs], init);
        let bias = self.bias.then(|| scope.parameter("bias", [self.outputs], init));
        scope.mark(|| {
            let product = x.matmul(weight.transpose());
            bias.map_or(product, |bias| product + bias)
        })
    }
}
