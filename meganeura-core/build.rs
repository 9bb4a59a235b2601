//! Gives the crate a fingerprint of its own sources, so that programs which another version compiled are told apart.

use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=src");
    let mut files = Vec::new();
    collect(Path::new("src"), &mut files)?;
    // Folders list their entries in any order.
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        let (name, content) = (file.to_string_lossy().into_owned(), fs::read(&file)?);
        for part in [name.as_bytes(), &content] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=MEGANEURA_CORE_SOURCES={hex}");
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { collect(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
