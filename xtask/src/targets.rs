//! Type-checks the crates for systems that this machine is not.
//!
//! The installed toolchain may lack the standard library of other targets. Debian has a second toolchain that comes
//! with the library's source, which Cargo builds itself; a check needs neither linker nor SDK. It proves types and
//! `cfg`s, not behaviour.

use crate::{apt, output, run};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// What Debian's toolchain and the targets' import libraries are called.
const PACKAGES: [&str; 5] = ["rustc-web", "cargo-web", "rust-web-src", "lld", "binutils-mingw-w64-x86-64"];
/// Where Debian puts that toolchain, which must come before any other in the path.
const TOOLCHAIN: &str = "/usr/bin";
/// The packages that users depend on.
const CRATES: [&str; 4] = ["meganeura-core", "meganeura-wgpu", "meganeura-nn", "meganeura"];

/// A system, and what is done for it.
struct Target {
    triple: &'static str,
    backend: &'static str,
    /// `check`, or `build` where the linker comes with the packages.
    command: &'static str,
}

const TARGETS: [Target; 4] = [
    Target { triple: "aarch64-apple-darwin", backend: "Metal", command: "check" },
    Target { triple: "x86_64-pc-windows-gnu", backend: "Direct3D 12 and Vulkan", command: "check" },
    Target { triple: "aarch64-linux-android", backend: "Vulkan", command: "check" },
    Target { triple: "wasm32-unknown-unknown", backend: "WebGPU", command: "build" },
];

/// Checks every target, or those named, and says how each went; fails if one did. Where the toolchain is not to be had,
/// it says that it checked nothing, which fails only if `required`.
pub fn check(named: &[String], required: bool) -> Result<(), String> {
    let known = |name: &&String| !TARGETS.iter().any(|target| target.triple == name.as_str());
    if let Some(unknown) = named.iter().find(known) {
        let all = TARGETS.map(|target| target.triple).join(", ");
        return Err(format!("{unknown} is no target that is checked; those are {all}"));
    }
    if let Err(reason) = prepare() {
        if required {
            return Err(reason);
        }
        println!("targets: SKIPPED, nothing was checked: {reason}");
        return Ok(());
    }
    let chosen = TARGETS.iter().filter(|target| named.is_empty() || named.iter().any(|name| name == target.triple));
    let failed: Vec<&str> = chosen.filter(|target| !passes(target)).map(|target| target.triple).collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("failed for {}", failed.join(", "))) }
}

/// Installs the toolchain where it lacks.
fn prepare() -> Result<(), String> {
    let complete = || {
        let source = output(&format!("{TOOLCHAIN}/rustc"), &["--print", "sysroot"])
            .is_some_and(|root| Path::new(root.trim()).join("lib/rustlib/src/rust/library").exists());
        source && Path::new(TOOLCHAIN).join("cargo").exists() && linker().is_some()
    };
    if complete() {
        return Ok(());
    }
    apt::install(&PACKAGES)?;
    complete().then_some(()).ok_or_else(|| format!("no toolchain with the library's source in {TOOLCHAIN}"))
}

fn passes(target: &Target) -> bool {
    let start = Instant::now();
    println!("targets: {} {} ({})", target.command, target.triple, target.backend);
    let result = command(target).map_err(|error| error.to_string()).and_then(|mut command| run(&mut command));
    let outcome = if result.is_ok() { "passed" } else { "FAILED" };
    println!("targets: {} {outcome} in {} s", target.triple, start.elapsed().as_secs());
    result.is_ok()
}

fn command(target: &Target) -> Result<Command, std::env::JoinPathsError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([TOOLCHAIN.into()].into_iter().chain(std::env::split_paths(&path)))?;
    let mut command = Command::new(Path::new(TOOLCHAIN).join("cargo"));
    // The outer Cargo names its own toolchain in these.
    for variable in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
        command.env_remove(variable);
    }
    command.env("PATH", path).env("RUSTC", Path::new(TOOLCHAIN).join("rustc")).env("RUSTC_BOOTSTRAP", "1");
    if let Some(linker) = linker() {
        command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
    }
    command.args([
        target.command,
        "--quiet",
        "--profile",
        "targets",
        "-Zbuild-std=std,panic_abort",
        "--target",
        target.triple,
    ]);
    // Artefacts of two compilers do not mix.
    command.args(["--target-dir", "target/targets"]);
    command.args(CRATES.iter().flat_map(|name| ["--package", name]));
    Ok(command)
}

/// LLVM's linker for WebAssembly, whose name carries its version.
fn linker() -> Option<std::path::PathBuf> {
    let entries = std::fs::read_dir(TOOLCHAIN).ok()?.flatten().map(|entry| entry.path());
    entries.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("wasm-ld"))).min()
}
