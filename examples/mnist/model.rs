//! The network: 784 pixels, two hidden layers, 10 classes.

use meganeura::prelude::*;

/// Width of the hidden layers.
const HIDDEN: usize = 256;

/// A graph and the parameters that it uses.
pub struct Model {
    pub graph: Graph,
    pub parameters: Vec<ParameterSpec>,
}

/// `images`: `f32[batch, 784]`; the result is `f32[batch, 10]`.
fn logits<'g>(scope: &Scope<'_, 'g>, images: Value<'g>) -> Value<'g> {
    let hidden = Linear::new(HIDDEN).forward(&scope.sub("fc1"), images).relu();
    let hidden = Linear::new(HIDDEN / 2).forward(&scope.sub("fc2"), hidden).relu();
    Linear::new(Mnist::CLASSES).forward(&scope.sub("fc3"), hidden)
}

/// One step of AdamW. Inputs `images`, `labels` (`u32[batch]`) and `rate` (`f32[]`), output `loss`.
pub fn training(batch: usize) -> Result<Model, BuildErrors> {
    let builder = Builder::new();
    let parameters = Parameters::new(&builder);
    let images = builder.input("images", TensorType::new(DType::F32, [batch, Mnist::PIXELS]));
    let labels = builder.input("labels", TensorType::new(DType::U32, [batch]));
    let rate = builder.input("rate", TensorType::new(DType::F32, []));
    let loss = cross_entropy(logits(&parameters.root(), images), labels);
    AdamW::default().minimize(&parameters, loss, rate);
    builder.output("loss", loss);
    let parameters = parameters.specs();
    Ok(Model { graph: builder.finish()?, parameters })
}

/// The same network alone. Input `images`, output `probabilities` (`f32[batch, 10]`).
pub fn inference(batch: usize) -> Result<Model, BuildErrors> {
    let builder = Builder::new();
    let parameters = Parameters::inference(&builder);
    let images = builder.input("images", TensorType::new(DType::F32, [batch, Mnist::PIXELS]));
    builder.output("probabilities", logits(&parameters.root(), images).softmax(1));
    let parameters = parameters.specs();
    Ok(Model { graph: builder.finish()?, parameters })
}
