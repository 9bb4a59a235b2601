//! A small training with everything that a resumed one could get wrong: dropout, shuffling, random changes of items, batches
//! that are filled up, accumulation over steps, clipping, AdamW, moving averages and a schedule.

use meganeura_core::dtype::DType;
use meganeura_core::ir::Builder;
use meganeura_core::options::Options;
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use meganeura_nn::checkpoint::{CheckpointError, CheckpointFolder, Progress, Saved};
use meganeura_nn::data::{Dataset, Field, ItemError, Loader, LoaderOptions, LoaderState, Partial};
use meganeura_nn::layers::{Dropout, Linear};
use meganeura_nn::loss::weighted_mean;
use meganeura_nn::optim::{AdamW, Schedule, Training};
use meganeura_nn::params::{ParameterSpec, Parameters};
use meganeura_nn::random::Random;
use meganeura_nn::train::initialize;
use meganeura_wgpu::{Device, Session, StateStore};

const ITEMS: usize = 37;
const FEATURES: usize = 8;
const CLASSES: usize = 4;
const BATCH: usize = 5;
const SEED: u64 = 11;

/// Points that are classified by the largest of their first coordinates, and shaken a little each time.
struct Points;

impl Dataset for Points {
    fn len(&self) -> usize {
        ITEMS
    }

    fn fields(&self) -> Vec<Field> {
        vec![Field::new("points", DType::F32, [FEATURES]), Field::new("labels", DType::U32, [])]
    }

    fn item(&self, index: usize, random: &mut Random) -> Result<Vec<Tensor>, ItemError> {
        let mut own = Random::new(index as u64, "point");
        let point: Vec<f32> = (0..FEATURES).map(|_| own.normal() as f32).collect();
        let label = (1..CLASSES).fold(0, |best, class| if point[class] > point[best] { class } else { best });
        let shaken = point.iter().map(|x| x + 0.1 * random.normal() as f32).collect();
        Ok(vec![Tensor::from_f32([FEATURES], shaken)?, Tensor::from_u32([], vec![label as u32])?])
    }
}

/// The training.
pub struct Run {
    session: Session,
    loader: Loader,
    parameters: Vec<ParameterSpec>,
    pub step: u64,
}

impl Run {
    /// At its beginning.
    pub fn new(device: &Device) -> Run {
        let builder = Builder::new();
        let parameters = Parameters::new(&builder);
        let root = parameters.root();
        let points = builder.input("points", TensorType::new(DType::F32, [BATCH, FEATURES]));
        let labels = builder.input("labels", TensorType::new(DType::U32, [BATCH]));
        let weights = builder.input("weights", TensorType::new(DType::F32, [BATCH]));
        let hidden = Linear::new(16).forward(&root.sub("fc1"), points).relu();
        let hidden = Dropout::new(0.3).forward(&root, hidden);
        let logits = Linear::new(CLASSES).forward(&root.sub("fc2"), hidden);
        let loss = weighted_mean(logits.cross_entropy(labels), weights);
        let schedule = Schedule::warmup_cosine(100, 10, 0.02);
        let adamw = AdamW { weight_decay: 0.05, ..AdamW::default() };
        let training = Training::new(&parameters, &adamw, schedule);
        training.accumulate(3).clip_norm(1.0).average(0.9).minimize(loss);
        builder.output("loss", loss);
        let specs = parameters.specs();
        drop(parameters);
        let program = device.compile(&builder.finish().unwrap(), &Options::default(), None).unwrap();
        let store = StateStore::for_program(device, &program).unwrap();
        initialize(&store, &specs, SEED).unwrap();
        let session = Session::new(device, program.plan, &store).unwrap();
        let options = LoaderOptions { batch: BATCH, seed: SEED, partial: Partial::Pad, ..LoaderOptions::default() };
        Run { session, loader: Loader::new(Points, options).unwrap(), parameters: specs, step: 0 }
    }

    /// Where a checkpoint left it.
    pub fn resumed(device: &Device, saved: &Saved) -> Run {
        let mut run = Run::new(device);
        saved.load(run.session.store()).unwrap();
        run.loader.restore(saved.progress.part::<LoaderState>("data").unwrap()).unwrap();
        run.step = saved.progress.step;
        run
    }

    pub fn step(&mut self) {
        let batch = loop {
            if let Some(batch) = self.loader.next_batch().unwrap() {
                break batch;
            }
        };
        batch.write(&mut self.session).unwrap();
        self.session.step().unwrap();
        self.step += 1;
    }

    pub fn save(&mut self, folder: &CheckpointFolder) -> Result<Saved, CheckpointError> {
        let mut progress = Progress::new(self.step).with("data", &self.loader.state()).unwrap();
        let loss = self.session.read("loss").unwrap().as_f32().unwrap()[0];
        progress.metric = Some(f64::from(loss));
        self.save_as(folder, &progress)
    }

    pub fn save_as(&self, folder: &CheckpointFolder, progress: &Progress) -> Result<Saved, CheckpointError> {
        Saved::open(&folder.save(self.store(), &self.parameters, progress)?)
    }

    pub fn store(&self) -> &StateStore {
        self.session.store()
    }

    /// Name and bytes of every state.
    pub fn states(&self) -> Vec<(String, Vec<u8>)> {
        let store = self.session.store();
        store.names().map(|name| (name.to_owned(), store.read(name).unwrap().bytes().to_vec())).collect()
    }
}
