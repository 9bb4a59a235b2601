//! Programs and pipelines that are kept: the same bits as without, whatever happens to the folder.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{devices, gpu};
use meganeura_core::debug;
use meganeura_core::dtype::DType;
use meganeura_core::ir::{Builder, Graph, StateSpec};
use meganeura_core::options::Options;
use meganeura_core::pipeline::{Program, Stage};
use meganeura_core::scalar::Scalar;
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use meganeura_wgpu::{Cache, Device, Recording, Session, SessionOptions, StateStore};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// `loss = mean softmax(x · w)²`, `w := w - 0.1 · gradient`.
fn graph(classes: usize) -> Graph {
    let builder = Builder::new();
    let ty = |shape: &[usize]| TensorType::new(DType::F32, shape);
    let spec =
        StateSpec { name: "w".into(), ty: ty(&[7, classes]), group: "parameters".into(), init: Scalar::f32(0.5) };
    let (x, w) = (builder.input("x", ty(&[5, 7])), builder.state(spec));
    let soft = (x.matmul(w) * builder.iota([5, classes], 1).cast(DType::F32)).softmax(1);
    let loss = (soft * soft).mean_all();
    builder.output("loss", loss);
    let gradient = builder.gradients(loss, &[w])[0];
    builder.update(w, w - gradient * 0.1);
    builder.finish().unwrap()
}

/// Bits of the loss and of the state after three steps.
fn bits(device: &Device, program: &Program) -> Vec<u32> {
    bits_recorded(device, program, Recording::Auto)
}

fn bits_recorded(device: &Device, program: &Program, recording: Recording) -> Vec<u32> {
    let store = StateStore::for_program(device, program).unwrap();
    let options = SessionOptions { recording, ..SessionOptions::default() };
    let mut session = Session::with_options(device, program.plan.clone(), &store, &options).unwrap();
    let x = (0..35).map(|at| (at as f32 * 0.7).sin()).collect();
    session.write("x", &Tensor::from_f32([5, 7], x).unwrap()).unwrap();
    (0..3).for_each(|_| session.step().unwrap());
    let (loss, w) = (session.read("loss").unwrap(), store.read("w").unwrap());
    loss.as_f32().unwrap().iter().chain(w.as_f32().unwrap().iter()).map(|value| value.to_bits()).collect()
}

fn compile(device: &Device, graph: &Graph) -> Program {
    device.compile(graph, &Options::default(), None).unwrap()
}

/// The CPU device with a cache in a new folder.
fn cached_cpu() -> (TempDir, Device) {
    let folder = TempDir::new().unwrap();
    let device = Device::cpu().with_cache(Cache::open(folder.path().join("cache")));
    (folder, device)
}

fn entries(device: &Device) -> Vec<PathBuf> {
    let folder = device.cache().unwrap().folder();
    let mut files: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn a_kept_program_computes_the_same_bits() {
    for device in devices() {
        let folder = TempDir::new().unwrap();
        let device = device.with_cache(Cache::open(folder.path()));
        let (cold, warm) = (compile(&device, &graph(3)), compile(&device, &graph(3)));
        assert_eq!((cold.report.cached, warm.report.cached), (false, true), "{}", device.info());
        assert!(cold.report.seconds(Stage::Partition) > 0.0 && warm.report.seconds(Stage::Partition) == 0.0);
        assert!(warm.report.seconds(Stage::Load) > 0.0 && warm.report.seconds(Stage::Build) > 0.0);
        assert_eq!((&cold.plan, &cold.layout, &cold.initial), (&warm.plan, &warm.layout, &warm.initial));
        let plain = compile(&device.clone().with_cache(None), &graph(3));
        assert_eq!(plain.plan, warm.plan);
        let expected = bits(&device, &plain);
        assert_eq!((bits(&device, &cold), bits(&device, &warm)), (expected.clone(), expected), "{}", device.info());
    }
}

#[test]
fn what_a_program_depends_on_makes_another_entry() {
    let (_folder, device) = cached_cpu();
    let program = compile(&device, &graph(3));
    let others = [
        compile(&device, &graph(4)),
        device.compile(&graph(3), &Options::plain(), None).unwrap(),
        device.compile(&graph(3), &Options::default(), Some(&program.layout)).unwrap(),
        device
            .cache()
            .unwrap()
            .compile(&graph(3), &Options::default(), &meganeura_core::schedule::Caps::base(), None)
            .unwrap(),
    ];
    assert!(others.iter().all(|program| !program.report.cached));
    assert_eq!(entries(&device).len(), 5);
    let beside = device.compile(&graph(3), &Options::default(), Some(&program.layout)).unwrap();
    assert!(beside.report.cached);
}

#[test]
fn damaged_and_foreign_entries_are_ignored_and_replaced() {
    let (_folder, device) = cached_cpu();
    compile(&device, &graph(4));
    let other = fs::read(&entries(&device)[0]).unwrap();
    fs::remove_file(&entries(&device)[0]).unwrap();
    let expected = bits(&device, &compile(&device, &graph(3)));
    let file = entries(&device).pop().unwrap();
    let sound = fs::read(&file).unwrap();
    let flipped = |at: usize| {
        let mut bytes = sound.clone();
        bytes[at] ^= 1;
        bytes
    };
    let text = b"#!/bin/sh\necho no entry at all\n".to_vec();
    let cut = [0, 7, 20, sound.len() / 2, sound.len() - 1].map(|length| sound[..length].to_vec());
    let longer = [sound.as_slice(), b"more"].concat();
    let damaged = [flipped(0), flipped(20), flipped(60), flipped(sound.len() - 1), other, text, longer];
    for damaged in damaged.into_iter().chain(cut) {
        fs::write(&file, &damaged).unwrap();
        let program = compile(&device, &graph(3));
        assert!(!program.report.cached);
        assert_eq!(bits(&device, &program), expected);
        assert!(compile(&device, &graph(3)).report.cached, "it was replaced");
    }
}

#[test]
fn threads_at_once_share_a_folder() {
    let (_folder, device) = cached_cpu();
    let expected = bits(&device, &compile(&device.clone().with_cache(None), &graph(3)));
    std::thread::scope(|scope| {
        for at in 0..8 {
            let (device, expected) = (&device, &expected);
            // Some make room while others read and write.
            let limited = device.cache().unwrap().with_limit(if at % 2 == 0 { 1 << 30 } else { 20_000 });
            scope.spawn(move || {
                let device = device.clone().with_cache(limited);
                for round in 0..20 {
                    compile(&device, &graph(4 + round % 5));
                    assert_eq!(bits(&device, &compile(&device, &graph(3))), *expected);
                }
            });
        }
    });
}

/// In a folder that `MEGANEURA_CACHE` names, as in the next test, or in one of its own.
#[test]
fn a_device_takes_the_cache_of_the_environment() {
    let folder = TempDir::new().unwrap();
    let device = match debug::cache_folder() {
        Some(_) => Device::from_selector("cpu").unwrap(),
        None => Device::cpu().with_cache(Cache::open(folder.path())),
    };
    if debug::cache_folder().is_some_and(|value| value == "off") {
        assert_eq!(device.cache(), None);
    }
    let expected = bits(&device, &compile(&device.clone().with_cache(None), &graph(3)));
    for _ in 0..20 {
        assert_eq!(bits(&device, &compile(&device, &graph(3))), expected);
    }
}

#[test]
fn processes_at_once_share_a_folder() {
    let (folder, device) = cached_cpu();
    let child = |cache: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_device_takes_the_cache_of_the_environment"]).env("MEGANEURA_CACHE", cache);
        command.stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let path = device.cache().unwrap().folder().to_str().unwrap();
    let children = [(); 4].map(|()| child(path));
    children.into_iter().for_each(|mut child| assert!(child.wait().unwrap().success()));
    assert!(compile(&device, &graph(3)).report.cached);
    assert_eq!(entries(&device).len(), 1, "no temporary file is left");
    assert!(child("off").wait().unwrap().success());
    drop(folder);
}

#[test]
fn a_folder_that_cannot_be_written_is_read_only() {
    let (folder, device) = cached_cpu();
    let below_a_file = Cache::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml/cache"));
    let unwritable = device.clone().with_cache(below_a_file);
    assert!(!compile(&unwritable, &graph(3)).report.cached && !compile(&unwritable, &graph(3)).report.cached);
    compile(&device, &graph(3));
    let cache = folder.path().join("cache");
    let mut permissions = fs::metadata(&cache).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&cache, permissions.clone()).unwrap();
    assert!(compile(&device, &graph(3)).report.cached);
    compile(&device, &graph(4));
    #[allow(clippy::permissions_set_readonly_false)]
    permissions.set_readonly(false);
    fs::set_permissions(&cache, permissions).unwrap();
}

#[test]
fn what_was_used_longest_ago_goes_first() {
    let (_folder, device) = cached_cpu();
    let sizes: Vec<u64> = (3..6)
        .map(|classes| {
            compile(&device, &graph(classes));
            // Times of files are coarse on some systems.
            std::thread::sleep(std::time::Duration::from_millis(20));
            entries(&device).iter().map(|file| file.metadata().unwrap().len()).sum()
        })
        .collect();
    assert!(compile(&device, &graph(3)).report.cached, "used last of the three");
    let limit = sizes[2] + sizes[0] / 2;
    let device = device.clone().with_cache(device.cache().unwrap().with_limit(limit));
    compile(&device, &graph(6));
    let size: u64 = entries(&device).iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!(size <= limit && entries(&device).len() == 3, "{size} of {limit} bytes");
    let kept = [3, 6, 5].map(|classes| compile(&device, &graph(classes)).report.cached);
    assert_eq!(kept, [true; 3]);
    assert!(!compile(&device, &graph(4)).report.cached, "it was the oldest");
    let tiny = device.clone().with_cache(device.cache().unwrap().with_limit(100));
    assert!(!compile(&tiny, &graph(8)).report.cached && !compile(&tiny, &graph(8)).report.cached);
}

#[cfg(unix)]
#[test]
fn only_the_owner_reads_what_is_kept() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, device) = cached_cpu();
    compile(&device, &graph(3));
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(device.cache().unwrap().folder()), 0o700);
    assert_eq!(mode(&entries(&device)[0]), 0o600);
}

#[test]
fn what_the_driver_made_of_shaders_is_kept() {
    let Some(device) = gpu() else { return };
    let program = compile(&device, &graph(3));
    let vulkan = device.info().backend == "vulkan";
    // wgpu gives its own only with a feature; Vulkan always has one.
    let able = meganeura_wgpu::adapters()[0].features.contains(&"PIPELINE_CACHE");
    for (recording, able) in [(Recording::Safe, able), (Recording::Native, vulkan)] {
        let folder = TempDir::new().unwrap();
        let run = || {
            let index = meganeura_wgpu::Selector::Index(0);
            let fresh = Device::gpu(&index).unwrap().with_cache(Cache::open(folder.path()));
            bits_recorded(&fresh, &program, recording)
        };
        if recording == Recording::Native && !vulkan {
            continue;
        }
        let expected = bits_recorded(&device, &program, recording);
        assert_eq!(run(), expected);
        let files = || fs::read_dir(folder.path()).map_or(0, |files| files.count());
        assert_eq!(files(), usize::from(able), "one file for an adapter and driver");
        assert_eq!(run(), expected);
        if able {
            assert_eq!(files(), 1);
            replaces(&fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path(), || {
                assert_eq!(run(), expected);
            });
        }
    }
}

/// Damages a file of pipelines in many ways; a run must write it anew.
fn replaces(file: &Path, run: impl Fn()) {
    let sound = fs::read(file).unwrap();
    // 48 bytes are the entry's own: its format and checksum; 32 the driver's header.
    assert!(sound.len() >= 80, "{} bytes", sound.len());
    for damaged in [&sound[..sound.len() / 2], &[0; 100], &[]] {
        fs::write(file, damaged).unwrap();
        run();
        let replaced = fs::read(file).unwrap();
        assert!(replaced.len() >= 80 && replaced[..16] == sound[..16], "it was replaced");
    }
}
