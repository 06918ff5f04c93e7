//! Line patches: edits by line numbers of the original text. Either all apply or none does.

use std::cmp::Reverse;
use std::iter;

use schemars::JsonSchema;
use serde::Deserialize;

/// One range of lines and its new content.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinePatch {
    /// The first line of the range, counted from 1.
    #[schemars(range(min = 1))]
    pub start_line: usize,
    /// The last line of the range; 0 inserts before start_line and replaces nothing.
    pub end_line: usize,
    /// The new lines; empty deletes the range.
    pub content: String,
}

impl LinePatch {
    fn inserts(&self) -> bool {
        self.end_line == 0
    }

    fn lines(&self) -> String {
        match (self.inserts(), self.start_line == self.end_line) {
            (true, _) => format!("insert before line {}", self.start_line),
            (false, true) => format!("line {}", self.start_line),
            (false, false) => format!("lines {}-{}", self.start_line, self.end_line),
        }
    }
}

/// Applies all patches, or returns everything that is wrong with them. Untouched lines keep every
/// byte. New lines take the ending of the lines that they replace or are next to. A text that ends
/// without a newline still does afterwards, unless its last line is then blank, because only a
/// newline makes a blank last line a line.
pub(crate) fn apply(text: &str, patches: &[LinePatch]) -> Result<String, Vec<String>> {
    if patches.is_empty() {
        return Err(vec!["no patches given".to_owned()]);
    }
    let lines: Vec<LineWithEnding<'_>> =
        text.split_inclusive('\n').map(LineWithEnding::of).collect();
    let mut problems = Vec::new();
    let mut valid = Vec::new();
    for (index, patch) in patches.iter().enumerate() {
        match problem(patch, lines.len()) {
            Some(problem) => {
                problems.push(format!("patch {} ({}): {problem}", index + 1, patch.lines()))
            }
            None => valid.push((index + 1, patch)),
        }
    }
    // An insert comes before a replacement of the same line; the stable sort keeps the order of
    // inserts at one line.
    valid.sort_by_key(|(_, patch)| (patch.start_line, Reverse(patch.inserts())));
    problems.extend(overlaps(&valid));
    if problems.is_empty() { Ok(patched(&lines, &valid)) } else { Err(problems) }
}

/// Checks one patch alone, and returns its problem.
fn problem(patch: &LinePatch, lines: usize) -> Option<String> {
    let (start, end) = (patch.start_line, patch.end_line);
    let has = match lines {
        0 => "the text has no lines".to_owned(),
        1 => "the text has only 1 line".to_owned(),
        _ => format!("the text has only {lines} lines"),
    };
    if start == 0 {
        return Some("start_line is 0, but lines are counted from 1".to_owned());
    }
    if patch.inserts() {
        if start > lines + 1 {
            return Some(format!("{has}; to append, use start_line {}", lines + 1));
        }
        let empty = patch.content.is_empty();
        return empty
            .then(|| r#"content is empty; to insert a blank line, use content "\n""#.to_owned());
    }
    if end < start {
        return Some(format!(
            "end_line {end} is before start_line {start}; to insert before line {start}, use end_line 0"
        ));
    }
    (end > lines).then_some(has)
}

/// Returns one problem for each patch that begins inside an earlier one.
fn overlaps(sorted: &[(usize, &LinePatch)]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut furthest: Option<(usize, &LinePatch)> = None;
    for &(number, patch) in sorted {
        if let Some((other, reaching)) =
            furthest.filter(|(_, reaching)| patch.start_line <= reaching.end_line)
        {
            problems.push(format!(
                "patch {number} ({}) overlaps patch {other} ({}); all line numbers refer to the text before any patch",
                patch.lines(),
                reaching.lines()
            ));
        }
        if furthest.is_none_or(|(_, reaching)| patch.end_line > reaching.end_line) {
            furthest = Some((number, patch));
        }
    }
    problems
}

#[derive(Clone, Copy)]
struct LineWithEnding<'a> {
    text: &'a str,
    /// `\n`, `\r\n`, or nothing for a last line without a newline.
    ending: &'a str,
}

impl<'a> LineWithEnding<'a> {
    fn of(line: &'a str) -> Self {
        let text = line.strip_suffix("\r\n").or_else(|| line.strip_suffix('\n')).unwrap_or(line);
        Self { text, ending: line.strip_prefix(text).expect("the text is where the line begins") }
    }
}

fn patched(lines: &[LineWithEnding<'_>], sorted: &[(usize, &LinePatch)]) -> String {
    let contents: Vec<String> =
        sorted.iter().map(|(_, patch)| patch.content.replace("\r\n", "\n")).collect();
    let mut new: Vec<LineWithEnding<'_>> = Vec::with_capacity(lines.len());
    let mut taken = 0;
    for ((_, patch), content) in sorted.iter().zip(&contents) {
        let first = patch.start_line - 1;
        new.extend(&lines[taken..first]);
        for (nth, text) in content_lines(content).enumerate() {
            // The nth new line replaces the nth old one, in case the endings are mixed.
            let model = if patch.inserts() { first } else { (first + nth).min(patch.end_line - 1) };
            new.push(LineWithEnding { text, ending: ending_near(lines, model) });
        }
        taken = if patch.inserts() { first } else { patch.end_line };
    }
    new.extend(&lines[taken..]);
    joined(lines, new)
}

fn content_lines(content: &str) -> impl Iterator<Item = &str> {
    let mut lines =
        (!content.is_empty()).then(|| content.strip_suffix('\n').unwrap_or(content).split('\n'));
    iter::from_fn(move || lines.as_mut()?.next())
}

/// Returns the ending of a line, or of the line before it at the end of the text.
fn ending_near<'a>(lines: &[LineWithEnding<'a>], index: usize) -> &'a str {
    let own = lines.get(index).map(|line| line.ending).filter(|ending| !ending.is_empty());
    let before =
        || index.checked_sub(1).and_then(|before| lines.get(before)).map(|line| line.ending);
    own.or_else(before)
        .filter(|ending| !ending.is_empty())
        .or_else(|| last_ending(lines))
        .unwrap_or("\n")
}

/// Returns the ending of the last line that has one: only the last line of a text can lack it.
fn last_ending<'a>(lines: &[LineWithEnding<'a>]) -> Option<&'a str> {
    lines.iter().rev().take(2).map(|line| line.ending).find(|ending| !ending.is_empty())
}

fn joined(old: &[LineWithEnding<'_>], new: Vec<LineWithEnding<'_>>) -> String {
    let ended_without = old.last().is_some_and(|line| line.ending.is_empty());
    let Some(last) = new.len().checked_sub(1) else { return String::new() };
    let mut text = String::with_capacity(new.iter().map(|line| line.text.len() + 2).sum());
    for (index, line) in new.into_iter().enumerate() {
        text.push_str(line.text);
        if index == last && ended_without && !line.text.is_empty() {
            continue;
        }
        // The old last line may now be followed by others.
        let ending =
            if line.ending.is_empty() { last_ending(old).unwrap_or("\n") } else { line.ending };
        text.push_str(ending);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn patch(start_line: usize, end_line: usize, content: &str) -> LinePatch {
        LinePatch { start_line, end_line, content: content.to_owned() }
    }

    #[track_caller]
    fn check(text: &str, patches: &[(usize, usize, &str)], expected: &str) {
        let patches: Vec<_> =
            patches.iter().map(|&(start, end, content)| patch(start, end, content)).collect();
        assert_eq!(apply(text, &patches).as_deref(), Ok(expected));
    }

    #[track_caller]
    fn check_refused(text: &str, patches: &[(usize, usize, &str)], expected: &[&str]) {
        let patches: Vec<_> =
            patches.iter().map(|&(start, end, content)| patch(start, end, content)).collect();
        let problems = apply(text, &patches).expect_err("a problem");
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, part) in problems.iter().zip(expected) {
            assert!(problem.contains(part), "{problem:?} does not contain {part:?}");
        }
    }

    const FIVE: &str = "1\n2\n3\n4\n5\n";

    #[test]
    fn lines_are_replaced_deleted_and_inserted() {
        check(FIVE, &[(2, 3, "x\ny\nz\n")], "1\nx\ny\nz\n4\n5\n");
        check(FIVE, &[(2, 4, "")], "1\n5\n");
        check(FIVE, &[(1, 0, "0")], "0\n1\n2\n3\n4\n5\n");
        check(FIVE, &[(6, 0, "6\n")], "1\n2\n3\n4\n5\n6\n");
        check(FIVE, &[(1, 5, "")], "");
    }

    #[test]
    fn numbers_are_those_of_the_original_in_any_order() {
        check(FIVE, &[(5, 5, "E"), (1, 1, "A\nB"), (3, 0, "C")], "A\nB\n2\nC\n3\n4\nE\n");
    }

    #[test]
    fn overlapping_ranges_are_refused_instead_of_losing_lines() {
        check_refused(
            FIVE,
            &[(1, 3, "a"), (2, 4, "b")],
            &["patch 2 (lines 2-4) overlaps patch 1 (lines 1-3)"],
        );
        check_refused(
            FIVE,
            &[(2, 2, "a"), (2, 2, "b")],
            &["patch 2 (line 2) overlaps patch 1 (line 2)"],
        );
        check_refused(
            FIVE,
            &[(1, 5, "a"), (2, 2, "b"), (4, 4, "c")],
            &["patch 2 (line 2) overlaps patch 1", "patch 3 (line 4) overlaps patch 1"],
        );
        check_refused(
            FIVE,
            &[(1, 3, "a"), (2, 0, "b")],
            &["patch 2 (insert before line 2) overlaps patch 1"],
        );
        check_refused(
            FIVE,
            &[(3, 0, "b"), (1, 3, "a")],
            &["patch 1 (insert before line 3) overlaps patch 2"],
        );
    }

    #[test]
    fn inserts_at_one_line_keep_their_order() {
        check(FIVE, &[(2, 0, "a"), (2, 0, "b")], "1\na\nb\n2\n3\n4\n5\n");
    }

    #[test]
    fn an_insert_beside_a_replacement_comes_first_and_stays() {
        check(FIVE, &[(2, 2, "new"), (2, 0, "before")], "1\nbefore\nnew\n3\n4\n5\n");
        check(FIVE, &[(2, 0, "before"), (2, 3, "")], "1\nbefore\n4\n5\n");
        check(FIVE, &[(1, 2, "new"), (3, 0, "after")], "new\nafter\n3\n4\n5\n");
    }

    #[test]
    fn missing_lines_are_refused() {
        check_refused(FIVE, &[(0, 0, "a")], &["patch 1 (insert before line 0): start_line is 0"]);
        check_refused(FIVE, &[(0, 2, "a")], &["start_line is 0"]);
        check_refused(FIVE, &[(4, 2, "a")], &["end_line 2 is before start_line 4"]);
        check_refused(FIVE, &[(7, 0, "a")], &["only 5 lines; to append, use start_line 6"]);
        check_refused(FIVE, &[(5, 6, "a")], &["patch 1 (lines 5-6): the text has only 5 lines"]);
        check_refused("", &[(1, 1, "a")], &["the text has no lines"]);
        check_refused(FIVE, &[(usize::MAX, usize::MAX, "a")], &["only 5 lines"]);
    }

    #[test]
    fn all_problems_are_returned_at_once() {
        let patches = [(0, 1, "a"), (1, 2, "b"), (2, 9, "c"), (2, 3, "d")];
        check_refused(
            FIVE,
            &patches,
            &["patch 1 ", "patch 3 ", "patch 4 (lines 2-3) overlaps patch 2 (lines 1-2)"],
        );
        check_refused(FIVE, &[], &["no patches"]);
    }

    #[test]
    fn a_final_newline_in_content_is_not_an_extra_line() {
        check("a\nb\n", &[(1, 1, "x")], "x\nb\n");
        check("a\nb\n", &[(1, 1, "x\n")], "x\nb\n");
        check("a\nb\n", &[(1, 1, "x\n\n")], "x\n\nb\n");
        check("a\nb\n", &[(1, 1, "\n")], "\nb\n");
    }

    #[test]
    fn a_blank_line_is_inserted_with_a_newline() {
        check("a\nb\n", &[(2, 0, "\n")], "a\n\nb\n");
        check_refused("a\nb\n", &[(2, 0, "")], &[r#"to insert a blank line, use content "\n""#]);
    }

    #[test]
    fn carriage_returns_are_kept() {
        check("a\r\nb\r\nc\r\n", &[(2, 2, "x\ny")], "a\r\nx\r\ny\r\nc\r\n");
        check("a\r\nb\r\n", &[(3, 0, "c\r\nd\n")], "a\r\nb\r\nc\r\nd\r\n");
        check("a\nb\r\nc\n", &[(2, 2, "x")], "a\nx\r\nc\n");
        check("a\nb\r\nc\n", &[(1, 2, "x\ny\nz")], "x\ny\r\nz\r\nc\n");
        check("a\r\nb", &[(3, 0, "c")], "a\r\nb\r\nc");
        check("a\r\nb", &[(1, 2, "c\nd")], "c\r\nd");
    }

    #[test]
    fn the_end_of_the_text_is_kept() {
        check("a\nb", &[(1, 1, "x\n")], "x\nb");
        check("a\nb", &[(2, 2, "x\n")], "a\nx");
        check("a\nb", &[(3, 0, "c\n")], "a\nb\nc");
        check("a\nb", &[(2, 2, "")], "a");
        check("a", &[(2, 0, "b")], "a\nb");
        check("a\nb\n", &[(2, 2, "x")], "a\nx\n");
        check("", &[(1, 0, "x")], "x\n");
    }

    #[test]
    fn a_blank_last_line_keeps_the_newline_that_makes_it_one() {
        check("a\nb", &[(2, 2, "\n")], "a\n\n");
        check("a\n\nb", &[(3, 3, "")], "a\n\n");
    }

    fn text_lines(text: &str) -> Vec<String> {
        text.split_inclusive('\n').map(|line| LineWithEnding::of(line).text.to_owned()).collect()
    }

    /// Applies the patches to a list of lines, from the last to the first.
    fn naive(text: &str, patches: &[LinePatch]) -> Option<Vec<String>> {
        let mut lines: Vec<Option<String>> = text_lines(text).into_iter().map(Some).collect();
        let mut before: Vec<Vec<String>> = vec![Vec::new(); lines.len() + 1];
        let mut owned = vec![false; lines.len()];
        let mut replacements = vec![Vec::new(); lines.len() + 1];
        for patch in patches.iter().filter(|patch| patch.end_line > 0) {
            if patch.start_line == 0 || patch.end_line < patch.start_line {
                return None;
            }
            for line in patch.start_line..=patch.end_line {
                if std::mem::replace(owned.get_mut(line - 1)?, true) {
                    return None;
                }
                lines[line - 1] = None;
            }
            replacements[patch.start_line - 1].extend(text_lines(&patch.content));
        }
        for patch in patches.iter().filter(|patch| patch.end_line == 0) {
            let inside = |other: &LinePatch| {
                other.start_line < patch.start_line && patch.start_line <= other.end_line
            };
            if patch.content.is_empty() || patches.iter().any(inside) {
                return None;
            }
            before.get_mut(patch.start_line.checked_sub(1)?)?.extend(text_lines(&patch.content));
        }
        lines.push(None);
        Some(
            (0..lines.len())
                .flat_map(|at| {
                    [
                        before[at].clone(),
                        replacements[at].clone(),
                        Vec::from_iter(lines[at].clone()),
                    ]
                    .concat()
                })
                .collect(),
        )
    }

    fn any_patch() -> impl Strategy<Value = LinePatch> {
        let content = "([xy]?\r?\n){0,3}[xy]?";
        prop_oneof![
            (0_usize..8, content).prop_map(|(start, content)| patch(start, 0, &content)),
            (0_usize..8, 0_usize..3, content).prop_map(|(start, more, content)| patch(
                start,
                start + more,
                &content
            )),
        ]
    }

    proptest! {
        #[test]
        fn patches_equal_edits_of_a_list_of_lines(
            text in "([ab]?\r?\n){0,6}[ab]?",
            patches in prop::collection::vec(any_patch(), 1..4),
        ) {
            let result = apply(&text, &patches);
            prop_assert_eq!(result.clone().ok().map(|new| text_lines(&new)), naive(&text, &patches));
            if let Ok(new) = result {
                let last_is_blank = text_lines(&new).last().is_none_or(String::is_empty);
                let ended = text.is_empty() || text.ends_with('\n');
                prop_assert_eq!(new.ends_with('\n'), !new.is_empty() && (ended || last_is_blank));
                let crs = text.contains("\r\n");
                prop_assert!(crs || !new.contains('\r'), "no carriage returns come from content");
            }
        }

        #[test]
        fn untouched_lines_keep_every_byte(
            text in "([ab\r]?\r?\n){1,6}[ab]?",
            start in 1_usize..6,
            more in 0_usize..3,
            content in "([xy]?\n){0,3}z",
        ) {
            let lines: Vec<&str> = text.split_inclusive('\n').collect();
            for end in [0, start + more] {
                let after = if end == 0 { start - 1 } else { end };
                let Ok(new) = apply(&text, &[patch(start, end, &content)]) else { continue };
                prop_assert!(new.starts_with(&lines[..start - 1].concat()));
                prop_assert!(new.ends_with(&lines[after..].concat()));
            }
        }

        #[test]
        fn no_text_or_patch_panics(
            text in any::<String>(), start in any::<usize>(), end in any::<usize>(), content in any::<String>(),
        ) {
            let _ = apply(&text, &[patch(start, end, &content), patch(start % 4, end % 4, &content)]);
        }
    }
}
