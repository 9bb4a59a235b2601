//! Storage buffers of a module: which kernel argument lies in which binding, and how elements are read and written.

use super::PrintError;
use meganeura_core::dtype::DType;
use meganeura_core::kernel::{Access, Kernel};

/// The bindings of one module, all in group 0.
#[derive(Clone, Debug)]
pub struct Bindings {
    slots: Vec<Slot>,
    arg_binding: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    dtype: DType,
    writable: bool,
    /// Declared as an array of four-element vectors.
    wide: bool,
}

/// The WGSL type of a value of that element type; truth values are `bool` in registers.
pub fn value_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        other => other.name(),
    }
}

/// The WGSL type of an element in memory; truth values are `u32`.
pub fn memory_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "u32",
        other => other.name(),
    }
}

impl Bindings {
    /// The bindings of a kernel; `writable` has one entry a binding, `arg_binding` one an argument.
    ///
    /// # Errors
    /// If an argument has no binding, arguments of different types share one, or a stored argument's is not writable.
    pub fn new(kernel: &Kernel, writable: &[bool], arg_binding: &[usize]) -> Result<Bindings, PrintError> {
        let mut dtypes: Vec<Option<DType>> = vec![None; writable.len()];
        for (arg, declared) in kernel.args.iter().enumerate() {
            let binding = arg_binding.get(arg).copied().filter(|&binding| binding < writable.len());
            let binding = binding.ok_or(PrintError::ArgumentWithoutBinding { arg, bindings: writable.len() })?;
            let first = *dtypes[binding].get_or_insert(declared.dtype);
            if first != declared.dtype {
                return Err(PrintError::BindingTypes { binding, first, second: declared.dtype });
            }
            if declared.access != Access::Read && !writable[binding] {
                return Err(PrintError::BindingNotWritable { arg, binding });
            }
        }
        let slot = |(dtype, &writable): (Option<DType>, &bool)| Slot {
            // A binding that no argument uses keeps its number; its type does not matter.
            dtype: dtype.unwrap_or(DType::U32),
            writable,
            wide: false,
        };
        let slots = dtypes.into_iter().zip(writable).map(slot).collect();
        Ok(Bindings { slots, arg_binding: arg_binding.to_vec() })
    }

    /// The binding of an argument.
    pub fn of(&self, arg: usize) -> usize {
        self.arg_binding[arg]
    }

    /// Whether two arguments lie at the same place.
    pub fn share(&self, a: usize, b: usize) -> bool {
        self.of(a) == self.of(b)
    }

    /// Declares an argument's binding as an array of `vec4`.
    pub fn widen(&mut self, arg: usize) {
        let binding = self.of(arg);
        self.slots[binding].wide = true;
    }

    /// The reference to one element in memory; `index` is the text of a `u32`.
    pub fn element(&self, arg: usize, index: &str) -> String {
        let binding = self.of(arg);
        match self.slots[binding].wide {
            false => format!("b{binding}[{index}]"),
            true => format!("b{binding}[({index}) >> 2u][({index}) & 3u]"),
        }
    }

    /// The reference to four consecutive elements of a wide binding; `index`, a multiple of 4, is that of the first.
    pub fn four(&self, arg: usize, index: &str) -> String {
        format!("b{}[({index}) >> 2u]", self.of(arg))
    }

    /// The value of one element in registers.
    pub fn load(&self, arg: usize, index: &str) -> String {
        let element = self.element(arg, index);
        match self.slots[self.of(arg)].dtype {
            DType::Bool => format!("({element} != 0u)"),
            _ => element,
        }
    }

    /// The statement that stores `value` as one element.
    pub fn store(&self, arg: usize, index: &str, value: &str) -> String {
        let element = self.element(arg, index);
        match self.slots[self.of(arg)].dtype {
            DType::Bool => format!("{element} = u32({value});"),
            _ => format!("{element} = {value};"),
        }
    }

    /// The declarations of all bindings, one a line.
    pub fn declarations(&self) -> String {
        let declare = |(binding, slot): (usize, &Slot)| {
            let access = if slot.writable { "read_write" } else { "read" };
            let element = memory_type(slot.dtype);
            let element = if slot.wide { format!("vec4<{element}>") } else { element.to_string() };
            format!("@group(0) @binding({binding}) var<storage, {access}> b{binding}: array<{element}>;\n")
        };
        self.slots.iter().enumerate().map(declare).collect()
    }

    /// Whether any binding holds `f16`.
    pub fn has_f16(&self) -> bool {
        self.slots.iter().any(|slot| slot.dtype == DType::F16)
    }
}
