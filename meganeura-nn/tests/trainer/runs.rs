//! Steps, validations and ends.

use super::*;
use meganeura_nn::trainer::metrics::{ConfusionMatrix, Perplexity, TopK};
use meganeura_nn::trainer::{Aim, EarlyStop, Ended, Every, Interrupt, Trainer};
use meganeura_wgpu::Device;

#[test]
fn it_learns_and_reports_every_step() {
    let kept = Kept::default();
    let trainer = Trainer::new(&Device::cpu(), recipe())
        .epochs(12)
        .metric(TopK::accuracy("logits", "labels"))
        .metric(Perplexity::new("logits", "labels"))
        .on_event(kept.observer());
    let fitted = trainer.fit(&Quadrants, loader(320, 32, Partial::Drop), Some(loader(90, 32, Partial::Pad))).unwrap();
    assert_eq!((fitted.ended, fitted.step), (Ended::Finished, 120));
    let value = |name: &str| fitted.values.iter().find(|(own, _)| own == name).unwrap().1;
    assert!(value("accuracy") > 0.9, "{:?}", fitted.values);
    // Both are over the same 90 items, the last 26 of them in a batch of their own.
    assert!((value("perplexity") - value("loss").exp()).abs() < 1e-5, "{:?}", fitted.values);
    let reports = kept.reports();
    assert_eq!(reports.iter().map(|report| report.step).collect::<Vec<_>>(), (1..=120).collect::<Vec<_>>());
    let schedule = Schedule::warmup_cosine(120, 10, 0.03);
    for report in &reports {
        assert!((report.rate - schedule.at(report.step - 1)).abs() < 1e-6);
        assert!(report.gradient_norm.unwrap() > 0.0 && report.per_second > 0.0);
        assert_eq!((report.epoch, report.in_epoch), ((report.step - 1) / 10, (report.step - 1) % 10 + 1));
    }
    let kinds = kept.events().iter().filter(|event| matches!(event, Event::Validation { .. })).count();
    assert_eq!((kinds, fitted.history.series("accuracy", true).len()), (12, 12));
    assert!(matches!(kept.events().last(), Some(Event::End { step: 120, epoch: 12, ended: Ended::Finished })));
}

#[test]
fn a_partial_batch_is_trained_and_validated_as_what_it_is() {
    // 70 items are batches of 32, 32 and 6; of 70 a single one. Without shuffling the loss of the untrained model is that of
    // the same items.
    let validated = |batch: usize| {
        let trainer = Trainer::new(&Device::cpu(), recipe()).metric(ConfusionMatrix::new("logits", "labels")).steps(1);
        let trainer = trainer.validate_every(Every::Steps(1));
        trainer.fit(&Quadrants, loader(64, 64, Partial::Drop), Some(loader(70, batch, Partial::Pad))).unwrap().values
    };
    let (parts, whole) = (validated(32), validated(70));
    assert_eq!(parts[1], whole[1]);
    assert!((parts[0].1 - whole[0].1).abs() < 1e-6, "{parts:?} {whole:?}");
    let kept = Kept::default();
    let trainer = Trainer::new(&Device::cpu(), recipe()).epochs(2).on_event(kept.observer());
    assert_eq!(trainer.fit(&Quadrants, loader(70, 32, Partial::Pad), None).unwrap().step, 6);
    assert_eq!(kept.reports().len(), 6);
}

#[test]
fn fewer_reports_change_no_bit() {
    let run = |every: u64| {
        let kept = Kept::default();
        let trainer = Trainer::new(&Device::cpu(), recipe()).epochs(2).report_every(every).on_event(kept.observer());
        let fitted = trainer.fit(&Quadrants, loader(320, 32, Partial::Drop), None).unwrap();
        (kept.losses(), fitted.store.read("fc1.weight").unwrap())
    };
    let ((all, weights), (some, same)) = (run(1), run(7));
    assert!(weights == same);
    let expected: Vec<_> = all.into_iter().filter(|(step, _)| [7, 10, 14, 20].contains(step)).collect();
    assert_eq!(some, expected);
}

#[test]
fn it_ends_early_at_a_step_or_at_a_request() {
    let stop = EarlyStop::new("loss", Aim::Least).patience(2).min_delta(1e9);
    let fit = |trainer: Trainer| {
        let trainer = trainer.epochs(50);
        trainer.fit(&Quadrants, loader(320, 32, Partial::Drop), Some(loader(32, 32, Partial::Drop))).unwrap()
    };
    let trainer = || Trainer::new(&Device::cpu(), recipe());
    let early = fit(trainer().early_stop(stop));
    assert_eq!((early.ended, early.step), (Ended::EarlyStop, 30));
    let limited = fit(trainer().steps(10));
    assert_eq!((limited.ended, limited.step, limited.values.len()), (Ended::Finished, 10, 1));
    let interrupt = Interrupt::new();
    let request = interrupt.clone();
    let at_17 = move |event: &Event| {
        if event.step() == Some(17) {
            request.request();
        }
        Ok(())
    };
    let stopped = fit(trainer().interrupt(&interrupt).on_event(at_17));
    // The report of step 17 is read while step 18 runs.
    assert_eq!((stopped.ended, stopped.step, stopped.ended.exit_code()), (Ended::Interrupted, 18, 130));
}

#[test]
fn mistakes_are_named_before_the_training() {
    let fit = |task: &dyn Task, trainer: Trainer| {
        trainer.fit(task, loader(64, 32, Partial::Drop), None).unwrap_err().to_string()
    };
    let trainer = || Trainer::new(&Device::cpu(), recipe());
    let message = fit(&Quadrants, trainer().early_stop(EarlyStop::new("acuracy", Aim::Most)));
    assert_eq!(message, r#"there is no metric "acuracy"; a validation gives ["loss"]"#);
    struct Wrong;
    impl Task for Wrong {
        fn step<'g>(&self, _g: &Scope<'_, 'g>, batch: &Inputs<'g>) -> Result<Outcome<'g>, TrainError> {
            Ok(Outcome::new(batch.get("pionts")?.mean_all()))
        }
    }
    let message = fit(&Wrong, trainer());
    assert_eq!(message, r#"the task needs the field "pionts", but a batch has ["points", "labels"]"#);
    let diverging = Recipe::new(AdamW::default(), Schedule::constant(f32::MAX));
    let message = fit(&Quadrants, Trainer::new(&Device::cpu(), diverging).epochs(9));
    assert!(message.starts_with("the loss of step ") && message.contains("expected a number"), "{message}");
}
