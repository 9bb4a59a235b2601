//! A table of a model's parameters.

use super::ParameterSpec;
use std::fmt::Write as _;

/// One line for each parameter: name, type, elements, and whether it is trained; then the totals.
///
/// Tied weights are one parameter and count once.
pub fn summary(parameters: &[ParameterSpec]) -> String {
    let types: Vec<String> = parameters.iter().map(|spec| spec.ty.to_string()).collect();
    let names = parameters.iter().map(|spec| spec.name.chars().count()).max().unwrap_or(0);
    let widest = types.iter().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for (spec, ty) in parameters.iter().zip(&types) {
        let note = if spec.trainable { "" } else { "  not trained" };
        let count = grouped(spec.ty.elements());
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:names$}  {ty:widest$}  {count:>14}{note}", spec.name);
    }
    let sum = |trainable: bool| -> usize {
        parameters.iter().filter(|spec| spec.trainable == trainable).map(|spec| spec.ty.elements()).sum()
    };
    let (trained, others) = (sum(true), sum(false));
    let total = grouped(trained + others);
    let _ = write!(text, "{total} parameters, {} trained, {} not", grouped(trained), grouped(others));
    text
}

/// A number with its digits in groups of three: `1,234,567`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    String::from_utf8_lossy(&groups.join(&b','.to_owned())).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::init::Init;
    use meganeura_core::dtype::DType;
    use meganeura_core::shape::TensorType;

    #[test]
    fn the_table_counts_what_is_trained_and_what_is_not() {
        let spec = |name: &str, shape: &[usize], trainable| ParameterSpec {
            name: name.to_owned(),
            ty: TensorType::new(DType::F32, shape),
            init: Init::Zeros,
            trainable,
        };
        let text = summary(&[spec("fc.weight", &[1000, 1234], true), spec("mean", &[7], false)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "fc.weight  f32[1000, 1234]       1,234,000");
        assert_eq!(lines[1], "mean       f32[7]                        7  not trained");
        assert_eq!(lines[2], "1,234,007 parameters, 1,234,000 trained, 7 not");
        assert_eq!(summary(&[]), "0 parameters, 0 trained, 0 not");
    }
}
