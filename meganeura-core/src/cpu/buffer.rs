//! Memory of the CPU device. The only place where kernels' threads touch shared memory, hence the only one with
//! interior mutability.
//!
//! Whoever reads or writes a [`Buffer`] holds its lock: the host while it copies, an executor while it runs a program.
//! Inside a program the threads of one dispatch write disjoint elements (K2), nobody reads what another point writes
//! (an argument is read by the point that writes it, or not at all), and dispatches run one after another; so there are
//! no data races. Bounds are checked here for every access, whatever the verifier said.

use crate::dtype::DType;
use half::f16;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A cache line.
#[repr(C, align(64))]
struct Line([u32; 16]);

struct Memory {
    lines: Box<[UnsafeCell<Line>]>,
    bytes: usize,
    lock: Mutex<()>,
}

// SAFETY: the cells are reached only through `Locked`, so by one owner of the lock, whose threads write disjoint
// elements as the module's documentation explains.
unsafe impl Sync for Memory {}

/// A handle of zero-initialised memory, aligned to 64 bytes; clones share the memory.
#[derive(Clone)]
pub struct Buffer(Arc<Memory>);

/// A copy between host and buffer outside the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bytes {offset}..{end} of a buffer of {bytes} bytes", end = .offset.saturating_add(*.length))]
#[non_exhaustive]
pub struct RangeError {
    /// First byte asked for.
    pub offset: usize,
    /// Bytes asked for.
    pub length: usize,
    /// Bytes of the buffer.
    pub bytes: usize,
}

/// An access of a kernel outside its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outside {
    pub(super) index: i64,
    pub(super) elements: usize,
}

impl Buffer {
    /// Memory of `bytes` bytes, all zero.
    pub fn zeroed(bytes: usize) -> Buffer {
        let lines = (0..bytes.div_ceil(64)).map(|_| UnsafeCell::new(Line([0; 16]))).collect();
        Buffer(Arc::new(Memory { lines, bytes, lock: Mutex::new(()) }))
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// Whether two handles share their memory.
    pub fn same(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Copies `data` into the buffer from byte `offset` on; waits while a program uses the buffer.
    ///
    /// # Errors
    /// If the range is not inside the buffer.
    pub fn write(&self, offset: usize, data: &[u8]) -> Result<(), RangeError> {
        let locked = self.lock();
        let start = locked.range(offset, data.len())?;
        // SAFETY: the range was checked, `data` is the host's and cannot overlap, and the lock is held.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), start, data.len()) };
        Ok(())
    }

    /// Copies from byte `offset` on into `data`; waits while a program uses the buffer.
    ///
    /// # Errors
    /// If the range is not inside the buffer.
    pub fn read(&self, offset: usize, data: &mut [u8]) -> Result<(), RangeError> {
        let locked = self.lock();
        let start = locked.range(offset, data.len())?;
        // SAFETY: as in `write`.
        unsafe { std::ptr::copy_nonoverlapping(start.cast_const(), data.as_mut_ptr(), data.len()) };
        Ok(())
    }

    /// A number by which buffers can be put into one order, so that locks are taken in it.
    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Waits for the right to use the memory.
    pub(super) fn lock(&self) -> Locked<'_> {
        // A panic of another owner leaves numbers of no meaning, but no broken memory.
        Locked { memory: &self.0, _guard: self.0.lock.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.0.bytes)
    }
}

/// The right to use a buffer's memory.
pub(super) struct Locked<'a> {
    memory: &'a Memory,
    _guard: MutexGuard<'a, ()>,
}

impl Locked<'_> {
    fn range(&self, offset: usize, length: usize) -> Result<*mut u8, RangeError> {
        let bytes = self.memory.bytes;
        if offset.checked_add(length).is_none_or(|end| end > bytes) {
            return Err(RangeError { offset, length, bytes });
        }
        // The range lies inside the lines.
        Ok(UnsafeCell::raw_get(self.memory.lines.as_ptr()).cast::<u8>().wrapping_add(offset))
    }

    /// The tensor of `elements` elements that begins at byte `offset`.
    pub(super) fn view(&self, offset: usize, dtype: DType, elements: usize) -> Result<View<'_>, RangeError> {
        let length = elements.saturating_mul(dtype.bytes());
        let misplaced = RangeError { offset, length, bytes: self.memory.bytes };
        if !offset.is_multiple_of(4) {
            return Err(misplaced);
        }
        Ok(View { start: self.range(offset, length)?, elements, dtype, locked: PhantomData })
    }
}

/// A tensor in a locked buffer, bound to an argument of a kernel. In registers each element is 32 bits: `f16` as `f32`.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    start: *mut u8,
    elements: usize,
    dtype: DType,
    locked: PhantomData<&'a Memory>,
}

// SAFETY: a view is a checked range of locked memory; concurrent use is as the module's documentation explains.
unsafe impl Send for View<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for View<'_> {}

impl View<'_> {
    /// Loads `base + lane · stride` into each lane of `lanes`.
    pub(super) fn load_run(&self, base: i64, stride: i64, lanes: &mut [u32]) -> Result<(), Outside> {
        if lanes.is_empty() {
            return Ok(());
        }
        self.check_run(base, stride, lanes.len())?;
        let word = self.start.cast::<u32>();
        match (self.dtype, stride) {
            (DType::F16, _) => {
                for (lane, value) in lanes.iter_mut().enumerate() {
                    // SAFETY: checked above.
                    *value = unsafe { self.read((base + stride * lane as i64) as usize) };
                }
            }
            // SAFETY: checked above; registers are not part of any buffer.
            (_, 1) => unsafe {
                std::ptr::copy_nonoverlapping(word.add(base as usize).cast_const(), lanes.as_mut_ptr(), lanes.len());
            },
            // SAFETY: checked above.
            (_, 0) => lanes.fill(unsafe { word.add(base as usize).read() }),
            _ => {
                for (lane, value) in lanes.iter_mut().enumerate() {
                    // SAFETY: checked above.
                    *value = unsafe { word.add((base + stride * lane as i64) as usize).read() };
                }
            }
        }
        Ok(())
    }

    /// Loads the element that each lane of `indices` names; lanes whose `mask` is 0 get 0.
    pub(super) fn load_lanes(&self, indices: &[u32], mask: Option<&[u32]>, lanes: &mut [u32]) -> Result<(), Outside> {
        for (lane, value) in lanes.iter_mut().enumerate() {
            *value = 0;
            if mask.is_none_or(|mask| mask[lane] != 0) {
                let at = self.check(indices[lane])?;
                // SAFETY: checked above.
                *value = unsafe { self.read(at) };
            }
        }
        Ok(())
    }

    /// Stores each lane to `base + lane · stride`.
    pub(super) fn store_run(&self, base: i64, stride: i64, lanes: &[u32]) -> Result<(), Outside> {
        if lanes.is_empty() {
            return Ok(());
        }
        self.check_run(base, stride, lanes.len())?;
        if stride == 1 && self.dtype != DType::F16 {
            let word = self.start.cast::<u32>();
            // SAFETY: checked above; registers are not part of any buffer, and no other thread touches the range (K2).
            unsafe { std::ptr::copy_nonoverlapping(lanes.as_ptr(), word.add(base as usize), lanes.len()) };
            return Ok(());
        }
        for (lane, &value) in lanes.iter().enumerate() {
            // SAFETY: checked above; no other thread touches the element (K2).
            unsafe { self.write((base + stride * lane as i64) as usize, value) };
        }
        Ok(())
    }

    /// Stores each lane to the element that the lane of `indices` names.
    pub(super) fn store_lanes(&self, indices: &[u32], lanes: &[u32]) -> Result<(), Outside> {
        for (&index, &value) in indices.iter().zip(lanes) {
            let at = self.check(index)?;
            // SAFETY: checked above; no other thread touches the element (K2).
            unsafe { self.write(at, value) };
        }
        Ok(())
    }

    /// The address of element `base` of an `f32` tensor, after checking that the elements
    /// `base + row · strides[0] + col · strides[1]` of a matrix of that shape are inside.
    pub(super) fn matrix(&self, base: i64, shape: [usize; 2], strides: [i64; 2]) -> Result<*mut f32, Outside> {
        if shape[0] > 0 && shape[1] > 0 {
            let far = |dim: usize| (shape[dim] as i64 - 1) * strides[dim];
            let low = base + far(0).min(0) + far(1).min(0);
            let high = base + far(0).max(0) + far(1).max(0);
            self.check_run(low, high - low, 2)?;
        }
        Ok(self.start.cast::<f32>().wrapping_offset(base as isize))
    }

    fn check_run(&self, base: i64, stride: i64, length: usize) -> Result<(), Outside> {
        let last = base + stride * (length as i64 - 1);
        let outside = |index: i64| index < 0 || index >= self.elements as i64;
        match length {
            _ if outside(base) => Err(Outside { index: base, elements: self.elements }),
            _ if outside(last) => Err(Outside { index: last, elements: self.elements }),
            _ => Ok(()),
        }
    }

    fn check(&self, index: u32) -> Result<usize, Outside> {
        if (index as usize) < self.elements {
            return Ok(index as usize);
        }
        Err(Outside { index: i64::from(index as i32), elements: self.elements })
    }

    /// # Safety
    /// `at` is below the number of elements.
    unsafe fn read(&self, at: usize) -> u32 {
        match self.dtype {
            // SAFETY: in bounds by the caller's promise; tensors begin at multiples of 4 bytes.
            DType::F16 => unsafe { self.start.cast::<f16>().add(at).read() }.to_f32().to_bits(),
            // SAFETY: as above.
            _ => unsafe { self.start.cast::<u32>().add(at).read() },
        }
    }

    /// # Safety
    /// `at` is below the number of elements, and no other thread touches that element.
    unsafe fn write(&self, at: usize, value: u32) {
        match self.dtype {
            // SAFETY: in bounds by the caller's promise; tensors begin at multiples of 4 bytes.
            DType::F16 => unsafe { self.start.cast::<f16>().add(at).write(f16::from_f32(f32::from_bits(value))) },
            // SAFETY: as above.
            _ => unsafe { self.start.cast::<u32>().add(at).write(value) },
        }
    }
}
