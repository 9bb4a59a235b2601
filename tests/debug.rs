//! The variables that show a program's stages change nothing of what it computes or prints.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use meganeura::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

const NAME: &str = "a_small_step_computes_these_bits";

/// Two layers with SGD, and their loss and a weight after three steps, on the CPU device and any GPU.
#[test]
fn a_small_step_computes_these_bits() {
    let gpu = meganeura::adapters().into_iter().next().map(|first| first.index.to_string());
    for device in ["cpu".to_owned()].into_iter().chain(gpu) {
        let device = Device::from_selector(&device).unwrap();
        let builder = Builder::new();
        let parameters = Parameters::new(&builder);
        let input = |name, shape: &[usize]| builder.input(name, TensorType::new(DType::F32, shape));
        let (x, y, rate) = (input("x", &[5, 7]), input("y", &[5, 3]), input("rate", &[]));
        let hidden = Linear::new(9).forward(&parameters.root().sub("one"), x).relu();
        let loss = mean_squared_error(Linear::new(3).forward(&parameters.root().sub("two"), hidden), y);
        Sgd::default().minimize(&parameters, loss, rate);
        builder.output("loss", loss);
        let specs = parameters.specs();
        let program = compile(&builder.finish().unwrap(), &Options::default(), device.caps(), None).unwrap();
        let store = StateStore::for_program(&device, &program).unwrap();
        initialize(&store, &specs, 1).unwrap();
        let mut session = Session::new(&device, program.plan, &store).unwrap();
        for (name, shape) in [("x", [5, 7]), ("y", [5, 3])] {
            let values = (0..shape[0] * shape[1]).map(|at| (at as f32 * 0.37).sin()).collect();
            session.write(name, &Tensor::from_f32(shape, values).unwrap()).unwrap();
        }
        session.write("rate", &Tensor::scalar(0.1)).unwrap();
        (0..3).for_each(|_| session.step().unwrap());
        let (loss, weight) = (session.read("loss").unwrap(), store.read("one.weight").unwrap());
        for value in loss.as_f32().unwrap().iter().chain(weight.as_f32().unwrap().iter()) {
            assert!(value.is_finite());
            println!("bits {:08x}", value.to_bits());
        }
    }
}

fn run(variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", NAME, "--nocapture"]).env_remove("MEGANEURA_DEBUG").env_remove("MEGANEURA_DUMP");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// What the program printed, without the time that the test harness adds.
fn printed(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split("; finished in").next().unwrap().to_owned()
}

fn lines(output: &Output) -> usize {
    String::from_utf8_lossy(&output.stderr).lines().filter(|line| !line.is_empty()).count()
}

#[test]
fn the_debug_ladder_changes_no_byte_of_output() {
    let plain = run(&[]);
    assert!(printed(&plain).contains("bits "));
    let mut before = lines(&plain);
    for level in ["0", "1", "2", "3", "4", "5"] {
        let shown = run(&[("MEGANEURA_DEBUG", level)]);
        assert_eq!(printed(&shown), printed(&plain), "level {level}");
        let now = lines(&shown);
        // Shaders exist on GPUs only.
        let more = level != "0" && (level != "5" || !meganeura::adapters().is_empty());
        assert_eq!(now > before, more, "level {level}: {now} lines after {before}");
        before = now;
    }
}

#[test]
fn dumps_hold_every_stage_and_change_no_byte_of_output() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("dumps-{}", std::process::id()));
    let dumping = run(&[("MEGANEURA_DUMP", folder.to_str().unwrap())]);
    assert_eq!((printed(&dumping), lines(&dumping)), (printed(&run(&[])), lines(&run(&[]))));
    let names = |folder: &Path| -> BTreeSet<String> {
        folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let gpus = usize::from(!meganeura::adapters().is_empty());
    // On the CPU device a session prints no shaders.
    assert_eq!(names(&folder).len(), 1 + 2 * gpus, "a program for each device, and a session for the GPU");
    let files = names(&folder.join("001-program"));
    for file in ["graph.txt", "graph.dot", "simplified.txt", "simplified.dot", "layout.txt", "partition.txt"] {
        assert!(files.contains(file), "{file} is not in {files:?}");
    }
    for file in ["schedule.txt", "plan.txt", "report.txt"] {
        assert!(files.contains(file), "{file} is not in {files:?}");
    }
    let text = std::fs::read_to_string(folder.join("001-program/graph.txt")).unwrap();
    assert_eq!(text.parse::<Graph>().unwrap().to_string(), text);
    if gpus > 0 {
        assert!(names(&folder.join("004-session")).contains("kernel-0.wgsl"));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_folder_that_cannot_be_written_is_no_error() {
    let below_a_file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml/dumps");
    assert_eq!(printed(&run(&[("MEGANEURA_DUMP", below_a_file.to_str().unwrap())])), printed(&run(&[])));
}
