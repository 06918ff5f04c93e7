//! Unified diffs between two texts, for people and models to read. They are not patch files: lines
//! are shown without their `\r`.

use std::collections::HashSet;
use std::fmt::Write;
use std::time::Duration;

use similar::{DiffOp, DiffTag, TextDiff, group_diff_ops};

/// Lines of context around each change, as in `diff -u` and git.
const CONTEXT_LINES: usize = 3;

/// Time limit of the search for a short diff; what is left then counts as replaced. Only texts of
/// more than 50,000 lines with little in common come near it. Tests are slower and run in parallel.
const SEARCH_TIMEOUT: Duration = Duration::from_millis(if cfg!(test) { 5_000 } else { 300 });

/// Maximum length of a line in a shortened diff.
const MAX_LINE_CHARS: usize = 500;
/// Maximum average size of a line in a shortened diff, so that 200 lines stay far below the limit
/// of a result.
const AVERAGE_LINE_BYTES: usize = 150;

const NO_NEWLINE: &str = "\\ No newline at end of file\n";

/// The differences between two texts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnifiedDiff {
    /// The unified diff; empty when the texts are equal.
    pub diff: String,
    /// Number of lines only in the new text.
    pub added: usize,
    /// Number of lines only in the old text.
    pub removed: usize,
}

/// Returns the diff from `old` to `new`. Lines that end in `\r\n` are shown without the `\r`,
/// unless only the ending differs: then they end in `␍`.
pub(crate) fn unified(path: &str, old: &str, new: &str) -> UnifiedDiff {
    let sides = Sides::new(old, new);
    let mut change = UnifiedDiff { diff: String::new(), added: 0, removed: 0 };
    let hunks = group_diff_ops(sides.differences(), CONTEXT_LINES);
    if hunks.is_empty() {
        return change;
    }
    let path = printable(path);
    change.diff = format!("--- a/{path}\n+++ b/{path}\n");
    for hunk in &hunks {
        sides.write_hunk(hunk, &mut change);
    }
    change
}

/// Returns the first `max_lines` lines of a diff, or fewer when they are long, and the number of
/// lines left out. Long lines are truncated.
pub(crate) fn shortened(diff: &str, max_lines: usize) -> String {
    let mut short = String::new();
    let mut lines = diff.split_inclusive('\n');
    for line in lines.by_ref().take(max_lines) {
        let line = line.strip_suffix('\n').unwrap_or(line);
        match line.char_indices().nth(MAX_LINE_CHARS) {
            Some((at, _)) => short.extend([line.get(..at).unwrap_or(line), "…\n"]),
            None => short.extend([line, "\n"]),
        }
        if short.len() > max_lines.saturating_mul(AVERAGE_LINE_BYTES) {
            break;
        }
    }
    let left_out = lines.count();
    if left_out > 0 {
        let lines = super::count(left_out, "more line");
        short.push_str(&format!("… {lines} of this diff left out\n"));
    }
    short
}

/// Replaces control characters: a line feed in a file name would look like a line of the diff.
fn printable(path: &str) -> String {
    path.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
}

struct Sides<'a> {
    old: Vec<&'a str>,
    new: Vec<&'a str>,
}

impl<'a> Sides<'a> {
    fn new(old: &'a str, new: &'a str) -> Self {
        let lines = |text: &'a str| text.split_inclusive('\n').collect();
        Self { old: lines(old), new: lines(new) }
    }

    /// Returns all lines of both sides as operations, in order; none when the sides are equal.
    fn differences(&self) -> Vec<DiffOp> {
        let (old, new) = (&self.old, &self.new);
        // Most edits change a few lines of a long file: leave equal ends out of the search.
        let before = old.iter().zip(new).take_while(|(a, b)| a == b).count();
        let shorter = old.len().min(new.len());
        let after = old
            .iter()
            .rev()
            .zip(new.iter().rev())
            .take(shorter - before)
            .take_while(|(a, b)| a == b)
            .count();
        let old_middle = &old[before..old.len() - after];
        let new_middle = &new[before..new.len() - after];
        if old_middle.is_empty() && new_middle.is_empty() {
            return Vec::new();
        }
        let mut operations = Vec::new();
        if before > 0 {
            operations.push(DiffOp::Equal { old_index: 0, new_index: 0, len: before });
        }
        operations.extend(
            search(old_middle, new_middle).into_iter().map(|operation| moved(operation, before)),
        );
        if after > 0 {
            let (old_index, new_index) = (old.len() - after, new.len() - after);
            operations.push(DiffOp::Equal { old_index, new_index, len: after });
        }
        operations
    }

    fn write_hunk(&self, hunk: &[DiffOp], change: &mut UnifiedDiff) {
        let marks = self.endings_that_differ(hunk);
        let old_start = hunk.first().map_or(0, |first| first.old_range().start);
        let new_start = hunk.first().map_or(0, |first| first.new_range().start);
        let old_len = hunk.iter().map(|operation| operation.old_range().len()).sum();
        let new_len = hunk.iter().map(|operation| operation.new_range().len()).sum();
        let old_span = span(old_start, old_len);
        let new_span = span(new_start, new_len);
        writeln!(change.diff, "@@ -{old_span} +{new_span} @@").expect("a string takes all");
        for operation in hunk {
            let (tag, old_range, new_range) = operation.as_tag_tuple();
            if tag == DiffTag::Equal {
                self.old[old_range]
                    .iter()
                    .for_each(|line| write_line(&mut change.diff, ' ', line, false));
                continue;
            }
            change.removed += old_range.len();
            change.added += new_range.len();
            for line in &self.old[old_range] {
                write_line(&mut change.diff, '-', line, marks.contains(body(line)));
            }
            for line in &self.new[new_range] {
                write_line(&mut change.diff, '+', line, marks.contains(body(line)));
            }
        }
    }

    /// Returns the lines of which the hunk changes only the ending. Without a mark the reader would
    /// see the same line twice.
    fn endings_that_differ(&self, hunk: &[DiffOp]) -> HashSet<&'a str> {
        let changed = || hunk.iter().filter(|operation| operation.tag() != DiffTag::Equal);
        let ended = |line: &&&'a str| line.ends_with('\n');
        let removed =
            changed().flat_map(|operation| &self.old[operation.old_range()]).filter(ended);
        let added = changed().flat_map(|operation| &self.new[operation.new_range()]).filter(ended);
        let removed: HashSet<_> =
            removed.map(|line| (body(line), line.ends_with("\r\n"))).collect();
        added
            .map(|line| (body(line), line.ends_with("\r\n")))
            .filter(|(line, carriage_return)| removed.contains(&(*line, !carriage_return)))
            .map(|(line, _)| line)
            .collect()
    }
}

fn search(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    TextDiff::configure().timeout(SEARCH_TIMEOUT).diff_slices(old, new).ops().to_vec()
}

fn moved(mut operation: DiffOp, by: usize) -> DiffOp {
    match &mut operation {
        DiffOp::Equal { old_index, new_index, .. }
        | DiffOp::Delete { old_index, new_index, .. }
        | DiffOp::Insert { old_index, new_index, .. }
        | DiffOp::Replace { old_index, new_index, .. } => {
            *old_index += by;
            *new_index += by;
        }
    }
    operation
}

/// Formats a range for a hunk header. An empty range has the number of the line before it, as in
/// `diff -u`.
fn span(start: usize, len: usize) -> String {
    match len {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        _ => format!("{},{len}", start + 1),
    }
}

fn write_line(diff: &mut String, sign: char, line: &str, ending_differs: bool) {
    diff.push(sign);
    diff.push_str(body(line));
    if ending_differs && line.ends_with("\r\n") {
        diff.push('␍');
    }
    diff.push('\n');
    if !line.ends_with('\n') {
        diff.push_str(NO_NEWLINE);
    }
}

/// Returns the line without its ending.
fn body(line: &str) -> &str {
    line.strip_suffix("\r\n").or_else(|| line.strip_suffix('\n')).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str, expected: &str) {
        let change = unified("a.txt", old, new);
        assert_eq!(change.diff, expected);
        assert_eq!(change.added, signs(expected, '+'), "lines added");
        assert_eq!(change.removed, signs(expected, '-'), "lines removed");
    }

    fn signs(diff: &str, sign: char) -> usize {
        diff.lines().skip(2).filter(|line| line.starts_with(sign)).count()
    }

    /// Applies a diff, line by line; endings are those of `\n` files.
    fn applied(old: &str, diff: &str) -> String {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let (mut taken, mut new, mut above) = (0, Vec::<String>::new(), "");
        for line in diff.lines().skip(2) {
            let (sign, rest) = line.split_at_checked(1).expect("a sign");
            match sign {
                "@" => {
                    let span =
                        rest.split(' ').nth(1).expect("the old span").trim_start_matches('-');
                    let (start, len) = span.split_once(',').unwrap_or((span, "1"));
                    let start: usize = start.parse().expect("a number");
                    let until = if len == "0" { start } else { start - 1 };
                    new.extend(old[taken..until].iter().map(|line| line.to_string()));
                    taken = until;
                }
                " " | "-" => {
                    assert_eq!(old[taken].strip_suffix('\n').unwrap_or(old[taken]), rest);
                    if sign == " " {
                        new.push(old[taken].to_owned());
                    }
                    taken += 1;
                }
                "+" => new.push(format!("{rest}\n")),
                "\\" if above == "+" => drop(new.last_mut().and_then(String::pop)),
                "\\" => {}
                other => panic!("no line starts with {other:?}"),
            }
            above = sign;
        }
        new.extend(old[taken..].iter().map(|line| line.to_string()));
        new.concat()
    }

    #[test]
    fn one_changed_line_is_shown_with_three_around() {
        check(
            "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
            "1\n2\n3\n4\nfive\n6\n7\n8\n9\n",
            "--- a/a.txt\n+++ b/a.txt\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n",
        );
    }

    #[test]
    fn distant_changes_get_separate_hunks() {
        let old: String = (1..=20).map(|line| format!("{line}\n")).collect();
        let new = old.replace("2\n3\n", "2\nX\n3\n").replace("19\n", "");
        let diff = unified("a", &old, &new).diff;
        assert_eq!(diff.lines().filter(|line| line.starts_with("@@")).count(), 2, "{diff}");
        assert_eq!(applied(&old, &diff), new);
    }

    #[test]
    fn equal_texts_have_no_diff() {
        check("a\nb", "a\nb", "");
        check("", "", "");
    }

    #[test]
    fn a_file_from_nothing_and_to_nothing() {
        check("", "a\nb\n", "--- a/a.txt\n+++ b/a.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n");
        check("a\n", "", "--- a/a.txt\n+++ b/a.txt\n@@ -1 +0,0 @@\n-a\n");
    }

    #[test]
    fn a_missing_final_newline_is_shown() {
        check(
            "a",
            "a\n",
            "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n",
        );
        check(
            "b\na",
            "c\na",
            "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-b\n+c\n a\n\\ No newline at end of file\n",
        );
    }

    #[test]
    fn carriage_returns_are_shown_only_when_the_ending_changed() {
        check(
            "a\r\nb\r\n",
            "a\r\nc\r\n",
            "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n",
        );
        check("a\r\nb\n", "a\nb\n", "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-a␍\n+a\n b\n");
        check("a\n", "a\r\n", "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+a␍\n");
    }

    #[test]
    fn a_path_cannot_forge_lines() {
        let diff = unified("a\n+++ b/evil", "a\n", "b\n").diff;
        assert_eq!(diff.lines().count(), 5, "{diff}");
    }

    #[test]
    fn one_line_among_half_a_million_is_found_at_once() {
        let old: String = (0..500_000).map(|line| format!("{line}\n")).collect();
        let new = old.replace("\n250000\n", "\nhere\n");
        let change = unified("a", &old, &new);
        assert_eq!((change.added, change.removed), (1, 1));
    }

    #[test]
    fn far_edits_of_a_long_text_do_not_replace_what_is_between() {
        let old: String = (0..50_000).map(|line| format!("{}\n", line % 500)).collect();
        let new = format!("first\n{old}last\n");
        let change = unified("a", &old, &new);
        assert_eq!((change.added, change.removed), (2, 0));
    }

    #[test]
    fn big_texts_with_little_in_common_have_a_diff() {
        let scrambled = |factor: usize| -> String {
            (0..15_000).map(|line| format!("{}\n", (line * factor) % 997)).collect()
        };
        let (old, new) = (scrambled(31), scrambled(57));
        let change = unified("a", &old, &new);
        assert_eq!(applied(&old, &change.diff), new);
    }

    #[test]
    fn a_long_diff_is_truncated_after_whole_lines() {
        assert_eq!(shortened("a\nb\nc\n", 3), "a\nb\nc\n");
        assert_eq!(shortened("a\nb\nc\n", 1), "a\n… 2 more lines of this diff left out\n");
        assert_eq!(shortened("a\nb\nc\n", 2), "a\nb\n… 1 more line of this diff left out\n");
        assert_eq!(shortened("", 0), "");
        assert_eq!(shortened("+a\r\n", 1), "+a\r\n");
        let long = format!("-{}\n+b\n", "\u{e9}".repeat(1_000_000));
        let cut = format!("-{}…\n+b\n", "\u{e9}".repeat(MAX_LINE_CHARS - 1));
        assert_eq!(shortened(&long, 200), cut);
        assert!(shortened(&long.repeat(300), 200).len() < 200 * AVERAGE_LINE_BYTES + 1_100);
    }

    fn unmarked(text: &str) -> String {
        text.replace('␍', "")
    }

    proptest! {
        #[test]
        fn applying_the_diff_gives_the_new_text(old in "([abc]?\n){0,12}[ab]?", new in "([abc]?\n){0,12}[ab]?") {
            let change = unified("a", &old, &new);
            prop_assert_eq!(applied(&old, &change.diff), new);
        }

        #[test]
        fn applying_it_to_any_endings_gives_the_new_lines(
            old in "([ab]?\r?\n){0,8}[ab]?", new in "([ab]?\r?\n){0,8}[ab]?",
        ) {
            let diff = unified("a", &old, &new).diff;
            prop_assert_eq!(diff.is_empty(), old == new);
            prop_assert_eq!(applied(&old.replace("\r\n", "\n"), &unmarked(&diff)), new.replace("\r\n", "\n"));
        }

        #[test]
        fn any_text_has_a_diff(old in any::<String>(), new in any::<String>(), max in 0_usize..5) {
            shortened(&unified(&old, &old, &new).diff, max);
        }
    }
}
