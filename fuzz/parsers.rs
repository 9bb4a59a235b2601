//! What fuzzers and tests call for each kind of file: reads it, and does with what was read all that a program would.
//! Whatever the bytes are, it must return, and within little memory.

// Each fuzzer calls one of them.
#![allow(dead_code)]

use meganeura_core::dtype::DType;
use meganeura_core::shape::TensorType;
use meganeura_nn::checkpoint::{Checkpoint, Saved};
use meganeura_nn::data::{ColumnType, CsvOptions, Dataset, idx::Idx};
use meganeura_nn::random::Random;
use std::fs;
use std::path::{Path, PathBuf};

/// Reads a file of some kind.
pub type Parser = fn(&[u8]);

/// The name of a kind of file, as its folder of seeds has it, and its parser.
pub const ALL: [(&str, Parser); 5] =
    [("csv", csv), ("idx", idx), ("index", index), ("progress", progress), ("safetensors", safetensors)];

/// A safetensors file: every tensor as every type.
pub fn safetensors(bytes: &[u8]) {
    let Ok(checkpoint) = Checkpoint::from_bytes(Path::new("fuzzed"), bytes.to_vec()) else { return };
    read_all(&checkpoint);
}

/// An index, beside which there is one file.
pub fn index(bytes: &[u8]) {
    let folder = folder("index");
    let header = br#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let file = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 4]].concat();
    let _ = fs::write(folder.join("one.safetensors"), file);
    let path = folder.join("model.safetensors.index.json");
    let _ = fs::write(&path, bytes);
    let Ok(checkpoint) = Checkpoint::open(&path) else { return };
    read_all(&checkpoint);
}

/// What lies beside the states of a training.
pub fn progress(bytes: &[u8]) {
    let folder = folder("progress").join("step-0000000001");
    let _ = fs::create_dir_all(&folder);
    let _ = fs::write(folder.join("progress.json"), bytes);
    let Ok(saved) = Saved::open(&folder) else { return };
    let _ = saved.progress.part::<u64>("data");
}

/// An IDX file of 1 and of 3 dimensions, raw or gzip.
pub fn idx(bytes: &[u8]) {
    let path = folder("idx").join("images");
    let _ = fs::write(&path, bytes);
    let (labels, images) = (Idx::<1>::read(&path, 1 << 20), Idx::<3>::read(&path, 1 << 20));
    assert!(labels.is_err() || labels.is_ok_and(|idx| idx.bytes.len() == idx.extents[0]));
    assert!(images.is_err() || images.is_ok_and(|idx| idx.bytes.len() == idx.extents.into_iter().product::<usize>()));
}

/// A table, with and without a header: every row.
pub fn csv(bytes: &[u8]) {
    let named =
        CsvOptions::default().scalar("labels", "kind", ColumnType::Category).field("x", &["x"], ColumnType::I32);
    let plain = CsvOptions::default().without_header().delimiter(b';');
    for options in [named.rest("features"), plain.rest("features")] {
        let Ok(table) = options.parse(bytes) else { continue };
        for row in 0..table.len() {
            let item = table.item(row, &mut Random::new(0, ""));
            let types = item.map(|item| item.iter().map(|tensor| tensor.ty().clone()).collect::<Vec<_>>()).ok();
            assert_eq!(types, Some(table.fields().into_iter().map(|field| field.ty).collect()));
        }
    }
}

fn read_all(checkpoint: &Checkpoint) {
    for (name, stored) in checkpoint.tensors() {
        for dtype in DType::ALL {
            let ty = TensorType::new(dtype, stored.shape.clone());
            let read = checkpoint.tensor(name, &ty);
            assert!(read.is_err() || read.is_ok_and(|tensor| *tensor.ty() == ty));
            let _ = checkpoint.differences([(name, &ty)]).to_string();
        }
    }
}

/// A folder of this process, of memory where there is one of that kind.
fn folder(kind: &str) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let folder = parent.join(format!("meganeura-fuzz-{}-{kind}", std::process::id()));
    let _ = fs::create_dir_all(&folder);
    folder
}

/// Removes what parsers of that kind needed on disk.
pub fn clean(kind: &str) {
    let _ = fs::remove_dir_all(folder(kind));
}
