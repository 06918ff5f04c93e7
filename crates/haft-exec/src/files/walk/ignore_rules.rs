//! The paths that are excluded by lines of `.gitignore` and `.ignore` files, which are read by
//! handles. The `ignore` crate interprets the lines.

use std::{
    ffi::OsStr,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};
use rustix::{
    fs::{self, FileType, Mode, OFlags},
    io,
};

use super::{READ, or_dot};
use crate::files::{open_file::read_up_to, root::Root};

const GIT: &[u8] = b".gitignore";
const OWN: &[u8] = b".ignore";
/// A longer ignore file is skipped.
const MAX_FILE_BYTES: usize = 1 << 20;

/// The ignore files of one directory, and those above it.
pub(crate) struct IgnoreRules {
    above: Option<Arc<Self>>,
    /// Number of bytes of a path up to this directory: its lines match the rest.
    depth: usize,
    git: Option<Gitignore>,
    own: Option<Gitignore>,
}

/// The ignore files that a directory contains.
#[derive(Clone, Copy, Default)]
pub(crate) struct IgnoreFiles {
    git: bool,
    own: bool,
}

impl IgnoreFiles {
    /// Records an entry.
    pub(crate) fn note(&mut self, name: &[u8], is_file: bool) {
        self.git |= is_file && name == GIT;
        self.own |= is_file && name == OWN;
    }

    /// Returns true when there are any.
    pub(crate) fn any(self) -> bool {
        self.git || self.own
    }
}

impl IgnoreRules {
    /// Returns the rules for a directory of a root before its own files are read. The grant is not
    /// checked: these files are above the path that the call names, and their contents are not
    /// shown.
    pub(crate) fn above(root: &Root, start: &Path) -> Option<Arc<Self>> {
        let exclude = read(root.open_at(Path::new(".git/info/exclude"), READ));
        let mut rules = exclude
            .map(|text| Arc::new(Self { above: None, depth: 0, git: parse(&text), own: None }));
        let mut directory = PathBuf::new();
        for name in start.components() {
            if let Ok(handle) = root.open_at(or_dot(&directory), OFlags::PATH | OFlags::DIRECTORY) {
                let seen = IgnoreFiles { git: true, own: true };
                rules = Self::with(rules, &handle, seen, directory.as_os_str().len());
            }
            directory.push(name);
        }
        rules
    }

    /// Adds the ignore files of a directory, given the length of its path.
    pub(crate) fn with(
        above: Option<Arc<Self>>,
        directory: &OwnedFd,
        seen: IgnoreFiles,
        path_length: usize,
    ) -> Option<Arc<Self>> {
        let load = |is_seen: bool, name: &[u8]| {
            let open = || fs::openat(directory, OsStr::from_bytes(name), READ, Mode::empty());
            is_seen.then(open).and_then(read).and_then(|text| parse(&text))
        };
        let (git, own) = (load(seen.git, GIT), load(seen.own, OWN));
        if git.is_none() && own.is_none() {
            return above;
        }
        // The slash after the directory is not part of the rest.
        let depth = if path_length == 0 { 0 } else { path_length + 1 };
        Some(Arc::new(Self { above, depth, git, own }))
    }

    /// Returns true when a path is excluded. Its directory is known not to be.
    pub(crate) fn ignore(&self, path: &[u8], is_directory: bool) -> bool {
        self.verdict(path, is_directory, |rules| rules.own.as_ref())
            .or_else(|| self.verdict(path, is_directory, |rules| rules.git.as_ref()))
            .unwrap_or(false)
    }

    fn verdict(
        &self,
        path: &[u8],
        is_directory: bool,
        lines: impl Fn(&Self) -> Option<&Gitignore>,
    ) -> Option<bool> {
        let mut rules = Some(self);
        while let Some(here) = rules {
            if let Some(lines) = lines(here)
                && let Some(rest) = path.get(here.depth..)
            {
                match lines.matched(Path::new(OsStr::from_bytes(rest)), is_directory) {
                    Match::Ignore(_) => return Some(true),
                    Match::Whitelist(_) => return Some(false),
                    Match::None => {}
                }
            }
            rules = here.above.as_deref();
        }
        None
    }
}

/// Reads an ignore file; `None` when it is missing, not a regular file, or too large.
fn read(opened: io::Result<OwnedFd>) -> Option<String> {
    let handle = opened.ok()?;
    let stat = fs::fstat(handle.as_fd()).ok()?;
    let size = usize::try_from(stat.st_size).ok().filter(|size| *size <= MAX_FILE_BYTES)?;
    if !FileType::from_raw_mode(stat.st_mode).is_file() {
        return None;
    }
    let mut bytes = vec![0; size];
    let read = read_up_to(&handle, &mut bytes).ok()?;
    bytes.truncate(read);
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Skips invalid lines, as git does.
fn parse(text: &str) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(".");
    for line in text.trim_start_matches('\u{feff}').lines() {
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|lines| !lines.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(layers: &[(&str, Option<&str>, Option<&str>)]) -> IgnoreRules {
        let mut above = None;
        for (directory, git, own) in layers {
            let depth = if directory.is_empty() { 0 } else { directory.len() + 1 };
            let (git, own) = (git.and_then(parse), own.and_then(parse));
            above = Some(Arc::new(IgnoreRules { above, depth, git, own }));
        }
        Arc::into_inner(above.expect("a layer")).expect("no other owner")
    }

    #[track_caller]
    fn check(rules: &IgnoreRules, path: &str, is_directory: bool, expected: bool) {
        assert_eq!(rules.ignore(path.as_bytes(), is_directory), expected, "{path}");
    }

    #[test]
    fn later_lines_and_deeper_files_win() {
        let rules = rules(&[
            ("", Some("*.log\n!keep.log\n/top\nbuild/\n"), None),
            ("a/b", Some("!debug.log\n/top\n"), None),
        ]);
        check(&rules, "x.log", false, true);
        check(&rules, "keep.log", false, false);
        check(&rules, "a/b/debug.log", false, false);
        check(&rules, "a/b/other.log", false, true);
        check(&rules, "a/b/top", false, true);
        check(&rules, "a/b/c/top", false, false);
        check(&rules, "a/b/build", true, true);
        check(&rules, "a/b/build", false, false);
    }

    #[test]
    fn own_files_beat_gits_at_any_depth() {
        let rules = rules(&[("", None, Some("!*.gen\n*.txt")), ("a", Some("*.gen\n!x.txt"), None)]);
        check(&rules, "a/x.gen", false, false);
        check(&rules, "a/x.txt", false, true);
    }

    #[test]
    fn nonsense_lines_are_passed_over() {
        let rules = rules(&[("", Some("\u{feff}*.a\n[\n{x\n\n# no\n*.b\n"), None)]);
        check(&rules, "x.a", false, true);
        check(&rules, "x.b", false, true);
        check(&rules, "# no", false, false);
    }
}
