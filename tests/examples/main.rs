//! The examples, run as a user runs them, on a small part of the data.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod charlm;
mod mnist;

use std::path::PathBuf;
use std::process::Command;

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");

/// An example, freshly built in the profile of this test.
fn example(name: &str) -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let profile = deps.parent().unwrap().parent().unwrap();
    let release: &[&str] = if profile.ends_with("release") { &["--release"] } else { &[] };
    let build = ["build", "--quiet", "--offline", "--workspace", "--example", name];
    let status = Command::new(env!("CARGO")).args(build).args(release).current_dir(REPOSITORY).status().unwrap();
    assert!(status.success());
    profile.join("examples").join(name).with_extension(std::env::consts::EXE_EXTENSION)
}
