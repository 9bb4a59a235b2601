//! Packs programs for a server that has NVIDIA's driver but no Vulkan loader and no X server.

use crate::output;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// NVIDIA's `libGLX_nvidia` fails without an X server; its EGL library is a complete Vulkan driver too.
const DRIVER: &str = r#"{"file_format_version": "1.0.1", "ICD": {"library_path": "libEGL_nvidia.so.0", "api_version": "1.4.312"}}
"#;

const ENVIRONMENT: &str = r#"# Sourced on the server, from anywhere.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export LD_LIBRARY_PATH="$here/lib:/usr/local/nvidia/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export VK_DRIVER_FILES="$here/nvidia_egl_icd.json" VK_ICD_FILENAMES="$here/nvidia_egl_icd.json"
export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/tmp}"
"#;

/// Writes `bin/` with the programs, `lib/` with this machine's loader, a driver description and `env.sh` into a folder.
pub fn write(out: &Path, programs: &[PathBuf]) -> Result<(), String> {
    let cache = ["ldconfig", "/sbin/ldconfig"].iter().find_map(|program| output(program, &["-p"])).unwrap_or_default();
    let loader = loader(&cache, std::env::consts::ARCH)
        .ok_or("no libvulkan.so.1 here to pack; on Debian or Ubuntu: apt-get install libvulkan1")?;
    for path in pack(out, Path::new(loader), programs)? {
        let bytes = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        println!("{:>9.1} MB  {}", bytes as f64 / 1e6, path.display());
    }
    println!("on the server: . {0}/env.sh && {0}/bin/PROGRAM", out.display());
    Ok(())
}

/// The loader's path in what `ldconfig -p` prints: of this architecture, where the machine has several.
fn loader<'a>(cache: &'a str, arch: &str) -> Option<&'a str> {
    let mark = match arch {
        "x86_64" => "x86-64",
        "aarch64" => "AArch64",
        other => other,
    };
    let mut lines = cache.lines().filter(|line| line.trim_start().starts_with("libvulkan.so.1 "));
    let line = lines.clone().find(|line| line.contains(mark)).or_else(|| lines.next())?;
    line.split_once("=> ").map(|(_, path)| path.trim())
}

/// Fills the folder; the files that were written.
fn pack(out: &Path, loader: &Path, programs: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut written = Vec::new();
    for folder in ["lib", "bin"].map(|name| out.join(name)) {
        fs::create_dir_all(&folder).map_err(failed(&folder))?;
    }
    for program in programs {
        let name = program.file_name().ok_or_else(|| format!("{}: not a program", program.display()))?;
        let copy = out.join("bin").join(name);
        // `copy` follows links and keeps the permission to execute.
        fs::copy(program, &copy).map_err(failed(program))?;
        strip(&copy);
        written.push(copy);
    }
    let library = out.join("lib/libvulkan.so.1");
    fs::copy(loader, &library).map_err(failed(loader))?;
    written.push(library);
    for (name, text) in [("nvidia_egl_icd.json", DRIVER), ("env.sh", ENVIRONMENT)] {
        let path = out.join(name);
        fs::write(&path, text).map_err(failed(&path))?;
        written.push(path);
    }
    Ok(written)
}

/// Removes symbols, which only make the transfer longer; a program that cannot be stripped runs as well.
fn strip(program: &Path) {
    if !Command::new("strip").arg(program).status().is_ok_and(|status| status.success()) {
        eprintln!("xtask: {} was not stripped: binutils are not installed", program.display());
    }
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> String {
    let shown = path.display().to_string();
    move |error| format!("{shown}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_of_this_architecture_is_packed() {
        let cache = "2 libs found\n\tlibvulkan.so.1 (libc6) => /lib32/libvulkan.so.1\n\
                     \tlibvulkan.so.1 (libc6,x86-64) => /lib64/libvulkan.so.1\n\tlibvulkan.so (libc6) => /x\n";
        assert_eq!(loader(cache, "x86_64"), Some("/lib64/libvulkan.so.1"));
        assert_eq!(loader(cache, "riscv64"), Some("/lib32/libvulkan.so.1"));
        assert_eq!(loader("", "x86_64"), None);
    }

    /// Runs a shell's command after `env.sh` was sourced from another folder.
    fn sourced(out: &Path, command: &str) -> String {
        let script = format!(". \"$1/env.sh\" && {command}");
        let mut bash = Command::new("bash");
        bash.args(["-euc", &script, "bash"]).arg(out).current_dir("/").env_remove("LD_LIBRARY_PATH");
        let output = bash.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    #[cfg(unix)]
    fn a_bundle_has_programs_a_loader_a_driver_and_their_environment() {
        let folder = tempfile::TempDir::new().unwrap();
        let (out, own) = (folder.path().join("out"), std::env::current_exe().unwrap());
        // A link, as Debian's loader is, and a program with symbols: this one.
        let (real, link) = (folder.path().join("libvulkan.so.1.3"), folder.path().join("libvulkan.so.1"));
        fs::write(&real, "a loader").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let name = Path::new(own.file_name().unwrap());
        let written = pack(&out, &link, std::slice::from_ref(&own)).unwrap();
        let expected = [Path::new("bin").join(name), "lib/libvulkan.so.1".into(), "nvidia_egl_icd.json".into()];
        assert_eq!(
            written,
            [&expected[..], &["env.sh".into()]].concat().iter().map(|p| out.join(p)).collect::<Vec<_>>()
        );
        assert!(written.iter().all(|path| path.symlink_metadata().unwrap().is_file()));
        assert_eq!(fs::read_to_string(&written[1]).unwrap(), "a loader");
        if output("strip", &["--version"]).is_some() {
            let bytes = |path: &Path| fs::metadata(path).unwrap().len();
            assert!(bytes(&written[0]) < bytes(&own));
        }
        assert!(sourced(&out, &format!("\"$1/bin/{}\" --list", name.display())).contains("bundle::tests"));
        let variables = sourced(&out, "printf '%s\\n' \"$LD_LIBRARY_PATH\" \"$VK_DRIVER_FILES\" \"$VK_ICD_FILENAMES\"");
        let shown = out.display();
        let icd = format!("{shown}/nvidia_egl_icd.json");
        assert_eq!(variables, format!("{shown}/lib:/usr/local/nvidia/lib64\n{icd}\n{icd}\n"));
        assert_eq!(crate::vulkan::library(DRIVER), Some("libEGL_nvidia.so.0"));
        // Nothing of this machine is named in what the server reads.
        let told = [&written[2], &written[3]].map(|path| fs::read_to_string(path).unwrap()).concat();
        assert!(!told.contains(&folder.path().display().to_string()));
    }

    #[test]
    fn what_cannot_be_packed_is_named() {
        let folder = tempfile::TempDir::new().unwrap();
        let missing = folder.path().join("nonexistent");
        let error = pack(&folder.path().join("out"), &missing, std::slice::from_ref(&missing)).unwrap_err();
        assert!(error.contains("nonexistent"), "{error}");
    }
}
