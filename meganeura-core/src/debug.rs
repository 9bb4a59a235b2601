//! The only reader of environment variables: every variable that meganeura obeys has its function here. And what two of
//! them switch on: texts of a program's stages for people, which change nothing of what is computed or printed.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// `MEGANEURA_DEVICE`: the device that a program which names none shall use.
///
/// `cpu`, `gpu`, a number in the list of adapters, or a part of an adapter's name. `None` if unset, empty or not Unicode.
pub fn device_selector() -> Option<String> {
    env::var("MEGANEURA_DEVICE").ok().filter(|selector| !selector.trim().is_empty())
}

/// `MEGANEURA_RECORDING`: how sessions that leave the choice open record their steps on a GPU: `safe` or `native`.
pub fn recording() -> Option<String> {
    env::var("MEGANEURA_RECORDING").ok().filter(|route| !route.trim().is_empty())
}

/// `MEGANEURA_REQUIRE_GPU=1`: a test that finds no adapter shall fail rather than skip.
pub fn require_gpu() -> bool {
    env::var("MEGANEURA_REQUIRE_GPU").is_ok_and(|value| value == "1")
}

/// `MEGANEURA_CACHE`: the folder of compiled programs, or `off`. `None` if unset or empty.
pub fn cache_folder() -> Option<OsString> {
    env::var_os("MEGANEURA_CACHE").filter(|value| !value.is_empty())
}

/// What the two variables of the ladder say; read once a process.
struct Settings {
    level: u8,
    folder: Option<PathBuf>,
}

static SETTINGS: LazyLock<Settings> = LazyLock::new(|| Settings {
    level: env::var("MEGANEURA_DEBUG").ok().and_then(|level| level.trim().parse().ok()).unwrap_or(0),
    folder: env::var_os("MEGANEURA_DUMP").filter(|folder| !folder.is_empty()).map(PathBuf::from),
});

/// From this level of `MEGANEURA_DEBUG` on, texts of the compiler's own stages are shown.
pub const STAGE_LEVEL: u8 = 4;

/// Whether `MEGANEURA_DEBUG` or `MEGANEURA_DUMP` ask for what only the compiler's stages can show, so that a program must
/// not come out of a cache.
pub fn wants_stages() -> bool {
    SETTINGS.level >= STAGE_LEVEL || SETTINGS.folder.is_some()
}

/// Where texts about one program or session go: to standard error as far as `MEGANEURA_DEBUG` says, and into a folder of
/// its own in that of `MEGANEURA_DUMP`. Without these variables every call returns at once.
pub struct Log {
    level: u8,
    /// Number and kind, such as `001-program`.
    title: String,
    folder: Option<PathBuf>,
}

impl Log {
    /// A log about a new `program` or `session`.
    pub fn new(kind: &str) -> Log {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let Settings { level, folder } = &*SETTINGS;
        if *level == 0 && folder.is_none() {
            return Log { level: 0, title: String::new(), folder: None };
        }
        let title = format!("{:03}-{kind}", COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = folder.as_ref().map(|folder| folder.join(&title));
        Log { level: *level, title, folder }
    }

    /// Prints a text from `level` on, and writes it to a file, whose name is given in parts, whatever the level; `text` is not called if
    /// neither is wanted. Failures are told to `tracing`, and to nobody else.
    pub fn show(&self, level: u8, file: &[&str], text: impl FnOnce() -> String) {
        self.put(self.level >= level, Some(file), text);
    }

    /// Prints a text from `level` on.
    pub fn say(&self, level: u8, text: impl FnOnce() -> String) {
        self.put(self.level >= level, None, text);
    }

    /// Writes a text to a file, whose name is given in parts.
    pub fn dump(&self, file: &[&str], text: impl FnOnce() -> String) {
        self.put(false, Some(file), text);
    }

    fn put(&self, print: bool, file: Option<&[&str]>, text: impl FnOnce() -> String) {
        let path = self.folder.as_deref().zip(file);
        if !print && path.is_none() {
            return;
        }
        let text = text();
        if print {
            let name = file.map(|file| format!(" {}", file.concat())).unwrap_or_default();
            // One call, so that lines of threads do not mix.
            let block = format!("meganeura {}{name}: {}\n", self.title, text.trim_end());
            report(std::io::stderr().write_all(block.as_bytes()), Path::new("standard error"));
        }
        if let Some((folder, file)) = path {
            let path = folder.join(file.concat());
            report(fs::create_dir_all(folder).and_then(|()| fs::write(&path, text)), &path);
        }
    }
}

fn report(result: std::io::Result<()>, place: &Path) {
    if let Err(error) = result {
        tracing::warn!("{}: a text for people could not be written: {error}", place.display());
    }
}
