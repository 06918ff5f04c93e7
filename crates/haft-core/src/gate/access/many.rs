//! Patterns and directories named by a command: finds the files that exist and whether some of them
//! are closed.

use std::path::{Component, Path, PathBuf};

use crate::{Access, CommandRisk, ParsedCommand, access::SearchStep, gate::GateInner};

/// All files that match a shell pattern or lie below a directory.
pub(super) struct MatchedFiles {
    pub(super) path: PathBuf,
    pub(super) is_pattern: bool,
    pub(super) is_write: bool,
}

impl MatchedFiles {
    /// The directory that contains all of them, as an access.
    pub(super) fn root(&self, gate: &GateInner) -> Access {
        let root = gate.paths.resolve(&self.fixed());
        if self.is_write { Access::Write(root) } else { Access::Read(root) }
    }

    /// The access that needs approval when a closed file is among them. A working sandbox hides
    /// such files.
    pub(super) fn closed(&self, gate: &GateInner) -> Option<Access> {
        if gate.policy.sandbox.works() || self.is_write && !self.is_pattern {
            return None;
        }
        let fixed = self.fixed();
        // A pattern that begins in the workspace root has no fixed part to strip.
        let rest = self.path.strip_prefix(&fixed).unwrap_or(&self.path);
        let pattern: Vec<String> = match self.is_pattern {
            true => rest.iter().map(|it| it.to_string_lossy().into()).collect(),
            false => Vec::new(),
        };
        let found = gate.paths.below(&fixed, &|below| may_fit(&pattern, below));
        let why = match found {
            None => "there are too many files to check for closed ones".to_owned(),
            Some(paths) => {
                let is_closed = |path: &&PathBuf| gate.policy.closes(path, self.is_write);
                format!("{} is closed", paths.iter().find(is_closed)?.display())
            }
        };
        let verb = if self.is_write { "write" } else { "read" };
        let text = format!("{verb} {}", self.path.display());
        let (rule_texts, spellings, known_prefixes) = (Vec::new(), Vec::new(), Vec::new());
        let risk = CommandRisk::Closed(why);
        Some(Access::Command(Box::new(ParsedCommand {
            text,
            risk,
            rule_texts,
            spellings,
            known_prefixes,
        })))
    }

    /// The path components before the first that is a pattern.
    fn fixed(&self) -> PathBuf {
        if !self.is_pattern {
            return self.path.clone();
        }
        let is_fixed = |part: &Component<'_>| {
            !part.as_os_str().as_encoded_bytes().iter().any(|byte| b"*?[".contains(byte))
        };
        let fixed: PathBuf = self.path.components().take_while(is_fixed).collect();
        if fixed.as_os_str().is_empty() { PathBuf::from(".") } else { fixed }
    }
}

/// Decides whether a path below the fixed part matches the pattern so far, or lies below a match.
fn may_fit(pattern: &[String], below: &Path) -> SearchStep {
    let mut depth = 0;
    for (name, wanted) in below.iter().zip(pattern) {
        if wanted == "**" {
            return SearchStep::Include;
        }
        depth += 1;
        let name = name.to_string_lossy();
        // A name that begins with a dot is matched only by a pattern that begins with one.
        let is_hidden = name.starts_with('.') && !wanted.starts_with(['.', '\\']);
        // The parser has already expanded braces; the remaining ones are literal.
        let wanted = wanted.replace('{', "\\{").replace('}', "\\}");
        if is_hidden || !fast_glob::glob_match(wanted.as_bytes(), name.as_bytes()) {
            return SearchStep::Skip;
        }
    }
    // A link is followed if the pattern continues behind it, as a shell does; a link inside a
    // matched tree is not.
    if depth < pattern.len() { SearchStep::IncludeAndFollow } else { SearchStep::Include }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_like_the_shell() {
        let check = |pattern: &str, path: &str, expected: bool| {
            let pattern: Vec<String> = pattern.split('/').map(str::to_owned).collect();
            let is_found = may_fit(&pattern, Path::new(path)) != SearchStep::Skip;
            assert_eq!(is_found, expected, "{pattern:?} on {path}");
        };
        check(".en*", ".env", true);
        check(".e[n]v", ".env", true);
        check(".e*", ".env", true);
        check(".e??", ".env", true);
        check(".e[!a]v", ".env", true);
        check("*", ".env", false);
        check("*", "key.pem", true);
        check("priv*/k", "private", true);
        check("priv*/k", "private/k", true);
        check("priv*/k", "private/other", false);
        check("priv*", "private/deep/k", true);
        check("**", "a/b/.env", true);
    }

    #[test]
    fn links_are_followed_as_far_as_the_pattern_goes() {
        let entry = |pattern: &str, path: &str| {
            let pattern: Vec<String> = pattern.split('/').map(str::to_owned).collect();
            may_fit(&pattern, Path::new(path))
        };
        assert_eq!(entry("l*/k", "link"), SearchStep::IncludeAndFollow);
        assert_eq!(entry("l*/k", "link/k"), SearchStep::Include);
        assert_eq!(entry("l*", "link"), SearchStep::Include);
        assert_eq!(entry("**", "link"), SearchStep::Include);
    }
}
