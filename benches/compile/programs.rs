//! Training programs of several kinds and depths.

use meganeura::prelude::*;

/// A program by name.
pub struct Model {
    pub name: String,
    pub build: Box<dyn Fn() -> Result<Graph, BuildErrors>>,
}

/// Rows of a batch.
const BATCH: usize = 64;

/// All of them; small ones of each kind if `quick`.
pub fn models(quick: bool) -> Vec<Model> {
    let (depths, blocks): (&[usize], &[usize]) = if quick { (&[8, 32], &[1]) } else { (&[8, 32, 128, 512], &[6]) };
    let mlps = depths.iter().map(|&depth| named(format!("MLP {depth}"), move || mlp(depth)));
    let blocks = blocks.iter().map(|&blocks| named(format!("blocks {blocks}"), move || transformer(blocks)));
    mlps.chain([named("CNN".to_owned(), cnn)]).chain(blocks).collect()
}

fn named(name: String, build: impl Fn() -> Result<Graph, BuildErrors> + 'static) -> Model {
    Model { name, build: Box::new(build) }
}

/// `depth` layers of 64 features, each with a ReLU.
fn mlp(depth: usize) -> Result<Graph, BuildErrors> {
    const WIDTH: usize = 64;
    let builder = Builder::new();
    let parameters = Parameters::new(&builder);
    let root = parameters.root();
    let mut h = builder.input("x", TensorType::new(DType::F32, [BATCH, WIDTH]));
    for at in 0..depth {
        h = Linear::new(WIDTH).forward(&root.sub(at), h).relu();
    }
    let loss = (h * h).mean_all();
    AdamW::default().minimize(&parameters, loss, builder.constant(1e-3));
    builder.output("loss", loss);
    builder.finish()
}

/// A network for the digits of MNIST: two convolutions, a pool, two affine maps.
fn cnn() -> Result<Graph, BuildErrors> {
    let builder = Builder::new();
    let parameters = Parameters::new(&builder);
    let root = parameters.root();
    let images = builder.input("images", TensorType::new(DType::F32, [BATCH, 1, 28, 28]));
    let labels = builder.input("labels", TensorType::new(DType::U32, [BATCH]));
    let h = Conv2d::new(32, 3).forward(&root.sub("conv1"), images).relu();
    let h = Conv2d::new(64, 3).forward(&root.sub("conv2"), h).relu();
    let h = MaxPool2d::new(2).forward(h).reshape([BATCH, 64 * 12 * 12]);
    let h = Linear::new(128).forward(&root.sub("fc1"), h).relu();
    let loss = cross_entropy(Linear::new(10).forward(&root.sub("fc2"), h), labels);
    AdamW::default().minimize(&parameters, loss, builder.constant(1e-3));
    builder.output("loss", loss);
    builder.finish()
}

/// Blocks of a decoder of GPT-2's kind: 384 features, 6 heads, 128 positions.
fn transformer(blocks: usize) -> Result<Graph, BuildErrors> {
    const WIDTH: usize = 384;
    let builder = Builder::new();
    let parameters = Parameters::new(&builder);
    let root = parameters.root();
    let layer = TransformerEncoderLayer::new(6, 4 * WIDTH)
        .with_attention(MultiHeadAttention::new(6).causal())
        .with_activation(Activation::Gelu)
        .norm_first();
    let mut h = builder.input("x", TensorType::new(DType::F32, [4, 128, WIDTH]));
    for at in 0..blocks {
        h = layer.forward(&root.sub(at), h);
    }
    let loss = (h * h).mean_all();
    AdamW::default().minimize(&parameters, loss, builder.constant(1e-3));
    builder.output("loss", loss);
    builder.finish()
}
