//! Checkpoints: files, folders of them, what is loaded from them, files that lie, and processes that are killed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod files;
mod folder;
mod hostile;
mod load;
mod mutations;
mod resume;
mod training;

use meganeura_core::dtype::DType;
use meganeura_core::memory::{StateLayout, StateSlot};
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use meganeura_wgpu::{Device, StateStore};
use std::fs;
use std::path::PathBuf;

/// A fresh folder that is removed at the end of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("meganeura-checkpoint-{}-{test}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, bytes: &[u8]) -> PathBuf {
        let path = self.0.join("model.safetensors");
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file of that header and those data, as the format's description has it.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

fn f32s(extents: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_f32(extents, values.to_vec()).unwrap()
}

/// A store on the CPU device with a state for each name, all `f32` of one extent.
fn store(names: &[&str], extent: usize) -> StateStore {
    let ty = TensorType::new(DType::F32, [extent]);
    let slot =
        |(at, name): (usize, &&str)| StateSlot { name: name.to_string(), ty: ty.clone(), arena: 0, offset: 64 * at };
    let layout = StateLayout { arenas: vec![64 * names.len()], states: names.iter().enumerate().map(slot).collect() };
    StateStore::new(&Device::cpu(), &layout).unwrap()
}

/// Selectors of the CPU device, and of the first adapter if there is one.
fn devices() -> Vec<&'static str> {
    if meganeura_wgpu::adapters().is_empty() {
        assert!(std::env::var_os("MEGANEURA_REQUIRE_GPU").is_none(), "a GPU is required, but there is no adapter");
        eprintln!("SKIPPED: no adapter; on the CPU device alone");
        return vec!["cpu"];
    }
    vec!["cpu", "0"]
}
