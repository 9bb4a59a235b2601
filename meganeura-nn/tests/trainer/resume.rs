//! Checkpoints, and trainings that go on from them.

use super::*;
use meganeura_nn::checkpoint::Saved;
use meganeura_nn::trainer::metrics::TopK;
use meganeura_nn::trainer::{Aim, Checkpoints, Ended, Every, Fitted, Interrupt, Trainer};
use meganeura_wgpu::Device;
use std::path::Path;

fn fit(checkpoints: Checkpoints, change: impl FnOnce(Trainer) -> Trainer) -> Fitted {
    let trainer = Trainer::new(&Device::cpu(), recipe()).epochs(4).checkpoints(checkpoints);
    let trainer = trainer.metric(TopK::accuracy("logits", "labels"));
    let (training, validation) = (loader(300, 32, Partial::Pad), loader(90, 32, Partial::Pad));
    change(trainer).fit(&Quadrants, training, Some(validation)).unwrap()
}

fn states(fitted: &Fitted) -> Vec<(String, Tensor)> {
    fitted.store.names().map(|name| (name.to_owned(), fitted.store.read(name).unwrap())).collect()
}

/// Stops at the report of a step, which is read one step later.
fn interrupted(folder: &Path, step: u64) -> Fitted {
    let interrupt = Interrupt::new();
    let request = interrupt.clone();
    let stop = move |event: &Event| {
        if event.step() == Some(step) {
            request.request();
        }
        Ok(())
    };
    let checkpoints = Checkpoints::new(folder.join("run")).resume(true);
    fit(checkpoints, |trainer| trainer.interrupt(&interrupt).on_event(stop).log(folder.join("log.jsonl")))
}

#[test]
fn a_resumed_training_ends_with_the_bits_of_an_uninterrupted_one() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let whole = fit(Checkpoints::new(one.path().join("run")), |trainer| trainer.log(one.path().join("log.jsonl")));
    // In an epoch, at the last step of one, and in the partial batch.
    for step in [4, 9, 25] {
        assert_eq!(interrupted(other.path(), step).ended, Ended::Interrupted);
    }
    let resumed = interrupted(other.path(), 1000);
    assert_eq!((resumed.ended, resumed.step, whole.step), (Ended::Finished, 40, 40));
    assert!(states(&whole) == states(&resumed));
    assert_eq!(whole.values, resumed.values);
    assert_eq!(whole.history.series("loss", false), resumed.history.series("loss", false));
    assert_eq!(whole.history.series("accuracy", true), resumed.history.series("accuracy", true));
    // What is done is not done again.
    let again = interrupted(other.path(), 1000);
    assert_eq!((again.ended, again.step), (Ended::Finished, 40));
    assert!(states(&whole) == states(&again));
}

#[test]
fn the_last_and_the_best_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let kept = Kept::default();
    let checkpoints = Checkpoints::new(&path).keep_last(2).keep_best("loss", Aim::Most).every(Every::Steps(5));
    fit(checkpoints, |trainer| trainer.validate_every(Every::Steps(5)).on_event(kept.observer()));
    let loss = |event: &Event| match event {
        Event::Validation { step, values, .. } => Some((*step, values[0].1)),
        _ => None,
    };
    let losses: Vec<(u64, f64)> = kept.events().iter().filter_map(loss).collect();
    let worst = losses.iter().fold(losses[0], |worst, next| if next.1 > worst.1 { *next } else { worst });
    let saved = Saved::list(&path).unwrap();
    let steps: Vec<u64> = saved.iter().map(|saved| saved.progress.step).collect();
    assert_eq!(steps, [worst.0, 35, 40]);
    assert_eq!(saved[0].progress.metric, Some(worst.1));
    let event = kept.events().into_iter().filter(|event| matches!(event, Event::Saved { .. })).count();
    assert_eq!(event, 8);
}

#[test]
fn a_diverged_state_is_never_saved() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = Recipe::new(AdamW::default(), Schedule::line(6, 0.01, 0.01).then(Schedule::constant(f32::MAX)));
    let checkpoints = Checkpoints::new(folder.path()).every(Every::Steps(1)).keep_last(100);
    let trainer = Trainer::new(&Device::cpu(), recipe).epochs(9).report_every(50).checkpoints(checkpoints);
    let error = trainer.fit(&Quadrants, loader(64, 32, Partial::Drop), None).unwrap_err();
    let TrainError::NotFinite { step, .. } = error else { panic!("{error}") };
    for saved in Saved::list(folder.path()).unwrap() {
        assert!(saved.progress.step < step);
    }
}
