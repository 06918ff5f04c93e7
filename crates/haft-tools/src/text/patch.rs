//! Patch files: the envelope that models write and the unified diffs that `git diff` and `diff -u` write, read into one
//! shape and applied to texts. Nothing here opens a file, and nothing of a patch is left out silently.

mod apply;
mod closest;
mod envelope;
mod file_names;
mod file_text;
mod indentation;
mod looseness;
#[cfg(test)]
mod properties;
mod search;
mod unified;
mod wrapping;

use std::collections::HashMap;

pub(crate) use apply::{apply, check_deletion};

/// Larger patches are refused; no model writes one, and a file that large is better copied.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// What a patch does to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilePatch {
    pub path: String,
    pub action: Action,
    /// What the patch asks for that texts cannot show, such as a changed file mode; one sentence each.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Add {
        content: String,
    },
    /// The hunks are what the file must hold for [`check_deletion`]; none in the envelope.
    Delete {
        hunks: Vec<Hunk>,
    },
    /// Without hunks it is a rename only.
    Update {
        move_to: Option<String>,
        hunks: Vec<Hunk>,
    },
}

/// One connected change of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// Its number in its file's section, from 1.
    pub number: usize,
    /// The line of the patch text it begins in, from 1.
    pub patch_line: usize,
    /// Lines of the file that stand above it, in order.
    pub headers: Vec<String>,
    /// The line of the old file it was made at, from 1 (0 for an empty file).
    pub stated_line: Option<usize>,
    pub lines: Vec<HunkLine>,
    /// Its old lines are the last ones of the file.
    pub at_end: bool,
    /// So many of its last lines are completely empty: blank context, or only space between two sections.
    pub blank_tail: usize,
    /// The line endings of added lines mean something, as in the output of git.
    pub states_endings: bool,
    /// What had to be overlooked to read it.
    pub remark: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HunkLine {
    pub side: Side,
    /// Without its line ending.
    pub text: String,
    /// It ended in `\r\n`.
    pub carriage_return: bool,
    /// `\ No newline at end of file` follows it.
    pub no_newline: bool,
    /// The line of the patch text, from 1.
    pub patch_line: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Kept,
    Removed,
    Added,
}

/// What a patch would do with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Reads,
    Writes,
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
    /// The same lines before and after. Marks of a missing final newline and stated endings are a change too.
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

/// Reads a patch in either form. Fails on the first thing that it does not understand, and says where it stands.
pub(crate) fn parse(patch: &str) -> Result<Vec<FilePatch>, PatchError> {
    if patch.len() > MOST_BYTES {
        return Err(PatchError::new(
            format!("the patch has {} bytes, more than {MOST_BYTES}", patch.len()),
            "send it in several patches",
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

/// The paths that a patch would touch; none when it does not parse. What is changed is also read: a hunk that does not
/// fit shows lines of its file.
pub(crate) fn paths(patch: &str) -> Vec<(String, Touch)> {
    let mut touched = Vec::new();
    for file in parse(patch).unwrap_or_default() {
        let target = match file.action {
            Action::Add { .. } => None,
            Action::Delete { hunks } => {
                if !hunks.is_empty() {
                    touched.push((file.path.clone(), Touch::Reads));
                }
                None
            }
            Action::Update { move_to, .. } => {
                touched.push((file.path.clone(), Touch::Reads));
                move_to
            }
        };
        touched.push((file.path, Touch::Writes));
        touched.extend(target.map(|path| (path, Touch::Writes)));
    }
    touched
}

/// Two sections for one path would depend on their order, which the two forms do not define alike.
fn check_each_path_once(files: &[FilePatch]) -> Result<(), PatchError> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (index, file) in files.iter().enumerate() {
        let target = match &file.action {
            Action::Update { move_to, .. } => move_to.as_ref(),
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

/// The path without parts that mean nothing, so that `./a` and `a` are one file.
fn plain(path: &str) -> String {
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

/// A line shown in a message: cut, since a minified file has lines of a megabyte.
fn shown(line: &str) -> String {
    const MOST_CHARS: usize = 120;
    let line = line.trim_end_matches(['\r', '\n']);
    match line.char_indices().nth(MOST_CHARS) {
        Some((at, _)) => format!("`{}…`", line.get(..at).unwrap_or_default()),
        None => format!("`{line}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(patch: &str, expected: &[(&str, Touch)]) {
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
    fn every_path_of_an_envelope_is_told_move_targets_too() {
        check(
            "*** Begin Patch\n*** Add File: a\n+x\n*** Delete File: b\n*** Update File: c\n*** Move to: d\n*** End Patch",
            &[
                ("a", Touch::Writes),
                ("b", Touch::Writes),
                ("c", Touch::Reads),
                ("c", Touch::Writes),
                ("d", Touch::Writes),
            ],
        );
    }

    #[test]
    fn every_path_of_a_unified_diff_is_told() {
        check(
            "diff --git a/c b/d\nrename from c\nrename to d\ndiff --git a/n b/n\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n--- a/o\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
            &[
                ("c", Touch::Reads),
                ("c", Touch::Writes),
                ("d", Touch::Writes),
                ("n", Touch::Writes),
                ("o", Touch::Reads),
                ("o", Touch::Writes),
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
            &[("a", Touch::Writes), ("b", Touch::Writes)],
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
    fn neither_form_is_an_error_that_shows_both() {
        for patch in ["", "\n\n", "hello", "```\n```", "*** Update File: a\n-x\n+y\n"] {
            check_error(patch, "neither");
        }
    }

    #[test]
    fn a_patch_over_the_limit_is_refused() {
        check_error(&"x".repeat(MOST_BYTES + 1), "more than 16777216");
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        assert_eq!(shown(&"ä".repeat(121)), format!("`{}…`", "ä".repeat(120)));
        assert_eq!(shown("a\r\n"), "`a`");
    }
}
