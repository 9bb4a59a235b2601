//! Installs Mesa's software GPU (lavapipe) on Debian and its relatives.
//!
//! Debian's backports suite is preferred where the machine's archive has it: on two cores an f32 matrix product of 512³
//! ran at 1–2 GFLOP/s on Debian 12's Mesa 22.3 and at 5–6 on the Mesa 25.0 of its backports.

use crate::{output, run};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The loader and the drivers.
const PACKAGES: [&str; 2] = ["libvulkan1", "mesa-vulkan-drivers"];
/// The sources that this command adds; its extension tells which of apt's two formats it is in.
const ADDED: &str = "/etc/apt/sources.list.d/meganeura-backports";

/// Installs the loader and the drivers, as root or through `sudo -n`.
pub fn install_software_gpu() -> Result<(), String> {
    let by_hand = format!("install a Vulkan driver, then run this again; on Debian or Ubuntu: {}", command_line());
    let (root, release) = debian().ok_or(by_hand)?;
    eprintln!("xtask: installing Mesa's software GPU: {}", command_line());
    let suite = field(&release, "VERSION_CODENAME").map(|codename| format!("{codename}-backports"));
    let added = suite.as_deref().and_then(|suite| root.add_suite(suite));
    if let Err(message) = root.apt(&["update"]) {
        // The archive may not have that suite; without it the update must succeed.
        let file = added.as_deref().ok_or(message)?;
        root.run(&["rm", "-f", file])?;
        root.apt(&["update"])?;
    }
    let install = ["install", "-y", "--no-install-recommends"];
    let from_suite =
        suite.ok_or_else(String::new).and_then(|suite| root.apt(&[&install[..], &["-t", &suite], &PACKAGES].concat()));
    from_suite.or_else(|_| root.apt(&[&install[..], &PACKAGES].concat()))
}

/// Installs packages from the machine's own archive, as root or through `sudo -n`.
pub fn install(packages: &[&str]) -> Result<(), String> {
    let by_hand = format!("on Debian or Ubuntu: apt-get install {}", packages.join(" "));
    let (root, _) = debian().ok_or(by_hand)?;
    root.apt(&["update"])?;
    root.apt(&[&["install", "-y", "--no-install-recommends"], packages].concat())
}

/// Root's rights on a system with apt, and the text of `/etc/os-release`.
fn debian() -> Option<(Root, String)> {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let has_apt = is_debian_like(&release) && output("apt-get", &["--version"]).is_some();
    has_apt.then(Root::acquire).flatten().map(|root| (root, release))
}

fn command_line() -> String {
    format!("apt-get update && apt-get install -y {}", PACKAGES.join(" "))
}

/// How to run a command as root.
struct Root {
    prefix: &'static [&'static str],
}

impl Root {
    fn acquire() -> Option<Root> {
        if output("id", &["-u"])?.trim() == "0" {
            return Some(Root { prefix: &[] });
        }
        output("sudo", &["-n", "true"]).map(|_| Root { prefix: &["sudo", "-n"] })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        // `env` gives every form the same first word and apt its quiet mode, which sudo would drop.
        let words: Vec<&str> = [self.prefix, &["env", "DEBIAN_FRONTEND=noninteractive"], arguments].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command
    }

    fn run(&self, arguments: &[&str]) -> Result<(), String> {
        run(&mut self.command(arguments))
    }

    fn apt(&self, arguments: &[&str]) -> Result<(), String> {
        self.run(&[&["apt-get", "-q"], arguments].concat())
    }

    /// Adds a suite to apt's sources after the machine's own entry; the file written, if one was needed and possible.
    fn add_suite(&self, suite: &str) -> Option<String> {
        let texts: Vec<(String, Format)> = sources();
        let release = suite.trim_end_matches("-backports");
        if texts.iter().any(|(text, format)| format.derive(text, suite, suite).is_some()) {
            return None;
        }
        let (entry, format) =
            texts.iter().find_map(|(text, format)| Some((format.derive(text, release, suite)?, *format)))?;
        let file = format!("{ADDED}.{}", format.extension());
        let mut tee = self.command(&["tee", &file]);
        let mut child = tee.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().ok()?;
        child.stdin.take()?.write_all(entry.as_bytes()).ok()?;
        child.wait().ok()?.success().then_some(file)
    }
}

/// apt's two formats of sources (sources.list(5)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    /// `deb [options] address suite components`, one entry a line.
    Line,
    /// Paragraphs of `Field: value`.
    Deb822,
}

impl Format {
    fn of(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()? {
            "list" => Some(Format::Line),
            "sources" => Some(Format::Deb822),
            _ => None,
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Format::Line => "list",
            Format::Deb822 => "sources",
        }
    }

    /// The first entry for binary packages of the suite `from`, with that suite replaced by `to`.
    fn derive(self, text: &str, from: &str, to: &str) -> Option<String> {
        match self {
            Format::Line => text.lines().find_map(|line| derive_line(line, from, to)),
            Format::Deb822 => {
                // Comment lines may stand inside a paragraph and do not end it.
                let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
                let paragraphs = kept.split(|line| line.trim().is_empty());
                paragraphs.into_iter().find_map(|lines| derive_paragraph(lines, from, to))
            }
        }
    }
}

fn derive_line(line: &str, from: &str, to: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    // Options stand in brackets and may hold spaces.
    let options = words.iter().skip(1).position(|word| word.ends_with(']')).map_or(0, |end| end + 1);
    let options = if words.get(1)?.starts_with('[') { options } else { 0 };
    let suite = options + 2;
    let matches = words[0] == "deb" && *words.get(suite)? == from;
    matches.then(|| [&words[..suite], &[to], &words[suite + 1..]].concat().join(" ") + "\n")
}

fn derive_paragraph(lines: &[&str], from: &str, to: &str) -> Option<String> {
    let value = |name: &str| {
        let named =
            lines.iter().find_map(|line| line.split_once(':').filter(|(own, _)| own.eq_ignore_ascii_case(name)));
        named.map(|(_, value)| value.trim())
    };
    let has = |name: &str, word: &str| value(name).is_some_and(|value| value.split_whitespace().any(|own| own == word));
    let disabled = value("Enabled").is_some_and(|value| value.eq_ignore_ascii_case("no"));
    if disabled || !has("Types", "deb") || !has("Suites", from) {
        return None;
    }
    let entry = lines.iter().map(|line| match line.split_once(':') {
        Some((name, _)) if name.eq_ignore_ascii_case("Types") => "Types: deb\n".to_owned(),
        Some((name, _)) if name.eq_ignore_ascii_case("Suites") => format!("Suites: {to}\n"),
        _ => format!("{line}\n"),
    });
    Some(entry.collect())
}

/// The machine's files of sources.
fn sources() -> Vec<(String, Format)> {
    let added = std::fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<_> = added.chain(["/etc/apt/sources.list".into()]).collect();
    paths.sort();
    paths.iter().filter_map(|path| Some((std::fs::read_to_string(path).ok()?, Format::of(path)?))).collect()
}

/// The value of `NAME=value` in `/etc/os-release`, without quotes.
fn field<'a>(release: &'a str, name: &str) -> Option<&'a str> {
    release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(|value| value.trim_matches('"'))
}

fn is_debian_like(release: &str) -> bool {
    let family = ["ID", "ID_LIKE"].iter().filter_map(|name| field(release, name));
    family.flat_map(str::split_whitespace).any(|id| id == "debian" || id == "ubuntu")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_is_derived_from_a_line() {
        let text = "# deb mirror:/a stable main\ndeb-src mirror:/a stable main\n\
                    deb [arch=amd64 signed-by=/k.gpg] mirror:/a stable main contrib\n";
        let derived = Format::Line.derive(text, "stable", "stable-backports");
        assert_eq!(
            derived.as_deref(),
            Some("deb [arch=amd64 signed-by=/k.gpg] mirror:/a stable-backports main contrib\n")
        );
        assert_eq!(Format::Line.derive("deb mirror:/a other main", "stable", "b"), None);
        assert_eq!(
            Format::Line.derive("deb mirror:/a stable main", "stable", "b").as_deref(),
            Some("deb mirror:/a b main\n")
        );
        assert_eq!(Format::Line.derive("deb\n\ndeb x", "stable", "b"), None);
    }

    #[test]
    fn a_suite_is_derived_from_a_paragraph() {
        let text = "Types: deb\nURIs: mirror:/s\nSuites: stable-security\n\nTypes: deb deb-src\n# Why: because\n\
                    URIs: mirror:/a\nSuites: stable stable-updates\nComponents: main\nSigned-By:\n -----BEGIN\n .\n";
        let derived = Format::Deb822.derive(text, "stable", "stable-backports");
        let expected =
            "Types: deb\nURIs: mirror:/a\nSuites: stable-backports\nComponents: main\nSigned-By:\n -----BEGIN\n .\n";
        assert_eq!(derived.as_deref(), Some(expected));
        assert_eq!(Format::Deb822.derive(expected, "stable", "x"), None);
        assert_eq!(Format::Deb822.derive(&format!("Enabled: no\n{expected}"), "stable-backports", "x"), None);
    }

    #[test]
    fn the_family_of_a_system_is_told_by_its_release_file() {
        assert!(is_debian_like("ID=debian\n") && is_debian_like("ID=mint\nID_LIKE=\"ubuntu debian\"\n"));
        assert!(!is_debian_like("ID=fedora\n") && !is_debian_like(""));
        assert_eq!(field("VERSION_CODENAME=bookworm\n", "VERSION_CODENAME"), Some("bookworm"));
    }
}
