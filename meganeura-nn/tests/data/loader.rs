//! Loaders: what comes depends on nothing but the set, the options and the state.

use meganeura_core::dtype::DType;
use meganeura_core::ir::Builder;
use meganeura_core::options::Options;
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use meganeura_nn::data::{Batch, Dataset, Field, ItemError, Loader, LoaderError, LoaderOptions, LoaderState, Partial};
use meganeura_nn::layers::Linear;
use meganeura_nn::loss::weighted_mean;
use meganeura_nn::optim::{Optimizer, Sgd};
use meganeura_nn::params::Parameters;
use meganeura_nn::random::Random;
use meganeura_nn::train::initialize;
use meganeura_wgpu::{Device, Session, StateStore};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Item `i` is `i` and a random word.
#[derive(Clone)]
struct Numbers(usize);

impl Dataset for Numbers {
    fn len(&self) -> usize {
        self.0
    }

    fn fields(&self) -> Vec<Field> {
        vec![Field::new("number", DType::U32, []), Field::new("noise", DType::U32, [2])]
    }

    fn item(&self, index: usize, random: &mut Random) -> Result<Vec<Tensor>, ItemError> {
        let word = random.bits();
        let noise = vec![word as u32, (word >> 32) as u32];
        Ok(vec![Tensor::from_u32([], vec![index as u32])?, Tensor::from_u32([2], noise)?])
    }
}

fn options(batch: usize, partial: Partial, workers: usize) -> LoaderOptions {
    LoaderOptions { batch, shuffle: true, seed: 5, partial, workers }
}

/// Some calls of `next_batch`: `None` where epochs end.
fn calls(loader: &mut Loader, count: usize) -> Vec<Option<Batch>> {
    (0..count).map(|_| loader.next_batch().unwrap()).collect()
}

#[test]
fn batches_are_the_same_with_any_number_of_threads() {
    for partial in [Partial::Drop, Partial::Pad] {
        let run = |workers| calls(&mut Loader::new(Numbers(23), options(4, partial, workers)).unwrap(), 40);
        let expected = run(0);
        for workers in [1, 2, 5, 9] {
            assert_eq!(run(workers), expected, "{workers} threads, {partial:?}");
        }
        let per_epoch = if partial == Partial::Drop { 5 } else { 6 };
        assert!(expected.iter().skip(per_epoch).step_by(per_epoch + 1).all(Option::is_none));
    }
}

#[test]
fn an_epoch_has_each_item_once_and_the_next_one_another_order_and_other_noise() {
    let mut loader = Loader::new(Numbers(23), options(4, Partial::Pad, 2)).unwrap();
    assert_eq!(loader.batches_per_epoch(), 6);
    let epochs: Vec<Vec<Batch>> = (0..2).map(|_| calls(&mut loader, 7).into_iter().flatten().collect()).collect();
    let items = |epoch: &[Batch]| epoch.iter().flat_map(|batch| batch.items.clone()).collect::<Vec<_>>();
    for (epoch, batches) in epochs.iter().enumerate() {
        let mut sorted = items(batches);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..23).collect::<Vec<_>>());
        assert!(batches.iter().all(|batch| batch.epoch == epoch as u64));
    }
    assert_ne!(items(&epochs[0]), items(&epochs[1]));
    let noise_of_7 = |epoch: &[Batch]| {
        let row = |batch: &Batch| batch.items.iter().position(|&item| item == 7);
        let (batch, row) = epoch.iter().find_map(|batch| Some((batch, row(batch)?))).unwrap();
        batch.tensor("noise").unwrap().as_u32().unwrap()[2 * row..][..2].to_vec()
    };
    assert_ne!(noise_of_7(&epochs[0]), noise_of_7(&epochs[1]));
    // Rows are their items; the last batch of 3 repeats its last item, which does not count.
    let last = &epochs[0][5];
    let numbers: Vec<usize> =
        last.tensor("number").unwrap().as_u32().unwrap().iter().map(|&number| number as usize).collect();
    assert_eq!((last.items.len(), &numbers[..3], numbers[3]), (3, &last.items[..], numbers[2]));
    assert_eq!(last.weights.as_f32().unwrap(), [4.0 / 3.0, 4.0 / 3.0, 4.0 / 3.0, 0.0]);
    assert_eq!(epochs[0][0].weights.as_f32().unwrap(), [1.0; 4]);
    assert_eq!(last.tensor("noise").unwrap().shape().to_vec(), [4, 2]);
}

#[test]
fn without_shuffling_items_come_as_they_are_numbered() {
    let plain = LoaderOptions { shuffle: false, ..options(4, Partial::Drop, 1) };
    let mut loader = Loader::new(Numbers(9), plain).unwrap();
    let items: Vec<_> = calls(&mut loader, 3).into_iter().map(|batch| batch.map(|batch| batch.items)).collect();
    assert_eq!(items, [Some(vec![0, 1, 2, 3]), Some(vec![4, 5, 6, 7]), None]);
}

#[test]
fn a_stored_state_resumes_with_the_same_batches() {
    for (workers, partial) in [(0, Partial::Drop), (3, Partial::Drop), (2, Partial::Pad)] {
        let mut loader = Loader::new(Numbers(23), options(4, partial, workers)).unwrap();
        let mut states = vec![loader.state()];
        let all: Vec<_> = (0..30)
            .map(|_| {
                let batch = loader.next_batch().unwrap();
                states.push(loader.state());
                batch
            })
            .collect();
        for (at, state) in states.iter().enumerate() {
            let text = serde_json::to_string(state).unwrap();
            let state: LoaderState = serde_json::from_str(&text).unwrap();
            // Another seed in the options does not matter.
            let other = LoaderOptions { seed: 99, ..options(4, partial, 2) };
            let mut resumed = Loader::new(Numbers(23), other).unwrap();
            calls(&mut resumed, 3);
            resumed.restore(state).unwrap();
            assert_eq!(calls(&mut resumed, 30 - at), all[at..], "after {at} calls");
        }
    }
}

#[test]
fn states_of_other_loaders_are_refused() {
    let mut loader = Loader::new(Numbers(23), options(4, Partial::Drop, 1)).unwrap();
    let state = loader.state();
    let refused = |loader: &mut Loader, state| loader.restore(state).unwrap_err().to_string();
    let items = refused(&mut loader, LoaderState { items: 24, ..state });
    assert_eq!(items, "the state of another loader: expected items 23, found 24");
    let position = refused(&mut loader, LoaderState { position: 24, ..state });
    assert_eq!(position, "the state of another loader: expected a position of at most 23, found 24");
    assert!(refused(&mut loader, LoaderState { shuffle: false, ..state }).contains("shuffling"));
    assert!(serde_json::from_str::<LoaderState>(r#"{"seed":0,"epoch":0,"position":0}"#).is_err());
    // A batch size of its own: the epoch goes on with the next item.
    loader.restore(LoaderState { position: 21, ..state }).unwrap();
    assert!(loader.next_batch().unwrap().is_none());
}

#[test]
fn a_set_without_a_batch_is_refused() {
    for (items, batch, partial) in [(0, 4, Partial::Pad), (3, 4, Partial::Drop), (3, 0, Partial::Pad)] {
        let error = Loader::new(Numbers(items), options(batch, partial, 1)).unwrap_err();
        assert!(matches!(error, LoaderError::NoBatch { .. }), "{error}");
    }
    assert!(Loader::new(Numbers(3), options(4, Partial::Pad, 1)).is_ok());
}

/// A change that fails on item 13 the first `times` times that it is read.
fn failing(
    times: usize,
    fail: impl Fn(&mut Vec<Tensor>) -> Result<(), ItemError> + Send + Sync,
) -> impl Fn(Vec<Tensor>, &mut Random) -> Result<Vec<Tensor>, ItemError> + Send + Sync {
    let failures = AtomicUsize::new(0);
    move |mut item, _| {
        if item[0].as_u32()? == [13] && failures.fetch_add(1, Ordering::Relaxed) < times {
            fail(&mut item)?;
        }
        Ok(item)
    }
}

/// The first error of a loader.
fn first_error(loader: &mut Loader) -> LoaderError {
    (0..10).find_map(|_| loader.next_batch().err()).expect("an item is damaged")
}

#[test]
fn errors_panics_and_wrong_items_are_typed_and_name_the_item() {
    for workers in [0, 1, 3] {
        let error = |fail: fn(&mut Vec<Tensor>) -> Result<(), ItemError>| {
            let set = Numbers(23).map(failing(usize::MAX, fail));
            first_error(&mut Loader::new(set, options(4, Partial::Pad, workers)).unwrap()).to_string()
        };
        assert_eq!(error(|_| Err("no such disk".into())), "item 13 cannot be read: no such disk");
        assert_eq!(error(|_| panic!("a {}", "bug")), "item 13 cannot be read: the data set panicked: a bug");
        assert_eq!(
            error(|item| {
                item.pop();
                Ok(())
            }),
            "item 13 has 1 tensors, expected one for each of the 2 fields"
        );
        assert_eq!(
            error(|item| {
                item.swap(0, 1);
                Ok(())
            }),
            "item 13: \"number\" is u32[], but the item has u32[2]"
        );
    }
}

#[test]
fn after_an_error_the_same_batch_is_tried_again() {
    for workers in [0, 1, 3] {
        let expected = calls(&mut Loader::new(Numbers(23), options(4, Partial::Pad, 0)).unwrap(), 20);
        let set = Numbers(23).map(failing(2, |_| Err("later".into())));
        let mut loader = Loader::new(set, options(4, Partial::Pad, workers)).unwrap();
        let results: Vec<_> = (0..24).map(|_| loader.next_batch()).collect();
        assert!(results.iter().filter(|result| result.is_err()).count() >= 1);
        let batches: Vec<_> = results.into_iter().filter_map(Result::ok).take(20).collect();
        assert_eq!(batches, expected, "{workers} threads");
    }
}

#[test]
fn threads_read_ahead_by_a_bounded_number_of_batches() {
    let read = Arc::new(AtomicUsize::new(0));
    let counter = read.clone();
    let set = Numbers(10_000).map(move |item, _| {
        counter.fetch_add(1, Ordering::SeqCst);
        Ok(item)
    });
    let mut loader = Loader::new(set, options(10, Partial::Drop, 3)).unwrap();
    loader.next_batch().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    // One batch was taken, each of three threads has one in its queue and one in its hands.
    while read.load(Ordering::SeqCst) < 70 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(read.load(Ordering::SeqCst), 70);
}

#[test]
fn dropping_a_loader_waits_for_nothing_and_its_threads_end() {
    let (release, gate) = channel::<()>();
    let (gate, alive) = (Mutex::new(gate), Arc::new(()));
    let held = alive.clone();
    let set = Numbers(100).map(move |item, _| {
        let _held = &held;
        // Nobody sends: who reads the second batch waits for ever.
        if item[0].as_u32()? == [15] {
            let _ = gate.lock().unwrap().recv();
        }
        Ok(item)
    });
    let plain = LoaderOptions { shuffle: false, ..options(10, Partial::Drop, 2) };
    let mut loader = Loader::new(set, plain).unwrap();
    loader.next_batch().unwrap();
    drop(loader);
    assert!(Arc::strong_count(&alive) > 1, "a thread still reads");
    drop(release);
    let deadline = Instant::now() + Duration::from_secs(20);
    while Arc::strong_count(&alive) > 1 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(Arc::strong_count(&alive), 1);
}

/// `loss` and the new weight after a step of SGD on a batch.
fn trained(batch: &Batch, rows: usize, weighted: bool) -> (f32, Vec<f32>) {
    let builder = Builder::new();
    let parameters = Parameters::new(&builder);
    let x = builder.input("x", TensorType::new(DType::F32, [rows, 3]));
    let y = builder.input("y", TensorType::new(DType::F32, [rows, 2]));
    let error = Linear::new(2).forward(&parameters.root(), x) - y;
    let squares = error * error;
    let loss = if weighted {
        let weights = builder.input(Batch::WEIGHTS, TensorType::new(DType::F32, [rows]));
        weighted_mean(squares, weights)
    } else {
        squares.mean_all()
    };
    Sgd::default().minimize(&parameters, loss, builder.constant(0.5));
    builder.output("loss", loss);
    let specs = parameters.specs();
    let device = Device::cpu();
    let program = device.compile(&builder.finish().unwrap(), &Options::default(), None).unwrap();
    let store = StateStore::for_program(&device, &program).unwrap();
    initialize(&store, &specs, 3).unwrap();
    let mut session = Session::new(&device, program.plan, &store).unwrap();
    batch.write(&mut session).unwrap();
    session.step().unwrap();
    let loss = session.read("loss").unwrap().as_f32().unwrap()[0];
    (loss, store.read("weight").unwrap().as_f32().unwrap().to_vec())
}

/// Seven random pairs.
struct Pairs;

impl Dataset for Pairs {
    fn len(&self) -> usize {
        7
    }

    fn fields(&self) -> Vec<Field> {
        vec![Field::new("x", DType::F32, [3]), Field::new("y", DType::F32, [2])]
    }

    fn item(&self, index: usize, _random: &mut Random) -> Result<Vec<Tensor>, ItemError> {
        let mut random = Random::new(index as u64, "pair");
        let mut values = |count: usize| (0..count).map(|_| random.normal() as f32).collect::<Vec<_>>();
        Ok(vec![Tensor::from_f32([3], values(3))?, Tensor::from_f32([2], values(2))?])
    }
}

#[test]
fn a_partial_batch_that_is_filled_up_trains_as_one_of_its_own_size() {
    let plain = |batch| LoaderOptions { batch, shuffle: false, ..options(batch, Partial::Pad, 0) };
    let mut filled = Loader::new(Pairs, plain(5)).unwrap();
    let partial = calls(&mut filled, 2).pop().flatten().unwrap();
    assert_eq!(partial.items, [5, 6]);
    let mut exact = Loader::new(Pairs.subset(vec![5, 6]), plain(2)).unwrap();
    let exact = exact.next_batch().unwrap().unwrap();
    let ((loss, weight), (expected_loss, expected)) = (trained(&partial, 5, true), trained(&exact, 2, false));
    assert!((loss - expected_loss).abs() < 1e-6 * expected_loss, "{loss} {expected_loss}");
    assert!(weight.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6), "{weight:?} {expected:?}");
    // Without weights it would count the last item four times.
    let (wrong, _) = trained(&partial, 5, false);
    assert!((wrong - expected_loss).abs() > 1e-2, "{wrong} {expected_loss}");
}
