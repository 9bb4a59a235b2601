//! What wgpu says of an adapter or device, as [`Caps`].

use meganeura_core::dtype::DType;
use meganeura_core::schedule::{Caps, Cooperative, Target};
use wgpu::{Adapter, AdapterInfo, Backend, CooperativeScalarType, DeviceType, Features, Limits};

/// Workgroup memory that the resident workgroups of one multiprocessor share: no API tells it. 48 KiB was measured on
/// an NVIDIA H200 through Vulkan, and no current desktop GPU has less than 32 KiB.
const RESIDENT_WORKGROUP_BYTES: u32 = 49_152;

/// Multiprocessors by part of the adapter's name, from the vendors' data sheets; no API tells them.
const MULTIPROCESSORS: &[(&str, u32)] = &[("H200", 132), ("H100", 132)];

/// Multiprocessors to fill where the name says nothing.
const USUAL_MULTIPROCESSORS: u32 = 64;

/// The largest buffer through Vulkan. NVIDIA's driver states 2^52 bytes, but its largest single allocation on an H200 is
/// 4 GiB − 2 MiB; wgpu does not tell `maxMemoryAllocationSize`.
const VULKAN_BUFFER_BYTES: u64 = (4 << 30) - (2 << 20);

/// Limits and features, cooperative matrices not included: those are an adapter's property, see [`cooperative`].
pub(super) fn caps(info: &AdapterInfo, limits: &Limits, features: Features) -> Caps {
    let fixed_subgroup = info.subgroup_min_size == info.subgroup_max_size && info.subgroup_min_size > 0;
    Caps {
        target: Target::Gpu,
        max_invocations: limits.max_compute_invocations_per_workgroup,
        max_workgroup_size: [
            limits.max_compute_workgroup_size_x,
            limits.max_compute_workgroup_size_y,
            limits.max_compute_workgroup_size_z,
        ],
        max_workgroups: limits.max_compute_workgroups_per_dimension,
        workgroup_bytes: limits.max_compute_workgroup_storage_size,
        resident_workgroup_bytes: RESIDENT_WORKGROUP_BYTES,
        multiprocessors: multiprocessors(info),
        max_bindings: limits.max_storage_buffers_per_shader_stage.min(limits.max_bindings_per_bind_group),
        max_binding_bytes: limits.max_storage_buffer_binding_size,
        max_buffer_bytes: match info.backend {
            Backend::Vulkan => limits.max_buffer_size.min(VULKAN_BUFFER_BYTES),
            _ => limits.max_buffer_size,
        },
        binding_alignment: limits.min_storage_buffer_offset_alignment,
        subgroup: (features.contains(Features::SUBGROUP) && fixed_subgroup).then_some(info.subgroup_min_size),
        f16: features.contains(Features::SHADER_F16),
        cooperative: Vec::new(),
    }
}

/// The square products of `f16` operands with an `f32` sum, largest first: the only ones that WGSL can express and that
/// keep an `f32` result.
pub(super) fn cooperative(adapter: &Adapter) -> Vec<Cooperative> {
    if !adapter.features().contains(Features::EXPERIMENTAL_COOPERATIVE_MATRIX | Features::SHADER_F16) {
        return Vec::new();
    }
    let mut sizes: Vec<u32> = adapter
        .cooperative_matrix_properties()
        .into_iter()
        .filter(|product| product.m_size == product.n_size && product.n_size == product.k_size)
        .filter(|product| product.ab_type == CooperativeScalarType::F16)
        .filter(|product| product.cr_type == CooperativeScalarType::F32)
        .map(|product| product.m_size)
        .collect();
    sizes.sort_unstable_by(|one, two| two.cmp(one));
    sizes.dedup();
    sizes.into_iter().map(|size| Cooperative { size, operand: DType::F16, accumulate: DType::F32 }).collect()
}

fn multiprocessors(info: &AdapterInfo) -> u32 {
    if info.device_type == DeviceType::Cpu {
        return std::thread::available_parallelism().map_or(1, |threads| threads.get() as u32);
    }
    MULTIPROCESSORS.iter().find(|(part, _)| info.name.contains(part)).map_or(USUAL_MULTIPROCESSORS, |(_, count)| *count)
}
