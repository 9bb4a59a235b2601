//! Whole trainings of a small network.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod resume;
mod runs;

use meganeura_core::dtype::DType;
use meganeura_core::tensor::Tensor;
use meganeura_nn::data::{Dataset, Field, ItemError, Loader, LoaderOptions, Partial};
use meganeura_nn::layers::{Dropout, Linear};
use meganeura_nn::loss::cross_entropy;
use meganeura_nn::optim::{AdamW, Schedule};
use meganeura_nn::params::Scope;
use meganeura_nn::random::Random;
use meganeura_nn::trainer::{Event, Inputs, Outcome, Recipe, StepReport, Task, TrainError};
use std::cell::RefCell;
use std::rc::Rc;

/// Points of a plane, each of the class of its quadrant's colour.
#[derive(Clone)]
pub(crate) struct Points(pub(crate) usize);

impl Dataset for Points {
    fn len(&self) -> usize {
        self.0
    }

    fn fields(&self) -> Vec<Field> {
        vec![Field::new("points", DType::F32, [2]), Field::new("labels", DType::U32, [])]
    }

    fn item(&self, index: usize, _random: &mut Random) -> Result<Vec<Tensor>, ItemError> {
        let mut random = Random::new(index as u64, "point");
        let point: Vec<f32> = (0..2).map(|_| random.uniform() as f32 * 2.0 - 1.0).collect();
        let label = u32::from((point[0] > 0.0) != (point[1] > 0.0));
        Ok(vec![Tensor::from_f32([2], point)?, Tensor::from_u32([], vec![label])?])
    }
}

/// Two layers with dropout between.
pub(crate) struct Quadrants;

impl Task for Quadrants {
    fn step<'g>(&self, g: &Scope<'_, 'g>, batch: &Inputs<'g>) -> Result<Outcome<'g>, TrainError> {
        let hidden = Linear::new(32).forward(&g.sub("fc1"), batch.get("points")?).tanh();
        let hidden = Dropout::new(0.1).forward(g, hidden);
        let logits = Linear::new(2).forward(&g.sub("fc2"), hidden);
        Ok(Outcome::new(cross_entropy(logits, batch.get("labels")?)).output("logits", logits))
    }
}

pub(crate) fn recipe() -> Recipe {
    Recipe::new(AdamW::default(), Schedule::warmup_cosine(120, 10, 0.03)).training(|training| training.clip_norm(1.0))
}

pub(crate) fn loader(items: usize, batch: usize, partial: Partial) -> Loader {
    let options = LoaderOptions { batch, seed: 5, partial, ..LoaderOptions::default() };
    Loader::new(Points(items), options).unwrap()
}

/// Keeps all events that it is told.
#[derive(Clone, Default)]
pub(crate) struct Kept(Rc<RefCell<Vec<Event>>>);

impl Kept {
    pub(crate) fn observer(&self) -> impl FnMut(&Event) -> Result<(), meganeura_nn::trainer::ObserverError> + 'static {
        let kept = self.clone();
        move |event| {
            kept.0.borrow_mut().push(event.clone());
            Ok(())
        }
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.0.borrow().clone()
    }

    pub(crate) fn reports(&self) -> Vec<StepReport> {
        let report = |event: Event| if let Event::Step(report) = event { Some(report) } else { None };
        self.events().into_iter().filter_map(report).collect()
    }

    pub(crate) fn losses(&self) -> Vec<(u64, u64)> {
        self.reports().iter().map(|report| (report.step, report.loss.to_bits())).collect()
    }
}
