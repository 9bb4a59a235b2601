//! What of a checkpoint gets into a store.

use super::{Folder, f32s, store};
use meganeura_nn::checkpoint::{Checkpoint, CheckpointError, Fit, Renames, save, save_states};

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

#[test]
fn parts_are_loaded_when_asked_for() {
    let folder = Folder::new("parts");
    let path = folder.0.join("m");
    let (one, two) = (f32s(&[2], &[1.0; 2]), f32s(&[2], &[2.0; 2]));
    save(&path, [("a", &one), ("b", &two), ("moment", &one)]).unwrap();
    let checkpoint = Checkpoint::open(&path).unwrap();
    let to = store(&["a", "b", "head"], 2);
    let subset = checkpoint.load(&to, ["a", "b"], Fit::Subset).unwrap();
    assert_eq!((subset.missing.len(), subset.unexpected), (0, vec!["moment".to_owned()]));
    assert!(matches!(checkpoint.load(&to, ["a", "head"], Fit::Subset), Err(CheckpointError::Mismatch { .. })));
    to.write("head", &two).unwrap();
    let overlap = checkpoint.load(&to, to.names(), Fit::Overlap).unwrap();
    assert_eq!((overlap.missing, overlap.unexpected), (vec!["head".to_owned()], vec!["moment".to_owned()]));
    assert_eq!(to.read("b").unwrap(), two);
    assert_eq!(to.read("head").unwrap(), two, "what is missing keeps its value");
    let other = store(&["a", "b", "c"], 3);
    let error = checkpoint.load(&other, other.names(), Fit::Overlap).unwrap_err().to_string();
    let expected =
        "missing: c; unexpected: moment; of another type: a (f32[2], expected f32[3]), b (f32[2], expected f32[3])";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn tensors_are_renamed_by_patterns() {
    let folder = Folder::new("renamed");
    let path = folder.0.join("m");
    let tensor = |value| f32s(&[2], &[value; 2]);
    save(&path, [("model.a", &tensor(1.0)), ("model.h.0.b", &tensor(2.0)), ("head.w", &tensor(3.0))]).unwrap();
    let renames = Renames::new().rule("model.h.*", "layers.*").rule("model.*", "*").drop("head.*");
    let open = || Checkpoint::open(&path).unwrap();
    let renamed = open().renamed(|name| renames.apply(name)).unwrap();
    let to = store(&["a", "layers.0.b"], 2);
    renamed.load_states(&to, to.names()).unwrap();
    assert_eq!(to.read("layers.0.b").unwrap(), tensor(2.0));
    let error = open().renamed(|_| Some("x".to_owned())).unwrap_err();
    assert!(matches!(&error, CheckpointError::Collision { names, .. } if *names == ["head.w", "model.a"]), "{error}");
}
