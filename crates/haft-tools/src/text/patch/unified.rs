//! Parses unified diffs of any number of files, as `git diff`, `git format-patch` and `diff -u`
//! write them.

mod hunk;
mod section;

use super::{FilePatch, PatchError, shown, wrapping::PatchLine};

pub(super) use hunk::{blank_tail, body_line, ranges, seek};

pub(super) fn parse(lines: &[PatchLine<'_>]) -> Result<Vec<FilePatch>, PatchError> {
    let mut reader = DiffReader { lines, next: 0 };
    let mut files = Vec::new();
    skip_prose(&mut reader)?;
    while reader.peek().is_some() {
        files.push(section::section(&mut reader)?);
        between_sections(&mut reader)?;
    }
    if files.is_empty() {
        return Err(PatchError::new(
            "the text is neither a patch envelope nor a unified diff",
            "send `*** Begin Patch`, sections such as `*** Update File: path` with hunks, and `*** End Patch`; \
             or a diff with `--- a/path`, `+++ b/path` and `@@` hunks",
        ));
    }
    Ok(files)
}

struct DiffReader<'a, 'b> {
    lines: &'b [PatchLine<'a>],
    next: usize,
}

impl<'a> DiffReader<'a, '_> {
    fn at(&self, index: usize) -> Option<&'a str> {
        self.lines.get(index).map(|line| line.text)
    }

    fn peek(&self) -> Option<PatchLine<'a>> {
        self.lines.get(self.next).copied()
    }

    /// Returns the number of the next line in the patch as sent.
    fn number(&self) -> usize {
        self.peek().or(self.lines.last().copied()).map_or(0, |line| line.number)
    }

    fn skip_empty_lines(&mut self) {
        self.next = self.after_empty_lines(self.next);
    }

    /// Skips only completely empty lines: a line of spaces is context in a hunk.
    fn after_empty_lines(&self, mut index: usize) -> usize {
        while self.at(index).is_some_and(is_empty) {
            index += 1;
        }
        index
    }

    /// Returns true if only blank lines are left.
    fn is_only_blank_from(&self, index: usize) -> bool {
        self.lines.get(index..).unwrap_or_default().iter().all(PatchLine::is_blank)
    }

    /// Returns true if a file section begins here, with git's line or with its two names.
    fn is_file_header(&self, index: usize) -> bool {
        let Some(line) = self.at(index) else { return false };
        let git = ["diff --git ", "diff --cc ", "diff --combined "];
        git.iter().any(|start| line.starts_with(start)) || self.is_name_pair(index)
    }

    fn is_name_pair(&self, index: usize) -> bool {
        let begins = |index, marker| self.at(index).is_some_and(|line| line.starts_with(marker));
        begins(index, "--- ") && begins(index + 1, "+++ ")
    }
}

/// Returns true for an empty line; one of a mixed patch may still have a `\r`.
fn is_empty(line: &str) -> bool {
    line.is_empty() || line == "\r"
}

/// Returns true for the line `-- ` that mail programs and `git format-patch` put before a
/// signature.
fn is_signature(line: &str) -> bool {
    line.trim_end() == "--"
}

/// Skips a commit message and similar text, up to the next file. A hunk there would be lost, so it
/// is an error.
fn skip_prose(reader: &mut DiffReader<'_, '_>) -> Result<(), PatchError> {
    while let Some(line) = reader.peek() {
        if reader.is_file_header(reader.next) {
            break;
        }
        if line.text.starts_with("@@ -") {
            return Err(PatchError::new(
                format!(
                    "line {} of the patch, {}, is a hunk without a file",
                    line.number,
                    shown(line.text)
                ),
                "put `--- a/path` and `+++ b/path` before the first hunk of each file",
            ));
        }
        section::check_not_binary(&line, None)?;
        reader.next += 1;
    }
    Ok(())
}

/// Skips the text after the last hunk of a file: nothing, or a signature with prose up to the next
/// file.
fn between_sections(reader: &mut DiffReader<'_, '_>) -> Result<(), PatchError> {
    loop {
        if reader.is_only_blank_from(reader.next) {
            reader.next = reader.lines.len();
        }
        reader.skip_empty_lines();
        let Some(line) = reader.peek() else { return Ok(()) };
        if reader.is_file_header(reader.next) {
            return Ok(());
        }
        if is_signature(line.text) || line.text.starts_with("From ") {
            return skip_prose(reader);
        }
        section::check_not_binary(&line, None)?;
        let is_noise =
            ["diff ", "Index: ", "====="].iter().any(|start| line.text.starts_with(start));
        if !is_noise {
            return Err(PatchError::new(
                format!(
                    "line {} of the patch, {}, is not part of a hunk",
                    line.number,
                    shown(line.text)
                ),
                "begin context lines with a space, removed lines with `-` and added lines with `+`, and put other \
                 text outside of the patch",
            ));
        }
        reader.next += 1;
    }
}

#[cfg(test)]
mod tests {
    use crate::text::patch::{FilePatch, Hunk, PatchAction, parse};

    const NAMES: &str = "--- a/f\n+++ b/f\n";

    #[track_caller]
    fn one(patch: &str) -> FilePatch {
        let mut files = parse(patch).expect("it parses");
        assert_eq!(files.len(), 1, "{files:?}");
        files.remove(0)
    }

    #[track_caller]
    fn hunks(patch: &str) -> Vec<Hunk> {
        match one(patch).action {
            PatchAction::Update { hunks, .. } | PatchAction::Delete { hunks } => hunks,
            PatchAction::Add { .. } => panic!("an added file has no hunks"),
        }
    }

    /// Compares the actions of a patch, one line per file.
    #[track_caller]
    fn check(patch: &str, expected: &[&str]) {
        let words = |file: FilePatch| match file.action {
            PatchAction::Add { content } => format!("add {} {content:?}", file.path),
            PatchAction::Delete { hunks } => format!("delete {} {}", file.path, hunks.len()),
            PatchAction::Update { move_to: Some(to), hunks } => {
                format!("move {} {to} {}", file.path, hunks.len())
            }
            PatchAction::Update { move_to: None, hunks } => {
                format!("update {} {}", file.path, hunks.len())
            }
        };
        let files: Vec<_> = parse(patch).expect("it parses").into_iter().map(words).collect();
        assert_eq!(files, expected);
    }

    #[track_caller]
    fn check_error(patch: &str, message: &str) {
        let error = parse(patch).expect_err("it is wrong");
        assert!(error.message.contains(message), "{error:?}");
        assert!(!error.hint.is_empty(), "{error:?}");
    }

    #[test]
    fn the_output_of_git_is_parsed() {
        check(
            "diff --git a/new b/new\nnew file mode 100644\nindex 000..111\n--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+a\n+b\n\
             \\ No newline at end of file\ndiff --git a/empty b/empty\nnew file mode 100644\nindex 000..e69\n\
             diff --git a/gone b/gone\ndeleted file mode 100644\nindex 1..0\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
             diff --git a/none b/none\ndeleted file mode 100644\nindex e69..000\n\
             diff --git a/old name b/other name\nsimilarity index 100%\nrename from old name\nrename to other name\n\
             diff --git a/p b/q\nsimilarity index 80%\nrename from p\nrename to q\nindex 1..2 100644\n--- a/p\n+++ b/q\n\
             @@ -1 +1 @@\n-a\n+b\n@@ -9 +9 @@ fn\n-a\n+b\n",
            &[
                "add new \"a\\nb\"",
                "add empty \"\"",
                "delete gone 1",
                "delete none 0",
                "move old name other name 0",
                "move p q 2",
            ],
        );
    }

    #[test]
    fn the_output_of_diff_is_parsed() {
        check(
            "diff -ruN a/f b/f\n--- a/f\t2024-01-01 10:00:00.000000000 +0100\n+++ b/f\t2024-01-02 10:00:00.000000000 +0100\n\
             @@ -1 +1 @@\n-a\n+b\ndiff -ruN a/n b/n\n--- a/n\t1970-01-01 01:00:00.000000000 +0100\n+++ b/n\t2024-01-02 10:00:00 +0100\n\
             @@ -0,0 +1 @@\n+x\n--- x.orig\n+++ x\n@@ -1 +1 @@\n-a\n+b\n",
            &["update f 1", "add n \"x\\n\"", "update x 1"],
        );
    }

    #[test]
    fn a_mail_of_git_is_parsed_without_its_prose() {
        let mail = "From 1234 Mon Sep 17\nFrom: a\nSubject: [PATCH] x\n\ntext\n---\n f | 2 +-\n\ndiff --git a/f b/f\nindex 1..2 100644\n\
                    --- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n-- \n2.47.3\n\n";
        check(mail, &["update f 1"]);
        check(&format!("{mail}{}", mail.replace("/f", "/g")), &["update f 1", "update g 1"]);
    }

    #[test]
    fn a_file_without_hunks_or_names_is_an_error() {
        check_error(NAMES, "f: the patch has no hunk for it");
        check_error(
            "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n",
            "f: the patch changes only its mode",
        );
        check_error("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "without a name");
        check_error("--- \"a/\\q\"\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "line 1 of the patch");
        check_error("@@ -1 +1 @@\n-a\n+b\n", "a hunk without a file");
        check_error("--- x\n+++ y\n@@ -1 +1 @@\n-a\n+b\n", "two files, x and y");
    }

    #[test]
    fn unsupported_changes_are_refused() {
        let git = "diff --git a/f b/f\n";
        check_error(
            &format!("{git}index 1..2\nGIT binary patch\nliteral 1\n"),
            "`GIT binary patch`, is a change of a binary",
        );
        check_error(&format!("{git}index 1..2\nBinary files a/f and b/f differ\n"), "b/f: line 3");
        check_error("Binary files a/f and b/f differ\n", "line 1 of the patch");
        check_error(
            &format!("{NAMES}@@ -1 +1 @@\n-a\n+b\nBinary files x and y differ\n"),
            "binary",
        );
        check_error(&format!("{git}copy from f\ncopy to g\n"), "asks for a copy");
        check_error("diff --cc f\nindex 1,2..3\n--- a/f\n+++ b/f\n@@@ -1 -1 +1 @@@\n", "combined");
        check_error(&format!("{NAMES}@@@ -1 -1 +1 @@@\n--a\n++b\n"), "combined");
        check_error(
            &format!("{git}new file mode 120000\n{NAMES}@@ -0,0 +1 @@\n+x\n"),
            "f: the patch changes a symbolic link",
        );
        check_error(
            &format!("{git}index 1..2 160000\n{NAMES}@@ -1 +1 @@\n-x\n+y\n"),
            "f: the patch changes a submodule",
        );
    }

    #[test]
    fn ignored_modes_are_noted() {
        let notes = one(
            "diff --git a/f b/f\nnew file mode 100755\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n",
        )
        .notes;
        assert_eq!(notes, ["f: its mode 100755 was not applied"]);
        let notes = one(&format!("diff --git a/f b/f\nold mode 100644\nnew mode 100755\nindex 1..2\n{NAMES}@@ -1 +1 @@\n-a\n+b\n")).notes;
        assert_eq!(notes, ["f: the change of its mode from 100644 to 100755 was not applied"]);
    }

    #[test]
    fn wrong_counts_are_corrected_with_a_remark() {
        for body in [
            "@@ -1,9 +1,9 @@\n a\n-b\n+c\n",
            "@@ -1 +1 @@\n a\n-b\n+c\n",
            "@@ -1,9 +1 @@\n a\n-b\n+c\n\n",
        ] {
            let next = "diff --git a/g b/g\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-x\n+y\n";
            for patch in [
                format!("{NAMES}{body}"),
                format!("{NAMES}{body}{next}"),
                format!("{NAMES}{body}{}", next.replace("diff --git a/g b/g\n", "")),
            ] {
                let files = parse(&patch).expect("it parses");
                let Some(PatchAction::Update { hunks, .. }) =
                    files.first().map(|file| &file.action)
                else {
                    panic!("an update")
                };
                assert_eq!(hunks[0].lines.len(), 3, "{patch}");
                assert!(
                    hunks[0].remark.as_ref().is_some_and(|remark| remark.contains("has 2 and 2")),
                    "{hunks:?}"
                );
            }
        }
        assert_eq!(hunks(&format!("{NAMES}@@ -1,2 +1,2 @@\n a\n-b\n+c\n"))[0].remark, None);
    }

    #[test]
    fn ambiguous_wrong_counts_are_an_error() {
        check_error(
            &format!("{NAMES}@@ -1,9 +1,9 @@\n a\n-b\n+c"),
            "f: hunk 1 states 9 old and 9 new lines but has 2 and 2",
        );
        check_error(
            &format!("{NAMES}@@ -1,9 +1,9 @@\n-a\n--- x\n+++ y\n"),
            "f: hunk 1 (line 3 of the patch) does not end by its counts, and line 5",
        );
        check_error(
            &format!("{NAMES}@@ -1,9 +1,9 @@\n-a\n+b\nfn x() {{\n c\n"),
            "line 6, `fn x() {`",
        );
        check_error(&format!("{NAMES}@@ -1,9 +1,9 @@\n-a\n+b\n-- \n2.47\n"), "line 7, `2.47`");
    }

    #[test]
    fn blank_context_at_the_end_is_counted() {
        for end in [" \n", "\n", " ", "\n\n"] {
            let hunks = hunks(&format!("{NAMES}@@ -1 +1,2 @@\n+a\n{end}"));
            assert_eq!((hunks[0].lines.len(), hunks[0].remark.as_ref()), (2, None), "{end:?}");
        }
    }

    #[test]
    fn counts_distinguish_lines_that_look_like_headers() {
        let lines = &hunks(&format!("{NAMES}@@ -1,2 +1,2 @@\n--- x\n+++ y\n-@@\n+-- \n"))[0].lines;
        assert_eq!(
            lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(),
            ["-- x", "++ y", "@@", "-- "]
        );
    }

    #[test]
    fn lines_after_a_hunk_are_not_dropped() {
        check_error(
            &format!("{NAMES}@@ -1 +1 @@\n-a\n+b\nhello\n"),
            "line 6 of the patch, `hello`, is not part of a hunk",
        );
        check_error(&format!("{NAMES}@@ -1 +1 @@\n-a\n+b\nOnly in x: y\n"), "line 6");
    }

    #[test]
    fn a_bare_at_line_has_no_counts_and_may_have_a_line() {
        let hunks = hunks(&format!("{NAMES}@@\n-a\n+b\n@@ fn x @@\n@@ fn y\n-a\n\n"));
        assert_eq!(hunks[0].headers, Vec::<String>::new());
        assert_eq!(hunks[1].headers, ["fn x", "fn y"]);
        assert_eq!(
            (hunks[1].stated_line, hunks[1].remark.as_ref(), hunks[1].blank_tail),
            (None, None, 1)
        );
    }

    #[test]
    fn hunks_without_change_are_errors() {
        check_error(
            &format!("{NAMES}@@ -1 +1 @@\n a\n"),
            "f: hunk 1 (line 3 of the patch) changes nothing",
        );
        check_error(&format!("{NAMES}@@ -1 +1 @@\n-a\n+a\n"), "changes nothing");
        check_error(&format!("{NAMES}@@ -0,0 +0,0 @@\n"), "has no lines");
    }

    #[test]
    fn a_new_file_has_only_added_and_a_deleted_one_only_removed_lines() {
        check_error(
            "--- /dev/null\n+++ b/f\n@@ -1 +1,2 @@\n a\n+b\n",
            "f: the patch marks it as new",
        );
        check_error("--- a/f\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "f: the patch deletes it");
        check_error("--- a/f\n+++ /dev/null\n", "f: the patch deletes it");
    }

    #[test]
    fn a_new_file_keeps_its_carriage_returns_when_the_headers_have_none() {
        check("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\r\n", &["add f \"a\\r\\n\""]);
        check("--- /dev/null\r\n+++ b/f\r\n@@ -0,0 +1 @@\r\n+a\r\n", &["add f \"a\\n\""]);
    }

    #[test]
    fn wrappers_are_tolerated() {
        check(&format!("\n\n{NAMES}@@ -1 +1 @@\n-a\n+b\n\n   \n\n"), &["update f 1"]);
        check(&format!("\n```diff\n{NAMES}@@ -1 +1 @@\n-a\n+b\n```\n"), &["update f 1"]);
        check(&format!("git apply <<'EOF'\n{NAMES}@@ -1 +1 @@\n-a\n+b\nEOF\n"), &["update f 1"]);
        check(
            &format!("Index: f\n=====\n{NAMES}@@ -1 +1 @@\n-a\n+b\n").replace('\n', "\r\n"),
            &["update f 1"],
        );
    }
}
