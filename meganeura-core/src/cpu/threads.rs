//! The threads that kernels run on: pools of this module's own, which run nothing else.
//!
//! A step holds the locks of its buffers. A rayon thread that waits for parts of its work takes up any other task of its
//! pool meanwhile; were that task a step on the same buffers, the thread would wait for a lock that only it can release.
//! So the thread that holds locks is never one of a pool, and kernels' threads never wait for locks: a program that is
//! run by a task of some pool is handed to a new thread while that task waits, and kernels are spread over a pool with
//! as many threads as the caller's.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// By their number of threads; programs run at the same time share one.
static POOLS: Mutex<BTreeMap<usize, Arc<ThreadPool>>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// The pool of the program that this thread runs.
    static POOL: RefCell<Option<Arc<ThreadPool>>> = const { RefCell::new(None) };
}

/// Runs a program, which may take locks; [`spread`] inside of it uses as many threads as the caller's pool has.
pub(super) fn run<R: Send>(mut program: impl FnMut() -> R + Send) -> R {
    let pool = pool(rayon::current_num_threads());
    let mut run = || {
        let _restored = Restored(POOL.replace(pool.clone()));
        program()
    };
    let in_a_pool = rayon::current_thread_index().is_some();
    let elsewhere = in_a_pool.then(|| {
        thread::scope(|scope| {
            // A system may have no threads, or no more of them.
            let started = thread::Builder::new().spawn_scoped(scope, &mut run).ok()?;
            Some(started.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })
    });
    elsewhere.flatten().unwrap_or_else(run)
}

/// Runs work that rayon is to spread, on the pool of the program around it.
pub(super) fn spread<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    match POOL.with_borrow(Clone::clone) {
        Some(pool) => pool.install(work),
        // Already on a thread of the pool, or there are no threads.
        None => work(),
    }
}

/// The pool of so many threads; `None` where there are no threads.
fn pool(threads: usize) -> Option<Arc<ThreadPool>> {
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pool) = pools.get(&threads) {
        return Some(Arc::clone(pool));
    }
    let named = |at| format!("meganeura {at}");
    let pool = Arc::new(ThreadPoolBuilder::new().num_threads(threads).thread_name(named).build().ok()?);
    pools.insert(threads, Arc::clone(&pool));
    Some(pool)
}

/// Puts back what a thread's pool was before.
struct Restored(Option<Arc<ThreadPool>>);

impl Drop for Restored {
    fn drop(&mut self) {
        POOL.set(self.0.take());
    }
}
