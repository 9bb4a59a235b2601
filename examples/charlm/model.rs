//! The network: a small causal transformer over characters, and the three programs that are built of it.

use meganeura::prelude::*;

/// Characters that the network sees.
pub const WINDOW: usize = 64;
/// Features of a character.
const WIDTH: usize = 128;
/// Heads of attention.
const HEADS: usize = 4;
/// Layers.
const LAYERS: usize = 3;

/// A graph and the parameters that it uses.
pub struct Model {
    pub graph: Graph,
    pub parameters: Vec<ParameterSpec>,
}

/// `tokens`: `u32[batch, WINDOW]`; the result is `f32[batch, WINDOW, vocabulary]`: for each character, what follows it.
fn logits<'g>(g: &Scope<'_, 'g>, tokens: Value<'g>, vocabulary: usize) -> Value<'g> {
    let attention = MultiHeadAttention::new(HEADS).causal().rope(Rope::default());
    let mut x = Embedding::new(vocabulary, WIDTH).forward(&g.sub("embedding"), tokens);
    for layer in 0..LAYERS {
        let g = g.sub("layers").sub(layer);
        x = x + attention.forward(&g.sub("attention"), RmsNorm::default().forward(&g.sub("norm1"), x));
        x = x + Mlp::new(4 * WIDTH, WIDTH).forward(&g.sub("mlp"), RmsNorm::default().forward(&g.sub("norm2"), x));
    }
    let x = RmsNorm::default().forward(&g.sub("norm"), x);
    Linear::new(vocabulary).forward(&g.sub("head"), x)
}

fn input<'g>(builder: &'g Builder, name: &str, batch: usize) -> Value<'g> {
    builder.input(name, TensorType::new(DType::U32, [batch, WINDOW]))
}

/// One step of AdamW. Inputs `tokens` and `targets` (`u32[batch, WINDOW]`), output `loss` (`f32[]`).
pub fn training(vocabulary: usize, batch: usize, rate: Schedule) -> Result<Model, BuildErrors> {
    let builder = Builder::new();
    let parameters = Parameters::new(&builder);
    let logits = logits(&parameters.root(), input(&builder, "tokens", batch), vocabulary);
    let loss = cross_entropy(logits, input(&builder, "targets", batch));
    Training::new(&parameters, &AdamW::default(), rate).decay_matrices_only().clip_norm(1.0).minimize(loss);
    builder.output("loss", loss);
    let parameters = parameters.specs();
    Ok(Model { graph: builder.finish()?, parameters })
}

/// Inputs `tokens` and `targets`, output `losses` (`f32[batch]`), the mean of each window.
pub fn evaluation(vocabulary: usize, batch: usize) -> Result<Model, BuildErrors> {
    let builder = Builder::new();
    let parameters = Parameters::inference(&builder);
    let logits = logits(&parameters.root(), input(&builder, "tokens", batch), vocabulary);
    builder.output("losses", logits.cross_entropy(input(&builder, "targets", batch)).mean([1]));
    let parameters = parameters.specs();
    Ok(Model { graph: builder.finish()?, parameters })
}

/// Input `tokens` (`u32[1, WINDOW]`), output `logits` (`f32[1, WINDOW, vocabulary]`).
pub fn generation(vocabulary: usize) -> Result<Model, BuildErrors> {
    let builder = Builder::new();
    let parameters = Parameters::inference(&builder);
    builder.output("logits", logits(&parameters.root(), input(&builder, "tokens", 1), vocabulary));
    let parameters = parameters.specs();
    Ok(Model { graph: builder.finish()?, parameters })
}
