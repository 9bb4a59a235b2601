//! The example `charlm`.

use crate::{REPOSITORY, example};
use meganeura::nn::data::read_text;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A fresh folder with the beginning of Moby-Dick, removed at the end of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("meganeura-charlm-{}-{test}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let text = read_text(&Path::new(REPOSITORY).join("data/moby-dick/moby-dick.txt.gz"), 1 << 21).unwrap();
        assert!(text.starts_with("CHAPTER 1. Loomings.\n\nCall me Ishmael."));
        fs::write(path.join("text"), text.chars().take(50_000).collect::<String>()).unwrap();
        Folder(path)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(example("charlm"));
        command.args(["--text", "text", "--length", "30"]).args(arguments).current_dir(&self.0);
        command.env_remove("MEGANEURA_DEVICE").env("MEGANEURA_CACHE", "off").output().unwrap()
    }

    /// What a run prints, without how long it took.
    fn lines(&self, arguments: &[&str]) -> Vec<String> {
        let output = self.run(arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter(|line| !line.starts_with("trained in ")).map(str::to_owned).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The losses that a training tells.
fn losses(lines: &[String]) -> Vec<f32> {
    lines.iter().filter_map(|line| line.split_once(": loss ")).map(|(_, loss)| loss.parse().unwrap()).collect()
}

#[test]
fn the_loss_falls_and_the_seed_decides_on_every_bit_and_saved_weights_write_the_same() {
    let folder = Folder::new("learns");
    let run = |more: &[&str]| folder.lines(&[&["--device", "cpu", "--steps", "20"], more].concat());
    let first = run(&["--seed", "3", "--save", "weights"]);
    let falling = losses(&first);
    assert_eq!(falling.len(), 10);
    // The first is near ln 70, a uniform guess; a unigram model has about 3.1.
    assert!(falling[0] > 3.2 && falling[9] < 2.9 && falling[9] < falling[4], "{falling:?}");
    assert_eq!(first, run(&["--seed", "3"]));
    assert_ne!(falling, losses(&run(&["--seed", "4"])));
    let told =
        |lines: &[String]| lines[lines.iter().position(|line| line.starts_with("held-out loss: ")).unwrap()..].to_vec();
    let loaded = folder.lines(&["--device", "cpu", "--seed", "3", "--load", "weights"]);
    assert_eq!(told(&loaded), told(&first));
    assert!(loaded.join("\n").contains("\n\nCall me "), "{loaded:?}");
    assert!(losses(&loaded).is_empty());
}

#[test]
fn a_gpu_follows_the_cpu_device() {
    if meganeura::adapters().is_empty() {
        assert!(std::env::var_os("MEGANEURA_REQUIRE_GPU").is_none(), "a GPU is required, but there is no adapter");
        eprintln!("SKIPPED: no adapter");
        return;
    }
    let folder = Folder::new("gpu");
    let run = |device| losses(&folder.lines(&["--device", device, "--steps", "3", "--temperature", "0"]));
    let (cpu, gpu) = (run("cpu"), run("0"));
    assert_eq!(cpu.len(), 3);
    for (step, (a, b)) in cpu.iter().zip(&gpu).enumerate() {
        assert!((a - b).abs() <= 1e-4 * a.abs(), "step {step}: {a} on the CPU device, {b} on the GPU");
    }
}

#[test]
fn mistakes_are_named() {
    let folder = Folder::new("mistakes");
    fs::write(folder.0.join("short"), "Call me Ishmael.").unwrap();
    let cases: [(&[&str], i32, &str); 5] = [
        (&["--prompt", "naïve"], 1, "character 2 is 'ï', which is not among the"),
        (&["--text", "none"], 1, "none: cannot be read"),
        (&["--text", "short", "--prompt", "m"], 1, "a set of 0 items has no batch of 32"),
        (&["--load", "text"], 1, "text"),
        (&["--temperature", "-1"], 2, "expected a number of at least 0"),
    ];
    for (arguments, code, message) in cases {
        let output = folder.run(&[&["--device", "cpu"], arguments].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(message), "{arguments:?}: {text}");
    }
}
