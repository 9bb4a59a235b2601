//! Sessions of several threads: the bits of one.

use super::*;
use meganeura_core::dtype::DType;
use meganeura_core::ir::{Builder, StateSpec};
use meganeura_core::memory::StateLayout;
use meganeura_core::options::Options;
use meganeura_core::pipeline::{Program, compile};
use meganeura_core::scalar::Scalar;
use meganeura_core::shape::TensorType;
use std::sync::mpsc::{channel, sync_channel};
use std::time::Duration;

const BATCH: usize = 65;
const WIDTHS: [usize; 2] = [129, 67];

/// Gradient descent on `mean (x · w)²`, large enough to be spread over threads.
fn training(device: &Device, layout: Option<&StateLayout>) -> Program {
    let g = Builder::new();
    let ty = |shape: [usize; 2]| TensorType::new(DType::F32, shape);
    let x = g.input("x", ty([BATCH, WIDTHS[0]]));
    let w = g.state(StateSpec { name: "w".into(), ty: ty(WIDTHS), group: "weights".into(), init: Scalar::f32(0.5) });
    let y = x.matmul(w).tanh();
    let loss = (y * y).mean_all();
    g.output("loss", loss);
    let gradient = g.gradients(loss, &[w])[0];
    g.update(w, w - gradient * 0.1);
    compile(&g.finish().unwrap(), &Options::default(), device.caps(), layout).unwrap()
}

fn batch(seed: usize) -> Tensor {
    let values = (0..BATCH * WIDTHS[0]).map(|at| ((at * 7 + seed * 13) % 101) as f32 / 50.0 - 1.0).collect();
    Tensor::from_f32([BATCH, WIDTHS[0]], values).unwrap()
}

/// One step on a batch; its loss.
fn learn(session: &mut Session, seed: usize) -> Tensor {
    session.write("x", &batch(seed)).unwrap();
    session.step().unwrap();
    session.read("loss").unwrap()
}

/// Losses of some steps, and the weights after them.
fn trained(device: &Device, recording: Recording, seeds: std::ops::Range<usize>) -> Vec<Tensor> {
    let program = training(device, None);
    let store = StateStore::for_program(device, &program).unwrap();
    let mut session = Session::with_options(device, program.plan, &store, &recorded(recording)).unwrap();
    let losses: Vec<Tensor> = seeds.map(|seed| learn(&mut session, seed)).collect();
    losses.into_iter().chain([store.read("w").unwrap()]).collect()
}

#[test]
fn four_threads_with_a_session_each_compute_the_bits_of_one() {
    for device in devices() {
        for &recording in recordings(&device) {
            let seeds = |thread: usize| thread * 10..thread * 10 + 8;
            let alone: Vec<_> = (0..4).map(|thread| trained(&device, recording, seeds(thread))).collect();
            let together: Vec<_> = std::thread::scope(|scope| {
                let device = &device;
                let start = |thread| scope.spawn(move || trained(device, recording, seeds(thread)));
                let threads: Vec<_> = (0..4).map(start).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(alone, together, "{} {recording:?}", device.info());
        }
    }
}

#[test]
fn two_sessions_on_one_store_compute_the_bits_of_one_thread() {
    for device in devices() {
        for &recording in recordings(&device) {
            let alone = trained(&device, recording, 0..12);
            let program = training(&device, None);
            let store = StateStore::for_program(&device, &program).unwrap();
            // The threads take turns, each on a session of its own.
            let ([to_even, to_odd], (losses, all)) = ([sync_channel(1), sync_channel(1)], channel());
            to_even.0.send(()).unwrap();
            let open = || Session::with_options(&device, program.plan.clone(), &store, &recorded(recording)).unwrap();
            std::thread::scope(|scope| {
                for (first, mine, other) in [(0, to_even.1, to_odd.0), (1, to_odd.1, to_even.0)] {
                    let (losses, mut session) = (losses.clone(), open());
                    scope.spawn(move || {
                        for seed in (first..12).step_by(2) {
                            mine.recv().unwrap();
                            losses.send(learn(&mut session, seed)).unwrap();
                            // After its last step the other has gone.
                            let _ = other.send(());
                        }
                    });
                }
            });
            drop(losses);
            let together: Vec<Tensor> = all.iter().chain([store.read("w").unwrap()]).collect();
            assert_eq!(alone, together, "{} {recording:?}", device.info());
        }
    }
}

/// Elements of a kernel that the CPU device spreads over threads.
const LARGE: usize = 1 << 18;

#[test]
fn tasks_of_one_pool_may_step_on_one_store() {
    for device in devices() {
        let g = Builder::new();
        let ty = TensorType::new(DType::F32, [LARGE]);
        let total = g.state(StateSpec { name: "t".into(), ty, group: "states".into(), init: Scalar::f32(0.0) });
        g.update(total, total + total.like(1.0));
        let program = compile(&g.finish().unwrap(), &Options::default(), device.caps(), None).unwrap();
        let store = StateStore::for_program(&device, &program).unwrap();
        let (tasks, steps) = (40, 3);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let (done, ends) = channel();
        // From outside: a thread of the pool that waits for parts of its kernel finds whole steps to do meanwhile.
        for _ in 0..tasks {
            let (device, store, plan, done) = (device.clone(), store.clone(), program.plan.clone(), done.clone());
            pool.spawn(move || {
                let mut session = Session::new(&device, plan, &store).unwrap();
                (0..steps).for_each(|_| session.step().unwrap());
                done.send(()).unwrap();
            });
        }
        for _ in 0..tasks {
            let ended = ends.recv_timeout(Duration::from_secs(60));
            assert!(ended.is_ok(), "{}: tasks wait for each other", device.info());
        }
        let expected = Tensor::filled([LARGE], Scalar::f32((tasks * steps) as f32));
        assert_eq!(store.read("t").unwrap(), expected, "{}", device.info());
    }
}
