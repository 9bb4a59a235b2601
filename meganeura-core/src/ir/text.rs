//! The pieces of which graphs' text form is made, both ways.

use crate::dtype::DType;
use crate::scalar::Scalar;
use crate::shape::{Shape, TensorType};
use std::str::FromStr;

/// A string in quotes, with escapes for whatever does not belong on a line; [`unquote`] undoes it.
pub(crate) fn quote(text: &str) -> String {
    format!("\"{}\"", text.escape_debug())
}

/// What [`quote`] quoted.
pub(crate) fn unquote(text: &str) -> Option<String> {
    let mut chars = text.strip_prefix('"')?.strip_suffix('"').filter(|_| text.len() >= 2)?.chars();
    let mut plain = String::new();
    while let Some(c) = chars.next() {
        plain.push(match c {
            '"' => return None,
            '\\' => match chars.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                '0' => '\0',
                'u' => {
                    let digits: String = chars.by_ref().take_while(|&c| c != '}').collect();
                    char::from_u32(u32::from_str_radix(digits.strip_prefix('{')?, 16).ok()?)?
                }
                other => other,
            },
            other => other,
        });
    }
    Some(plain)
}

/// The byte length of the text before the first of `ends` that is in neither quotes nor brackets; all of it if none is.
pub(crate) fn outer_length(text: &str, ends: &[char]) -> usize {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            _ if depth == 0 && ends.contains(&c) => return at,
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    text.len()
}

/// The parts between commas that are in neither quotes nor brackets, trimmed; none of empty text.
fn parts(mut text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    while !text.trim().is_empty() {
        let (part, rest) = text.split_at(outer_length(text, &[',']));
        parts.push(part.trim());
        text = rest.strip_prefix(',').unwrap_or(rest);
    }
    parts
}

/// The value of `key` in `key=value, …`.
pub(crate) fn field<'a>(attributes: &'a str, key: &str) -> Option<&'a str> {
    parts(attributes).into_iter().find_map(|part| part.strip_prefix(key)?.strip_prefix('='))
}

/// The value of `key` as a number, or another type of which a text is the whole.
pub(crate) fn number<T: FromStr>(attributes: &str, key: &str) -> Option<T> {
    field(attributes, key)?.parse().ok()
}

/// `[a, b, …]`.
pub(crate) fn list(text: &str) -> Option<Vec<usize>> {
    list_of(text, |part| part.parse().ok())
}

/// `[[a, …], [b, …]]`.
pub(crate) fn two_lists(text: &str) -> Option<[Vec<usize>; 2]> {
    list_of(text, list)?.try_into().ok()
}

/// `[a, b, …]` of whatever `parse` reads.
pub(crate) fn list_of<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    parts(text.strip_prefix('[')?.strip_suffix(']')?).into_iter().map(parse).collect()
}

/// A scalar as it displays: `1.5f32`, `NaNf32`, `-inff16`, `7u32`, `1bool`.
pub(crate) fn scalar(text: &str) -> Option<Scalar> {
    let (dtype, value) = DType::ALL.into_iter().find_map(|dtype| Some((dtype, text.strip_suffix(dtype.name())?)))?;
    let value: f64 = value.parse().ok()?;
    let scalar = Scalar::new(dtype, value);
    // A number that the type does not hold was not printed from it.
    (scalar.value().to_bits() == value.to_bits() || value.is_nan() && dtype.is_float()).then_some(scalar)
}

/// A type as it displays: `f32[2, 3]`.
pub(crate) fn tensor_type(text: &str) -> Option<TensorType> {
    let (dtype, shape) = text.split_at(text.find('[')?);
    Some(TensorType::new(DType::from_name(dtype)?, Shape::new(list(shape)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_come_off_again() {
        for text in ["", "plain", "two words", "a\"b\\c", "line\nbreak\t\0", "é☃\u{200b}", "[0], \"", "'"] {
            assert_eq!(unquote(&quote(text)).as_deref(), Some(text));
        }
        assert_eq!(["\"", "a\"", "\"a", "\"\\", "\"\\u{110000}\"", "\"a\"b\""].map(unquote), [const { None }; 6]);
    }

    #[test]
    fn scalars_come_back_with_their_bits() {
        for value in [0.0, -0.0, 1.5, 1e-45, f64::from(f32::MAX), f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.1] {
            for dtype in DType::ALL {
                let printed = Scalar::new(dtype, value);
                assert_eq!(scalar(&printed.to_string()), Some(printed));
            }
        }
        assert_eq!(["f32", "1", "1.5u32", "-1u32", "2bool", "NaNi32", "x1f32"].map(scalar), [None; 7]);
    }

    #[test]
    fn attributes_are_found_past_brackets_and_quotes() {
        let text = "before=[0, 2], name=\"a, after=[7]\", after=[1, 0]";
        assert_eq!(field(text, "after").and_then(list), Some(vec![1, 0]));
        assert_eq!(field(text, "missing"), None);
        assert_eq!(two_lists("[[0, 1], []]"), Some([vec![0, 1], vec![]]));
        assert_eq!(two_lists("[[0], [1], [2]]"), None);
    }
}
