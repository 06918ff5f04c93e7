//! Applies hunks to the text of a file. Lines that no hunk removes keep every byte.

use super::{
    Hunk, HunkLine, PatchError, Side,
    file_text::{FileLine, FileText},
    indentation::IndentRule,
    leniency::LineComparison,
    search::{HunkPosition, HunkSearch},
};

const BYTE_ORDER_MARK: char = '\u{feff}';

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    pub text: String,
    /// Differences ignored to place the hunks; one sentence each, none when they matched exactly.
    pub leniency: Vec<String>,
}

/// Applies the hunks of one file, all or none.
pub(crate) fn apply(path: &str, text: &str, hunks: &[Hunk]) -> Result<Applied, PatchError> {
    // People who write a patch by hand leave out the byte order mark; git includes it.
    let shows_mark =
        |hunk: &Hunk| hunk.lines.iter().any(|line| line.text.starts_with(BYTE_ORDER_MARK));
    let body = text.strip_prefix(BYTE_ORDER_MARK).filter(|_| !hunks.iter().any(shows_mark));
    let file = FileText::new(body.unwrap_or(text));
    let mut search = HunkSearch::new(path, &file);
    let mut writer = PatchedText::new(&file, text.len());
    if body.is_some() {
        writer.text.push(BYTE_ORDER_MARK);
    }
    let mut leniency = Vec::new();
    for hunk in hunks {
        let position = search.locate(hunk)?;
        leniency.extend(sentences(hunk, &position));
        writer.write_hunk(hunk, &position);
    }
    writer.keep_until(file.len());
    Ok(Applied { text: writer.finish(), leniency })
}

/// Checks that the hunks of a deletion remove all lines of the file. Returns the ignored
/// differences.
pub(crate) fn check_deletion(
    path: &str,
    text: &str,
    hunks: &[Hunk],
) -> Result<Vec<String>, PatchError> {
    if hunks.is_empty() {
        return Ok(Vec::new());
    }
    let applied = apply(path, text, hunks)?;
    let rest = applied.text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&applied.text);
    let left = rest.lines().count();
    if left == 0 {
        return Ok(applied.leniency);
    }
    let lines = if left == 1 { "line that the patch does" } else { "lines that the patch does" };
    Err(PatchError::new(
        format!(
            "{path}: the patch deletes the file, but the file has {left} {lines} not remove; nothing was changed"
        ),
        format!(
            "read {path} again, and delete it with `*** Delete File: {path}` if all of it can be deleted"
        ),
    ))
}

fn sentences(hunk: &Hunk, position: &HunkPosition<'_>) -> Vec<String> {
    let mut sentences = position.remarks.clone();
    if position.comparison != LineComparison::Exact {
        let n_old = position.lines.iter().filter(|line| line.is_old()).count();
        sentences.push(format!(
            "hunk {} matched lines {}-{} only {}",
            hunk.number,
            position.start + 1,
            position.start + n_old,
            position.comparison.description()
        ));
    }
    sentences
}

struct PatchedText<'a> {
    file: &'a FileText<'a>,
    text: String,
    /// Index of the next line of the file.
    next: usize,
    /// Length of the ending of the last written line. A line without one gets it when another
    /// follows.
    last_ending: Option<usize>,
    /// True if the text must end in a newline, according to the marks of a hunk.
    final_newline: Option<bool>,
}

impl<'a> PatchedText<'a> {
    fn new(file: &'a FileText<'a>, capacity: usize) -> Self {
        let text = String::with_capacity(capacity);
        Self { file, text, next: 0, last_ending: None, final_newline: None }
    }

    fn write_hunk(&mut self, hunk: &Hunk, position: &HunkPosition<'_>) {
        self.keep_until(position.start);
        let old = self.old_lines(position);
        let rule = position.comparison.ignores_indentation().then(|| {
            let patch =
                position.lines.iter().filter(|line| line.is_old()).map(|line| line.text.as_str());
            IndentRule::between(patch.zip(old.iter().map(|line| line.text)))
        });
        let stated = hunk.states_endings && states_endings_of(position.lines, old);
        let mut ending = self.first_ending(position, old);
        for line in position.lines {
            if line.is_old() {
                let there = self.file.lines.get(self.next).filter(|there| !there.ending.is_empty());
                ending = there.map_or(ending, |there| there.ending);
            }
            match line.side {
                Side::Kept => self.keep_until(self.next + 1),
                Side::Removed => self.next += 1,
                Side::Added => {
                    let text = rule.as_ref().map(|rule| rule.apply(&line.text));
                    let stated_ending = if line.carriage_return { "\r\n" } else { "\n" };
                    self.push(
                        text.as_deref().unwrap_or(&line.text),
                        if stated { stated_ending } else { ending },
                    );
                }
            }
        }
        self.final_newline = self.marked_final_newline(position.lines);
    }

    fn old_lines(&self, position: &HunkPosition<'_>) -> &'a [FileLine<'a>] {
        let n_old = position.lines.iter().filter(|line| line.is_old()).count();
        self.file.lines.get(position.start..position.start + n_old).unwrap_or_default()
    }

    /// Returns the ending for lines added before any old line: that of the line above, else of the
    /// first line below, else the most common one.
    fn first_ending(&self, position: &HunkPosition<'_>, old: &[FileLine<'a>]) -> &'a str {
        let above = position.start.checked_sub(1).and_then(|above| self.file.lines.get(above));
        let mut near = above.into_iter().chain(old).map(|line| line.ending);
        near.find(|ending| !ending.is_empty()).unwrap_or(self.file.usual_ending)
    }

    /// Returns whether the text ends in a newline, according to `\ No newline at end of file`.
    /// Without a mark the end of the file is kept, because models never write the mark and git
    /// always does.
    fn marked_final_newline(&self, lines: &[HunkLine]) -> Option<bool> {
        let reaches_end = self.next == self.file.len();
        if !reaches_end || !lines.iter().any(|line| line.no_newline) {
            return None;
        }
        let last = lines.iter().rev().find(|line| line.is_new());
        Some(match last {
            Some(line) if line.side == Side::Added => !line.no_newline,
            // A kept line is unchanged: it lacks a newline only if it is the last of the file.
            Some(_) => !self.is_open(),
            None => true,
        })
    }

    fn keep_until(&mut self, end: usize) {
        while let Some(line) = self.file.lines.get(self.next).filter(|_| self.next < end) {
            self.push(line.text, line.ending);
            self.next += 1;
        }
    }

    fn push(&mut self, text: &str, ending: &str) {
        if self.is_open() {
            self.text.push_str(self.file.usual_ending);
        }
        self.text.push_str(text);
        self.text.push_str(ending);
        self.last_ending = Some(ending.len());
    }

    fn is_open(&self) -> bool {
        self.last_ending == Some(0)
    }

    fn finish(mut self) -> String {
        let wants_newline = self.final_newline.unwrap_or_else(|| self.file.ends_in_newline());
        match self.last_ending {
            Some(0) if wants_newline => self.text.push_str(self.file.usual_ending),
            Some(length) if !wants_newline => self.text.truncate(self.text.len() - length),
            _ => {}
        }
        self.text
    }
}

/// Returns true if the patch has the line endings of the file, so that the endings of its added
/// lines are significant. A patch that lost its `\r` does not.
fn states_endings_of(lines: &[HunkLine], old: &[FileLine<'_>]) -> bool {
    let old_lines = lines.iter().filter(|line| line.is_old());
    old_lines.zip(old).all(|(line, there)| match there.ending {
        "" => true,
        ending => line.carriage_return == (ending == "\r\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::patch::{PatchAction, parse};

    fn hunks(patch: &str) -> Vec<Hunk> {
        let files = parse(patch).expect("it parses");
        match files.into_iter().next().map(|file| file.action) {
            Some(PatchAction::Update { hunks, .. } | PatchAction::Delete { hunks }) => hunks,
            other => panic!("hunks: {other:?}"),
        }
    }

    fn envelope(body: &str) -> Vec<Hunk> {
        hunks(&format!("*** Begin Patch\n*** Update File: f\n{body}*** End Patch"))
    }

    fn diff(body: &str) -> Vec<Hunk> {
        hunks(&format!("--- a/f\n+++ b/f\n{body}"))
    }

    #[track_caller]
    fn check(hunks: &[Hunk], old: &str, new: &str) {
        let applied = apply("f", old, hunks).expect("it fits");
        assert_eq!(applied.text, new);
        assert_eq!(applied.leniency, Vec::<String>::new());
    }

    #[track_caller]
    fn check_lenient(hunks: &[Hunk], old: &str, new: &str, how: &str) {
        let applied = apply("f", old, hunks).expect("it fits");
        assert_eq!(applied.text, new);
        assert!(
            applied.leniency.iter().any(|sentence| sentence.contains(how)),
            "{:?}",
            applied.leniency
        );
    }

    #[test]
    fn no_hunks_change_nothing() {
        check(&[], "a\r\nb", "a\r\nb");
    }

    #[test]
    fn kept_lines_keep_the_bytes_of_the_file() {
        check_lenient(
            &envelope(" a\n-b\n+c\n"),
            "a  \nb\t\n",
            "a  \nc\n",
            "hunk 1 matched lines 1-2 only without the white space",
        );
        check_lenient(
            &envelope(" say \"a\"\n-b\n+c\n"),
            "say \u{201c}a\u{201d}\nb\n",
            "say \u{201c}a\u{201d}\nc\n",
            "typographic",
        );
    }

    #[test]
    fn added_lines_are_indented_only_when_indentation_was_ignored() {
        check_lenient(
            &envelope(" if a:\n-    b\n+    c\n+        d\n"),
            "\tif a:\n\t    b\n",
            "\tif a:\n\t    c\n\t        d\n",
            "indentation",
        );
        check_lenient(&envelope(" a\n-b\n+  c\n"), "a \nb\n", "a \n  c\n", "white space");
        check_lenient(
            &envelope("-'b'\n+c\n"),
            "    \u{2018}b\u{2019}\n",
            "    c\n",
            "indentation and with typographic",
        );
    }

    #[test]
    fn added_lines_end_like_the_line_before_them() {
        check(&envelope(" a\n+x\n b\n"), "a\r\nb\n", "a\r\nx\r\nb\n");
        check(&envelope(" b\n+x\n"), "a\r\nb\n", "a\r\nb\nx\n");
        check(&envelope("-b\n+x\n+y\n"), "a\nb\r\nc\n", "a\nx\r\ny\r\nc\n");
        check(&envelope("+x\n a\n"), "a\r\nb\n", "x\r\na\r\nb\n");
        check(&envelope("@@ a\n+x\n"), "a\r\nb\nc\n", "a\r\nx\r\nb\nc\n");
    }

    #[test]
    fn endings_of_git_count_when_its_old_lines_have_those_of_the_file() {
        check(&diff("@@ -1,2 +1,2 @@\n-a\r\n+a\n b\r\n"), "a\r\nb\r\n", "a\nb\r\n");
        check(&diff("@@ -1,2 +1,2 @@\n-a\n+x\n b\n"), "a\r\nb\r\n", "x\r\nb\r\n");
        check(&diff("@@ -1,2 +1,2 @@\n-a\r\n+x\r\n b\r\n"), "a\nb\n", "x\nb\n");
    }

    #[test]
    fn an_envelope_keeps_the_end_of_the_file_as_it_is() {
        check(&envelope("-b\n+c\n"), "a\nb", "a\nc");
        check(&envelope("-b\n+c\n"), "a\nb\n", "a\nc\n");
        check(&envelope(" b\n+c\n"), "a\nb", "a\nb\nc");
        check(&envelope("-b\n"), "a\nb", "a");
        check(&envelope("-b\n"), "a\nb\n", "a\n");
        check(&envelope("-b\n"), "b", "");
        check(&envelope("+b\n"), "", "b\n");
        check(&envelope("-a\n+x\n"), "a\nb", "x\nb");
        check(&envelope(" b\n+c\n"), "a\r\nb", "a\r\nb\r\nc");
    }

    #[test]
    fn the_marks_of_a_diff_decide_about_the_final_newline() {
        let mark = "\\ No newline at end of file\n";
        check(&diff(&format!("@@ -1 +1 @@\n-a\n{mark}+b\n")), "a", "b\n");
        check(&diff(&format!("@@ -1 +1 @@\n-a\n+b\n{mark}")), "a\n", "b");
        check(&diff(&format!("@@ -1 +1 @@\n-a\n+a\n{mark}")), "a\n", "a");
        check(&diff(&format!("@@ -1,2 +1 @@\n a\n-b\n{mark}")), "a\nb", "a\n");
        check(&diff(&format!("@@ -1,2 +1,2 @@\n-a\n+x\n b\n{mark}")), "a\nb", "x\nb");
        check(&diff(&format!("@@ -0,0 +1 @@\n+a\n{mark}")), "", "a");
        check(&diff("@@ -1 +1 @@\n-a\n+b\n"), "a", "b");
        // The file has grown since: a mark in its middle has no meaning.
        check(&diff(&format!("@@ -1 +1 @@\n-a\n+b\n{mark}")), "a\nz\n", "b\nz\n");
    }

    #[test]
    fn a_byte_order_mark_stays_in_front() {
        check(&envelope("-a\n+b\n"), "\u{feff}a\n", "\u{feff}b\n");
        check(&diff("@@ -1 +1 @@\n-\u{feff}a\n+a\n"), "\u{feff}a\n", "a\n");
    }

    #[test]
    fn empty_lines_at_the_end_of_a_hunk_are_optional() {
        check(&envelope(" a\n-b\n\n"), "a\nb\n\nc\n", "a\n\nc\n");
        check_lenient(
            &envelope(" a\n-b\n\n"),
            "a\nb\nc\n",
            "a\nc\n",
            "without the empty lines at its end",
        );
        check(&envelope("@@ a\n+x\n\n"), "a\nb\n\n", "a\nx\nb\n\n");
    }

    #[test]
    fn a_miscounted_hunk_is_reported() {
        check_lenient(
            &diff("@@ -1,7 +1,7 @@\n a\n-b\n+c\n"),
            "a\nb\n",
            "a\nc\n",
            "hunk 1 states 7 old and 7 new lines",
        );
    }

    #[test]
    fn a_deletion_must_remove_all_of_the_file() {
        let hunks = hunks("--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n");
        assert_eq!(check_deletion("f", "a\r\nb", &hunks), Ok(Vec::new()));
        let error = check_deletion("f", "a\nb\nc\n", &hunks).expect_err("c stays");
        assert!(
            error.message.contains("f: the patch deletes the file, but the file has 1 line"),
            "{error:?}"
        );
        assert!(check_deletion("f", "a\n", &hunks).is_err());
        assert_eq!(check_deletion("f", "a\n", &[]), Ok(Vec::new()));
    }
}
