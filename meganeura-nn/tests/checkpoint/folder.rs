//! Folders of checkpoints: which ones stay, and what stays when something goes wrong.

use super::Folder;
use super::training::Run;
use meganeura_nn::checkpoint::{Best, CheckpointError, CheckpointFolder, Fit, Keep, Progress, Saved};
use meganeura_wgpu::Device;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

const CHILD_FOLDER: &str = "MEGANEURA_TEST_CHILD_FOLDER";

/// Names of all that is in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn steps(folder: &CheckpointFolder) -> Vec<u64> {
    folder.list().unwrap().iter().map(|saved| saved.progress.step).collect()
}

/// Saves states under other steps and metrics than they have.
fn save(folder: &CheckpointFolder, run: &Run, step: u64, metric: Option<f64>) -> Saved {
    let mut progress = Progress::new(step);
    progress.metric = metric;
    run.save_as(folder, &progress).unwrap()
}

#[test]
fn the_last_and_the_best_stay() {
    let own = Folder::new("keep");
    let run = Run::new(&Device::cpu());
    let folder = CheckpointFolder::open(&own.0, Keep { last: 2, best: Some(Best::Highest) }).unwrap();
    assert!(folder.latest().unwrap().is_none() && folder.best().unwrap().is_none());
    for (step, metric, expected) in [
        (10, None, &[10][..]),
        (20, Some(0.5), &[10, 20]),
        (30, Some(0.75), &[20, 30]),
        (40, Some(0.75), &[30, 40]),
        (50, Some(f64::NAN), &[30, 40, 50]),
        (60, Some(0.25), &[30, 50, 60]),
        (70, Some(0.875), &[60, 70]),
    ] {
        save(&folder, &run, step, metric);
        assert_eq!(steps(&folder), expected);
    }
    assert_eq!(folder.best().unwrap().unwrap().progress.metric, Some(0.875));
    assert_eq!(names(&own.0), [".lock", "step-0000000060", "step-0000000070"]);
    assert_eq!(names(&own.0.join("step-0000000070")), ["model.safetensors", "progress.json", "training.safetensors"]);
    // An earlier step than those that are there is not removed while it is new.
    let saved = save(&folder, &run, 5, None);
    assert_eq!(steps(&folder), [5, 60, 70]);
    assert!(saved.states().is_ok());
}

#[test]
fn a_step_that_is_saved_again_replaces_the_former_only_when_it_is_there() {
    let own = Folder::new("again");
    let folder = CheckpointFolder::open(&own.0, Keep { last: 1, best: None }).unwrap();
    let mut run = Run::new(&Device::cpu());
    for expected in ["step-0000000003", "step-0000000003.1", "step-0000000003.2"] {
        run.step();
        save(&folder, &run, 3, None);
        assert_eq!(names(&own.0), [".lock", expected]);
        let weights = folder.latest().unwrap().unwrap().states().unwrap();
        let ty = meganeura_core::shape::TensorType::new(meganeura_core::dtype::DType::U32, [2]);
        assert_eq!(weights.tensor("random.key", &ty).unwrap().as_u32().unwrap()[1] as u64, run.step);
    }
}

#[test]
fn unfinished_checkpoints_are_neither_read_nor_kept() {
    let own = Folder::new("unfinished");
    let run = Run::new(&Device::cpu());
    let folder = CheckpointFolder::open(&own.0, Keep::default()).unwrap();
    save(&folder, &run, 1, None);
    for name in [".step-0000000002", ".step-0000000001"] {
        fs::create_dir(own.0.join(name)).unwrap();
        fs::write(own.0.join(name).join("model.safetensors"), "half").unwrap();
    }
    fs::create_dir(own.0.join("step-by-step")).unwrap();
    assert_eq!(steps(&folder), [1]);
    save(&folder, &run, 2, None);
    let error = CheckpointFolder::open(&own.0, Keep::default()).unwrap_err();
    assert!(matches!(error, CheckpointError::InUse { .. }), "{error}");
    drop(folder);
    let folder = CheckpointFolder::open(&own.0, Keep::default()).unwrap();
    assert_eq!(names(&own.0), [".lock", "step-0000000001", "step-0000000002", "step-by-step"]);
    assert_eq!(steps(&folder), [1, 2]);
}

#[test]
fn damaged_checkpoints_are_named() {
    let own = Folder::new("damaged");
    let run = Run::new(&Device::cpu());
    let folder = CheckpointFolder::open(&own.0, Keep::default()).unwrap();
    let saved = save(&folder, &run, 1, None);
    let other = Run::new(&Device::cpu());
    for file in ["model.safetensors", "training.safetensors"] {
        let path = saved.path.join(file);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        let error = saved.load(other.store()).unwrap_err();
        assert!(matches!(&error, CheckpointError::Format { path: own, .. } if *own == path), "{error}");
        fs::write(&path, whole).unwrap();
    }
    saved.load(other.store()).unwrap();
    let file = saved.path.join("progress.json");
    for text in ["", "{}", r#"{"step":-1,"metric":null,"parts":{}}"#, r#"{"step":1,"metric":null,"parts":{},"x":0}"#] {
        fs::write(&file, text).unwrap();
        let error = folder.latest().unwrap_err();
        assert!(matches!(&error, CheckpointError::Progress { path, .. } if *path == file), "{text}: {error}");
    }
    fs::File::create(&file).unwrap().set_len(1 << 40).unwrap();
    assert!(matches!(folder.latest(), Err(CheckpointError::TooLarge { .. })));
    fs::remove_file(&file).unwrap();
    assert!(matches!(folder.latest(), Err(CheckpointError::Io { .. })));
}

#[test]
fn what_could_not_be_read_again_is_not_written() {
    let own = Folder::new("large");
    let folder = CheckpointFolder::open(&own.0, Keep::default()).unwrap();
    let run = Run::new(&Device::cpu());
    let progress = Progress::new(1).with("text", &"x".repeat(1 << 24)).unwrap();
    assert!(matches!(run.save_as(&folder, &progress), Err(CheckpointError::TooLarge { .. })));
    assert_eq!(names(&own.0), [".lock"]);
}

#[test]
fn weights_alone_are_a_part() {
    let own = Folder::new("weights");
    let folder = CheckpointFolder::open(&own.0, Keep::default()).unwrap();
    let run = Run::new(&Device::cpu());
    let saved = save(&folder, &run, 1, None);
    let weights = super::store(&["fc1.bias"], 16);
    let others = saved.states().unwrap().load(&weights, weights.names(), Fit::Subset).unwrap();
    assert!(others.unexpected.contains(&"optimizer.step".to_owned()) && others.missing.is_empty());
    let model = meganeura_nn::checkpoint::Checkpoint::open(&saved.model()).unwrap();
    let names: Vec<&str> = model.tensors().map(|(name, _)| name).collect();
    assert_eq!(names, ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"]);
    assert_eq!(weights.read("fc1.bias").unwrap(), run.store().read("fc1.bias").unwrap());
}

/// The process with a full disk; see below.
#[test]
#[ignore = "run by `a_full_disk_leaves_the_old_checkpoint` in a process of its own"]
fn child() {
    let path = env::var_os(CHILD_FOLDER).expect("the folder of checkpoints is given");
    let path = Path::new(&path);
    let folder = CheckpointFolder::open(path, Keep { last: 1, best: None }).unwrap();
    let mut run = Run::new(&Device::cpu());
    let mut before = steps(&folder);
    let failed = (0..2000).find_map(|_| {
        // What else is on the disk grows, as logs do.
        let _ = fs::write(path.join(format!("log {}", run.step)), [0; 4096]);
        run.step();
        let error = run.save(&folder).err();
        if error.is_none() {
            before = steps(&folder);
        }
        error
    });
    let error = failed.expect("the disk is full some day");
    assert!(matches!(error, CheckpointError::Io { .. }), "{error}");
    assert!(error.to_string().contains("cannot "), "{error}");
    assert_eq!(steps(&folder), before, "{error}");
    let hidden = names(path).into_iter().filter(|name| name.starts_with(".step"));
    assert_eq!(hidden.count(), 0, "nothing half is left");
    folder.latest().unwrap().unwrap().load(run.store()).unwrap();
    eprintln!("refused: {error}");
}

/// Runs `child` in a shell after `setup`. Its output; nothing if the shell could not prepare it.
fn child_in(shell: &[&str], setup: &str, folder: &Path) -> Option<String> {
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).args(["-c", &format!(r#"{setup} || exit 77; exec "$0" "$@""#)]);
    command.arg(env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "folder::child", "--nocapture", "--test-threads=1"]);
    let output = command.env(CHILD_FOLDER, folder).output().ok()?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    // 101 is a test that failed.
    assert!(output.status.code() != Some(101), "{text}");
    (output.status.success() && text.contains("refused: ")).then_some(text)
}

#[test]
#[cfg(unix)]
fn a_full_disk_leaves_the_old_checkpoint() {
    let own = Folder::new("full");
    let path = own.0.join("limited");
    let folder = CheckpointFolder::open(&path, Keep::default()).unwrap();
    save(&folder, &Run::new(&Device::cpu()), 1, None);
    drop(folder);
    // No file beyond 4 KiB, which the larger file of states is; the signal would end the process.
    let text = child_in(&["sh"], "trap '' XFSZ; ulimit -f 8", &path).expect("every shell can limit files");
    assert!(text.contains("training.safetensors"), "{text}");
    assert_eq!(Saved::list(&path).unwrap().len(), 1);
    // A disk of 256 KiB, in a name space in which everybody may mount.
    let disk = own.0.join("disk");
    fs::create_dir(&disk).unwrap();
    let mount = format!("mount -t tmpfs -o size=256k none '{}'", disk.display());
    match child_in(&["unshare", "--user", "--map-root-user", "--mount", "sh"], &mount, &disk) {
        Some(text) => assert!(text.contains("os error 28"), "{text}"),
        None => eprintln!("SKIPPED: a small disk cannot be mounted here; that files are limited was tested"),
    }
}
