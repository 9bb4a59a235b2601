//! Activation functions.
//!
//! At kinks, derivatives are those of PyTorch. What must not overflow in the branch that is not taken is computed of an
//! operand that is 0 there, so that no `0 · ∞` reaches the gradient; `NaN` passes through every function.

use crate::dtype::DType;
use crate::ir::{Value, Violation};
use crate::shape::Shape;

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

    /// `silu(x) · up`, with `x` the gate; Shazeer, arXiv 2002.05202. Broadcasts.
    #[track_caller]
    pub fn swiglu(self, up: Value<'g>) -> Value<'g> {
        self.silu() * up
    }

    /// `gelu(x) · up`, with `x` the gate; same source as [`Value::swiglu`]. Broadcasts.
    #[track_caller]
    pub fn geglu(self, up: Value<'g>) -> Value<'g> {
        self.gelu() * up
    }

    /// `min(max(x, 0), 6)`, derivative 0 at 0 and 6.
    #[track_caller]
    pub fn relu6(self) -> Value<'g> {
        self.hardtanh(0.0, 6.0)
    }

    /// `x` above 0, `slope · x` elsewhere.
    #[track_caller]
    pub fn leaky_relu(self, slope: f64) -> Value<'g> {
        let x = self.floating("leaky_relu");
        x.is_positive().select(x, x * x.like(slope))
    }

    /// [`Value::leaky_relu`] with learnt slopes: one (`[]` or `[1]`), or one for each coordinate of dimension 1. He et al.,
    /// arXiv 1502.01852.
    #[track_caller]
    pub fn prelu(self, slope: Value<'g>) -> Value<'g> {
        let (x, shape) = (self.floating("prelu"), self.shape());
        let slope = match slope.shape().elements() {
            1 => slope.reshape(Shape::scalar()),
            _ if slope.shape().rank() == 1 && shape.get(1) == Some(&slope.shape()[0]) => {
                let aligned = (0..shape.rank()).map(|dim| if dim == 1 { shape[1] } else { 1 });
                slope.reshape(aligned.collect::<Shape>())
            }
            _ => {
                let violation = Violation::new("one slope, or one for each of dimension 1", slope.ty().to_string());
                return self.builder().refuse("prelu", &[self, slope], violation);
            }
        };
        x.is_positive().select(x, x * slope)
    }

    /// Exponential linear unit: `x` above 0, `α(eˣ − 1)` elsewhere. Clevert et al., arXiv 1511.07289.
    #[track_caller]
    pub fn elu(self, alpha: f64) -> Value<'g> {
        let x = self.floating("elu");
        x.is_positive().select(x, x.negative_part().expm1() * x.like(alpha))
    }

    /// Scaled [`Value::elu`] with the constants of Klambauer et al., arXiv 1706.02515: unit Gaussian inputs keep mean 0
    /// and variance 1.
    #[track_caller]
    pub fn selu(self) -> Value<'g> {
        let x = self.floating("selu");
        x.elu(1.673_263_242_354_377_2) * x.like(1.050_700_987_355_480_5)
    }

    /// `x` above 0, `α(e^(x/α) − 1)` elsewhere, smooth at 0 for every `α`. Barron, arXiv 1704.07483.
    #[track_caller]
    pub fn celu(self, alpha: f64) -> Value<'g> {
        let x = self.floating("celu");
        let below = (x.negative_part() * x.like(1.0 / alpha)).expm1() * x.like(alpha);
        x.is_positive().select(x, below)
    }

    /// `ln(1 + eˣ)`; `x` itself where the difference is below half a unit in the last place.
    #[track_caller]
    pub fn softplus(self) -> Value<'g> {
        let x = self.floating("softplus");
        // ln(1 + eˣ) − x = ln(1 + e⁻ˣ) is 2e-9 at 20 and 5e-5 at 10; e²⁰ overflows f16.
        let linear = x.gt(x.like(if x.dtype() == DType::F16 { 10.0 } else { 20.0 }));
        let bent = linear.select(x.like(0.0), x);
        linear.select(x, bent.exp().log1p())
    }

    /// `ln σ(x) = −softplus(−x)`.
    #[track_caller]
    pub fn log_sigmoid(self) -> Value<'g> {
        -(-self.floating("log_sigmoid")).softplus()
    }

    /// `x · tanh(softplus(x))`. Misra, arXiv 1908.08681.
    #[track_caller]
    pub fn mish(self) -> Value<'g> {
        let x = self.floating("mish");
        x * x.softplus().tanh()
    }

    /// `x` between `low` and `high`, the nearer of them elsewhere; derivative 0 at both. [`Value::clamp`] has 1 there.
    #[track_caller]
    pub fn hardtanh(self, low: f64, high: f64) -> Value<'g> {
        let x = self.floating("hardtanh");
        let (low, high) = (x.like(low), x.like(high));
        x.le(low).select(low, x.ge(high).select(high, x))
    }

    /// `min(max(x + 3, 0), 6) / 6`, derivative 0 at ±3. Howard et al., arXiv 1905.02244.
    #[track_caller]
    pub fn hardsigmoid(self) -> Value<'g> {
        let x = self.floating("hardsigmoid");
        (x + 3.0).relu6() * x.like(1.0 / 6.0)
    }

    /// `x · min(max(x + 3, 0), 6) / 6`. Same source as [`Value::hardsigmoid`].
    #[track_caller]
    pub fn hardswish(self) -> Value<'g> {
        let x = self.floating("hardswish");
        x * (x + 3.0).clamp(0.0, 6.0) * x.like(1.0 / 6.0)
    }

    /// `x / (1 + |x|)`.
    #[track_caller]
    pub fn softsign(self) -> Value<'g> {
        let x = self.floating("softsign");
        x / (x.abs() + 1.0)
    }

    #[track_caller]
    fn is_positive(self) -> Value<'g> {
        self.gt(self.like(0.0))
    }

    /// `x` where it is not above 0, else 0.
    #[track_caller]
    fn negative_part(self) -> Value<'g> {
        self.is_positive().select(self.like(0.0), self)
    }
}
