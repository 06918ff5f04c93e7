//! Patch files: parses the envelope that models write and the unified diffs that `git diff` and
//! `diff -u` write into one form, and applies them to texts. Nothing here opens a file. No part of a
//! patch is ignored silently.

mod apply;
mod closest;
mod envelope;
mod file_names;
mod file_text;
mod indentation;
mod leniency;
#[cfg(test)]
mod properties;
mod search;
mod unified;
mod wrapping;

use std::collections::HashMap;

pub(crate) use apply::{apply, check_deletion};

/// Maximum size of a patch. No model writes a larger one, and such a file is better copied.
const MAX_PATCH_BYTES: usize = 16 * 1024 * 1024;

/// The change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilePatch {
    pub path: String,
    pub action: PatchAction,
    /// Parts of the patch that a text cannot represent, such as a changed file mode; one sentence
    /// each.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PatchAction {
    Add {
        content: String,
    },
    /// The hunks contain the expected content, for [`check_deletion`]; none in an envelope.
    Delete {
        hunks: Vec<Hunk>,
    },
    /// Without hunks it is only a rename.
    Update {
        move_to: Option<String>,
        hunks: Vec<Hunk>,
    },
}

/// One connected change of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// Number of the hunk in its file section, from 1.
    pub number: usize,
    /// Line of the patch where it begins, from 1.
    pub patch_line: usize,
    /// Lines of the file above the hunk, in order.
    pub headers: Vec<String>,
    /// Line of the old file from the `@@` line, from 1 (0 for an empty file).
    pub stated_line: Option<usize>,
    pub lines: Vec<HunkLine>,
    /// True if its old lines are the last ones of the file.
    pub at_end: bool,
    /// Number of empty lines at its end, which are blank context or only space between two
    /// sections.
    pub blank_tail: usize,
    /// True if the endings of added lines are significant, as in the output of git.
    pub states_endings: bool,
    /// A deviation that was ignored when parsing.
    pub remark: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HunkLine {
    pub side: Side,
    /// Text without the line ending.
    pub text: String,
    /// True if the line ended in `\r\n`.
    pub carriage_return: bool,
    /// True if `\ No newline at end of file` follows.
    pub no_newline: bool,
    /// Line of the patch, from 1.
    pub patch_line: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Kept,
    Removed,
    Added,
}

/// The use of a path by a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathUse {
    Read,
    Write,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PatchError {
    pub message: String,
    pub hint: String,
}

impl PatchError {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

impl HunkLine {
    fn is_old(&self) -> bool {
        self.side != Side::Added
    }

    fn is_new(&self) -> bool {
        self.side != Side::Removed
    }
}

impl Hunk {
    /// Returns true if old and new lines are equal. A mark of a missing final newline and a
    /// significant ending also count as a change.
    fn changes_nothing(&self) -> bool {
        let as_written = |line: &HunkLine| {
            let ending = self.states_endings && line.carriage_return;
            (line.text.clone(), ending, line.no_newline)
        };
        let old = self.lines.iter().filter(|line| line.is_old()).map(as_written);
        let new = self.lines.iter().filter(|line| line.is_new()).map(as_written);
        old.eq(new)
    }

    fn check_change(&self, path: &str) -> Result<(), PatchError> {
        let (number, line) = (self.number, self.patch_line);
        if self.lines.is_empty() {
            return Err(PatchError::new(
                format!("{path}: hunk {number} (line {line} of the patch) has no lines"),
                "write the lines to remove with `-`, the lines to add with `+`, or drop the `@@` line",
            ));
        }
        if self.changes_nothing() {
            return Err(PatchError::new(
                format!("{path}: hunk {number} (line {line} of the patch) changes nothing"),
                "mark removed lines with `-` and added lines with `+`, or drop the hunk",
            ));
        }
        Ok(())
    }
}

/// Parses a patch in either form. Fails on the first line that it does not understand.
pub(crate) fn parse(patch: &str) -> Result<Vec<FilePatch>, PatchError> {
    if patch.len() > MAX_PATCH_BYTES {
        return Err(PatchError::new(
            format!("the patch has {} bytes, more than {MAX_PATCH_BYTES}", patch.len()),
            "split it into several patches",
        ));
    }
    let lines = wrapping::lines(patch);
    let lines = wrapping::unwrap(&lines);
    let files = if lines.iter().any(|line| envelope::is_begin(line.text)) {
        envelope::parse(lines)?
    } else {
        unified::parse(lines)?
    };
    check_each_path_once(&files)?;
    Ok(files)
}

/// Returns the paths that a patch reads and writes; none when it cannot be parsed. A changed file
/// is also read: the error of a hunk that does not match shows lines of the file.
pub(crate) fn paths(patch: &str) -> Vec<(String, PathUse)> {
    let mut touched = Vec::new();
    for file in parse(patch).unwrap_or_default() {
        let target = match file.action {
            PatchAction::Add { .. } => None,
            PatchAction::Delete { hunks } => {
                if !hunks.is_empty() {
                    touched.push((file.path.clone(), PathUse::Read));
                }
                None
            }
            PatchAction::Update { move_to, .. } => {
                touched.push((file.path.clone(), PathUse::Read));
                move_to
            }
        };
        touched.push((file.path, PathUse::Write));
        touched.extend(target.map(|path| (path, PathUse::Write)));
    }
    touched
}

/// Refuses two sections for one path: the result would depend on their order, which the two forms
/// define differently.
fn check_each_path_once(files: &[FilePatch]) -> Result<(), PatchError> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (index, file) in files.iter().enumerate() {
        let target = match &file.action {
            PatchAction::Update { move_to, .. } => move_to.as_ref(),
            _ => None,
        };
        for path in std::iter::once(&file.path).chain(target) {
            if let Some(other) = seen.insert(plain(path), index) {
                return Err(PatchError::new(
                    if other == index {
                        format!("section {} of the patch moves {path} to itself", index + 1)
                    } else {
                        format!(
                            "{path} is in sections {} and {} of the patch",
                            other + 1,
                            index + 1
                        )
                    },
                    "put all changes of a file into one section, or send two patches",
                ));
            }
        }
    }
    Ok(())
}

/// Returns the path without empty and `.` parts, so that `./a` and `a` are the same file.
fn plain(path: &str) -> String {
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

/// Formats a line for a message, truncated: a minified file has lines of a megabyte.
fn shown(line: &str) -> String {
    const MAX_CHARS: usize = 120;
    let line = line.trim_end_matches(['\r', '\n']);
    match line.char_indices().nth(MAX_CHARS) {
        Some((at, _)) => format!("`{}…`", line.get(..at).unwrap_or_default()),
        None => format!("`{line}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(patch: &str, expected: &[(&str, PathUse)]) {
        parse(patch).expect("it parses");
        let expected: Vec<_> =
            expected.iter().map(|(path, touch)| ((*path).to_owned(), *touch)).collect();
        assert_eq!(paths(patch), expected);
    }

    #[track_caller]
    fn check_error(patch: &str, message: &str) {
        let error = parse(patch).expect_err("it is wrong");
        assert!(error.message.contains(message), "{error:?}");
        assert!(!error.hint.is_empty(), "{error:?}");
        assert_eq!(paths(patch), []);
    }

    #[test]
    fn all_paths_of_an_envelope_are_returned_with_move_targets() {
        check(
            "*** Begin Patch\n*** Add File: a\n+x\n*** Delete File: b\n*** Update File: c\n*** Move to: d\n*** End Patch",
            &[
                ("a", PathUse::Write),
                ("b", PathUse::Write),
                ("c", PathUse::Read),
                ("c", PathUse::Write),
                ("d", PathUse::Write),
            ],
        );
    }

    #[test]
    fn all_paths_of_a_unified_diff_are_returned() {
        check(
            "diff --git a/c b/d\nrename from c\nrename to d\ndiff --git a/n b/n\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n--- a/o\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
            &[
                ("c", PathUse::Read),
                ("c", PathUse::Write),
                ("d", PathUse::Write),
                ("n", PathUse::Write),
                ("o", PathUse::Read),
                ("o", PathUse::Write),
            ],
        );
    }

    #[test]
    fn two_sections_for_one_path_are_refused() {
        let head = "*** Begin Patch\n*** Delete File: a\n";
        check_error(
            &format!("{head}*** Add File: a\n+x\n*** End Patch"),
            "a is in sections 1 and 2",
        );
        check_error(
            &format!("{head}*** Delete File: ./a\n*** End Patch"),
            "./a is in sections 1 and 2",
        );
        check_error(
            &format!("{head}*** Update File: b\n*** Move to: a\n*** End Patch"),
            "a is in sections 1 and 2",
        );
        check(
            &format!("{head}*** Delete File: b\n*** End Patch"),
            &[("a", PathUse::Write), ("b", PathUse::Write)],
        );
    }

    #[test]
    fn a_move_to_the_same_path_is_refused() {
        check_error(
            "*** Begin Patch\n*** Update File: a\n*** Move to: ./a\n*** End Patch",
            "moves ./a to itself",
        );
    }

    #[test]
    fn text_in_neither_form_is_refused() {
        for patch in ["", "\n\n", "hello", "```\n```", "*** Update File: a\n-x\n+y\n"] {
            check_error(patch, "neither");
        }
    }

    #[test]
    fn a_patch_over_the_limit_is_refused() {
        check_error(&"x".repeat(MAX_PATCH_BYTES + 1), "more than 16777216");
    }

    #[test]
    fn long_lines_are_truncated_between_characters() {
        assert_eq!(shown(&"ä".repeat(121)), format!("`{}…`", "ä".repeat(120)));
        assert_eq!(shown("a\r\n"), "`a`");
    }
}
