//! Other names for the tensors of a file.

/// Rules by which the names in a file become a model's: the first whose pattern matches counts, and a name that none
/// matches stays.
///
/// ```
/// use meganeura_nn::checkpoint::Renames;
///
/// let renames = Renames::new().rule("model.layers.*.mlp.*", "layers.*.ff.*").rule("model.*", "*").drop("lm_head.*");
/// assert_eq!(renames.apply("model.layers.3.mlp.fc1.weight").as_deref(), Some("layers.3.ff.fc1.weight"));
/// assert_eq!(renames.apply("model.norm.weight").as_deref(), Some("norm.weight"));
/// assert_eq!(renames.apply("lm_head.weight"), None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Renames {
    rules: Vec<(String, Option<String>)>,
}

impl Renames {
    /// No rules.
    pub fn new() -> Renames {
        Renames::default()
    }

    /// Names that match `pattern`, in which each `*` stands for any characters (as few as possible), become `name`, in
    /// which the first `*` stands for what the first one of the pattern did, and so on.
    #[must_use]
    pub fn rule(mut self, pattern: impl Into<String>, name: impl Into<String>) -> Renames {
        self.rules.push((pattern.into(), Some(name.into())));
        self
    }

    /// Tensors whose names match `pattern` are left out.
    #[must_use]
    pub fn drop(mut self, pattern: impl Into<String>) -> Renames {
        self.rules.push((pattern.into(), None));
        self
    }

    /// The new name, if it has one; for [`Checkpoint::renamed`](super::Checkpoint::renamed).
    pub fn apply(&self, name: &str) -> Option<String> {
        let found = self.rules.iter().find_map(|(pattern, new)| Some((captured(pattern, name)?, new)));
        let Some((captured, new)) = found else { return Some(name.to_owned()) };
        let mut pieces = new.as_ref()?.split('*');
        let mut text = pieces.next().unwrap_or_default().to_owned();
        let mut captured = captured.into_iter();
        for piece in pieces {
            // A star without a counterpart stands for nothing.
            text.push_str(captured.next().unwrap_or_default());
            text.push_str(piece);
        }
        Some(text)
    }
}

/// What the stars of a pattern stand for in a name; nothing if it does not match.
fn captured<'n>(pattern: &str, name: &'n str) -> Option<Vec<&'n str>> {
    let mut literals = pattern.split('*');
    let mut rest = name.strip_prefix(literals.next()?)?;
    let mut literals: Vec<&str> = literals.collect();
    let Some(last) = literals.pop() else { return rest.is_empty().then(Vec::new) };
    // Each literal as early as possible leaves the most for those after it; the last has to be the end.
    let mut captured = Vec::with_capacity(literals.len() + 1);
    for literal in literals {
        let (before, after) = rest.split_once(literal)?;
        captured.push(before);
        rest = after;
    }
    captured.push(rest.strip_suffix(last)?);
    Some(captured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_carry_over() {
        for (pattern, name, expected) in [
            ("a.*", "a.b.c", Some(vec!["b.c"])),
            ("a", "a", Some(vec![])),
            ("a", "ab", None),
            ("*", "", Some(vec![""])),
            ("*.x.*.w", "a.x.b.x.w", Some(vec!["a", "b.x"])),
            ("h.*.w", "h.w", None),
            ("*.w", "b.w.w", Some(vec!["b.w"])),
            ("**b", "ab", Some(vec!["", "a"])),
        ] {
            assert_eq!(captured(pattern, name), expected, "{pattern} {name}");
        }
    }
}
