//! Entries as files.

use super::program::checksum;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// What an entry is; the ending of its file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Program,
    Pipelines,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Folder {
    pub path: PathBuf,
    /// In bytes.
    pub limit: u64,
}

/// What every file begins with; the number changes with the format.
const MAGIC: &[u8; 16] = b"meganeura cache1";

/// Bytes of a checksum.
const CHECKSUM: usize = 32;

/// A larger file is no entry.
const LARGEST: u64 = 256 << 20;

/// What temporary files begin with.
const TEMPORARY: &str = ".writing-";

/// A temporary file of this age is one that a process left behind.
const ABANDONED: Duration = Duration::from_secs(3600);

impl Kind {
    fn extension(self) -> &'static str {
        match self {
            Kind::Program => "program",
            Kind::Pipelines => "pipelines",
        }
    }
}

impl Folder {
    fn file(&self, key: &str, kind: Kind) -> PathBuf {
        self.path.join(key).with_extension(kind.extension())
    }

    /// The content of an entry, if its file is there, of our format, complete and of that key.
    pub fn read(&self, key: &str, kind: Kind) -> Option<Vec<u8>> {
        let path = self.file(key, kind);
        let file = File::open(&path).ok()?;
        let mut bytes = Vec::new();
        // One byte more tells that there is more.
        (&file).take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
        let content = bytes.strip_prefix(MAGIC).and_then(|rest| rest.split_at_checked(CHECKSUM));
        let sound = |(sum, content): &(&[u8], &[u8])| *sum == checksum(key, content) && bytes.len() as u64 <= LARGEST;
        let Some((_, content)) = content.filter(sound) else {
            tracing::warn!("{}: damaged, ignored", path.display());
            return None;
        };
        // What was used last is removed last. In a folder of somebody else's the time stays.
        let _ = file.set_modified(SystemTime::now());
        Some(content.to_vec())
    }

    /// Writes an entry under a temporary name, flushes and renames it; then makes room.
    pub fn write(&self, key: &str, kind: Kind, content: &[u8]) -> io::Result<()> {
        let bytes = (MAGIC.len() + CHECKSUM + content.len()) as u64;
        if bytes > self.limit.min(LARGEST) {
            return Err(io::Error::other(format!("an entry of {bytes} bytes is too large")));
        }
        create_private(&self.path)?;
        // Readable and writable for its owner alone.
        let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(&self.path)?;
        file.write_all(MAGIC)?;
        file.write_all(&checksum(key, content))?;
        file.write_all(content)?;
        file.as_file().sync_all()?;
        file.persist(self.file(key, kind))?;
        self.make_room()
    }

    /// Removes what was used longest ago, until the rest is within the limit, and what dead processes left.
    fn make_room(&self) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            // Another process may remove files meanwhile.
            let Ok(entry) = entry else { continue };
            let Ok(metadata) = entry.metadata() else { continue };
            let (path, used) = (entry.path(), metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH));
            let ours = [Kind::Program, Kind::Pipelines].map(|kind| Some(kind.extension().as_ref()));
            if ours.contains(&path.extension()) {
                entries.push((used, metadata.len(), path));
            } else if entry.file_name().to_string_lossy().starts_with(TEMPORARY)
                && used.elapsed().is_ok_and(|age| age > ABANDONED)
            {
                let _ = fs::remove_file(path);
            }
        }
        entries.sort();
        let mut size: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, path) in entries {
            if size <= self.limit {
                break;
            }
            let _ = fs::remove_file(path);
            size -= bytes;
        }
        Ok(())
    }
}

/// Makes a folder for its owner alone; an existing one stays as it is.
fn create_private(path: &PathBuf) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}
