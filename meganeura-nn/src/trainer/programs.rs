//! The programs of a training, one for each shape of batches.

use super::error::TrainError;
use super::recipe::Recipe;
use super::task::Task;
use crate::data::Batch;
use crate::params::ParameterSpec;
use crate::train::initialize;
use meganeura_core::ir::Graph;
use meganeura_core::options::Options;
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use meganeura_wgpu::{Device, Session, StateStore};

/// The fields of a batch, by name.
pub(super) type Tensors = Vec<(String, Tensor)>;

/// Sessions on one store. A program has one shape, so that the partial batch at the end of an epoch has programs of its
/// own, made when it first comes: it is computed as any other batch of its size, without filling.
pub(super) struct Programs<'a> {
    device: &'a Device,
    pub recipe: &'a Recipe,
    pub task: &'a dyn Task,
    options: Options,
    pub store: StateStore,
    pub parameters: Vec<ParameterSpec>,
    training: Vec<Compiled>,
    validation: Vec<Compiled>,
}

struct Compiled {
    fields: Vec<(String, TensorType)>,
    session: Session,
    /// Names of its outputs.
    outputs: Vec<String>,
}

impl<'a> Programs<'a> {
    /// The program that trains on batches like this one, and a store with first values.
    pub fn new(
        device: &'a Device,
        recipe: &'a Recipe,
        task: &'a dyn Task,
        fields: &[(String, TensorType)],
        seed: u64,
    ) -> Result<Programs<'a>, TrainError> {
        let made = recipe.training_graph(task, fields)?;
        let options = Options::default();
        let program = device.compile(&made.graph, &options, None)?;
        let store = StateStore::for_program(device, &program)?;
        initialize(&store, &made.parameters, seed)?;
        let session = Session::new(device, program.plan, &store)?;
        let first = Compiled { fields: fields.to_vec(), session, outputs: outputs(&made.graph) };
        let (training, validation) = (vec![first], Vec::new());
        Ok(Programs { device, recipe, task, options, store, parameters: made.parameters, training, validation })
    }

    /// Trains on a batch; its session, for reading. Does not wait.
    pub fn train(&mut self, batch: &Tensors) -> Result<&mut Session, TrainError> {
        let at = match position(&self.training, batch) {
            Some(at) => at,
            None => {
                let graph = self.recipe.training_graph(self.task, &types(batch))?.graph;
                let compiled = self.compile(batch, &graph)?;
                self.training.push(compiled);
                self.training.len() - 1
            }
        };
        let Compiled { session, .. } = &mut self.training[at];
        step(session, batch)?;
        Ok(session)
    }

    /// The outputs of a batch in validation.
    pub fn validate(&mut self, batch: &Tensors) -> Result<Tensors, TrainError> {
        let at = match position(&self.validation, batch) {
            Some(at) => at,
            None => {
                let graph = self.recipe.validation_graph(self.task, &types(batch))?.graph;
                let compiled = self.compile(batch, &graph)?;
                self.validation.push(compiled);
                self.validation.len() - 1
            }
        };
        let Compiled { session, outputs, .. } = &mut self.validation[at];
        step(session, batch)?;
        outputs.iter().map(|name| Ok((name.clone(), session.read(name)?))).collect()
    }

    fn compile(&self, batch: &Tensors, graph: &Graph) -> Result<Compiled, TrainError> {
        let program = self.device.compile(graph, &self.options, Some(self.store.layout()))?;
        let session = Session::new(self.device, program.plan, &self.store)?;
        Ok(Compiled { fields: types(batch), session, outputs: outputs(graph) })
    }

    /// The session that trains on full batches.
    pub fn into_session(mut self) -> Session {
        self.training.swap_remove(0).session
    }
}

fn step(session: &mut Session, batch: &Tensors) -> Result<(), TrainError> {
    // A field that the task does not use is no input of the simplified program.
    let known: Vec<String> = session.plan().inputs.iter().map(|port| port.name.clone()).collect();
    for (name, tensor) in batch.iter().filter(|(name, _)| known.contains(name)) {
        session.write(name, tensor)?;
    }
    Ok(session.step()?)
}

fn position(compiled: &[Compiled], batch: &Tensors) -> Option<usize> {
    let same = |fields: &[(String, TensorType)]| {
        let equal = |((a, ty), (b, tensor)): (&(String, TensorType), &(String, Tensor))| a == b && ty == tensor.ty();
        fields.len() == batch.len() && fields.iter().zip(batch).all(equal)
    };
    compiled.iter().position(|compiled| same(&compiled.fields))
}

fn outputs(graph: &Graph) -> Vec<String> {
    graph.outputs().iter().map(|output| output.name.clone()).collect()
}

/// Names and types of the fields of a batch.
pub(super) fn types(batch: &Tensors) -> Vec<(String, TensorType)> {
    batch.iter().map(|(name, tensor)| (name.clone(), tensor.ty().clone())).collect()
}

/// The rows of a batch that count: what filled it up is cut off.
pub(super) fn rows(batch: Batch) -> Result<Tensors, TrainError> {
    let count = batch.items.len();
    let cut = |(name, tensor): (String, Tensor)| {
        if tensor.shape().first() == Some(&count) {
            return Ok((name, tensor));
        }
        let mut extents = tensor.shape().to_vec();
        let all = extents.first_mut().map_or(count, |first| std::mem::replace(first, count));
        let bytes = tensor.ty().bytes() / all.max(1) * count;
        let ty = TensorType::new(tensor.dtype(), extents);
        Ok((name, Tensor::from_bytes(ty, &tensor.bytes()[..bytes])?))
    };
    batch.tensors.into_iter().map(cut).collect()
}
