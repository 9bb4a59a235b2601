//! What compilation need not do twice, kept in a folder: compiled programs, and what the driver made of their shaders.
//!
//! An entry is found by a hash of all that it depends on. It is written under a temporary name and renamed, so that nobody
//! sees half of one, and believed only if its checksum is right; a program is verified besides. Whatever goes wrong with
//! the folder, programs are compiled as if there were none, and `tracing` is told.

mod folder;
mod program;

pub(crate) use folder::Kind;
pub(crate) use program::key_of;

use etcetera::BaseStrategy;
use folder::Folder;
use meganeura_core::debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The size to which a folder is limited unless told otherwise: 1 GiB.
pub const LIMIT: u64 = 1 << 30;

/// A folder of compiled programs and pipelines. Clones are handles of one cache; several processes may share the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    folder: Arc<Folder>,
}

impl Cache {
    /// A cache in a folder, which is made when something is first kept, for its owner alone. A folder that cannot be
    /// written is read only.
    pub fn open(folder: impl Into<PathBuf>) -> Cache {
        Cache { folder: Arc::new(Folder { path: folder.into(), limit: LIMIT }) }
    }

    /// The cache that `MEGANEURA_CACHE` names: `off` for none, or a folder; unset, `meganeura` in the user's cache folder.
    pub fn from_env() -> Option<Cache> {
        match debug::cache_folder() {
            Some(off) if off.eq_ignore_ascii_case("off") => None,
            Some(folder) => Some(Cache::open(folder)),
            None => Some(Cache::open(etcetera::choose_base_strategy().ok()?.cache_dir().join("meganeura"))),
        }
    }

    /// The same folder, of which what was used longest ago is removed as its size exceeds `bytes`.
    #[must_use]
    pub fn with_limit(&self, bytes: u64) -> Cache {
        Cache { folder: Arc::new(Folder { path: self.folder.path.clone(), limit: bytes }) }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// The size to which it is limited, in bytes.
    pub fn limit(&self) -> u64 {
        self.folder.limit
    }

    /// An entry, if it is there and undamaged.
    pub(crate) fn read(&self, key: &str, kind: Kind) -> Option<Vec<u8>> {
        self.folder.read(key, kind)
    }

    /// Keeps an entry, in place of one of the same key.
    pub(crate) fn write(&self, key: &str, kind: Kind, content: &[u8]) {
        if let Err(error) = self.folder.write(key, kind, content) {
            tracing::warn!("{}: nothing is kept: {error}", self.folder.path.display());
        }
    }
}
