//! The fuzzers' seeds and thousands of mutations of them, in every run of the tests: `fuzz/README.md`.

#[path = "../../../fuzz/parsers.rs"]
mod parsers;

use meganeura_nn::random::Random;
use std::fs;
use std::panic::{RefUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Mutations of each seed.
const MUTATIONS: usize = 2000;
/// Changes of a mutation, at most.
const CHANGES: u64 = 4;
/// Address space that all seeds of all kinds have to do with, in KiB: that of a process with a thread, and 64 MiB.
const ADDRESS_SPACE: u32 = 256 << 10;

fn seeds(kind: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(kind);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Changes a few bytes, cuts, repeats and joins, as fuzzers do.
fn mutated(seed: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(CHANGES) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        let length = random.below(16).min((bytes.len() - at) as u64) as usize;
        match random.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff, b'9', b'"', b'{'][random.below(8) as usize],
            2 => bytes.truncate(at),
            3 => drop(bytes.splice(at..at, bytes[at..at + length].to_vec())),
            4 => drop(bytes.drain(at..at + length)),
            5 => bytes.splice(at.., other[at.min(other.len())..].iter().copied()).for_each(drop),
            _ => drop(bytes.splice(at..at, random.bits().to_le_bytes())),
        }
    }
    bytes
}

/// Runs a parser; a panic names the bytes.
fn survives(kind: &str, parse: impl Fn(&[u8]) + RefUnwindSafe, bytes: &[u8], seed: &Path) {
    let result = catch_unwind(|| parse(bytes));
    assert!(result.is_ok(), "{kind}, made from {}: {}", seed.display(), bytes.escape_ascii());
}

#[test]
fn no_mutation_makes_a_parser_panic() {
    let mut random = Random::new(17, "mutations");
    for (kind, parse) in parsers::ALL {
        let seeds = seeds(kind);
        for (path, seed) in &seeds {
            for _ in 0..MUTATIONS {
                let (_, other) = &seeds[random.below(seeds.len() as u64) as usize];
                survives(kind, parse, &mutated(seed, other, &mut random), path);
            }
        }
        parsers::clean(kind);
    }
}

#[test]
fn every_kind_has_seeds_and_a_fuzzer() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    let names = |folder: &str| {
        let mut names: Vec<String> = fs::read_dir(fuzz.join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    let kinds: Vec<&str> = parsers::ALL.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(names("seeds"), kinds);
    assert_eq!(names("fuzz_targets"), kinds);
    assert!(kinds.iter().all(|kind| seeds(kind).len() > 5));
}

/// The process with little memory; see below.
#[test]
#[ignore = "run by `seeds_take_little_memory` in a process of its own"]
fn child() {
    for (kind, parse) in parsers::ALL {
        seeds(kind).iter().for_each(|(_, seed)| parse(seed));
        parsers::clean(kind);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn seeds_take_little_memory() {
    let script = format!(r#"ulimit -v {ADDRESS_SPACE} && exec "$0" "$@""#);
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "mutations::child", "--test-threads=1"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
