//! Patterns of parameter names.

use wildmatch::WildMatch;

/// Whether a name matches a pattern, in which `*` stands for any characters, none too, and `?` for exactly one.
pub fn matches(pattern: &str, name: &str) -> bool {
    WildMatch::new(pattern).matches(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, name, expected) in [
            ("encoder.*", "encoder.layers.0.weight", true),
            ("*.bias", "fc1.bias", true),
            ("*norm*.weight", "layers.0.norm1.weight", true),
            ("encoder", "encoder.weight", false),
            ("fc?.weight", "fc1.weight", true),
            ("fc?.weight", "fc10.weight", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
