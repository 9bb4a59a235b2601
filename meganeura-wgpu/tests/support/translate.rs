//! Validation and translation of a module by naga, with exactly the capabilities that the module declares.

#[path = "apple.rs"]
mod apple;

use meganeura_wgpu::wgsl::Module;
use naga::Statement;
use naga::back::{hlsl, msl, spv};
use naga::valid::{Capabilities, ModuleInfo, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator};

/// W1: panics with the text if any tool refuses it.
pub fn check(module: &Module) {
    let source = &module.source;
    let parsed =
        naga::front::wgsl::parse_str(source).unwrap_or_else(|e| panic!("{}\n{source}", e.emit_to_string(source)));
    let capabilities = |needs: meganeura_wgpu::wgsl::Needs| {
        let mut capabilities = Capabilities::empty();
        capabilities.set(Capabilities::SHADER_FLOAT16, needs.f16);
        capabilities.set(Capabilities::COOPERATIVE_MATRIX, needs.cooperative);
        capabilities.set(Capabilities::SUBGROUP, needs.subgroup);
        capabilities
    };
    let mut validator = Validator::new(ValidationFlags::all(), capabilities(module.needs));
    if module.needs.subgroup {
        validator.subgroup_stages(ShaderStages::COMPUTE).subgroup_operations(SubgroupOperationSet::all());
    }
    let entry = &parsed.entry_points[0].function.body;
    assert!(!has_conditional_barrier(entry, false), "K3: a barrier under a condition:\n{source}");
    let info = validator.validate(&parsed).unwrap_or_else(|e| panic!("{}\n{source}", e.emit_to_string(source)));
    let version = if module.needs.cooperative { (1, 6) } else { (1, 3) };
    let options = spv::Options { lang_version: version, ..Default::default() };
    spv::write_vec(&parsed, &info, &options, None).unwrap_or_else(|e| panic!("SPIR-V: {e}\n{source}"));
    // Apple's GPUs have matrices of 8×8 alone: larger ones are never printed for them.
    if !source.contains("coop_mat16x16") {
        let text = metal(&parsed, &info);
        if let Some(reason) = apple::refusal(&text) {
            panic!("MSL has {reason}\n{text}");
        }
    }
    if !module.needs.cooperative {
        let options = hlsl::Options { shader_model: hlsl::ShaderModel::V6_2, ..Default::default() };
        let (pipeline, mut text) = (hlsl::PipelineOptions::default(), String::new());
        let mut writer = hlsl::Writer::new(&mut text, &options, &pipeline);
        writer.write(&parsed, &info, None).unwrap_or_else(|e| panic!("HLSL: {e}\n{source}"));
    }
    if module.needs.f16 {
        let less = Capabilities::SHADER_FLOAT16.complement() & capabilities(module.needs);
        assert!(Validator::new(ValidationFlags::all(), less).validate(&parsed).is_err(), "f16 is not used:\n{source}");
    }
}

fn metal(parsed: &naga::Module, info: &ModuleInfo) -> String {
    let options = msl::Options {
        lang_version: (2, 3),
        fake_missing_bindings: true,
        zero_initialize_workgroup_memory: false,
        ..Default::default()
    };
    let written = msl::write_string(parsed, info, &options, &Default::default());
    written.unwrap_or_else(|error| panic!("MSL: {error}")).0
}

/// Why Apple's compiler would not take what naga makes of a text, if it would not.
#[allow(dead_code)]
pub fn refused_by_apple(source: &str) -> Option<String> {
    let parsed =
        naga::front::wgsl::parse_str(source).unwrap_or_else(|e| panic!("{}\n{source}", e.emit_to_string(source)));
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    validator.subgroup_stages(ShaderStages::COMPUTE).subgroup_operations(SubgroupOperationSet::all());
    let info = validator.validate(&parsed).unwrap_or_else(|e| panic!("{}\n{source}", e.emit_to_string(source)));
    apple::refusal(&metal(&parsed, &info))
}

/// K3, which naga does not check: whether a barrier stands inside an `if` or `switch`. Printed loops around barriers
/// have trip counts that are the same for the whole workgroup, so a barrier in one is in uniform flow.
fn has_conditional_barrier(block: &naga::Block, conditional: bool) -> bool {
    block.iter().any(|statement| match statement {
        Statement::ControlBarrier(_) => conditional,
        Statement::Block(inner) => has_conditional_barrier(inner, conditional),
        Statement::If { accept, reject, .. } => [accept, reject].iter().any(|arm| has_conditional_barrier(arm, true)),
        Statement::Switch { cases, .. } => cases.iter().any(|case| has_conditional_barrier(&case.body, true)),
        Statement::Loop { body, continuing, .. } => {
            [body, continuing].iter().any(|part| has_conditional_barrier(part, conditional))
        }
        _ => false,
    })
}
