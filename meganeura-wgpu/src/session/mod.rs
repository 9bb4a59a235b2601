//! Sessions: a planned program, ready to run.

mod check;
mod cpu;
mod gpu;

use crate::device::Device;
use crate::error::DeviceError;
pub use crate::pipelines::ShaderChecks;
use crate::profile::{Profile, ProfileError, StepTimes};
pub use crate::record::Recording;
use crate::store::{Arenas, StateStore};
pub use crate::transfer::PendingRead;
use cpu::CpuProgram;
use gpu::GpuProgram;
use meganeura_core::debug::Log;
use meganeura_core::memory::{Plan, Port};
use meganeura_core::tensor::Tensor;
use std::fmt;
use std::sync::Arc;
use web_time::{Duration, Instant};

/// How long a session waits for the device before it gives up, unless told otherwise.
pub const WATCHDOG: Duration = Duration::from_secs(60);

/// A program on a device: its plan, its own buffers, and the states of a store that it shares with other sessions.
///
/// Inputs keep their last written value from step to step. Steps run in the order of the calls, those of several
/// sessions on one store too.
pub struct Session {
    plan: Arc<Plan>,
    store: StateStore,
    program: Program,
    report: Report,
    /// For each input whether it was ever written.
    written: Vec<bool>,
    stepped: bool,
}

enum Program {
    Cpu(CpuProgram),
    Gpu(Box<GpuProgram>),
}

/// Choices that do not change what a program computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionOptions {
    /// Whether shaders check at run time what the verifier has proved.
    pub shader_checks: ShaderChecks,
    /// How commands reach a GPU's driver.
    pub recording: Recording,
    /// How long to wait for the device before [`DeviceError::TimeOut`].
    pub watchdog: Duration,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions { shader_checks: ShaderChecks::default(), recording: Recording::default(), watchdog: WATCHDOG }
    }
}

/// What making a session took.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Report {
    /// Dispatches of a step.
    pub dispatches: usize,
    /// Distinct pipelines among them; 0 on the CPU device.
    pub pipelines: usize,
    /// Whether steps are recorded natively: see [`Recording`].
    pub native: bool,
    /// Bytes of device memory that the session allocated for itself, equal to [`Plan::session_bytes`] (M6).
    pub allocated_bytes: u64,
    /// Bytes of the store's arenas that the plan uses.
    pub arena_bytes: u64,
    /// Time by stage.
    pub seconds: StageSeconds,
}

/// Seconds of each stage of making a session.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct StageSeconds {
    /// Verifying kernels.
    pub verify: f64,
    /// Printing kernels as WGSL.
    pub print: f64,
    /// Creating pipelines, in parallel; those that the device already has take none.
    pub compile: f64,
    /// Allocating buffers.
    pub allocate: f64,
    /// Creating bind groups.
    pub bind: f64,
}

impl Report {
    /// Counts, as one line.
    pub fn counts(&self) -> String {
        let Report { dispatches, pipelines, allocated_bytes, arena_bytes, .. } = self;
        format!(
            "{dispatches} dispatches, {pipelines} pipelines, {allocated_bytes} bytes beside {arena_bytes} of states"
        )
    }
}

impl fmt::Display for StageSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StageSeconds { verify, print, compile, allocate, bind } = *self;
        let [verify, print, pipelines, allocate, bind] = [verify, print, compile, allocate, bind].map(|s| s * 1e3);
        write!(f, "verify {verify:.2} ms, print {print:.2} ms, pipelines {pipelines:.2} ms, ")?;
        write!(f, "allocate {allocate:.2} ms, bind {bind:.2} ms")
    }
}

impl Session {
    /// Makes a plan ready to run on the states of a store, with default options.
    ///
    /// # Errors
    /// Those of [`Session::with_options`].
    pub fn new(device: &Device, plan: Arc<Plan>, store: &StateStore) -> Result<Session, DeviceError> {
        Session::with_options(device, plan, store, &SessionOptions::default())
    }

    /// Makes a plan ready to run on the states of a store: verifies its kernels, allocates its buffers, prints and compiles its shaders in
    /// parallel, and binds them once.
    ///
    /// # Errors
    /// [`DeviceError::OtherDevice`] and [`DeviceError::OtherLayout`] if the store does not fit,
    /// [`DeviceError::LimitTooSmall`] and [`DeviceError::OutOfMemory`] if the device does not,
    /// [`DeviceError::Malformed`], [`DeviceError::Kernel`], [`DeviceError::Print`] and [`DeviceError::Shader`] if the plan is wrong,
    /// [`DeviceError::Unplanned`] if memory is not what was planned, [`DeviceError::Unsupported`] if native recording is demanded
    /// where there is none, [`DeviceError::Lost`].
    pub fn with_options(
        device: &Device,
        plan: Arc<Plan>,
        store: &StateStore,
        options: &SessionOptions,
    ) -> Result<Session, DeviceError> {
        let _span = tracing::info_span!("session").entered();
        if !store.device().is_same(device) {
            let (store, session) = (store.device().info().to_string(), device.info().to_string());
            return Err(DeviceError::OtherDevice { store, session });
        }
        check::check(&plan, store.layout(), device.caps())?;
        let (start, log) = (Instant::now(), Log::new("session"));
        check::verify(&plan)?;
        let seconds = StageSeconds { verify: start.elapsed().as_secs_f64(), ..StageSeconds::default() };
        let arena_bytes = (plan.total_bytes() - plan.session_bytes()) as u64;
        let mut report = Report { dispatches: plan.dispatches.len(), arena_bytes, seconds, ..Report::default() };
        let program = match store.arenas() {
            Arenas::Cpu(_) if options.recording == Recording::Native => return Err(Recording::unsupported()),
            Arenas::Cpu(arenas) => Program::Cpu(CpuProgram::new(&plan, arenas, &mut report)),
            Arenas::Gpu { gpu, buffers } => {
                Program::Gpu(Box::new(GpuProgram::new(gpu, &plan, buffers, options, &mut report, &log)?))
            }
        };
        log.say(1, || report.counts());
        log.say(2, || report.seconds.to_string());
        let written = vec![false; plan.inputs.len()];
        Ok(Session { plan, store: store.clone(), program, report, written, stepped: false })
    }

    /// The plan that it runs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The store whose states it reads and updates.
    pub fn store(&self) -> &StateStore {
        &self.store
    }

    /// What making it took.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Sets an input for the steps to come; does not wait.
    ///
    /// # Errors
    /// [`DeviceError::UnknownTensor`], [`DeviceError::WrongType`], [`DeviceError::Lost`].
    pub fn write(&mut self, input: &str, tensor: &Tensor) -> Result<(), DeviceError> {
        let _span = tracing::debug_span!("write", input).entered();
        let at = position(&self.plan.inputs, "input", input)?;
        let port = &self.plan.inputs[at];
        if port.ty != *tensor.ty() {
            let (expected, found) = (port.ty.clone(), tensor.ty().clone());
            return Err(DeviceError::WrongType { name: input.to_owned(), expected, found });
        }
        match &mut self.program {
            Program::Cpu(program) => program.write(port, tensor)?,
            Program::Gpu(program) => program.write(port, tensor)?,
        }
        self.written[at] = true;
        Ok(())
    }

    /// Runs the program once, on the CPU device to its end. On a GPU this does not wait for its end, only for the oldest of several unfinished steps.
    ///
    /// # Errors
    /// [`DeviceError::MissingInputs`] if some input was never written, [`DeviceError::TimeOut`],
    /// [`DeviceError::OutOfMemory`], [`DeviceError::Lost`], [`DeviceError::Run`].
    pub fn step(&mut self) -> Result<(), DeviceError> {
        let _span = tracing::debug_span!("step").entered();
        self.check_inputs()?;
        match &mut self.program {
            Program::Cpu(program) => program.step()?,
            Program::Gpu(program) => program.step()?,
        }
        self.stepped = true;
        Ok(())
    }

    /// Waits until all steps are done, without reading anything.
    ///
    /// # Errors
    /// [`DeviceError::TimeOut`], [`DeviceError::Lost`].
    pub fn wait(&mut self) -> Result<(), DeviceError> {
        let _span = tracing::debug_span!("wait").entered();
        match &mut self.program {
            Program::Cpu(_) => Ok(()),
            Program::Gpu(program) => program.wait(),
        }
    }

    /// Runs the program `steps` times, each alone and to its end, and times every dispatch: by the GPU's timestamps, on the CPU device
    /// by the host's clock. The dispatches of a step do not overlap, as those of a group may in [`Session::step`].
    ///
    /// # Errors
    /// Those of [`Session::step`]; [`DeviceError::Unsupported`] where the device has no timestamps.
    pub fn time(&mut self, steps: usize) -> Result<Vec<StepTimes>, DeviceError> {
        self.check_inputs()?;
        let mut times = Vec::with_capacity(steps);
        for _ in 0..steps {
            times.push(match &mut self.program {
                Program::Cpu(program) => program.time()?,
                Program::Gpu(program) => program.time()?,
            });
            self.stepped = true;
        }
        Ok(times)
    }

    /// Runs the program `steps` times, as [`Session::time`] does, and says what each dispatch costs beside what it could cost at least:
    /// what the device can do is measured too. Computes what as many steps compute.
    ///
    /// # Errors
    /// Those of [`Session::time`]; [`ProfileError`] if the programs that measure the device do not run.
    pub fn profile(&mut self, steps: usize) -> Result<Profile, ProfileError> {
        Profile::of(self, steps)
    }

    /// The value of an output after the last step; waits for it.
    ///
    /// # Errors
    /// [`DeviceError::UnknownTensor`], [`DeviceError::NoStep`], [`DeviceError::TimeOut`], [`DeviceError::Lost`].
    pub fn read(&mut self, output: &str) -> Result<Tensor, DeviceError> {
        let _span = tracing::debug_span!("read", output).entered();
        let port = value_of(&self.plan, self.stepped, output)?;
        match &mut self.program {
            Program::Cpu(program) => program.read(port),
            Program::Gpu(program) => program.read(port),
        }
    }

    /// Begins to read the value that an output has after the last step, whatever steps come then; does not wait. So the loss of one
    /// step is looked at while the device computes the next ones.
    ///
    /// ```
    /// # use meganeura_wgpu::{DeviceError, Session};
    /// # fn train(session: &mut Session) -> Result<(), DeviceError> {
    /// let mut last = None;
    /// for step in 0..1000 {
    ///     session.step()?;
    ///     if step % 100 == 0 {
    ///         if let Some(loss) = last.replace(session.read_later("loss")?) {
    ///             println!("a hundred steps ago: {:?}", loss.wait()?);
    ///         }
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`DeviceError::UnknownTensor`], [`DeviceError::NoStep`], [`DeviceError::OutOfMemory`], [`DeviceError::Lost`].
    pub fn read_later(&self, output: &str) -> Result<PendingRead, DeviceError> {
        let _span = tracing::debug_span!("read later", output).entered();
        let port = value_of(&self.plan, self.stepped, output)?;
        match &self.program {
            Program::Cpu(program) => program.read(port).map(PendingRead::ready),
            Program::Gpu(program) => program.read_later(port),
        }
    }

    fn check_inputs(&self) -> Result<(), DeviceError> {
        let missing = self.plan.inputs.iter().zip(&self.written).filter(|(_, written)| !**written);
        let names: Vec<String> = missing.map(|(port, _)| port.name.clone()).collect();
        if names.is_empty() { Ok(()) } else { Err(DeviceError::MissingInputs { names }) }
    }
}

/// The output of that name, if a step has computed it.
fn value_of<'p>(plan: &'p Plan, stepped: bool, name: &str) -> Result<&'p Port, DeviceError> {
    let port = &plan.outputs[position(&plan.outputs, "output", name)?];
    if stepped { Ok(port) } else { Err(DeviceError::NoStep { name: name.to_owned() }) }
}

fn position(ports: &[Port], kind: &'static str, name: &str) -> Result<usize, DeviceError> {
    ports.iter().position(|port| port.name == name).ok_or_else(|| DeviceError::UnknownTensor {
        kind,
        name: name.to_owned(),
        known: ports.iter().map(|port| port.name.clone()).collect(),
    })
}
