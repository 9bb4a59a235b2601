//! Kernels other than products at the shapes of real networks: SmolLM2-135M at 128 tokens, a small Stable Diffusion U-Net
//! at 32², ResNet-50 at a batch of 4, Whisper-tiny's encoder.

use crate::common::Random;
use meganeura::prelude::*;
use std::cell::RefCell;

/// A small program.
pub struct Case {
    /// Kind of kernel.
    pub family: &'static str,
    /// Network and place.
    pub name: &'static str,
    pub build: for<'g> fn(&Tensors<'g>) -> Value<'g>,
}

/// A graph to measure, with the output `y`.
pub struct Built {
    pub graph: Graph,
    /// For each state of indices the limit below which they are.
    pub limits: Vec<(String, usize)>,
}

/// What a case computes with: states that hold random numbers.
pub struct Tensors<'g> {
    builder: &'g Builder,
    /// For each state of indices the limit below which they are.
    limits: RefCell<Vec<(String, usize)>>,
    count: RefCell<usize>,
}

/// Every case; in each family the larger ones first.
pub const CASES: &[Case] = &[
    Case { family: "softmax", name: "whisper scores 6×1500×1500", build: |t| t.floats([6, 1500, 1500]).softmax(2) },
    Case { family: "softmax", name: "smollm2 scores 9×128×128", build: |t| t.floats([9, 128, 128]).softmax(2) },
    Case {
        family: "softmax",
        name: "smollm2 scores, gradient",
        build: |t| gradient(t, [9, 128, 128], |x| x.softmax(2)),
    },
    Case { family: "norm", name: "whisper layer norm 1500×384", build: |t| layer_norm(t, t.floats([1500, 384])) },
    Case {
        family: "norm",
        name: "whisper layer norm, gradient",
        build: |t| gradient(t, [1500, 384], |x| layer_norm(t, x)),
    },
    Case { family: "norm", name: "smollm2 RMS norm 128×576", build: |t| rms_norm(t, t.floats([128, 576])) },
    Case { family: "norm", name: "smollm2 RMS norm, gradient", build: |t| gradient(t, [128, 576], |x| rms_norm(t, x)) },
    Case {
        family: "norm", name: "unet group norm 16 of 64×32²", build: |t| group_norm(t, t.floats([1, 64, 32, 32]))
    },
    Case {
        family: "norm",
        name: "unet group norm, gradient",
        build: |t| gradient(t, [1, 64, 32, 32], |x| group_norm(t, x)),
    },
    Case { family: "rope", name: "smollm2 rope 9×128×64", build: |t| rope(t.floats([1, 9, 128, 64])) },
    Case { family: "rope", name: "smollm2 rope 9×2048×64", build: |t| rope(t.floats([1, 9, 2048, 64])) },
    Case { family: "rope", name: "smollm2 rope, gradient", build: |t| gradient(t, [1, 9, 2048, 64], rope) },
    Case {
        family: "loss",
        name: "smollm2 cross-entropy 128×49152",
        build: |t| cross_entropy(t, t.floats([128, 49152])),
    },
    Case {
        family: "loss",
        name: "smollm2 cross-entropy, gradient",
        build: |t| {
            let logits = t.floats([128, 49152]);
            t.builder.gradients(cross_entropy(t, logits), &[logits])[0]
        },
    },
    Case { family: "loss", name: "whisper mean square 1500×384", build: |t| square(t.floats([1500, 384])).mean_all() },
    Case { family: "sum", name: "whisper bias gradient 1500×1536", build: |t| t.floats([1500, 1536]).sum([0]) },
    Case { family: "sum", name: "resnet mean of 8192 planes 7×7", build: |t| t.floats([8192, 49]).mean([1]) },
    Case { family: "map", name: "smollm2 AdamW 49152×576", build: |t| adamw(t, [49152, 576]) },
    Case { family: "map", name: "resnet ReLU 4×64×112×112", build: |t| t.floats([4, 64, 112, 112]).relu() },
    Case { family: "map", name: "whisper GELU 1500×1536", build: |t| t.floats([1500, 1536]).gelu() },
    Case { family: "map", name: "whisper GELU, gradient", build: |t| gradient(t, [1500, 1536], |x| x.gelu()) },
    Case { family: "map", name: "smollm2 SwiGLU 128×1536", build: |t| swiglu(t, [128, 1536]) },
    Case { family: "map", name: "smollm2 residual 128×576", build: |t| t.floats([128, 576]) + t.floats([128, 576]) },
    Case { family: "gather", name: "smollm2 embedding 128 of 49152×576", build: |t| embedding(t, 49152, 576, 128) },
    Case {
        family: "gather",
        name: "smollm2 embedding, gradient",
        build: |t| t.floats([128, 576]).scatter_add(t.indices(128, 49152), 0, 49152),
    },
    Case {
        family: "permute",
        name: "whisper heads 1500×6×64",
        build: |t| t.floats([1500, 6, 64]).permute([1, 2, 0]) * 2.0,
    },
];

impl Built {
    /// The graph that computes `build`.
    pub fn new(build: impl for<'g> Fn(&Tensors<'g>) -> Value<'g>) -> Result<Built, BuildErrors> {
        let builder = Builder::new();
        let tensors = Tensors { builder: &builder, limits: RefCell::default(), count: RefCell::default() };
        builder.output("y", build(&tensors));
        let limits = tensors.limits.into_inner();
        Ok(Built { graph: builder.finish()?, limits })
    }
}

/// Fills every state with random numbers.
pub fn fill(store: &StateStore, program: &Program, limits: &[(String, usize)]) -> Result<(), Error> {
    for (at, port) in program.plan.states.iter().enumerate() {
        let mut random = Random(at as u64);
        let elements = port.ty.elements();
        let limit = limits.iter().find(|(name, _)| *name == port.name).map(|(_, limit)| *limit);
        let shape = port.ty.shape.clone();
        let tensor = match limit {
            Some(limit) => Tensor::from_u32(shape, (0..elements).map(|_| random.below(limit) as u32).collect())?,
            // Second moments must not be negative.
            None => Tensor::from_f32(shape, (0..elements).map(|_| random.uniform() + 0.5).collect())?,
        };
        store.write(&port.name, &tensor)?;
    }
    Ok(())
}

impl<'g> Tensors<'g> {
    fn state(&self, ty: TensorType) -> Value<'g> {
        let name = format!("x{}", self.count.replace_with(|count| *count + 1));
        let init = Scalar::zero(ty.dtype);
        // A group each: together they may exceed what one binding holds.
        self.builder.state(StateSpec { group: name.clone(), name, ty, init })
    }

    /// Has one more output computed.
    pub fn output(&self, name: &str, value: Value<'g>) {
        self.builder.output(name, value);
    }

    /// Floats in (0, 1).
    pub fn floats(&self, shape: impl Into<Shape>) -> Value<'g> {
        self.state(TensorType::new(DType::F32, shape))
    }

    /// So many indices below `limit`.
    fn indices(&self, count: usize, limit: usize) -> Value<'g> {
        let name = format!("x{}", self.count.borrow());
        self.limits.borrow_mut().push((name, limit));
        self.state(TensorType::new(DType::U32, [count]))
    }
}

/// The gradient of a function with respect to its operand, for a random cotangent.
fn gradient<'g>(t: &Tensors<'g>, shape: impl Into<Shape>, f: impl Fn(Value<'g>) -> Value<'g>) -> Value<'g> {
    let x = t.floats(shape);
    toward(t, f(x), x)
}

/// The gradient of `y` with respect to `x`, for a random cotangent.
pub fn toward<'g>(t: &Tensors<'g>, y: Value<'g>, x: Value<'g>) -> Value<'g> {
    toward_all(t, y, &[x])[0]
}

/// The gradients of `y` with respect to each of `xs`, for a random cotangent.
pub fn toward_all<'g>(t: &Tensors<'g>, y: Value<'g>, xs: &[Value<'g>]) -> Vec<Value<'g>> {
    let cotangent = t.floats(y.shape());
    t.builder.gradients((y * cotangent).sum_all(), xs)
}

fn square(x: Value<'_>) -> Value<'_> {
    x * x
}

fn layer_norm<'g>(t: &Tensors<'g>, x: Value<'g>) -> Value<'g> {
    let width = x.shape()[1];
    x.layer_norm(1, 1e-5) * t.floats([width]) + t.floats([width])
}

fn rms_norm<'g>(t: &Tensors<'g>, x: Value<'g>) -> Value<'g> {
    x.rms_norm(1, 1e-5) * t.floats([x.shape()[1]])
}

fn group_norm<'g>(t: &Tensors<'g>, x: Value<'g>) -> Value<'g> {
    let [weight, bias] = [(); 2].map(|()| t.floats([x.shape()[1]]).along(1, x));
    x.group_norm(16, 1e-5) * weight + bias
}

/// By SmolLM2's base.
fn rope(x: Value<'_>) -> Value<'_> {
    x.rope(&Rope { base: 1e5, ..Rope::default() })
}

fn cross_entropy<'g>(t: &Tensors<'g>, logits: Value<'g>) -> Value<'g> {
    let [rows, classes] = [logits.shape()[0], logits.shape()[1]];
    logits.cross_entropy(t.indices(rows, classes)).mean_all()
}

fn swiglu<'g>(t: &Tensors<'g>, shape: [usize; 2]) -> Value<'g> {
    t.floats(shape).swiglu(t.floats(shape))
}

fn embedding<'g>(t: &Tensors<'g>, rows: usize, width: usize, count: usize) -> Value<'g> {
    t.floats([rows, width]).gather(t.indices(count, rows), 0)
}

/// An update as `optim::AdamW` builds it, moments and parameter in place; the output is one number.
fn adamw<'g>(t: &Tensors<'g>, shape: [usize; 2]) -> Value<'g> {
    let [p, g, m_old, v_old] = [(); 4].map(|()| t.floats(shape));
    let m = m_old * 0.9 + g * 0.1;
    let v = v_old * 0.95 + square(g) * 0.05;
    t.builder.update(m_old, m);
    t.builder.update(v_old, v);
    t.builder.update(p, p * 0.9999 - m * 0.001 / (v.sqrt() + 1e-8));
    t.builder.constant(0.0)
}
