//! What the published packages hold, and what a crate outside of the workspace can do.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");

/// Runs cargo in the repository without a network. What it printed.
fn cargo(arguments: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).arg("--offline").current_dir(REPOSITORY).env("MEGANEURA_DEVICE", "cpu");
    // Nobody debugs what is built here.
    let output = command.env("CARGO_PROFILE_DEV_DEBUG", "0").output().expect("cargo starts");
    let [text, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{arguments:?}: {errors}");
    (text, errors)
}

#[test]
fn the_package_has_the_licences_and_examples_but_no_data() {
    let (list, _) = cargo(&["package", "--list", "--allow-dirty", "--package", "meganeura"]);
    let files: Vec<&str> = list.lines().collect();
    for expected in ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "examples/mnist.rs", "src/lib.rs"] {
        assert!(files.contains(&expected), "{expected} is not in the package: {files:?}");
    }
    let data: Vec<_> = files.iter().filter(|file| file.starts_with("data/") || file.ends_with(".gz")).collect();
    assert!(data.is_empty(), "data are in the package: {data:?}");
}

#[test]
fn every_crate_can_be_packed() {
    let packed = Path::new(REPOSITORY).join("target/packed");
    let target = packed.to_str().unwrap();
    let workspace = ["package", "--workspace", "--exclude", "xtask", "--no-verify", "--allow-dirty"];
    cargo(&[&workspace[..], &["--target-dir", target]].concat());
    for name in ["meganeura", "meganeura-core", "meganeura-nn", "meganeura-wgpu"] {
        let file = packed.join(format!("package/{name}-{}.crate", env!("CARGO_PKG_VERSION")));
        // What a registry takes at most: https://doc.rust-lang.org/cargo/reference/publishing.html
        assert!(file.metadata().unwrap().len() < 10 << 20, "{}", file.display());
    }
}

#[test]
fn a_crate_outside_of_the_workspace_trains_saves_reloads_and_infers() {
    let folder = Path::new(REPOSITORY).join("tests/downstream");
    let program = std::fs::read_to_string(folder.join("src/main.rs")).unwrap();
    assert!(program.lines().count() < 60);
    // The same versions, which need no network.
    std::fs::copy(Path::new(REPOSITORY).join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let manifest = folder.join("Cargo.toml");
    let target = Path::new(REPOSITORY).join("target/downstream");
    let run = ["run", "--manifest-path", manifest.to_str().unwrap(), "--target-dir", target.to_str().unwrap()];
    let (text, _) = cargo(&run);
    assert!(text.contains("[0, 1, 1, 0], expected [0, 1, 1, 0]"), "{text}");
}
