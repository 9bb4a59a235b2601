//! Trains a small network, saves its weights, loads them into another program, and asks that one.

use meganeura::prelude::*;
use std::path::Path;

/// Points, and whether they lie on one side or the other (exclusive or).
const POINTS: [[f32; 2]; 4] = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]];
const SIDES: [u32; 4] = [0, 1, 1, 0];

fn network<'g>(g: &Scope<'_, 'g>, points: Value<'g>) -> Value<'g> {
    let hidden = Linear::new(8).forward(&g.sub("fc1"), points).tanh();
    Linear::new(2).forward(&g.sub("fc2"), hidden)
}

fn train(device: &Device, weights: &Path) -> Result<f32, Error> {
    let builder = Builder::new();
    let parameters = Parameters::new(&builder);
    let points = builder.input("points", TensorType::new(DType::F32, [4, 2]));
    let sides = builder.input("sides", TensorType::new(DType::U32, [4]));
    let loss = cross_entropy(network(&parameters.root(), points), sides);
    Training::new(&parameters, &AdamW::default(), 0.05).minimize(loss);
    builder.output("loss", loss);
    let specs = parameters.specs();
    let program = device.compile(&builder.finish()?, &Options::default(), None)?;
    let store = StateStore::for_program(device, &program)?;
    initialize(&store, &specs, 7)?;
    let mut session = Session::new(device, program.plan, &store)?;
    session.write("points", &Tensor::from_f32([4, 2], POINTS.concat())?)?;
    session.write("sides", &Tensor::from_u32([4], SIDES.to_vec())?)?;
    (0..300).try_for_each(|_| session.step())?;
    save_states(weights, &store, specs.iter().map(|spec| spec.name.as_str()))?;
    Ok(session.read("loss")?.as_f32()?[0])
}

fn infer(device: &Device, weights: &Path) -> Result<Vec<u32>, Error> {
    let builder = Builder::new();
    let points = builder.input("points", TensorType::new(DType::F32, [4, 2]));
    builder.output("logits", network(&Parameters::inference(&builder).root(), points));
    let program = device.compile(&builder.finish()?, &Options::default(), None)?;
    let store = StateStore::for_program(device, &program)?;
    Checkpoint::open(weights)?.load_states(&store, store.names())?;
    let mut session = Session::new(device, program.plan, &store)?;
    session.write("points", &Tensor::from_f32([4, 2], POINTS.concat())?)?;
    session.step()?;
    Ok(session.read("logits")?.as_f32()?.chunks(2).map(|row| u32::from(row[1] > row[0])).collect())
}

fn main() -> Result<(), Error> {
    let (device, weights) = (Device::best(), std::env::temp_dir().join("downstream.safetensors"));
    println!("loss {:.4}", train(&device, &weights)?);
    println!("{:?}, expected {SIDES:?}", infer(&device, &weights)?);
    Ok(())
}
