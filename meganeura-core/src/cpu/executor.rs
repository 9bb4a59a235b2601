//! Runs planned programs.

use super::buffer::{Buffer, Locked, View};
use super::coalesce::coalesce;
use super::contract::ContractProgram;
use super::machine::Fault;
use super::row::RowProgram;
use super::stream::StreamProgram;
use super::threads;
use crate::kernel::{Body, Kernel};
use crate::memory::{Dispatch, Plan};
use std::sync::Arc;

/// Why a program stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Another number of buffers than the plan has.
    #[error("the plan has {expected} buffers but {found} were given")]
    BufferCount {
        /// Buffers of the plan.
        expected: usize,
        /// Buffers given.
        found: usize,
    },
    /// A buffer is smaller than planned.
    #[error("buffer {buffer} has {found} bytes, fewer than the {expected} that are planned")]
    BufferSize {
        /// Position in [`Plan::buffers`].
        buffer: usize,
        /// Bytes planned.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// A dispatch of the plan names a kernel, binding or place that does not exist, or a place too small for its argument.
    #[error("argument {arg} of dispatch {dispatch} ({label}) has no place of its size")]
    Unbound {
        /// Position in [`Plan::dispatches`].
        dispatch: usize,
        /// The dispatch's label.
        label: String,
        /// Position in [`Kernel::args`].
        arg: usize,
    },
    /// A kernel accessed an element that does not exist (K1); nothing outside the tensor was touched.
    #[error("dispatch {dispatch} ({label}) accessed element {index} of argument {arg}, which has {elements}")]
    OutOfBounds {
        /// Position in [`Plan::dispatches`].
        dispatch: usize,
        /// The dispatch's label.
        label: String,
        /// Position in [`Kernel::args`].
        arg: usize,
        /// The element asked for.
        index: i64,
        /// Elements of the argument.
        elements: usize,
    },
}

enum Program {
    Row(Box<RowProgram>),
    Contract(Box<ContractProgram>),
    Stream(Box<StreamProgram>),
}

impl Program {
    fn new(kernel: &Kernel) -> Program {
        let kernel = coalesce(kernel);
        match &kernel.body {
            Body::Loop => Program::Row(Box::new(RowProgram::new(&kernel))),
            Body::Stream(stream) => Program::Stream(Box::new(StreamProgram::new(&kernel, stream))),
            &Body::Contract { lhs, rhs, accumulate } => {
                Program::Contract(Box::new(ContractProgram::new(&kernel, lhs, rhs, accumulate)))
            }
        }
    }

    fn run(&self, args: &[View<'_>]) -> Result<(), Fault> {
        match self {
            Program::Row(row) => row.run(args),
            Program::Contract(contract) => contract.run(args),
            Program::Stream(stream) => stream.run(args),
        }
    }
}

/// A plan prepared for the CPU device: each distinct kernel is lowered once.
pub struct Executor {
    plan: Arc<Plan>,
    programs: Vec<Program>,
}

impl Executor {
    /// Prepares a plan, whose kernels and places have been verified.
    pub fn new(plan: Arc<Plan>) -> Executor {
        let programs = plan.kernels.iter().map(Program::new).collect();
        Executor { plan, programs }
    }

    /// The plan that is executed.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs all dispatches in order on as many threads as the current rayon pool has; `buffers` are those of
    /// [`Plan::buffers`], in order.
    ///
    /// The same inputs give the same bits whatever the number of threads. While the program runs, other users of the
    /// buffers wait; they may be tasks of one rayon pool, as kernels run on threads of their own.
    ///
    /// # Errors
    /// If the buffers do not fit the plan, or a computed index (a gather) is out of bounds: then the dispatches before
    /// it are done and its own results are undefined.
    pub fn run(&self, buffers: &[Buffer]) -> Result<(), RunError> {
        self.run_observed(buffers, &mut |_| ())
    }

    /// As [`Executor::run`]; `after` is called after each dispatch with its position in [`Plan::dispatches`].
    ///
    /// # Errors
    /// Those of [`Executor::run`].
    pub fn run_observed(&self, buffers: &[Buffer], after: &mut (dyn FnMut(usize) + Send)) -> Result<(), RunError> {
        self.check(buffers)?;
        threads::run(|| self.run_locked(buffers, after))
    }

    fn run_locked(&self, buffers: &[Buffer], after: &mut (dyn FnMut(usize) + Send)) -> Result<(), RunError> {
        // Locks are taken in one order by everybody, so that two programs never wait for each other.
        let mut distinct: Vec<&Buffer> = buffers.iter().collect();
        distinct.sort_by_key(|buffer| buffer.address());
        distinct.dedup_by_key(|buffer| buffer.address());
        let locked: Vec<Locked<'_>> = distinct.iter().map(|buffer| buffer.lock()).collect();
        let held: Vec<&Locked<'_>> = buffers
            .iter()
            .filter_map(|buffer| {
                let at = distinct.binary_search_by_key(&buffer.address(), |other| other.address()).ok()?;
                locked.get(at)
            })
            .collect();
        for (at, dispatch) in self.plan.dispatches.iter().enumerate() {
            self.dispatch(at, dispatch, &held)?;
            after(at);
        }
        Ok(())
    }

    fn check(&self, buffers: &[Buffer]) -> Result<(), RunError> {
        if buffers.len() != self.plan.buffers.len() {
            return Err(RunError::BufferCount { expected: self.plan.buffers.len(), found: buffers.len() });
        }
        for (buffer, (planned, given)) in self.plan.buffers.iter().zip(buffers).enumerate() {
            if given.bytes() < planned.bytes {
                return Err(RunError::BufferSize { buffer, expected: planned.bytes, found: given.bytes() });
            }
        }
        Ok(())
    }

    fn dispatch(&self, at: usize, dispatch: &Dispatch, held: &[&Locked<'_>]) -> Result<(), RunError> {
        let unbound = |arg| RunError::Unbound { dispatch: at, label: dispatch.label.clone(), arg };
        let (Some(kernel), Some(program)) =
            (self.plan.kernels.get(dispatch.kernel), self.programs.get(dispatch.kernel))
        else {
            return Err(unbound(0));
        };
        let view = |arg: usize| {
            let place = dispatch.bindings.get(*dispatch.arg_binding.get(arg)?)?.place;
            let (dtype, elements) = (kernel.args[arg].dtype, kernel.args[arg].elements);
            let fits = elements.checked_mul(dtype.bytes())? <= place.bytes;
            held.get(place.buffer)?.view(place.offset, dtype, elements).ok().filter(|_| fits)
        };
        let args: Vec<View<'_>> =
            (0..kernel.args.len()).map(|arg| view(arg).ok_or_else(|| unbound(arg))).collect::<Result<_, _>>()?;
        program.run(&args).map_err(|Fault { arg, outside }| RunError::OutOfBounds {
            dispatch: at,
            label: dispatch.label.clone(),
            arg,
            index: outside.index,
            elements: outside.elements,
        })
    }
}
