//! Checkpoint files, good and hostile ones.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use half::{bf16, f16};
use meganeura_core::dtype::DType;
use meganeura_core::memory::{StateLayout, StateSlot};
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use meganeura_nn::checkpoint::{Checkpoint, CheckpointError, save, save_states};
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

#[test]
fn every_element_type_round_trips_to_the_bit() {
    let folder = Folder::new("round-trip");
    let tensors = [
        ("layers.0.weight", f32s(&[2, 3], &[1.0, -0.0, f32::NAN, f32::INFINITY, 1e-45, 7.5])),
        ("half", Tensor::from_f16([3], &[f16::ONE, f16::NAN, f16::MIN_POSITIVE]).unwrap()),
        ("steps", Tensor::from_u32([], vec![u32::MAX]).unwrap()),
        ("signed", Tensor::from_i32([2], vec![-1, i32::MIN]).unwrap()),
        ("mask", Tensor::from_bool([3], &[true, false, true]).unwrap()),
        ("none", f32s(&[0, 4], &[])),
    ];
    let path = folder.0.join("model.safetensors");
    save(&path, tensors.iter().map(|(name, tensor)| (*name, tensor))).unwrap();
    let checkpoint = Checkpoint::open(&path).unwrap();
    assert_eq!(checkpoint.tensors().count(), tensors.len());
    for (name, tensor) in &tensors {
        assert_eq!(checkpoint.tensor(name, tensor.ty()).unwrap(), *tensor, "{name}");
    }
    let first = fs::read(&path).unwrap();
    save(&path, tensors.iter().rev().map(|(name, tensor)| (*name, tensor))).unwrap();
    assert_eq!(fs::read(&path).unwrap(), first, "equal tensors, equal bytes");
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn a_file_of_another_program_is_read() {
    let folder = Folder::new("foreign");
    let header = r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},
        "b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]},"c":{"dtype":"F64","shape":[],"data_offsets":[12,20]}}"#;
    let mut data: Vec<u8> = [1.0_f32, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    data.extend([3.0, -4.0].iter().flat_map(|&value| bf16::from_f32(value).to_le_bytes()));
    data.extend(0.1_f64.to_le_bytes());
    let checkpoint = Checkpoint::open(&folder.write(&file(header, &data))).unwrap();
    let read = |name, shape: &[usize]| checkpoint.tensor(name, &TensorType::new(DType::F32, shape)).unwrap();
    assert_eq!(read("a", &[1, 2]), f32s(&[1, 2], &[1.0, 2.0]));
    assert_eq!(read("b", &[2]), f32s(&[2], &[3.0, -4.0]));
    assert_eq!(read("c", &[]), f32s(&[], &[0.1]));
    let half = checkpoint.tensor("a", &TensorType::new(DType::F16, [1, 2])).unwrap();
    assert_eq!(half.as_f16().unwrap(), [f16::from_f32(1.0), f16::from_f32(2.0)]);
}

#[test]
fn types_that_do_not_fit_are_named() {
    let folder = Folder::new("types");
    let path = folder.0.join("m");
    save(&path, [("w", &f32s(&[2, 3], &[0.0; 6])), ("n", &Tensor::from_u32([1], vec![1]).unwrap())]).unwrap();
    let checkpoint = Checkpoint::open(&path).unwrap();
    let error = |name, dtype, shape: &[usize]| checkpoint.tensor(name, &TensorType::new(dtype, shape)).unwrap_err();
    let text = error("w", DType::F32, &[3, 2]).to_string();
    assert!(text.ends_with(r#"tensor "w" is f32[2, 3], expected f32[3, 2]"#), "{text}");
    assert!(matches!(error("n", DType::F32, &[1]), CheckpointError::Type { .. }));
    assert!(matches!(error("n", DType::I32, &[1]), CheckpointError::Type { .. }));
    assert!(error("v", DType::F32, &[1]).to_string().ends_with(r#"has no tensor "v", expected f32[1]"#));
    let wanted = [("v", TensorType::new(DType::F32, [1])), ("w", TensorType::new(DType::F32, [6]))];
    let differences = checkpoint.differences(wanted.iter().map(|(name, ty)| (*name, ty)));
    let expected = "missing: v; unexpected: n; of another type: w (f32[2, 3], expected f32[6])";
    assert_eq!(differences.to_string(), expected);
}

#[test]
fn headers_that_lie_are_refused() {
    let folder = Folder::new("hostile");
    let entry = |dtype: &str, shape: &str, start: u64, end: u64| {
        format!(r#"{{"a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{start},{end}]}}}}"#)
    };
    let overlap = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#;
    let hostile = [
        Vec::new(),
        vec![8; 7],
        u64::MAX.to_le_bytes().to_vec(),
        [&(1_u64 << 40).to_le_bytes()[..], b"{}"].concat(),
        file("{}", &[0; 4]),
        file("not json", &[]),
        file(&entry("F32", "[2]", 0, 12), &[0; 12]),
        file(&entry("F32", "[2]", 4, 12), &[0; 12]),
        file(&entry("F32", "[2]", 8, 0), &[0; 8]),
        file(&entry("F32", "[2]", 0, 8), &[0; 7]),
        file(&entry("F32", "[2]", 0, u64::MAX), &[0; 8]),
        file(&entry("F32", "[18446744073709551615,18446744073709551615]", 0, 8), &[0; 8]),
        file(&entry("F32", "[-1]", 0, 8), &[0; 8]),
        file(&entry("F99", "[2]", 0, 8), &[0; 8]),
        file(overlap, &[0; 12]),
        file(&"[".repeat(100_000), &[]),
    ];
    for bytes in hostile {
        let opened = Checkpoint::open(&folder.write(&bytes));
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(120)]);
        assert!(matches!(opened, Err(CheckpointError::Format { .. })), "{start}: {opened:?}");
    }
    assert!(matches!(Checkpoint::open(&folder.0), Err(CheckpointError::Io { .. })));
    assert!(matches!(Checkpoint::open(&folder.0.join("absent")), Err(CheckpointError::Io { .. })));
}

#[test]
fn no_damaged_byte_or_length_makes_a_reader_panic() {
    let folder = Folder::new("damage");
    let path = folder.0.join("m");
    let ty = TensorType::new(DType::F32, [2, 2]);
    save(&path, [("w", &f32s(&[2, 2], &[1.0; 4])), ("empty", &f32s(&[0, 3], &[]))]).unwrap();
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        assert!(Checkpoint::open(&folder.write(&whole[..length])).is_err(), "{length} bytes");
    }
    for at in 0..whole.len() {
        for damage in [1, 0x10, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= damage;
            if let Ok(checkpoint) = Checkpoint::open(&folder.write(&bytes)) {
                let _ = checkpoint.tensor("w", &ty);
                let _ = checkpoint.differences([("w", &ty)]).to_string();
            }
        }
    }
}

#[test]
fn a_failed_save_leaves_the_old_file_and_nothing_else() {
    let folder = Folder::new("failed");
    let tensor = f32s(&[1], &[1.0]);
    let taken = folder.0.join("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("inside"), "kept").unwrap();
    let error = save(&taken, [("w", &tensor)]).unwrap_err();
    assert!(matches!(&error, CheckpointError::Io { path, .. } if *path == taken), "{error}");
    assert_eq!(fs::read_to_string(taken.join("inside")).unwrap(), "kept");
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
    assert!(matches!(save(&folder.0.join("no/such/folder"), [("w", &tensor)]), Err(CheckpointError::Io { .. })));
}

/// A store on the CPU device with a state for each name, all `f32` of one extent.
fn store(names: &[&str], extent: usize) -> StateStore {
    let ty = TensorType::new(DType::F32, [extent]);
    let slot =
        |(at, name): (usize, &&str)| StateSlot { name: name.to_string(), ty: ty.clone(), arena: 0, offset: 64 * at };
    let layout = StateLayout { arenas: vec![64 * names.len()], states: names.iter().enumerate().map(slot).collect() };
    StateStore::new(&Device::cpu(), &layout).unwrap()
}

#[test]
fn states_are_loaded_all_or_none() {
    let folder = Folder::new("states");
    let path = folder.0.join("m");
    let (from, to) = (store(&["a", "b"], 2), store(&["a", "b", "moment"], 2));
    from.write("a", &f32s(&[2], &[1.0, 2.0])).unwrap();
    save_states(&path, &from, from.names()).unwrap();
    let checkpoint = Checkpoint::open(&path).unwrap();
    for names in [&["a"][..], &["a", "b", "moment"]] {
        let error = checkpoint.load_states(&to, names.iter().copied()).unwrap_err();
        assert!(matches!(error, CheckpointError::Mismatch { .. }), "{error}");
    }
    assert!(matches!(checkpoint.load_states(&to, ["c"]), Err(CheckpointError::Device { tensor, .. }) if tensor == "c"));
    assert!(matches!(
        checkpoint.load_states(&store(&["a", "b"], 3), ["a", "b"]),
        Err(CheckpointError::Mismatch { .. })
    ));
    assert_eq!(to.read("a").unwrap(), f32s(&[2], &[0.0, 0.0]), "nothing was written so far");
    checkpoint.load_states(&to, ["a", "b"]).unwrap();
    assert_eq!(to.read("a").unwrap(), f32s(&[2], &[1.0, 2.0]));
}
