//! The example `mnist`.

use crate::{REPOSITORY, example};
use flate2::{Compression, write::GzEncoder};
use meganeura::nn::data::{LabelledImages, Mnist};
use meganeura::nn::random::Random;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A fresh folder with the first images of MNIST, removed at the end of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("meganeura-mnist-{}-{test}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let mnist = Mnist::load(&Path::new(REPOSITORY).join("data/mnist")).unwrap();
        write_part(&path, "train", &mnist.train, 1000);
        write_part(&path, "t10k", &mnist.test, 300);
        Folder(path)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(example("mnist"));
        command.arg("--data").arg(&self.0).arg("--checkpoint").arg(self.0.join("weights")).current_dir(&self.0);
        command.args(arguments).env_remove("MEGANEURA_DEVICE").env("MEGANEURA_CACHE", "off").output().unwrap()
    }

    fn losses(&self, arguments: &[&str]) -> Vec<f32> {
        let output = self.run(&[arguments, &["--losses", "losses"]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = fs::read_to_string(self.0.join("losses")).unwrap();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write_part(folder: &Path, part: &str, images: &LabelledImages, count: usize) {
    let header = |extents: &[usize]| {
        let mut bytes = vec![0, 0, 8, extents.len() as u8];
        extents.iter().for_each(|&extent| bytes.extend((extent as u32).to_be_bytes()));
        bytes
    };
    let pixels: Vec<u8> = (0..count).flat_map(|item| images.image(item).to_vec()).collect();
    fs::write(folder.join(format!("{part}-images-idx3-ubyte")), [header(&[count, 28, 28]), pixels].concat()).unwrap();
    let labels = images.labels()[..count].to_vec();
    fs::write(folder.join(format!("{part}-labels-idx1-ubyte")), [header(&[count]), labels].concat()).unwrap();
}

#[test]
fn outputs_never_replace_the_data_or_each_other() {
    let folder = Folder::new("clashes");
    let data = folder.0.join("train-images-idx3-ubyte");
    let before = fs::read(&data).unwrap();
    let clashes = [["--plot", "train-images-idx3-ubyte", "--losses", "a"], ["--plot", "a", "--losses", "a"]];
    for arguments in clashes {
        let output = folder.run(&[&arguments[..], &["--device", "cpu", "--epochs", "1"]].concat());
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    }
    assert!(fs::read(&data).unwrap() == before);
}

#[test]
fn other_sets_in_the_same_four_files_work_compressed_as_they_are_handed_out() {
    // As Fashion-MNIST comes: the same names and format, other pictures. Class k is a bright row k of noise.
    let folder = Folder::new("fashion");
    let gzip = |name: &str, extents: &[usize], data: Vec<u8>| {
        let mut bytes = vec![0, 0, 8, extents.len() as u8];
        extents.iter().for_each(|&extent| bytes.extend((extent as u32).to_be_bytes()));
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&[bytes, data].concat()).unwrap();
        fs::remove_file(folder.0.join(name)).unwrap();
        fs::write(folder.0.join(format!("{name}.gz")), encoder.finish().unwrap()).unwrap();
    };
    for (part, count) in [("train", 600), ("t10k", 100)] {
        let mut random = Random::new(count as u64, part);
        let mut pixel = |at: usize| random.below(60) as u8 + if at / 784 % 10 == at / 28 % 28 { 180 } else { 0 };
        let pixels = (0..count * 784).map(&mut pixel).collect();
        gzip(&format!("{part}-images-idx3-ubyte"), &[count, 28, 28], pixels);
        gzip(&format!("{part}-labels-idx1-ubyte"), &[count], (0..count).map(|item| (item % 10) as u8).collect());
    }
    let output = folder.run(&["--device", "cpu", "--epochs", "3", "--batch-size", "20"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.lines().last(), Some("test accuracy: 100.00 %"), "{text}");
}

#[test]
fn it_learns_saves_and_tells_the_accuracy_last() {
    let folder = Folder::new("learns");
    let arguments =
        ["--device", "cpu", "--epochs", "8", "--batch-size", "48", "--plot", "loss.svg", "--losses", "losses"];
    let output = folder.run(&arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let last = text.lines().last().unwrap();
    let accuracy = last.strip_prefix("test accuracy: ").and_then(|rest| rest.strip_suffix(" %")).expect(last);
    assert_eq!(accuracy.split_once('.').map(|(_, digits)| digits.len()), Some(2), "{last}");
    // 1000 images bring about 88 %; chance brings 10.
    assert!(accuracy.parse::<f64>().unwrap() > 80.0, "{last}");
    assert!(text.contains("each epoch leaves out 40 of 1000 images"), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains(", test accuracy ")).count(), 8, "one line an epoch");
    assert_eq!(fs::read_to_string(folder.0.join("losses")).unwrap().lines().count(), 8 * (1000 / 48));
    let plot = fs::read_to_string(folder.0.join("loss.svg")).unwrap();
    assert!(plot.starts_with("<svg") && plot.trim_end().ends_with("</svg>") && plot.contains("<polyline"));
    let saved: Vec<_> =
        fs::read_dir(folder.0.join("weights")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(saved, ["mnist.safetensors"]);
}

#[test]
fn a_profile_is_printed_and_traced_and_the_weights_are_those_of_the_training() {
    let folder = Folder::new("profile");
    let weights = |arguments: &[&str]| {
        let output = folder.run(&[&["--device", "cpu", "--epochs", "1"], arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (fs::read(folder.0.join("weights/mnist.safetensors")).unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let (plain, _) = weights(&[]);
    let (printed, text) = weights(&["--profile"]);
    let (traced, _) = weights(&["--profile", "trace.json"]);
    assert!(plain == printed && plain == traced);
    assert!(text.contains("fc1, backward") && text.contains("ceilings: ") && text.contains("contract"), "{text}");
    let trace: serde_json::Value = serde_json::from_slice(&fs::read(folder.0.join("trace.json")).unwrap()).unwrap();
    let has = |name: &str| trace["traceEvents"].as_array().unwrap().iter().any(|event| event["name"] == name);
    assert!(has("step 19") && has("compile") && has("session") && has("write input=\"images\""));
    assert!(has("stage name=\"partition\""));
}

#[test]
fn the_same_seed_gives_the_same_bits_and_another_one_does_not() {
    let folder = Folder::new("seed");
    let run = |seed| folder.losses(&["--device", "cpu", "--epochs", "1", "--batch-size", "100", "--seed", seed]);
    let first = run("7");
    assert_eq!(
        first.iter().map(|loss| loss.to_bits()).collect::<Vec<_>>(),
        run("7").iter().map(|l| l.to_bits()).collect::<Vec<_>>()
    );
    assert_ne!(first, run("8"));
}

#[test]
fn a_gpu_follows_the_cpu_device() {
    if meganeura::adapters().is_empty() {
        assert!(std::env::var_os("MEGANEURA_REQUIRE_GPU").is_none(), "a GPU is required, but there is no adapter");
        eprintln!("SKIPPED: no adapter");
        return;
    }
    let folder = Folder::new("gpu");
    let run = |device| folder.losses(&["--device", device, "--epochs", "1", "--batch-size", "64"]);
    let (cpu, gpu) = (run("cpu"), run("0"));
    assert_eq!(cpu.len(), gpu.len());
    // Sums in another order: a few units in the last place a step, which 15 steps of training do not blow up further.
    for (step, (a, b)) in cpu.iter().zip(&gpu).enumerate() {
        assert!((a - b).abs() <= 1e-4 * a.abs(), "step {step}: {a} on the CPU device, {b} on the GPU");
    }
}

#[test]
fn mistakes_are_named_with_exit_code_1_and_wrong_usage_with_2() {
    let folder = Folder::new("mistakes");
    let cases: [(&[&str], i32, &str); 9] = [
        (&["--batch-size", "1001"], 1, "--batch-size 1001: expected at most the 1000 training images"),
        (&["--device", "no such device"], 1, "no such device"),
        (&["--losses", "no/such/file"], 1, "no/such/file: cannot be written"),
        (&["--plot", "no/such/file.svg"], 1, "no/such/file.svg: cannot be written"),
        (&["--device", "cpu", "--lr", "1e30"], 1, "try a lower --lr"),
        (&["--epochs", "0"], 2, "--epochs"),
        (&["--batch-size", "-1"], 2, "--batch-size"),
        (&["--lr", "0"], 2, "expected a positive number"),
        (&["--nonsense"], 2, "--nonsense"),
    ];
    for (arguments, code, expected) in cases {
        let output = folder.run(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(expected) && !text.contains("panicked"), "{arguments:?}: {text}");
    }
    fs::write(folder.0.join("t10k-labels-idx1-ubyte"), [0, 0, 8, 1, 0, 0]).unwrap();
    let output = folder.run(&[]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("t10k-labels-idx1-ubyte: ends after 6 bytes of its header, expected 8"), "{text}");
    assert_eq!(output.status.code(), Some(1));
}
