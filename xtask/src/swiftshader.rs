//! The runtime's tests on SwiftShader, Chromium's software GPU: a second driver, with other limits, compiler and
//! scheduling than Mesa's.

use crate::{apt, cargo, run};
use std::path::Path;

/// Where Debian's package has it.
const DESCRIPTION: &str = "/usr/lib/chromium/vk_swiftshader_icd.json";
const PACKAGES: [&str; 1] = ["chromium-common"];

/// The tests that run kernels on a GPU: the op table, and the suite of the runtime.
const TESTS: [&str; 10] =
    ["accuracy", "attention", "contract", "device", "map", "profile", "programs", "row", "runtime", "scalar"];

/// Runs them; where the driver is not to be had, it says that nothing was run, which fails only if `required`.
pub fn test(required: bool) -> Result<(), String> {
    if let Err(reason) = prepare() {
        if required {
            return Err(reason);
        }
        println!("swiftshader: SKIPPED, nothing was run: {reason}");
        return Ok(());
    }
    let mut command = cargo();
    command.args(["test", "--workspace"]).args(TESTS.iter().flat_map(|name| ["--test", name]));
    command.env("VK_DRIVER_FILES", DESCRIPTION).env("VK_ICD_FILENAMES", DESCRIPTION);
    run(command.env("MEGANEURA_REQUIRE_GPU", "1").env("MEGANEURA_CACHE", "off"))
}

/// Installs the driver where it lacks.
fn prepare() -> Result<(), String> {
    if Path::new(DESCRIPTION).exists() {
        return Ok(());
    }
    apt::install(&PACKAGES)?;
    Path::new(DESCRIPTION)
        .exists()
        .then_some(())
        .ok_or_else(|| format!("{DESCRIPTION} does not come with {PACKAGES:?}"))
}
