//! What a device can do, as plain data: everything that scheduling may depend on.

use crate::dtype::DType;

/// Limits and features of a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caps {
    /// Which executor the program is for.
    pub target: Target,
    /// Invocations in one workgroup.
    pub max_invocations: u32,
    /// Extent of a workgroup along each dimension.
    pub max_workgroup_size: [u32; 3],
    /// Workgroups along each dimension of a dispatch.
    pub max_workgroups: u32,
    /// Bytes of workgroup memory one workgroup may declare.
    pub workgroup_bytes: u32,
    /// Bytes of workgroup memory that may be declared by the workgroups resident on one multiprocessor together, where
    /// known (49,152 measured on an NVIDIA H200 through Vulkan); decides how many can hide each other's latency.
    pub resident_workgroup_bytes: u32,
    /// Multiprocessors to fill, where known; otherwise an estimate.
    pub multiprocessors: u32,
    /// Storage buffers one dispatch may bind.
    pub max_bindings: u32,
    /// Bytes of one binding.
    pub max_binding_bytes: u64,
    /// Bytes of one buffer.
    pub max_buffer_bytes: u64,
    /// Alignment of a binding's offset in its buffer, bytes.
    pub binding_alignment: u32,
    /// Lanes of a subgroup, if shaders may use subgroup operations and the size is fixed.
    pub subgroup: Option<u32>,
    /// Whether shaders may use `f16`.
    pub f16: bool,
    /// Square cooperative matrix products that shaders may use.
    pub cooperative: Vec<Cooperative>,
}

/// What executes a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The CPU device of this crate.
    Cpu,
    /// A graphics API through wgpu.
    Gpu,
}

/// A matrix product `size × size × size` that a subgroup computes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cooperative {
    /// Rows, columns and depth.
    pub size: u32,
    /// Type of both operands.
    pub operand: DType,
    /// Type of the sum.
    pub accumulate: DType,
}

impl Caps {
    /// The CPU device: `threads` workers, no limits that a program could meet.
    pub fn cpu(threads: usize) -> Caps {
        Caps {
            target: Target::Cpu,
            max_invocations: 1,
            max_workgroup_size: [1; 3],
            max_workgroups: u32::MAX,
            workgroup_bytes: u32::MAX,
            resident_workgroup_bytes: u32::MAX,
            multiprocessors: threads as u32,
            max_bindings: u32::MAX,
            max_binding_bytes: u64::MAX,
            max_buffer_bytes: u64::MAX,
            binding_alignment: 64,
            subgroup: None,
            f16: true,
            cooperative: Vec::new(),
        }
    }

    /// What every WebGPU implementation offers: wgpu's default limits, no optional feature.
    pub fn base() -> Caps {
        Caps {
            target: Target::Gpu,
            max_invocations: 256,
            max_workgroup_size: [256, 256, 64],
            max_workgroups: 65_535,
            workgroup_bytes: 16_384,
            resident_workgroup_bytes: 49_152,
            multiprocessors: 16,
            max_bindings: 8,
            max_binding_bytes: 128 << 20,
            max_buffer_bytes: 256 << 20,
            binding_alignment: 256,
            subgroup: None,
            f16: false,
            cooperative: Vec::new(),
        }
    }

    /// One NVIDIA H200 as wgpu 30 shows it on Vulkan (driver 580.159): for tests of schedules without that device.
    pub fn h200() -> Caps {
        Caps {
            target: Target::Gpu,
            max_invocations: 1024,
            max_workgroup_size: [1024, 1024, 64],
            max_workgroups: 65_535,
            workgroup_bytes: 49_152,
            resident_workgroup_bytes: 49_152,
            multiprocessors: 132,
            max_bindings: 64,
            max_binding_bytes: (2 << 30) - 4,
            max_buffer_bytes: 4 << 30,
            binding_alignment: 256,
            subgroup: Some(32),
            f16: true,
            cooperative: vec![Cooperative { size: 16, operand: DType::F16, accumulate: DType::F32 }],
        }
    }
}
