//! The only reader of environment variables: every variable that meganeura obeys has its function here.

use std::env;

/// `MEGANEURA_DEVICE`: the device that a program which names none shall use.
///
/// `cpu`, `gpu`, a number in the list of adapters, or a part of an adapter's name. `None` if unset, empty or not Unicode.
pub fn device_selector() -> Option<String> {
    env::var("MEGANEURA_DEVICE").ok().filter(|selector| !selector.trim().is_empty())
}

/// `MEGANEURA_REQUIRE_GPU=1`: a test that finds no adapter shall fail rather than skip.
pub fn require_gpu() -> bool {
    env::var("MEGANEURA_REQUIRE_GPU").is_ok_and(|value| value == "1")
}
