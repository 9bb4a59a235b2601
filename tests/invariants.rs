//! `docs/invariants.md` against the sources: every invariant has its negative test.

#![allow(clippy::expect_used, clippy::panic)]

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

const CRATES: [&str; 3] = ["meganeura-core", "meganeura-wgpu", "meganeura-nn"];
const NUMBERS: [(char, u32); 8] = [('G', 7), ('L', 2), ('R', 5), ('P', 5), ('K', 5), ('S', 3), ('M', 9), ('W', 4)];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("a folder's entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Names of functions that stand right after `#[test]`.
fn tests_in(text: &str) -> HashSet<String> {
    let after = text.split("#[test]").skip(1);
    let name = |rest: &str| Some(rest.split_once("fn ")?.1.split_once('(')?.0.to_owned());
    after.filter_map(name).collect()
}

#[test]
fn every_invariant_names_a_test_that_exists() {
    let mut files = Vec::new();
    sources(&root().join("tests"), &mut files);
    for name in CRATES {
        sources(&root().join(name).join("src"), &mut files);
        sources(&root().join(name).join("tests"), &mut files);
    }
    let tests: HashSet<String> = files.iter().flat_map(|file| tests_in(&read(file))).collect();
    let table = read(&root().join("docs/invariants.md"));
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .map(|line| line.split(" | ").collect())
        .skip_while(|row: &Vec<&str>| row[0] != "number")
        .skip(1)
        .collect();
    let numbers: Vec<String> = rows.iter().map(|row| row[0].to_owned()).collect();
    let expected: Vec<String> =
        NUMBERS.iter().flat_map(|&(letter, count)| (1..=count).map(move |at| format!("{letter}{at}"))).collect();
    let [found, expected]: [HashSet<&String>; 2] = [numbers.iter().collect(), expected.iter().collect()];
    assert_eq!(found, expected);
    assert_eq!(found.len(), numbers.len(), "a number stands twice");
    for row in rows {
        let [number, _, _, names] = row[..] else { panic!("a row has four columns: {row:?}") };
        for test in names.split(", ") {
            assert!(tests.contains(test.trim_matches('`')), "{number}: there is no test {test}");
        }
    }
}

#[test]
fn g3_attributes_hold_no_ids_of_nodes() {
    let mut files = Vec::new();
    sources(&root().join("meganeura-core/src/ops"), &mut files);
    assert!(files.len() > 10, "{files:?}");
    for file in files {
        assert!(!read(&file).contains("NodeId"), "{} knows nodes", file.display());
    }
}
