//! A training that is resumed ends with the bits of one that never stopped, whatever happens to it in between.

use super::training::Run;
use super::{Folder, devices};
use meganeura_core::dtype::DType;
use meganeura_core::shape::TensorType;
use meganeura_nn::checkpoint::{CheckpointFolder, Keep, Saved};
use meganeura_nn::random::Random;
use meganeura_wgpu::Device;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;
use std::{env, fs};

/// Steps of a whole run in the tests with kills.
const STEPS: u64 = 70;
/// Steps between checkpoints: some fall between the runs that make one update.
const EVERY: u64 = 5;
/// What the child process is told by.
const CHILD_FOLDER: &str = "MEGANEURA_TEST_CHILD_FOLDER";
const CHILD_DEVICE: &str = "MEGANEURA_TEST_CHILD_DEVICE";

#[test]
fn stopping_and_resuming_changes_no_bit() {
    let folder = Folder::new("resume");
    for (at, selector) in devices().into_iter().enumerate() {
        let device = || Device::from_selector(selector).unwrap();
        let mut whole = Run::new(&device());
        (0..20).for_each(|_| whole.step());
        // 11 is amid an accumulation and an epoch.
        for stop in [1, 6, 11] {
            let path = folder.0.join(format!("{at}-{stop}"));
            let checkpoints = CheckpointFolder::open(&path, Keep::default()).unwrap();
            let mut first = Run::new(&device());
            (0..stop).for_each(|_| first.step());
            let saved = first.save(&checkpoints).unwrap();
            assert_eq!(saved.progress.step, stop);
            let mut second = Run::resumed(&device(), &saved);
            assert_eq!(second.states(), first.states());
            (stop..20).for_each(|_| second.step());
            assert!(second.states() == whole.states(), "stopped after {stop} steps on {selector}");
        }
        let changed = whole.states().into_iter().zip(Run::new(&device()).states()).filter(|(a, b)| a != b).count();
        assert!(changed > 20, "nearly all states take part: {changed}");
    }
}

/// The process that is killed.
#[test]
#[ignore = "run by `kills_change_no_bit` in a process of its own"]
fn child() {
    let folder = env::var_os(CHILD_FOLDER).expect("the folder of checkpoints is given");
    let device = Device::from_selector(&env::var(CHILD_DEVICE).unwrap()).unwrap();
    let folder = CheckpointFolder::open(Path::new(&folder), Keep { last: 2, best: None }).unwrap();
    let mut run = folder.latest().unwrap().map_or_else(|| Run::new(&device), |saved| Run::resumed(&device, &saved));
    while run.step < STEPS {
        run.step();
        eprintln!("step {}", run.step);
        if run.step.is_multiple_of(EVERY) || run.step == STEPS {
            run.save(&folder).unwrap();
            eprintln!("saved {}", run.step);
        }
    }
}

fn start(selector: &str, folder: &Path) -> (Child, BufReader<ChildStderr>) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "resume::child", "--nocapture", "--test-threads=1"]);
    command.env(CHILD_FOLDER, folder).env(CHILD_DEVICE, selector);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap());
    (child, lines)
}

/// Reads up to `count` lines that the child prints as it goes on. Whether it goes on.
fn follow(lines: &mut impl BufRead, count: u64) -> bool {
    let mut line = String::new();
    let mut seen = 0;
    while seen < count {
        line.clear();
        if lines.read_line(&mut line).unwrap() == 0 {
            return false;
        }
        assert!(!line.contains("panicked"), "{line}");
        seen += u64::from(line.starts_with("step") || line.starts_with("saved"));
    }
    true
}

/// The step of the last checkpoint. Every one that is there can be loaded.
fn loadable(folder: &Path) -> Option<u64> {
    let all = if folder.exists() { Saved::list(folder).unwrap() } else { Vec::new() };
    for saved in &all {
        let states = saved.states().unwrap();
        let types: Vec<_> = states.tensors().map(|(name, ty)| (name.to_owned(), ty.clone())).collect();
        assert!(types.len() > 20);
        for (name, ty) in types {
            let dtype = if ty.dtype == safetensors::Dtype::U32 { DType::U32 } else { DType::F32 };
            states.tensor(&name, &TensorType::new(dtype, ty.shape)).unwrap();
        }
    }
    all.last().map(|saved| saved.progress.step)
}

/// What a finished run left: bytes of the two files of states of its last checkpoint.
fn result(folder: &Path) -> [Vec<u8>; 2] {
    let last = Saved::list(folder).unwrap().pop().expect("there is a checkpoint");
    assert_eq!(last.progress.step, STEPS);
    ["model.safetensors", "training.safetensors"].map(|file| fs::read(last.path.join(file)).unwrap())
}

/// Whether an entry of a folder is a checkpoint that was being written or removed.
fn is_unfinished(entry: std::io::Result<fs::DirEntry>) -> bool {
    entry.unwrap().file_name().to_str().unwrap().starts_with(".step")
}

/// How kills fell.
#[derive(Debug, Default)]
struct Tally {
    kills: u32,
    before_the_first_checkpoint: u32,
    before_another_one: u32,
    amid_a_checkpoint: u32,
}

/// Runs until the end, killed at random moments while there are kills left.
fn run(selector: &str, folder: &Path, kills: u32, random: &mut Random, tally: &mut Tally) {
    let mut reached = None;
    loop {
        let (mut child, mut lines) = start(selector, folder);
        if tally.kills < kills {
            // After some lines, and a little later: amid a step or amid a checkpoint.
            follow(&mut lines, random.below(25));
            std::thread::sleep(Duration::from_micros(random.below(4000)));
            child.kill().unwrap();
        } else {
            follow(&mut lines, u64::MAX);
        }
        // A kill can come too late.
        let status = child.wait().unwrap();
        let after = loadable(folder);
        assert!(after >= reached, "the checkpoint of step {reached:?} was lost: {after:?} is left");
        if status.success() {
            return;
        }
        assert!(status.code().is_none(), "{status}: {}", std::io::read_to_string(lines).unwrap());
        tally.kills += 1;
        tally.before_the_first_checkpoint += u32::from(after.is_none());
        tally.amid_a_checkpoint += u32::from(fs::read_dir(folder).is_ok_and(|mut all| all.any(is_unfinished)));
        tally.before_another_one += u32::from(after.is_some() && after == reached);
        reached = after;
    }
}

/// Kills runs `kills` times in all; every one must end as one that was let alone.
fn kill(selector: &str, kills: u32) {
    let folder = Folder::new(&format!("kill-{selector}"));
    let (mut random, mut tally) = (Random::new(5, "kills"), Tally::default());
    run(selector, &folder.0.join("whole"), 0, &mut random, &mut tally);
    let expected = result(&folder.0.join("whole"));
    let mut runs = 0;
    while tally.kills < kills {
        let path = folder.0.join(runs.to_string());
        run(selector, &path, kills, &mut random, &mut tally);
        assert!(result(&path) == expected, "run {runs} on {selector} ended with other bits");
        runs += 1;
    }
    eprintln!("{selector}: {runs} runs of {STEPS} steps ended with the same bits, {tally:?}");
}

#[test]
fn kills_change_no_bit() {
    for selector in devices() {
        kill(selector, if selector == "cpu" { 20 } else { 5 });
    }
}

#[test]
#[ignore = "takes minutes"]
fn two_hundred_kills_change_no_bit() {
    for selector in devices() {
        kill(selector, 200);
    }
}
