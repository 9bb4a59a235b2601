//! Whether this machine has a Vulkan loader and a driver. (The tests then open the adapter and fail without one.)

use crate::output;
use std::fmt;
use std::path::{Path, PathBuf};

/// Where loaders look for driver descriptions on Linux.
const DRIVER_FOLDERS: [&str; 4] =
    ["/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/etc/vulkan/icd.d"];

/// What lacks.
#[derive(Debug, PartialEq, Eq)]
pub enum Missing {
    /// The library that programs open first.
    Loader,
    /// A driver whose library is there.
    Driver,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Missing::Loader => "no Vulkan loader (libvulkan.so.1) on this machine",
            Missing::Driver => {
                "no Vulkan driver on this machine: no description in /usr/share/vulkan/icd.d, \
                                /etc/vulkan/icd.d or VK_DRIVER_FILES names a library that is there"
            }
        })
    }
}

/// Looks for a loader and a driver. Systems other than Linux bring theirs along (Metal, Direct3D 12).
pub fn look() -> Result<(), Missing> {
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    let libraries = Libraries::find();
    if !libraries.has("libvulkan.so.1") {
        return Err(Missing::Loader);
    }
    let works = |description: PathBuf| {
        std::fs::read_to_string(&description).is_ok_and(|text| {
            library(&text).is_some_and(|library| libraries.has_relative_to(library, description.parent()))
        })
    };
    descriptions().into_iter().any(works).then_some(()).ok_or(Missing::Driver)
}

/// The driver descriptions that a loader would read: those that the environment names, or all in the usual folders.
fn descriptions() -> Vec<PathBuf> {
    for variable in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        if let Some(named) = std::env::var_os(variable) {
            return std::env::split_paths(&named).collect();
        }
    }
    let files = DRIVER_FOLDERS.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    files.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "json")).collect()
}

/// The value of `"library_path"` in a driver description.
pub(crate) fn library(description: &str) -> Option<&str> {
    let (_, rest) = description.split_once("\"library_path\"")?;
    rest.split('"').nth(1)
}

/// The libraries that the dynamic linker finds by name.
struct Libraries {
    cache: String,
    folders: Vec<PathBuf>,
}

impl Libraries {
    fn find() -> Libraries {
        // Users other than root often lack /sbin in their path.
        let cache = ["ldconfig", "/sbin/ldconfig"].iter().find_map(|program| output(program, &["-p"]));
        let own = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let folders = std::env::split_paths(&own).chain(["/usr/lib".into(), "/usr/local/lib".into()]).collect();
        Libraries { cache: cache.unwrap_or_default(), folders }
    }

    fn has(&self, name: &str) -> bool {
        self.cache.lines().any(|line| line.split_whitespace().next() == Some(name))
            || self.folders.iter().any(|folder| folder.join(name).exists())
    }

    fn has_relative_to(&self, library: &str, folder: Option<&Path>) -> bool {
        match folder {
            // A name with a slash is a path, taken from the description's folder if it is relative.
            Some(folder) if library.contains('/') => folder.join(library).exists(),
            _ => self.has(library),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_of_a_description_is_found() {
        let text = r#"{ "ICD": { "api_version": "1.3.230", "library_path": "/usr/lib/libvulkan_lvp.so" } }"#;
        assert_eq!(library(text), Some("/usr/lib/libvulkan_lvp.so"));
        assert_eq!(library("{}"), None);
        assert_eq!(library(r#""library_path""#), None);
    }

    #[test]
    fn libraries_are_found_by_whole_name() {
        let cache = "\tlibvulkan.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libvulkan.so.1\n".to_owned();
        let libraries = Libraries { cache, folders: Vec::new() };
        assert!(libraries.has("libvulkan.so.1"));
        assert!(!libraries.has("libvulkan.so"));
        assert!(!libraries.has_relative_to("/nonexistent/libvulkan.so.1", Some(Path::new("/etc"))));
    }
}
