//! What the workspace may depend on: a build needs Rust alone, no C compiler and no library of the system.

#![allow(clippy::expect_used, clippy::panic)]

use std::path::Path;

/// Crates that build or look for code in other languages. `cc` is among them: nothing in the tree has needed it so far.
const FORBIDDEN: [&str; 11] =
    ["autotools", "bindgen", "cc", "cmake", "cxx", "cxx-build", "gcc", "meson", "pkg-config", "system-deps", "vcpkg"];

/// `-sys` crates that link no library: declarations of system calls and of what every system of theirs has.
const DECLARATIONS: [&str; 6] =
    ["js-sys", "linux-raw-sys", "renderdoc-sys", "web-sys", "windows-sys", "core-foundation-sys"];

fn locked() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let names = text.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    names.map(str::to_owned).collect()
}

#[test]
fn nothing_in_the_tree_builds_or_links_other_languages() {
    let names = locked();
    assert!(names.iter().any(|name| name == "wgpu"), "Cargo.lock was not understood");
    let found: Vec<_> = names.iter().filter(|name| FORBIDDEN.contains(&name.as_str())).collect();
    assert!(found.is_empty(), "the dependency tree has {found:?}");
    let linked = |name: &&String| name.ends_with("-sys") && !DECLARATIONS.contains(&name.as_str());
    let found: Vec<_> = names.iter().filter(linked).collect();
    assert!(found.is_empty(), "the dependency tree may link a system library: {found:?}");
}

#[test]
fn no_other_machine_learning_framework_is_in_the_tree() {
    let others = ["burn", "candle-core", "cubecl", "cudarc", "dfdx", "ort", "pyo3", "tch", "tract-core"];
    let names = locked();
    let found: Vec<_> = names.iter().filter(|name| others.contains(&name.as_str())).collect();
    assert!(found.is_empty(), "the dependency tree has {found:?}");
}
