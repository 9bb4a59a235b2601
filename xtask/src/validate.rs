//! Runs the tests that say most about the use of Vulkan under its validation layer, of which any message is a failure.
//!
//! The layer's check of barriers is on too. Version 1.3.239 (Debian 12) takes the storage buffers of naga's shaders for
//! read only: it finds a barrier missing between a copy and a shader, but not between shaders. For those there are tests
//! that compare the bits of both recordings.

use crate::{apt, cargo};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// What Debian calls the layer.
const PACKAGE: &str = "vulkan-validationlayers";

/// Test programs of meganeura-wgpu, and which of their tests.
const TESTS: [(&str, &[&str]); 5] =
    [("session", &[]), ("device", &[]), ("runtime", &[]), ("profile", &[]), ("programs", &["both_recordings"])];

/// What the layer writes where: to the standard output of the process, as every new instance begins a file anew.
const SETTINGS: &str = "\
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.report_flags = error,warn,perf,info
khronos_validation.log_filename = stdout
khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
";

/// In each of the layer's messages.
const MESSAGE: &str = "| MessageID = ";
/// In the one that it begins with.
const ACTIVE: &str = "Khronos Validation Layer Active";

/// Runs the tests; fails at the first program with a message. Where the layer is not to be had, it says that nothing was
/// validated, which fails only if `required`. `devices` is a program that opens an adapter.
pub fn tests(devices: &Path, required: bool) -> Result<(), String> {
    let settings = std::env::temp_dir().join(format!("meganeura-validation-{}", std::process::id()));
    let written = std::fs::create_dir_all(&settings)
        .and_then(|()| std::fs::write(settings.join("vk_layer_settings.txt"), SETTINGS));
    written.map_err(|error| format!("{}: {error}", settings.display()))?;
    let result = match find_layer(devices, &settings) {
        Ok(()) => TESTS.iter().try_for_each(|(test, only)| validate(test, only, &settings)),
        Err(reason) if required => Err(reason),
        Err(reason) => {
            println!("validation: SKIPPED, nothing was validated: {reason}");
            Ok(())
        }
    };
    // It lies among temporary files; left behind, it harms nothing.
    let _ = std::fs::remove_dir_all(&settings);
    result
}

/// Sees to it that the layer is there.
fn find_layer(devices: &Path, settings: &Path) -> Result<(), String> {
    let there = || {
        let shown = under_layer(&mut Command::new(devices), settings).output();
        shown.is_ok_and(|shown| Messages::of(&String::from_utf8_lossy(&shown.stdout)).active)
    };
    if there() {
        return Ok(());
    }
    if !cfg!(target_os = "linux") {
        return Err("the layer is looked for on Linux only".to_owned());
    }
    apt::install(&[PACKAGE])?;
    if there() { Ok(()) } else { Err(format!("{PACKAGE} is installed, but its layer does not load")) }
}

fn validate(test: &str, only: &[&str], settings: &Path) -> Result<(), String> {
    let start = Instant::now();
    let mut command = cargo();
    command.args(["test", "--quiet", "--workspace", "--test", test, "--"]).args(only);
    command.env("MEGANEURA_REQUIRE_GPU", "1").env("MEGANEURA_CACHE", "off");
    let output = under_layer(&mut command, settings).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo could not be started: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let Messages { active, messages } = Messages::of(&text);
    match (output.status.success(), active, messages.first()) {
        (false, ..) => Err(format!("{text}\nthe tests of {test} fail under the validation layer")),
        (true, false, _) => Err(format!("the tests of {test} did not load the validation layer")),
        (true, true, Some(first)) => Err(format!("{} messages about {test}, the first one:\n{first}", messages.len())),
        (true, true, None) => {
            println!("validation: {test}: no message, {:.0} s", start.elapsed().as_secs_f64());
            Ok(())
        }
    }
}

fn under_layer<'c>(command: &'c mut Command, settings: &Path) -> &'c mut Command {
    command.env("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation").env("VK_LAYER_SETTINGS_PATH", settings)
}

/// What the layer said.
struct Messages<'t> {
    /// Whether it was there.
    active: bool,
    messages: Vec<&'t str>,
}

impl Messages<'_> {
    fn of(output: &str) -> Messages<'_> {
        let (begins, messages): (Vec<&str>, Vec<&str>) =
            output.lines().filter(|line| line.contains(MESSAGE)).partition(|line| line.contains(ACTIVE));
        Messages { active: !begins.is_empty(), messages }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_between_the_lines_of_tests() {
        let begin = "STATUS(INFO / SPEC): msgNum: 1 - Validation Information: [ S ] Object 0: | MessageID = 0x1 | \
                     Khronos Validation Layer Active:\n    Current Enables: SYNC.\n";
        let error = "test a ... VUID-1(ERROR / SPEC): msgNum: 2 - Validation Error: [ VUID-1 ] | MessageID = 0x2 | \
                     vkCmdDispatch(): too large\n    Objects: 1\n";
        let of = |text: &str| {
            let Messages { active, messages } = Messages::of(text);
            (active, messages.len())
        };
        assert_eq!(of("test result: ok. 1 passed\n"), (false, 0));
        assert_eq!(of(&format!("running 1 test\n{begin}test a ... ok\n")), (true, 0));
        assert_eq!(of(&format!("{begin}{error}{begin}{error}")), (true, 2));
        assert!(Messages::of(error).messages[0].contains("too large"));
    }
}
