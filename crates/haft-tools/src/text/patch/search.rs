//! Finding where a hunk belongs in a file. Never by guessing: several equal places are an error, unless a stated line
//! number or an `@@` line tells them apart.

mod index;

use std::cell::{Cell, OnceCell};

use super::{Hunk, HunkLine, PatchError, Side, closest, file_text::FileText, looseness::Looseness};
use index::Index;

/// So many comparisons of lines for one file, well under a second: repetitive files could ask for hours.
const MOST_WORK: usize = 200_000_000;
/// So many places are listed when a hunk fits in several.
const MOST_LISTED: usize = 6;

/// Where a hunk goes.
#[derive(Debug)]
pub(super) struct Spot<'h> {
    /// The index of the first old line.
    pub start: usize,
    /// The hunk's lines, without blank ones that turned out to be only space.
    pub lines: &'h [HunkLine],
    pub looseness: Looseness,
    pub remarks: Vec<String>,
}

/// A file that is searched for one hunk after the other.
pub(super) struct Search<'a> {
    pub path: &'a str,
    pub file: &'a FileText<'a>,
    /// The first line that no earlier hunk has used.
    pub position: usize,
    /// How far the last hunk was from its stated line.
    drift: isize,
    indexes: [OnceCell<Index<'a>>; Looseness::ALL.len()],
    work_left: Cell<usize>,
}

struct Found {
    start: usize,
    looseness: Looseness,
    remark: Option<String>,
}

/// The budget is used up.
struct Exhausted;

impl<'a> Search<'a> {
    pub(super) fn new(path: &'a str, file: &'a FileText<'a>) -> Self {
        Self {
            path,
            file,
            position: 0,
            drift: 0,
            indexes: std::array::from_fn(|_| OnceCell::new()),
            work_left: Cell::new(MOST_WORK),
        }
    }

    pub(super) fn locate<'h>(&mut self, hunk: &'h Hunk) -> Result<Spot<'h>, PatchError> {
        let bare =
            hunk.lines.get(..hunk.lines.len().saturating_sub(hunk.blank_tail)).unwrap_or_default();
        // Blank lines alone place nothing: then they are space before the next section.
        let only_blank = bare.iter().all(|line| line.side == Side::Added);
        let mut lines = if only_blank { bare } else { &hunk.lines };
        let mut remarks = Vec::from_iter(hunk.remark.clone());
        let mut found = self.find(hunk, lines)?;
        if found.is_none() && bare.len() < lines.len() {
            lines = bare;
            found = self.find(hunk, lines)?;
            remarks
                .push(format!("hunk {} fits only without the empty lines at its end", hunk.number));
        }
        let Some(found) = found else { return Err(closest::not_found(self, hunk, lines)) };
        remarks.extend(found.remark);
        let n_old = lines.iter().filter(|line| line.is_old()).count();
        self.position = found.start + n_old;
        if let Some(stated) = hunk.stated_line {
            self.drift = signed(found.start) - signed(stated.saturating_sub(1));
        }
        Ok(Spot { start: found.start, lines, looseness: found.looseness, remarks })
    }

    /// Where the hunk would be without changes above it that it does not know of.
    pub(super) fn expected(&self, hunk: &Hunk) -> usize {
        let Some(stated) = hunk.stated_line else { return self.position };
        let expected = signed(stated.saturating_sub(1)).saturating_add(self.drift);
        usize::try_from(expected)
            .unwrap_or(0)
            .clamp(self.position, self.file.len().max(self.position))
    }

    fn find(&self, hunk: &Hunk, lines: &[HunkLine]) -> Result<Option<Found>, PatchError> {
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

    /// A hunk without old lines: below its `@@` line, at the end of the file, or into an empty file.
    fn addition(&self, hunk: &Hunk) -> Result<Found, PatchError> {
        let exactly = |start| Found { start, looseness: Looseness::Exact, remark: None };
        if hunk.at_end || self.file.len() == 0 {
            return Ok(exactly(self.file.len()));
        }
        if hunk.headers.is_empty() {
            return Err(PatchError::new(
                format!(
                    "{}: hunk {} (line {} of the patch) adds lines without saying where; nothing was changed",
                    self.path, hunk.number, hunk.patch_line
                ),
                "add context lines (with a space in front) around the added ones, or an `@@` line with the line \
                 they come after, or `*** End of File` after them",
            ));
        }
        let places = self.below_headers(hunk);
        match places.as_slice() {
            [] => Err(closest::not_found(self, hunk, &[])),
            [start] => Ok(exactly(*start)),
            several => Err(self.ambiguous(hunk, several)),
        }
    }

    fn at_end(&self, old: &[&str]) -> Option<Found> {
        let start =
            self.file.len().checked_sub(old.len()).filter(|start| *start >= self.position)?;
        let agree = |looseness: &Looseness| self.agrees_by_text(old, start, *looseness);
        let looseness = Looseness::ALL.into_iter().find(agree)?;
        Some(Found { start, looseness, remark: None })
    }

    fn agrees_by_text(&self, old: &[&str], start: usize, looseness: Looseness) -> bool {
        let lines = self.file.lines.get(start..).unwrap_or_default();
        lines.len() >= old.len()
            && old
                .iter()
                .zip(lines)
                .all(|(old, line)| looseness.key(old) == looseness.key(line.text))
    }

    /// By line number: exact at the stated line needs no search, which keeps good diffs linear.
    fn nearest(&self, hunk: &Hunk, old: &[&str]) -> Result<Option<Found>, Exhausted> {
        let expected = self.expected(hunk);
        if self.agrees_by_text(old, expected, Looseness::Exact) {
            return Ok(Some(Found { start: expected, looseness: Looseness::Exact, remark: None }));
        }
        for looseness in Looseness::ALL {
            let index = self.index(looseness);
            let places = index.nearest(old, self.position, expected, &self.work_left)?;
            let Some(&start) = places.first() else { continue };
            let remark = (places.len() > 1 && start != expected).then(|| {
                format!(
                    "hunk {} fits in several places; line {} is the nearest to where it was expected, line {}",
                    hunk.number,
                    start + 1,
                    expected + 1
                )
            });
            return Ok(Some(Found { start, looseness, remark }));
        }
        Ok(None)
    }

    fn only_place(
        &self,
        hunk: &Hunk,
        old: &[&str],
    ) -> Result<Result<Option<Found>, PatchError>, Exhausted> {
        for looseness in Looseness::ALL {
            let places = self.places(hunk, old, looseness)?;
            match places.as_slice() {
                [] => {}
                [start] => return Ok(Ok(Some(Found { start: *start, looseness, remark: None }))),
                several => return Ok(Err(self.ambiguous(hunk, several))),
            }
        }
        Ok(Ok(None))
    }

    /// The first place below each line that the `@@` lines may mean; without them every place.
    fn places(
        &self,
        hunk: &Hunk,
        old: &[&str],
        looseness: Looseness,
    ) -> Result<Vec<usize>, Exhausted> {
        let mut places = Vec::new();
        let mut from = self.position;
        let index = self.index(looseness);
        while places.len() < MOST_LISTED {
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

    /// When the `@@` lines stand above this line: where what they cover ends, which is where the first of them comes
    /// again. A hunk may repeat its `@@` line as its first context line.
    fn end_below_headers(&self, hunk: &Hunk, start: usize) -> Option<usize> {
        let (first, rest) = hunk.headers.split_first()?;
        let tops = self.header_lines(first);
        let after = tops.partition_point(|top| *top <= start);
        let top = *tops.get(after.checked_sub(1)?)?;
        let last = self.last_header(rest, top)?;
        (last <= start).then(|| tops.get(after).copied().unwrap_or(self.file.len()))
    }

    /// Follows further `@@` lines down from the first.
    fn last_header(&self, rest: &[String], top: usize) -> Option<usize> {
        rest.iter().try_fold(top, |above, header| {
            let lines = self.header_lines(header);
            lines.get(lines.partition_point(|line| *line <= above)).copied()
        })
    }

    /// The lines directly below what the `@@` lines may mean.
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
            if places.len() == MOST_LISTED {
                break;
            }
        }
        places
    }

    /// Every line that an `@@` line may mean: the equal ones, or else those that are equal without spaces around.
    fn header_lines(&self, header: &str) -> &[usize] {
        let exact = self.index(Looseness::Exact).lines(header);
        if exact.is_empty() { self.index(Looseness::Indentation).lines(header) } else { exact }
    }

    pub(super) fn index(&self, looseness: Looseness) -> &Index<'a> {
        let place = Looseness::ALL.iter().position(|other| *other == looseness).unwrap_or(0);
        let cell = self.indexes.get(place).expect("there is one for each looseness");
        cell.get_or_init(|| Index::new(self.file, looseness))
    }

    /// Where the lines stand in the whole file, if anywhere; only for messages.
    pub(super) fn anywhere(&self, old: &[&str]) -> Option<usize> {
        let work = Cell::new(MOST_WORK / 100);
        Looseness::ALL
            .into_iter()
            .find_map(|looseness| self.index(looseness).first(old, 0, &work).ok().flatten())
    }

    fn ambiguous(&self, hunk: &Hunk, places: &[usize]) -> PatchError {
        let mut numbers: Vec<_> =
            places.iter().take(MOST_LISTED - 1).map(|place| (place + 1).to_string()).collect();
        if places.len() >= MOST_LISTED {
            numbers.push("more".to_owned());
        }
        let last = numbers.pop().unwrap_or_default();
        PatchError::new(
            format!(
                "{}: hunk {} (line {} of the patch) fits in several places, at lines {} and {last}; nothing was changed",
                self.path,
                hunk.number,
                hunk.patch_line,
                numbers.join(", ")
            ),
            "put an `@@` line above the hunk with a line of the file that stands before the right place and only \
             there, such as the head of its function, or give more context lines",
        )
    }

    fn exhausted(&self, hunk: &Hunk) -> PatchError {
        PatchError::new(
            format!(
                "{}: hunk {} (line {} of the patch) has only lines that are all over the file, the search was given up; \
                 nothing was changed",
                self.path, hunk.number, hunk.patch_line
            ),
            "give the hunk a context line that is rare in the file, or its right line numbers",
        )
    }
}

fn signed(line: usize) -> isize {
    isize::try_from(line).unwrap_or(isize::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::patch::{Action, apply, apply::Applied, parse};

    fn hunks(patch: &str) -> Vec<Hunk> {
        let files = parse(patch).expect("it parses");
        match files.into_iter().next().map(|file| file.action) {
            Some(Action::Update { hunks, .. }) => hunks,
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
        let error = result.expect_err("it does not fit");
        assert!(error.message.contains(message), "{error:?}");
        assert!(error.message.ends_with("nothing was changed"), "{error:?}");
        assert!(!error.hint.is_empty(), "{error:?}");
    }

    #[test]
    fn several_places_are_an_error_that_lists_them() {
        let old = "a\nx\nb\nx\nc\nx\n";
        check_error(
            patched("-x\n", old),
            "f: hunk 1 (line 3 of the patch) fits in several places, at lines 2, 4 and 6",
        );
        check_error(patched("-x\n", &"x\n".repeat(50)), "at lines 1, 2, 3, 4, 5 and more");
        check_error(patched_by_diff("@@\n-x\n", old), "several places");
        check(patched(" b\n-x\n", old), "a\nx\nb\nc\nx\n");
    }

    #[test]
    fn a_looser_step_is_not_tried_when_a_stricter_one_finds_something() {
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
    fn an_at_line_says_where() {
        let old = "fn a\n  x\nfn b\n  x\nfn c\n  x\n";
        check(patched("@@ fn a\n-  x\n", old), "fn a\nfn b\n  x\nfn c\n  x\n");
        check(patched("@@ fn b\n-  x\n", old), "fn a\n  x\nfn b\nfn c\n  x\n");
        check(patched("@@   fn c \n-  x\n", old), "fn a\n  x\nfn b\n  x\nfn c\n");
        check(patched("@@ fn b\n fn b\n-  x\n", old), "fn a\n  x\nfn b\nfn c\n  x\n");
        check(patched_by_diff("@@ fn b @@\n-  x\n", old), "fn a\n  x\nfn b\nfn c\n  x\n");
    }

    #[test]
    fn at_lines_narrow_down_one_after_the_other() {
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
    fn an_at_line_that_is_not_there_is_an_error_with_the_closest() {
        let error =
            patched("@@ fn alpha(self)\n-x\n", "fn alpha(&self)\nx\n").expect_err("no such line");
        assert!(
            error.message.contains("its `@@` line `fn alpha(self)` is no line of the file"),
            "{error:?}"
        );
        assert!(error.hint.contains("line 1: `fn alpha(&self)`"), "{error:?}");
    }

    #[test]
    fn a_pure_addition_goes_where_it_says() {
        check(patched("@@ a\n+x\n", "a\nb\n"), "a\nx\nb\n");
        check(patched("@@\n a\n+x\n", "a\nb\n"), "a\nx\nb\n");
        check(patched("+x\n", ""), "x\n");
        check(patched("+x\n*** End of File\n", "a\nb\n"), "a\nb\nx\n");
        check_error(patched("+x\n", "a\nb\n"), "adds lines without saying where");
        check_error(
            patched_by_diff("@@ -1,0 +2 @@\n+x\n", "a\nb\n"),
            "adds lines without saying where",
        );
        check_error(patched("@@ a\n+x\n", "a\nb\na\n"), "at lines 2 and 4");
        check_error(patched("-b\n@@ a\n+x\n", "a\nb\nc\n"), "hunk 2");
    }

    #[test]
    fn the_end_of_file_marker_holds_the_old_lines_there() {
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
            near.leniency[0].contains("line 12 is the nearest to where it was expected, line 10"),
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
    fn lines_that_are_everywhere_end_with_an_error_in_bounded_time() {
        let old = "a\nb\n".repeat(600);
        let body = " a\n b\n".repeat(200) + "-a\n-a\n";
        let hunks = hunks(&format!("*** Begin Patch\n*** Update File: f\n{body}*** End Patch"));
        let file = FileText::new(&old);
        let mut search = Search::new("f", &file);
        search.work_left.set(10_000);
        let error = search.locate(&hunks[0]).expect_err("too much work");
        assert!(
            error.message.contains("the search was given up; nothing was changed"),
            "{error:?}"
        );
    }
}
