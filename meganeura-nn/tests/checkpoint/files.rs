//! Files that are written and read.

use super::{Folder, f32s, file};
use half::{bf16, f16};
use meganeura_core::dtype::DType;
use meganeura_core::shape::TensorType;
use meganeura_core::tensor::Tensor;
use meganeura_nn::checkpoint::{Checkpoint, CheckpointError, save, save_sharded};
use std::fs;

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

#[test]
fn no_two_tensors_of_a_file_have_one_name() {
    let folder = Folder::new("twice");
    let (a, b) = (f32s(&[1], &[1.0]), f32s(&[1], &[2.0]));
    for (first, second) in [("w", "w"), ("w", "__metadata__")] {
        let error = save(&folder.0.join("m"), [(first, &a), (second, &b)]).unwrap_err();
        assert!(matches!(&error, CheckpointError::Twice { tensor, .. } if tensor == second), "{error}");
    }
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
}

#[test]
fn a_model_in_several_files_is_one_checkpoint() {
    let folder = Folder::new("sharded");
    let tensors: Vec<(String, Tensor)> =
        (0..5).map(|at| (format!("layers.{at}.w"), f32s(&[2, 3], &[at as f32; 6]))).collect();
    let list = || tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
    // 24 bytes each: two in a file.
    let index = save_sharded(&folder.0, "model", list(), 50).unwrap();
    let mut files: Vec<String> =
        fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    let shard = |at| format!("model-0000{at}-of-00003.safetensors");
    assert_eq!(files, [shard(1), shard(2), shard(3), "model.safetensors.index.json".to_owned()]);
    let json: serde_json::Value = serde_json::from_slice(&fs::read(&index).unwrap()).unwrap();
    assert_eq!(json["metadata"]["total_size"], 5 * 24);
    assert_eq!(json["weight_map"]["layers.2.w"], shard(2));
    let checkpoint = Checkpoint::open(&index).unwrap();
    assert_eq!(checkpoint.tensors().count(), 5);
    for (name, tensor) in list() {
        assert_eq!(checkpoint.tensor(name, tensor.ty()).unwrap(), *tensor, "{name}");
    }
    assert!(matches!(save_sharded(&folder.0, "model", list(), 50), Err(CheckpointError::Io { .. })));
    let text = Checkpoint::open(&index).unwrap().tensor("layers.2.w", &TensorType::new(DType::F32, [6])).unwrap_err();
    assert!(
        text.to_string().contains("model-00002-of-00003.safetensors: tensor \"layers.2.w\" is f32[2, 3]"),
        "{text}"
    );
}

#[test]
fn a_file_that_was_cut_short_after_opening_is_an_error() {
    let folder = Folder::new("cut");
    let path = folder.0.join("m");
    let tensor = f32s(&[4096], &[1.0; 4096]);
    save(&path, [("w", &tensor)]).unwrap();
    let checkpoint = Checkpoint::open(&path).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1000).unwrap();
    assert!(matches!(checkpoint.tensor("w", tensor.ty()), Err(CheckpointError::Io { .. })));
}
