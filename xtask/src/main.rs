//! Developer commands of meganeura: `cargo xtask --help` lists them.

mod apt;
mod bundle;
mod swiftshader;
mod targets;
mod validate;
mod vulkan;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

#[derive(Parser)]
#[command(about = "Developer commands of meganeura")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs every test of the workspace with a GPU required; installs a software GPU where there is none.
    Test {
        /// Passed on to `cargo test`.
        #[arg(last = true)]
        rest: Vec<String>,
    },
    /// Packs programs with the Vulkan loader into a folder for a server that has NVIDIA's driver and nothing else.
    Bundle {
        /// The folder.
        out: PathBuf,
        /// Programs that were built before.
        #[arg(required = true)]
        programs: Vec<PathBuf>,
    },
    /// Runs the tests of kernels on SwiftShader, a software GPU other than the one that `test` installs.
    Swiftshader {
        /// Fails, rather than skips, where it cannot be installed.
        #[arg(long)]
        required: bool,
    },
    /// Type-checks the crates for macOS, Windows and Android and builds them for WebAssembly, with Debian's toolchain.
    Targets {
        /// Fails, rather than skips, where that toolchain cannot be installed.
        #[arg(long)]
        required: bool,
        /// Only these; all if none is named.
        triples: Vec<String>,
    },
    /// Runs the tests that say most about Vulkan under its validation layer, and fails if that says anything.
    Validate {
        /// Fails, rather than skips, where the layer cannot be installed.
        #[arg(long)]
        required: bool,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Test { rest } => test(&rest),
        Task::Bundle { out, programs } => bundle::write(&out, &programs),
        Task::Swiftshader { required } => swiftshader::test(required),
        Task::Targets { required, triples } => targets::check(&triples, required),
        Task::Validate { required } => ready_adapter().and_then(|devices| validate::tests(&devices, required)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// `cargo test --workspace`, where a missing GPU fails.
fn test(rest: &[String]) -> Result<(), String> {
    ready_adapter()?;
    run(cargo()
        .args(["test", "--workspace"])
        .args(rest)
        .env("MEGANEURA_REQUIRE_GPU", "1")
        .env("MEGANEURA_CACHE", "off"))
}

/// As [`find_adapter`]; installs a software GPU where there is none.
fn ready_adapter() -> Result<PathBuf, String> {
    find_adapter().or_else(|missing| {
        eprintln!("xtask: {missing}");
        apt::install_software_gpu()?;
        find_adapter().map_err(|missing| format!("still no GPU after the installation: {missing}"))
    })
}

/// Looks for a driver, then whether an adapter comes of it; the program that opened it.
fn find_adapter() -> Result<PathBuf, String> {
    vulkan::look().map_err(|missing| missing.to_string())?;
    // Built with the whole workspace's features, as the tests are, so that nothing is compiled twice.
    run(cargo().args(["build", "--quiet", "--workspace", "--example", "devices"]))?;
    let own = std::env::current_exe().map_err(|error| format!("xtask cannot tell where it lies: {error}"))?;
    let devices = own.with_file_name("examples").join("devices").with_extension(std::env::consts::EXE_EXTENSION);
    run(Command::new(&devices).arg("--check"))?;
    Ok(devices)
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs a command to its end.
fn run(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}").replace('"', "");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{shown}` failed: {status}")),
        Err(error) => Err(format!("`{shown}` could not be started: {error}")),
    }
}

/// What a command prints, if it starts and succeeds.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
