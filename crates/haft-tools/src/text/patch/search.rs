//! Finds where a hunk belongs in a file. It never guesses: several equal places are an error,
//! unless a stated line number or an `@@` line decides between them.

mod index;

use std::cell::{Cell, OnceCell};

use super::{
    Hunk, HunkLine, PatchError, Side, closest, file_text::FileText, leniency::LineComparison,
};
use index::LineKeyIndex;

/// Maximum number of line comparisons for one file, well under a second. Repetitive files could
/// otherwise take hours.
const MAX_COMPARISONS: usize = 200_000_000;
/// Maximum number of places listed when a hunk matches several.
const MAX_LISTED_PLACES: usize = 6;

/// The place of a hunk in the file.
#[derive(Debug)]
pub(super) struct HunkPosition<'h> {
    /// The index of the first old line.
    pub start: usize,
    /// The hunk's lines, without blank ones that are only space.
    pub lines: &'h [HunkLine],
    pub comparison: LineComparison,
    pub remarks: Vec<String>,
}

/// A file that is searched for one hunk after the other.
pub(super) struct HunkSearch<'a> {
    pub path: &'a str,
    pub file: &'a FileText<'a>,
    /// The first line after all earlier hunks.
    pub position: usize,
    /// Distance of the last hunk from its stated line.
    drift: isize,
    indexes: [OnceCell<LineKeyIndex<'a>>; LineComparison::ALL.len()],
    work_left: Cell<usize>,
}

struct HunkMatch {
    start: usize,
    comparison: LineComparison,
    remark: Option<String>,
}

/// The maximum number of comparisons is reached.
struct Exhausted;

impl<'a> HunkSearch<'a> {
    pub(super) fn new(path: &'a str, file: &'a FileText<'a>) -> Self {
        Self {
            path,
            file,
            position: 0,
            drift: 0,
            indexes: std::array::from_fn(|_| OnceCell::new()),
            work_left: Cell::new(MAX_COMPARISONS),
        }
    }

    pub(super) fn locate<'h>(&mut self, hunk: &'h Hunk) -> Result<HunkPosition<'h>, PatchError> {
        let bare =
            hunk.lines.get(..hunk.lines.len().saturating_sub(hunk.blank_tail)).unwrap_or_default();
        // Blank lines alone match nowhere in particular: then they are space before the next
        // section.
        let only_blank = bare.iter().all(|line| line.side == Side::Added);
        let mut lines = if only_blank { bare } else { &hunk.lines };
        let mut remarks = Vec::from_iter(hunk.remark.clone());
        let mut found = self.find(hunk, lines)?;
        if found.is_none() && bare.len() < lines.len() {
            lines = bare;
            found = self.find(hunk, lines)?;
            remarks.push(format!(
                "hunk {} matches only without the empty lines at its end",
                hunk.number
            ));
        }
        let Some(found) = found else { return Err(closest::not_found(self, hunk, lines)) };
        remarks.extend(found.remark);
        let n_old = lines.iter().filter(|line| line.is_old()).count();
        self.position = found.start + n_old;
        if let Some(stated) = hunk.stated_line {
            self.drift = signed(found.start) - signed(stated.saturating_sub(1));
        }
        Ok(HunkPosition { start: found.start, lines, comparison: found.comparison, remarks })
    }

    /// Returns where the hunk would be if the file had no other changes above it.
    pub(super) fn expected(&self, hunk: &Hunk) -> usize {
        let Some(stated) = hunk.stated_line else { return self.position };
        let expected = signed(stated.saturating_sub(1)).saturating_add(self.drift);
        usize::try_from(expected)
            .unwrap_or(0)
            .clamp(self.position, self.file.len().max(self.position))
    }

    fn find(&self, hunk: &Hunk, lines: &[HunkLine]) -> Result<Option<HunkMatch>, PatchError> {
        let old: Vec<&str> =
            lines.iter().filter(|line| line.is_old()).map(|line| line.text.as_str()).collect();
        if let Some(missing) =
            hunk.headers.iter().find(|header| self.header_lines(header).is_empty())
        {
            return Err(closest::header_not_found(self, hunk, missing));
        }
        if old.is_empty() {
            return self.addition(hunk).map(Some);
        }
        let found = if hunk.at_end {
            Ok(Ok(self.at_end(&old)))
        } else if hunk.stated_line.is_some() {
            self.nearest(hunk, &old).map(Ok)
        } else {
            self.only_place(hunk, &old)
        };
        found.unwrap_or_else(|Exhausted| Err(self.exhausted(hunk)))
    }

    /// Places a hunk without old lines: below its `@@` line, at the end of the file, or in an empty
    /// file.
    fn addition(&self, hunk: &Hunk) -> Result<HunkMatch, PatchError> {
        let exactly = |start| HunkMatch { start, comparison: LineComparison::Exact, remark: None };
        if hunk.at_end || self.file.len() == 0 {
            return Ok(exactly(self.file.len()));
        }
        if hunk.headers.is_empty() {
            return Err(PatchError::new(
                format!(
                    "{}: hunk {} (line {} of the patch) adds lines without a place; nothing was changed",
                    self.path, hunk.number, hunk.patch_line
                ),
                "add context lines (with a space in front) around the added ones, or an `@@` line with the line \
                 above them, or `*** End of File` after them",
            ));
        }
        let places = self.below_headers(hunk);
        match places.as_slice() {
            [] => Err(closest::not_found(self, hunk, &[])),
            [start] => Ok(exactly(*start)),
            several => Err(self.ambiguous(hunk, several)),
        }
    }

    fn at_end(&self, old: &[&str]) -> Option<HunkMatch> {
        let start =
            self.file.len().checked_sub(old.len()).filter(|start| *start >= self.position)?;
        let agree = |comparison: &LineComparison| self.agrees_by_text(old, start, *comparison);
        let comparison = LineComparison::ALL.into_iter().find(agree)?;
        Some(HunkMatch { start, comparison, remark: None })
    }

    fn agrees_by_text(&self, old: &[&str], start: usize, comparison: LineComparison) -> bool {
        let lines = self.file.lines.get(start..).unwrap_or_default();
        lines.len() >= old.len()
            && old
                .iter()
                .zip(lines)
                .all(|(old, line)| comparison.key(old) == comparison.key(line.text))
    }

    /// Finds the place by line number. An exact match at the stated line needs no search, which
    /// keeps good diffs linear.
    fn nearest(&self, hunk: &Hunk, old: &[&str]) -> Result<Option<HunkMatch>, Exhausted> {
        let expected = self.expected(hunk);
        if self.agrees_by_text(old, expected, LineComparison::Exact) {
            return Ok(Some(HunkMatch {
                start: expected,
                comparison: LineComparison::Exact,
                remark: None,
            }));
        }
        for comparison in LineComparison::ALL {
            let index = self.index(comparison);
            let places = index.nearest(old, self.position, expected, &self.work_left)?;
            let Some(&start) = places.first() else { continue };
            let remark = (places.len() > 1 && start != expected).then(|| {
                format!(
                    "hunk {} matches several places; line {} is the nearest to the expected line {}",
                    hunk.number,
                    start + 1,
                    expected + 1
                )
            });
            return Ok(Some(HunkMatch { start, comparison, remark }));
        }
        Ok(None)
    }

    fn only_place(
        &self,
        hunk: &Hunk,
        old: &[&str],
    ) -> Result<Result<Option<HunkMatch>, PatchError>, Exhausted> {
        for comparison in LineComparison::ALL {
            let places = self.places(hunk, old, comparison)?;
            match places.as_slice() {
                [] => {}
                [start] => {
                    return Ok(Ok(Some(HunkMatch { start: *start, comparison, remark: None })));
                }
                several => return Ok(Err(self.ambiguous(hunk, several))),
            }
        }
        Ok(Ok(None))
    }

    /// Returns the first match below each line that the `@@` lines may refer to; without `@@` lines
    /// every match.
    fn places(
        &self,
        hunk: &Hunk,
        old: &[&str],
        comparison: LineComparison,
    ) -> Result<Vec<usize>, Exhausted> {
        let mut places = Vec::new();
        let mut from = self.position;
        let index = self.index(comparison);
        while places.len() < MAX_LISTED_PLACES {
            let Some(start) = index.first(old, from, &self.work_left)? else { break };
            from = start + 1;
            if hunk.headers.is_empty() {
                places.push(start);
            } else if let Some(next) = self.end_below_headers(hunk, start) {
                places.push(start);
                from = next.max(from);
            }
        }
        Ok(places)
    }

    /// If the `@@` lines are above this line, returns where their section ends, which is where the
    /// first of them occurs again. A hunk may repeat its `@@` line as its first context line.
    fn end_below_headers(&self, hunk: &Hunk, start: usize) -> Option<usize> {
        let (first, rest) = hunk.headers.split_first()?;
        let tops = self.header_lines(first);
        let after = tops.partition_point(|top| *top <= start);
        let top = *tops.get(after.checked_sub(1)?)?;
        let last = self.last_header(rest, top)?;
        (last <= start).then(|| tops.get(after).copied().unwrap_or(self.file.len()))
    }

    /// Follows the further `@@` lines down from the first.
    fn last_header(&self, rest: &[String], top: usize) -> Option<usize> {
        rest.iter().try_fold(top, |above, header| {
            let lines = self.header_lines(header);
            lines.get(lines.partition_point(|line| *line <= above)).copied()
        })
    }

    /// Returns the lines directly below the lines that the `@@` lines may refer to.
    fn below_headers(&self, hunk: &Hunk) -> Vec<usize> {
        let Some((first, rest)) = hunk.headers.split_first() else { return Vec::new() };
        let tops = self.header_lines(first);
        let mut places = Vec::new();
        for (index, top) in tops.iter().enumerate() {
            let end = tops.get(index + 1).copied().unwrap_or(self.file.len());
            let last = self
                .last_header(rest, *top)
                .filter(|last| *last < end && last + 1 >= self.position);
            places.extend(last.map(|last| last + 1));
            if places.len() == MAX_LISTED_PLACES {
                break;
            }
        }
        places
    }

    /// Returns every line that an `@@` line may refer to: equal lines, or else those that are equal
    /// without surrounding spaces.
    fn header_lines(&self, header: &str) -> &[usize] {
        let exact = self.index(LineComparison::Exact).lines(header);
        if exact.is_empty() { self.index(LineComparison::Indentation).lines(header) } else { exact }
    }

    pub(super) fn index(&self, comparison: LineComparison) -> &LineKeyIndex<'a> {
        let nth = LineComparison::ALL.iter().position(|other| *other == comparison).unwrap_or(0);
        let cell = self.indexes.get(nth).expect("there is one for each comparison");
        cell.get_or_init(|| LineKeyIndex::new(self.file, comparison))
    }

    /// Returns where the lines are in the whole file, if anywhere; only for messages.
    pub(super) fn anywhere(&self, old: &[&str]) -> Option<usize> {
        let work = Cell::new(MAX_COMPARISONS / 100);
        LineComparison::ALL
            .into_iter()
            .find_map(|comparison| self.index(comparison).first(old, 0, &work).ok().flatten())
    }

    fn ambiguous(&self, hunk: &Hunk, places: &[usize]) -> PatchError {
        let mut numbers: Vec<_> = places
            .iter()
            .take(MAX_LISTED_PLACES - 1)
            .map(|place| (place + 1).to_string())
            .collect();
        if places.len() >= MAX_LISTED_PLACES {
            numbers.push("more".to_owned());
        }
        let last = numbers.pop().unwrap_or_default();
        PatchError::new(
            format!(
                "{}: hunk {} (line {} of the patch) matches several places, at lines {} and {last}; nothing was changed",
                self.path,
                hunk.number,
                hunk.patch_line,
                numbers.join(", ")
            ),
            "put an `@@` line above the hunk, with a line of the file that is above the right place and only there, \
             such as the head of its function, or give more context lines",
        )
    }

    fn exhausted(&self, hunk: &Hunk) -> PatchError {
        PatchError::new(
            format!(
                "{}: hunk {} (line {} of the patch) has only lines that occur too often in the file, the search was stopped; \
                 nothing was changed",
                self.path, hunk.number, hunk.patch_line
            ),
            "give the hunk a context line that is rare in the file, or correct line numbers",
        )
    }
}

fn signed(line: usize) -> isize {
    isize::try_from(line).unwrap_or(isize::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::patch::{PatchAction, apply, apply::Applied, parse};

    fn hunks(patch: &str) -> Vec<Hunk> {
        let files = parse(patch).expect("it parses");
        match files.into_iter().next().map(|file| file.action) {
            Some(PatchAction::Update { hunks, .. }) => hunks,
            other => panic!("an update: {other:?}"),
        }
    }

    fn patched(body: &str, old: &str) -> Result<Applied, PatchError> {
        apply(
            "f",
            old,
            &hunks(&format!("*** Begin Patch\n*** Update File: f\n{body}*** End Patch")),
        )
    }

    fn patched_by_diff(body: &str, old: &str) -> Result<Applied, PatchError> {
        apply("f", old, &hunks(&format!("--- a/f\n+++ b/f\n{body}")))
    }

    #[track_caller]
    fn check(result: Result<Applied, PatchError>, new: &str) {
        assert_eq!(result.expect("it fits").text, new);
    }

    #[track_caller]
    fn check_error(result: Result<Applied, PatchError>, message: &str) {
        let error = result.expect_err("it does not match");
        assert!(error.message.contains(message), "{error:?}");
        assert!(error.message.ends_with("nothing was changed"), "{error:?}");
        assert!(!error.hint.is_empty(), "{error:?}");
    }

    #[test]
    fn several_places_are_an_error_that_lists_them() {
        let old = "a\nx\nb\nx\nc\nx\n";
        check_error(
            patched("-x\n", old),
            "f: hunk 1 (line 3 of the patch) matches several places, at lines 2, 4 and 6",
        );
        check_error(patched("-x\n", &"x\n".repeat(50)), "at lines 1, 2, 3, 4, 5 and more");
        check_error(patched_by_diff("@@\n-x\n", old), "several places");
        check(patched(" b\n-x\n", old), "a\nx\nb\nc\nx\n");
    }

    #[test]
    fn a_lenient_comparison_is_not_tried_when_a_stricter_one_matches() {
        check(patched("-x\n", "x \n x\nx\n"), "x \n x\n");
        check_error(patched("-x\n", " x\nx \nx\t\n"), "at lines 2 and 3");
    }

    #[test]
    fn hunks_apply_in_order() {
        check(patched("-x\n+1\n b\n@@\n-x\n+2\n", "x\nb\nx\n"), "1\nb\n2\n");
        check(patched(" a\n-x\n@@\n-x\n+2\n", "a\nx\nx\n"), "a\n2\n");
        check_error(
            patched("-b\n@@\n-a\n", "a\nb\n"),
            "its lines are at line 1, but that is before line 3",
        );
        check_error(patched("-a\n b\n@@\n b\n-c\n", "a\nb\nc\n"), "hunk 2");
    }

    #[test]
    fn an_at_line_selects_the_place() {
        let old = "fn a\n  x\nfn b\n  x\nfn c\n  x\n";
        check(patched("@@ fn a\n-  x\n", old), "fn a\nfn b\n  x\nfn c\n  x\n");
        check(patched("@@ fn b\n-  x\n", old), "fn a\n  x\nfn b\nfn c\n  x\n");
        check(patched("@@   fn c \n-  x\n", old), "fn a\n  x\nfn b\n  x\nfn c\n");
        check(patched("@@ fn b\n fn b\n-  x\n", old), "fn a\n  x\nfn b\nfn c\n  x\n");
        check(patched_by_diff("@@ fn b @@\n-  x\n", old), "fn a\n  x\nfn b\nfn c\n  x\n");
    }

    #[test]
    fn several_at_lines_narrow_the_place() {
        let old = "class A\n def r\n  x\nclass B\n def r\n  x\n def s\n  x\n";
        check(
            patched("@@ class B\n@@  def r\n-  x\n", old),
            "class A\n def r\n  x\nclass B\n def r\n def s\n  x\n",
        );
        check(
            patched("@@ class B\n@@ def s\n-  x\n", old),
            "class A\n def r\n  x\nclass B\n def r\n  x\n def s\n",
        );
        check_error(patched("@@  def r\n-  x\n", old), "at lines 3 and 6");
        check_error(patched("@@ class B\n@@ class A\n-  x\n", old), "not below `class B`");
    }

    #[test]
    fn an_at_line_may_be_named_again_by_the_next_hunk() {
        check(patched("@@ fn a\n-x\n@@ fn a\n-y\n", "fn a\nx\n1\ny\n"), "fn a\n1\n");
    }

    #[test]
    fn a_missing_at_line_is_an_error_with_the_closest_line() {
        let error =
            patched("@@ fn alpha(self)\n-x\n", "fn alpha(&self)\nx\n").expect_err("no such line");
        assert!(
            error.message.contains("its `@@` line `fn alpha(self)` is not a line of the file"),
            "{error:?}"
        );
        assert!(error.hint.contains("line 1: `fn alpha(&self)`"), "{error:?}");
    }

    #[test]
    fn a_pure_addition_needs_a_place() {
        check(patched("@@ a\n+x\n", "a\nb\n"), "a\nx\nb\n");
        check(patched("@@\n a\n+x\n", "a\nb\n"), "a\nx\nb\n");
        check(patched("+x\n", ""), "x\n");
        check(patched("+x\n*** End of File\n", "a\nb\n"), "a\nb\nx\n");
        check_error(patched("+x\n", "a\nb\n"), "adds lines without a place");
        check_error(patched_by_diff("@@ -1,0 +2 @@\n+x\n", "a\nb\n"), "adds lines without a place");
        check_error(patched("@@ a\n+x\n", "a\nb\na\n"), "at lines 2 and 4");
        check_error(patched("-b\n@@ a\n+x\n", "a\nb\nc\n"), "hunk 2");
    }

    #[test]
    fn the_end_of_file_marker_means_the_last_lines() {
        check(patched("-x\n*** End of File\n", "x\na\nx\n"), "x\na\n");
        check(patched("-x\n*** End of File\n", "x\na\nx  "), "x\na");
        check_error(
            patched("-x\n*** End of File\n", "x\na\n"),
            "its lines are at line 1, but these are not the last lines",
        );
    }

    #[test]
    fn a_diff_takes_the_place_nearest_to_its_line_number() {
        let old = "x\n".to_owned() + &"a\n".repeat(10) + "x\n" + &"a\n".repeat(10) + "x\n";
        check(
            patched_by_diff("@@ -23 +23 @@\n-x\n+y\n", &old),
            &(old.trim_end_matches("x\n").to_owned() + "y\n"),
        );
        let near = patched_by_diff("@@ -10 +10 @@\n-x\n+y\n", &old).expect("it fits");
        assert_eq!(near.text.find('y'), Some(22));
        assert!(
            near.leniency[0].contains("line 12 is the nearest to the expected line 10"),
            "{near:?}"
        );
    }

    #[test]
    fn the_drift_of_earlier_hunks_moves_the_expected_place() {
        let old = "1\n2\n3\nu\nx\nx\nx\nx\n";
        let patch = "@@ -1 +1 @@\n-u\n+v\n@@ -3 +3 @@\n-x\n+y\n";
        check(patched_by_diff(patch, old), "1\n2\n3\nv\nx\ny\nx\nx\n");
    }

    #[test]
    fn lines_that_occur_everywhere_end_with_an_error_in_bounded_time() {
        let old = "a\nb\n".repeat(600);
        let body = " a\n b\n".repeat(200) + "-a\n-a\n";
        let hunks = hunks(&format!("*** Begin Patch\n*** Update File: f\n{body}*** End Patch"));
        let file = FileText::new(&old);
        let mut search = HunkSearch::new("f", &file);
        search.work_left.set(10_000);
        let error = search.locate(&hunks[0]).expect_err("too much work");
        assert!(error.message.contains("the search was stopped; nothing was changed"), "{error:?}");
    }
}
