//! Files that lie or are damaged.

use super::{Folder, f32s, file};
use meganeura_core::dtype::DType;
use meganeura_core::shape::TensorType;
use meganeura_nn::checkpoint::{Checkpoint, CheckpointError, FormatError, IndexError, save};
use std::fs;

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
fn other_kinds_of_files_are_told_by_their_beginnings() {
    let folder = Folder::new("strangers");
    for (start, kind) in [
        (&b"<!DOCTYPE html><html><body>404"[..], "HTML"),
        (b"<HTML>", "HTML"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS"),
        (b"PK\x03\x04....archive/data.pkl", "zip"),
    ] {
        let error = Checkpoint::open(&folder.write(start)).unwrap_err();
        assert!(matches!(&error, CheckpointError::Format { source: FormatError::Stranger { .. }, .. }), "{error}");
        assert!(error.to_string().contains(kind), "{error}");
    }
}

#[test]
fn a_name_that_comes_twice_is_refused() {
    let folder = Folder::new("duplicates");
    let a = r#""a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#;
    let second = r#""a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}"#;
    let escaped = r#""\u0061":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}"#;
    let metadata = r#""__metadata__":{"format":"pt"},"__metadata__":{}"#;
    let extent = r#""a":{"dtype":"F32","shape":[1],"shape":[2],"data_offsets":[0,8]}"#;
    for header in [
        format!("{{{a},{second}}}"),
        format!("{{{a},{escaped}}}"),
        format!("{{{metadata},{a}}}"),
        format!("{{{extent}}}"),
    ] {
        let length = if header.contains("__metadata__") { 4 } else { 8 };
        let error = Checkpoint::open(&folder.write(&file(&header, &vec![0; length]))).unwrap_err();
        assert!(matches!(error, CheckpointError::Format { .. }), "{header}: {error}");
        let text = error.to_string();
        assert!(text.contains("comes twice") || text.contains("duplicate field"), "{text}");
    }
}

#[test]
fn an_index_leads_nowhere_else_and_promises_nothing() {
    let folder = Folder::new("index");
    let inner = folder.0.join("model");
    fs::create_dir(&inner).unwrap();
    let tensor = f32s(&[1], &[1.0]);
    save(&folder.0.join("secret.safetensors"), [("a", &tensor)]).unwrap();
    save(&inner.join("one.safetensors"), [("a", &tensor)]).unwrap();
    save(&inner.join("two.safetensors"), [("a", &tensor), ("b", &tensor)]).unwrap();
    let index = inner.join("model.safetensors.index.json");
    let open = |text: &str| {
        fs::write(&index, text).unwrap();
        Checkpoint::open(&index)
    };
    let absolute = folder.0.join("secret.safetensors");
    let elsewhere = [
        "../secret.safetensors",
        absolute.to_str().unwrap(),
        "..",
        "./one.safetensors",
        "a/../one.safetensors",
        "..\\secret.safetensors",
        "c:x",
        "",
    ];
    for file in elsewhere {
        let error = open(&serde_json::json!({ "weight_map": { "a": file } }).to_string()).unwrap_err();
        let expected = matches!(&error, CheckpointError::Index { source: IndexError::Elsewhere { .. }, .. });
        assert!(expected, "{file}: {error}");
    }
    for text in [
        "",
        "{}",
        "[]",
        "null",
        "<html>",
        r#"{"weight_map":[]}"#,
        r#"{"weight_map":{"a":1}}"#,
        r#"{"weight_map":{},"weight_map":{}}"#,
        r#"{"weight_map":{"a":"one.safetensors","a":"two.safetensors"}}"#,
        &"[".repeat(100_000),
    ] {
        let error = open(text).unwrap_err();
        assert!(matches!(&error, CheckpointError::Index { source: IndexError::Json(_), .. }), "{text:.40}: {error}");
    }
    let error = open(r#"{"weight_map":{"b":"one.safetensors"}}"#).unwrap_err();
    assert!(matches!(&error, CheckpointError::Index { source: IndexError::Absent { .. }, .. }), "{error}");
    let error = open(r#"{"weight_map":{"a":"one.safetensors","b":"two.safetensors"}}"#).unwrap_err();
    assert!(matches!(&error, CheckpointError::Twice { tensor, .. } if tensor == "a"), "{error}");
    assert!(matches!(open(r#"{"weight_map":{"a":"three.safetensors"}}"#), Err(CheckpointError::Io { .. })));
    // An index may name an index no more than anything else that is no safetensors file.
    let itself = open(r#"{"weight_map":{"a":"model.safetensors.index.json"}}"#);
    assert!(matches!(itself, Err(CheckpointError::Format { .. })));
    assert_eq!(
        open(r#"{"weight_map":{"b":"two.safetensors"}}"#).unwrap().tensors().count(),
        2,
        "what is not mapped counts"
    );
    fs::File::create(&index).unwrap().set_len(1 << 40).unwrap();
    let error = Checkpoint::open(&index).unwrap_err();
    assert!(matches!(&error, CheckpointError::Index { source: IndexError::TooLarge { .. }, .. }), "{error}");
}

#[test]
fn a_file_that_claims_much_takes_little_memory() {
    let folder = Folder::new("sparse");
    // A header of 90 MB that is not there, and a terabyte of nothing under a header that says so.
    let error = Checkpoint::open(&folder.write(&[&90_000_000_u64.to_le_bytes()[..], b"{}"].concat())).unwrap_err();
    assert!(matches!(&error, CheckpointError::Format { source: FormatError::HeaderLength { .. }, .. }), "{error}");
    let header = format!(r#"{{"a":{{"dtype":"U8","shape":[{0}],"data_offsets":[0,{0}]}}}}"#, 1_u64 << 40);
    let path = folder.write(&file(&header, &[]));
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(8 + header.len() as u64 + (1 << 40)).unwrap();
    let checkpoint = Checkpoint::open(&path).unwrap();
    let error = checkpoint.tensor("a", &TensorType::new(DType::F32, [1 << 40])).unwrap_err();
    assert!(matches!(error, CheckpointError::Type { .. }), "{error}");
}
