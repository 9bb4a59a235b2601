//! naga's part of a session's pipelines.

use crate::common::Failure;
use meganeura::memory::{Dispatch, Plan};
use meganeura::schedule::Caps;
use meganeura_wgpu::wgsl;
use naga::back::spv;
use naga::valid::{Capabilities, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator};
use std::collections::HashSet;
use std::time::Instant;

/// Seconds that naga takes, in one thread, to parse, validate and write as SPIR-V each distinct module of a plan.
pub fn seconds(plan: &Plan, caps: &Caps) -> Result<f64, Failure> {
    let print = |dispatch: &Dispatch| {
        let writable: Vec<bool> = dispatch.bindings.iter().map(|binding| binding.writable).collect();
        wgsl::print(&plan.kernels[dispatch.kernel], &dispatch.spec, &writable, &dispatch.arg_binding, caps)
    };
    let sources: HashSet<String> =
        plan.dispatches.iter().map(|dispatch| Ok(print(dispatch)?.source)).collect::<Result<_, wgsl::PrintError>>()?;
    let options = spv::Options { lang_version: (1, 6), ..spv::Options::default() };
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    validator.subgroup_stages(ShaderStages::all()).subgroup_operations(SubgroupOperationSet::all());
    let start = Instant::now();
    for source in &sources {
        let module = naga::front::wgsl::parse_str(source)?;
        let info = validator.validate(&module)?;
        spv::write_vec(&module, &info, &options, None)?;
    }
    Ok(start.elapsed().as_secs_f64())
}
