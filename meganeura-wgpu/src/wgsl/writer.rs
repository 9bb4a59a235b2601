//! An indenting text writer that also remembers what the text needs outside the function being written.

use super::PrintError;
use super::math::Function;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Writes the body of an entry point line by line.
///
/// Helper functions and module-scope declarations that the body needs are collected on the way, so that a module holds
/// only what it uses. The first error is kept and reported when the module is finished; writing goes on after it.
#[derive(Default)]
pub struct Writer {
    body: String,
    depth: usize,
    declarations: Vec<String>,
    functions: BTreeSet<Function>,
    fresh: usize,
    error: Option<PrintError>,
}

impl Writer {
    /// An empty writer.
    pub fn new() -> Writer {
        Writer { depth: 1, ..Writer::default() }
    }

    /// One line at the current depth.
    pub fn line(&mut self, text: impl AsRef<str>) {
        let (indent, text) = ("    ".repeat(self.depth), text.as_ref());
        self.body.push_str(&indent);
        self.body.push_str(text);
        self.body.push('\n');
    }

    /// Starts a block: `head {`, or a bare `{` if the head is empty.
    pub fn open(&mut self, head: impl AsRef<str>) {
        match head.as_ref() {
            "" => self.line("{"),
            head => self.line(format!("{head} {{")),
        }
        self.depth += 1;
    }

    /// Ends the innermost block.
    pub fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    /// `let name = value;`
    pub fn bind(&mut self, name: &str, value: impl AsRef<str>) {
        self.line(format!("let {name} = {};", value.as_ref()));
    }

    /// A name not given before: `prefix` and a number.
    pub fn fresh(&mut self, prefix: &str) -> String {
        self.fresh += 1;
        format!("{prefix}_{}", self.fresh - 1)
    }

    /// Adds a declaration at module scope (workgroup memory, say), once.
    pub fn declare(&mut self, declaration: impl Into<String>) {
        let declaration = declaration.into();
        if !self.declarations.contains(&declaration) {
            self.declarations.push(declaration);
        }
    }

    /// Adds a function at module scope: `head { … }`, its body written by `write`.
    pub fn define(&mut self, head: &str, write: impl FnOnce(&mut Writer)) {
        let (outer, depth) = (std::mem::take(&mut self.body), std::mem::replace(&mut self.depth, 1));
        write(self);
        let body = std::mem::replace(&mut self.body, outer);
        self.depth = depth;
        self.declare(format!("\n{head} {{\n{body}}}"));
    }

    /// Notes that the body calls a helper function, and gives its name.
    pub fn call(&mut self, function: Function) -> &'static str {
        if self.functions.insert(function) {
            for needed in function.calls() {
                self.call(*needed);
            }
        }
        function.name()
    }

    /// Keeps the first error.
    pub fn fail(&mut self, error: PrintError) {
        self.error.get_or_insert(error);
    }

    /// The whole module: `head` (extensions and bindings), declarations, helper functions, and the entry point `main`.
    ///
    /// # Errors
    /// The first error that was noted while writing.
    pub fn finish(self, head: &str, workgroup_size: [u32; 3], parameters: &[&str]) -> Result<String, PrintError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut module = head.to_string();
        for declaration in &self.declarations {
            module.push_str(declaration);
            module.push('\n');
        }
        for function in &self.functions {
            module.push('\n');
            module.push_str(function.source().trim());
            module.push('\n');
        }
        let [x, y, z] = workgroup_size;
        // Writing to a string cannot fail.
        let _ = write!(module, "\n@compute @workgroup_size({x}, {y}, {z})\nfn main({}) {{\n", parameters.join(", "));
        module.push_str(&self.body);
        module.push_str("}\n");
        Ok(module)
    }
}
