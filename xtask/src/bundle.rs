//! Packs programs for a server that has NVIDIA's driver but no Vulkan loader and no X server.

use crate::output;
use std::fs;
use std::path::{Path, PathBuf};

/// NVIDIA's `libGLX_nvidia` fails without an X server; its EGL library is a complete Vulkan driver too.
const DRIVER: &str = r#"{"file_format_version": "1.0.1", "ICD": {"library_path": "libEGL_nvidia.so.0", "api_version": "1.4.312"}}
"#;

const ENVIRONMENT: &str = r#"# Sourced on the server, from anywhere.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export LD_LIBRARY_PATH="$here/lib:/usr/local/nvidia/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export VK_DRIVER_FILES="$here/nvidia_egl_icd.json" VK_ICD_FILENAMES="$here/nvidia_egl_icd.json"
export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/tmp}"
"#;

/// Writes `bin/` with the programs, `lib/` with the loader, a driver description and `env.sh` into a folder.
pub fn write(out: &Path, programs: &[PathBuf]) -> Result<(), String> {
    let cache = ["ldconfig", "/sbin/ldconfig"].iter().find_map(|program| output(program, &["-p"])).unwrap_or_default();
    let loader = cache.lines().find(|line| line.trim_start().starts_with("libvulkan.so.1 "));
    let loader = loader.and_then(|line| line.split("=> ").nth(1)).ok_or("no libvulkan.so.1 here to pack")?;
    let failed = |path: &Path| {
        let shown = path.display().to_string();
        move |error| format!("{shown}: {error}")
    };
    for folder in ["lib", "bin"].map(|name| out.join(name)) {
        fs::create_dir_all(&folder).map_err(failed(&folder))?;
    }
    fs::copy(loader, out.join("lib/libvulkan.so.1")).map_err(failed(Path::new(loader)))?;
    for program in programs {
        let name = program.file_name().ok_or_else(|| format!("{}: not a program", program.display()))?;
        fs::copy(program, out.join("bin").join(name)).map_err(failed(program))?;
    }
    for (name, text) in [("nvidia_egl_icd.json", DRIVER), ("env.sh", ENVIRONMENT)] {
        let path = out.join(name);
        fs::write(&path, text).map_err(failed(&path))?;
    }
    println!("on the server: . {0}/env.sh && {0}/bin/PROGRAM", out.display());
    Ok(())
}
