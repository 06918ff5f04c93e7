//! Writes replacements into a text, and returns their lines.

use std::ops::Range;

use memchr::memmem;

use super::LineSpan;
use super::lenient::LenientMatch;

/// Returns the lines of ranges that are sorted by start and by end. The ranges may overlap, so
/// starts and ends are counted separately: counting inside each range would take quadratic time.
pub(super) fn of(text: &str, ranges: &[Range<usize>]) -> Vec<LineSpan> {
    let (mut firsts, mut lasts) = (LineCounter::of(text), LineCounter::of(text));
    let place = |range: &Range<usize>| LineSpan {
        first_line: firsts.line_at(range.start),
        // A newline at the end of a range belongs to the line that it ends.
        last_line: lasts.line_at(range.end.saturating_sub(1).max(range.start)),
    };
    ranges.iter().map(place).collect()
}

/// Counts lines up to increasing positions of a text.
struct LineCounter<'a> {
    bytes: &'a [u8],
    counted: usize,
    line: usize,
}

impl<'a> LineCounter<'a> {
    fn of(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), counted: 0, line: 1 }
    }

    fn line_at(&mut self, position: usize) -> usize {
        let passed = self.bytes.get(self.counted..position).unwrap_or_default();
        self.line += memchr::memchr_iter(b'\n', passed).count();
        self.counted = position.max(self.counted);
        self.line
    }
}

/// Returns the text with its replacements, and the replaced ranges of the original. A range that
/// overlaps an earlier one is skipped.
pub(super) fn spliced(text: &str, found: &LenientMatch<'_>) -> (String, Vec<Range<usize>>) {
    let usual = usual_ending(text);
    let mut result = String::with_capacity(text.len());
    let mut taken = Vec::new();
    let mut copied = 0;
    for (index, range) in found.ranges.iter().enumerate() {
        if range.start < copied {
            continue;
        }
        result.push_str(text.get(copied..range.start).expect("ranges begin and end at characters"));
        let replaced = text.get(range.clone()).expect("ranges begin and end at characters");
        push_with_endings(&mut result, &found.new.at(index), replaced, usual);
        copied = range.end;
        taken.push(range.clone());
    }
    result.push_str(text.get(copied..).expect("ranges end at characters"));
    (result, taken)
}

fn usual_ending(text: &str) -> &'static str {
    let pairs = memmem::find_iter(text.as_bytes(), b"\r\n").count();
    let all = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    if pairs * 2 > all { "\r\n" } else { "\n" }
}

/// Appends `new` with the line endings of the replaced text. If those are mixed, the lines that
/// both texts begin with keep theirs, and the others take theirs from the end.
fn push_with_endings(result: &mut String, new: &str, replaced: &str, usual: &'static str) {
    let endings = endings(replaced);
    let usual = endings.first().copied().unwrap_or(usual);
    if endings.iter().all(|ending| *ending == usual) {
        new.split('\n').enumerate().for_each(|(nth, line)| {
            result.push_str(if nth > 0 { usual } else { "" });
            result.push_str(line);
        });
        return;
    }
    let same = new.split('\n').zip(replaced.lines()).take_while(|(new, old)| new == old).count();
    let count = new.matches('\n').count();
    for (nth, line) in new.split('\n').enumerate() {
        result.push_str(line);
        if nth == count {
            break;
        }
        let from_end = || (endings.len() + nth).saturating_sub(count);
        let ending = endings.get(if nth < same { nth } else { from_end() });
        result.push_str(ending.copied().unwrap_or(usual));
    }
}

fn endings(text: &str) -> Vec<&'static str> {
    let bytes = text.as_bytes();
    let before = |at: usize| at.checked_sub(1).and_then(|before| bytes.get(before));
    memchr::memchr_iter(b'\n', bytes)
        .map(|at| if before(at) == Some(&b'\r') { "\r\n" } else { "\n" })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(new: &str, replaced: &str, usual: &'static str, expected: &str) {
        let mut result = String::new();
        push_with_endings(&mut result, new, replaced, usual);
        assert_eq!(result, expected);
    }

    #[test]
    fn new_lines_end_like_those_they_replace() {
        check("x\ny\n", "a\r\n", "\n", "x\r\ny\r\n");
        check("x\ny", "a", "\r\n", "x\r\ny");
        check("x\ny", "a\nb", "\r\n", "x\ny");
    }

    #[test]
    fn mixed_endings_stay_with_their_lines() {
        check("a\nb\nnew\nd\n", "a\r\nb\nc\nd\r\n", "\n", "a\r\nb\nnew\nd\r\n");
        check("a\nnew\nd\n", "a\nb\nc\r\nd\r\n", "\n", "a\nnew\r\nd\r\n");
        check("x\ny\nz\nw\n", "a\r\nb\n", "\n", "x\r\ny\r\nz\r\nw\n");
    }

    #[test]
    fn places_are_lines_of_the_original() {
        let place = |first_line, last_line| LineSpan { first_line, last_line };
        assert_eq!(of("a\nb\nc\nd", &[0..1, 2..4, 4..7]), [place(1, 1), place(2, 2), place(3, 4)]);
        assert_eq!(of("a\na\na\n", &[0..4, 2..6]), [place(1, 2), place(2, 3)]);
    }

    #[test]
    fn the_usual_ending_is_the_most_used() {
        assert_eq!(usual_ending("a\r\nb\r\nc\n"), "\r\n");
        assert_eq!(usual_ending("a\r\nb\n"), "\n");
        assert_eq!(usual_ending(""), "\n");
    }
}
