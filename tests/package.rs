//! What the published package holds.

#![allow(clippy::expect_used, clippy::panic)]

use std::process::Command;

#[test]
fn the_package_has_the_licences_and_examples_but_no_data() {
    let output = Command::new(env!("CARGO"))
        .args(["package", "--list", "--allow-dirty", "--offline", "--package", "meganeura"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo starts");
    let (list, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{errors}");
    let files: Vec<&str> = list.lines().collect();
    for expected in ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "examples/mnist.rs", "src/lib.rs"] {
        assert!(files.contains(&expected), "{expected} is not in the package: {files:?}");
    }
    let data: Vec<_> = files.iter().filter(|file| file.starts_with("data/") || file.ends_with(".gz")).collect();
    assert!(data.is_empty(), "data are in the package: {data:?}");
}
