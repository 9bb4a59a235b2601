//! Where states live between steps and between programs.

use crate::buffers;
use crate::device::{Device, Executor, Gpu};
use crate::error::DeviceError;
use crate::session::WATCHDOG;
use crate::transfer::{self, PendingRead};
use meganeura_core::cpu::Buffer;
use meganeura_core::memory::{StateLayout, StateSlot};
use meganeura_core::pipeline::Program;
use meganeura_core::scalar::Scalar;
use meganeura_core::tensor::Tensor;
use std::sync::Arc;

/// The states of a model on a device: parameters, moments, counters. Clones are handles of one store, and all sessions
/// made with it see each other's updates.
#[derive(Clone)]
pub struct StateStore {
    shared: Arc<Shared>,
}

struct Shared {
    device: Device,
    layout: StateLayout,
    arenas: Arenas,
}

/// One buffer for each arena of the layout.
pub(crate) enum Arenas {
    Cpu(Vec<Buffer>),
    Gpu { gpu: Arc<Gpu>, buffers: Vec<wgpu::Buffer> },
}

impl StateStore {
    /// Allocates the arenas of a layout; every state is zero, whatever a program wants it to start with: see
    /// [`StateStore::for_program`].
    ///
    /// # Errors
    /// [`DeviceError::LimitTooSmall`], [`DeviceError::OutOfMemory`], [`DeviceError::Malformed`] if a state does not lie
    /// in its arena, [`DeviceError::Lost`].
    pub fn new(device: &Device, layout: &StateLayout) -> Result<StateStore, DeviceError> {
        layout.states.iter().try_for_each(|slot| check_slot(layout, slot))?;
        let mut layout = layout.clone();
        // Slots are looked up by bisection.
        layout.states.sort_by(|a, b| a.name.cmp(&b.name));
        let arenas = match device.executor() {
            Executor::Gpu(gpu) => Arenas::Gpu { gpu: Arc::clone(gpu), buffers: allocate(gpu, &layout)? },
            Executor::Cpu => Arenas::Cpu(layout.arenas.iter().map(|&bytes| Buffer::zeroed(bytes)).collect()),
        };
        Ok(StateStore { shared: Arc::new(Shared { device: device.clone(), layout, arenas }) })
    }

    /// A store for a program's states, each filled with its initial value.
    ///
    /// # Errors
    /// As [`StateStore::new`].
    pub fn for_program(device: &Device, program: &Program) -> Result<StateStore, DeviceError> {
        let store = StateStore::new(device, &program.layout)?;
        // Zeros are there already, and moments as large as the parameters start as zeros: nothing to upload.
        let zero = |scalar: Scalar| scalar == Scalar::zero(scalar.dtype());
        program
            .initial
            .iter()
            .filter(|(_, scalar)| !zero(*scalar))
            .try_for_each(|(name, scalar)| store.fill(name, *scalar))?;
        Ok(store)
    }

    /// Sets every element of a state to `value`, for the steps to come; does not wait.
    ///
    /// # Errors
    /// [`DeviceError::UnknownTensor`], [`DeviceError::WrongType`] if the state has another element type,
    /// [`DeviceError::Lost`].
    pub fn fill(&self, name: &str, value: Scalar) -> Result<(), DeviceError> {
        self.write(name, &Tensor::filled(self.slot(name)?.ty.shape.clone(), value))
    }

    /// Where each state lies.
    pub fn layout(&self) -> &StateLayout {
        &self.shared.layout
    }

    /// The device that holds the states.
    pub fn device(&self) -> &Device {
        &self.shared.device
    }

    /// The names of all states, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.shared.layout.states.iter().map(|slot| slot.name.as_str())
    }

    pub(crate) fn arenas(&self) -> &Arenas {
        &self.shared.arenas
    }

    /// The value of a state after all steps so far; waits for them.
    ///
    /// # Errors
    /// [`DeviceError::UnknownTensor`], [`DeviceError::TimeOut`], [`DeviceError::Lost`].
    pub fn read(&self, name: &str) -> Result<Tensor, DeviceError> {
        let slot = self.slot(name)?;
        match &self.shared.arenas {
            Arenas::Cpu(arenas) => transfer::download_cpu(&arenas[slot.arena], slot.offset, &slot.ty),
            Arenas::Gpu { gpu, buffers } => {
                transfer::download(gpu, &buffers[slot.arena], slot.offset, &slot.ty, WATCHDOG)
            }
        }
    }

    /// Begins to read the value that a state has after all steps so far; does not wait.
    ///
    /// # Errors
    /// [`DeviceError::UnknownTensor`], [`DeviceError::OutOfMemory`], [`DeviceError::Lost`].
    pub fn read_later(&self, name: &str) -> Result<PendingRead, DeviceError> {
        let slot = self.slot(name)?;
        match &self.shared.arenas {
            Arenas::Cpu(arenas) => {
                transfer::download_cpu(&arenas[slot.arena], slot.offset, &slot.ty).map(PendingRead::ready)
            }
            Arenas::Gpu { gpu, buffers } => {
                transfer::download_later(gpu, &buffers[slot.arena], slot.offset, &slot.ty, WATCHDOG)
            }
        }
    }

    /// Sets a state for the steps to come; does not wait.
    ///
    /// # Errors
    /// [`DeviceError::UnknownTensor`], [`DeviceError::WrongType`], [`DeviceError::Lost`].
    pub fn write(&self, name: &str, tensor: &Tensor) -> Result<(), DeviceError> {
        let slot = self.slot(name)?;
        if slot.ty != *tensor.ty() {
            let (expected, found) = (slot.ty.clone(), tensor.ty().clone());
            return Err(DeviceError::WrongType { name: name.to_owned(), expected, found });
        }
        match &self.shared.arenas {
            Arenas::Cpu(arenas) => transfer::upload_cpu(&arenas[slot.arena], slot.offset, tensor),
            Arenas::Gpu { gpu, buffers } => transfer::upload(gpu, &buffers[slot.arena], slot.offset, tensor),
        }
    }

    fn slot(&self, name: &str) -> Result<&StateSlot, DeviceError> {
        self.shared.layout.slot(name).ok_or_else(|| DeviceError::UnknownTensor {
            kind: "state",
            name: name.to_owned(),
            known: self.names().map(str::to_owned).collect(),
        })
    }
}

fn check_slot(layout: &StateLayout, slot: &StateSlot) -> Result<(), DeviceError> {
    let malformed = |what, index, len| Err(DeviceError::Malformed { item: slot.name.clone(), what, index, len });
    match layout.arenas.get(slot.arena) {
        None => malformed("arena", slot.arena, layout.arenas.len()),
        Some(&bytes) if slot.offset.saturating_add(slot.ty.bytes().next_multiple_of(4)) > bytes => {
            malformed("byte", slot.offset.saturating_add(slot.ty.bytes()), bytes)
        }
        Some(_) => Ok(()),
    }
}

fn allocate(gpu: &Gpu, layout: &StateLayout) -> Result<Vec<wgpu::Buffer>, DeviceError> {
    gpu.check()?;
    let create = |(at, &bytes): (usize, &usize)| buffers::create(gpu, &format!("state arena {at}"), bytes as u64);
    let arenas = layout.arenas.iter().enumerate().map(create).collect::<Result<Vec<_>, _>>()?;
    buffers::clear(gpu, arenas.iter())?;
    Ok(arenas)
}
