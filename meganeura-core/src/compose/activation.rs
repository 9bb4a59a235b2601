//! Activation functions.

use crate::ir::Value;

impl<'g> Value<'g> {
    /// Gaussian error linear unit, exact: `x/2 · (1 + erf(x/√2))`. Hendrycks and Gimpel, arXiv 1606.08415.
    #[track_caller]
    pub fn gelu(self) -> Value<'g> {
        let x = self.floating("gelu");
        x * 0.5 * ((x * std::f32::consts::FRAC_1_SQRT_2).erf() + 1.0)
    }

    /// The tanh form of [`Value::gelu`]: `x/2 · (1 + tanh(√(2/π)(x + 0.044715x³)))`. Same source.
    #[track_caller]
    pub fn gelu_tanh(self) -> Value<'g> {
        let x = self.floating("gelu_tanh");
        let inner = (x + x * x * x * 0.044_715) * x.like((2.0 / std::f64::consts::PI).sqrt());
        x * 0.5 * (inner.tanh() + 1.0)
    }

    /// Sigmoid linear unit, `x · σ(x)`.
    #[track_caller]
    pub fn silu(self) -> Value<'g> {
        let x = self.floating("silu");
        x * x.sigmoid()
    }
}
