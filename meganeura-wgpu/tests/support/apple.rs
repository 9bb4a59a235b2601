//! What Apple's compiler would not take though naga writes it, found in the text: no machine with that compiler is needed.
//!
//! Metal Shading Language, 2.3 and later (Apple's specification, "SIMD-group matrix data types" and "functions"): matrices are
//! 8×8 only; they are loaded and stored through pointers to their own scalar type; they have no operators.

use std::collections::HashMap;

/// A type, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A SIMD-group matrix, or an array of them.
    Matrix,
    /// A vector, or an array of them.
    Vector,
}

/// The calls whose first or second argument is a pointer to memory of matrices, as naga writes them.
const TRANSFERS: [&str; 2] = ["NagaCooperativeLoad(", "simdgroup_store("];

/// Why a module would be refused, if it would.
pub fn refusal(text: &str) -> Option<String> {
    if let Some(size) = matrix_sizes(text).find(|size| *size != "8x8") {
        return Some(format!("a SIMD-group matrix of {size}"));
    }
    let types = types(text);
    // A function's text, its parameters before it; names are its own.
    text.split("\n}\n").find_map(|function| {
        let names = names(function, &types);
        function.lines().find_map(|line| {
            let reason = vector_pointer(line, &names).or_else(|| arithmetic(line, &names))?;
            Some(format!("{reason}: {}", line.trim()))
        })
    })
}

/// `8x8` of each `simdgroup_half8x8` and the like.
fn matrix_sizes(text: &str) -> impl Iterator<Item = &str> {
    text.split("simdgroup_").skip(1).filter_map(|rest| {
        let size = rest.strip_prefix("half").or_else(|| rest.strip_prefix("float"))?;
        Some(&size[..size.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(size.len())])
    })
}

/// naga's own types that are arrays of a kind: `struct NAME { TYPE inner[COUNT]; }`, `typedef TYPE NAME[1];`.
fn types(text: &str) -> HashMap<&str, Kind> {
    let mut kinds = HashMap::new();
    let mut structure = "";
    for line in text.lines() {
        let words: Vec<&str> = tokens(line).filter(|word| *word != "metal").collect();
        let found = match words[..] {
            ["struct", name, ..] => {
                structure = name;
                None
            }
            ["typedef", of, name, ..] => Some((name, of)),
            [of, "inner", ..] => Some((structure, of)),
            _ => None,
        };
        if let Some((name, kind)) = found.and_then(|(name, of)| Some((name, kind_of_type(of, &kinds)?))) {
            kinds.insert(name, kind);
        }
    }
    kinds
}

/// The variables of a kind: `TYPE NAME`, with whatever qualifiers stand between them.
fn names<'t>(function: &'t str, types: &HashMap<&str, Kind>) -> HashMap<&'t str, Kind> {
    let mut names = HashMap::new();
    for line in function.lines() {
        let mut kind = None;
        for word in tokens(line).filter(|word| *word != "const") {
            match kind_of_type(word, types) {
                Some(of_type) => kind = Some(of_type),
                None => names.extend(kind.take().map(|kind| (word, kind))),
            }
        }
    }
    names
}

fn kind_of_type(word: &str, types: &HashMap<&str, Kind>) -> Option<Kind> {
    if word.starts_with("simdgroup_half") || word.starts_with("simdgroup_float") {
        return Some(Kind::Matrix);
    }
    let packed = word.strip_prefix("packed_").unwrap_or(word);
    let extent = ["half", "float", "uint", "int"].into_iter().find_map(|scalar| packed.strip_prefix(scalar));
    let vector = extent.filter(|extent| matches!(*extent, "2" | "3" | "4")).map(|_| Kind::Vector);
    vector.or_else(|| types.get(word).copied())
}

/// Names and numbers.
fn tokens(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Matrices go to and from memory of their scalar type.
fn vector_pointer(line: &str, names: &HashMap<&str, Kind>) -> Option<String> {
    let pointers = TRANSFERS.iter().flat_map(|call| line.split(call).skip(1));
    pointers.into_iter().find_map(|arguments| {
        let name = tokens(arguments.split_once('&')?.1).next()?;
        (names.get(name) == Some(&Kind::Vector)).then(|| format!("{name} holds vectors, not the matrix' scalars"))
    })
}

/// An operator beside a matrix.
fn arithmetic(line: &str, names: &HashMap<&str, Kind>) -> Option<String> {
    let mut rest = line;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_') {
        let name = tokens(&rest[start..]).next()?;
        let before = rest[..start].trim_end();
        rest = &rest[start + name.len()..];
        if names.get(name) != Some(&Kind::Matrix) {
            continue;
        }
        let after = past_subscripts(rest).trim_start();
        let operator = |text: Option<char>| text.is_some_and(|c| "+-*/".contains(c));
        if operator(before.chars().next_back()) || operator(after.chars().next()) {
            return Some(format!("arithmetic on the SIMD-group matrix {name}"));
        }
    }
    None
}

/// What follows `.inner[i][j]`.
fn past_subscripts(text: &str) -> &str {
    let mut rest = text;
    loop {
        if let Some(member) = rest.strip_prefix(".inner") {
            rest = member;
        } else if let Some(subscript) = rest.strip_prefix('[') {
            let Some(end) = closing(subscript) else { return rest };
            rest = &subscript[end + 1..];
        } else {
            return rest;
        }
    }
}

/// Where the bracket that stands open before a text closes.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    text.char_indices().find_map(|(at, c)| {
        depth += match c {
            '[' => 1,
            ']' => -1,
            _ => 0,
        };
        (depth == 0).then_some(at)
    })
}
