//! Splits a text into lines with positions, and finds sequences of lines.

use std::ops::Range;

/// A line without its ending.
#[derive(Clone, Copy)]
pub(super) struct TextLine<'a> {
    pub(super) text: &'a str,
    pub(super) start: usize,
    /// Position where the next line starts.
    pub(super) next: usize,
}

impl TextLine<'_> {
    /// Returns where the line ends, before its ending.
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub(super) fn is_blank(&self) -> bool {
        is_blank(self.text)
    }
}

pub(super) fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

pub(super) fn lines(text: &str) -> Vec<TextLine<'_>> {
    let mut next = 0;
    text.split_inclusive('\n')
        .map(|whole| {
            let start = next;
            next += whole.len();
            let text =
                whole.strip_suffix("\r\n").or_else(|| whole.strip_suffix('\n')).unwrap_or(whole);
            TextLine { text, start, next }
        })
        .collect()
}

/// Splits a line into its indentation and the rest.
pub(super) fn split_indent(line: &str) -> (&str, &str) {
    let rest = line.trim_start_matches([' ', '\t']);
    line.split_at_checked(line.len() - rest.len()).expect("the rest is the end of the line")
}

/// Returns the number of blank lines at the beginning and end of a block. A block of only blank
/// lines has none at its end.
pub(super) fn blank_ends(block: &[&str]) -> (usize, usize) {
    let before = block.iter().take_while(|line| is_blank(line)).count();
    let after = block[before..].iter().rev().take_while(|line| is_blank(line)).count();
    (before, after)
}

/// Returns where `needle` occurs in `haystack`, including overlaps. It uses the Knuth-Morris-Pratt
/// algorithm, because a file may repeat one line half a million times, which would take quadratic
/// time otherwise.
pub(super) fn runs<T: PartialEq>(haystack: &[T], needle: &[T]) -> Vec<usize> {
    let borders = borders(needle);
    let (mut starts, mut matched) = (Vec::new(), 0);
    for (index, item) in haystack.iter().enumerate() {
        while matched > 0 && needle.get(matched) != Some(item) {
            matched = borders[matched - 1];
        }
        if needle.get(matched) == Some(item) {
            matched += 1;
        }
        if matched == needle.len() && matched > 0 {
            starts.push(index + 1 - matched);
            matched = borders[matched - 1];
        }
    }
    starts
}

/// Returns for each prefix of the needle the length of its longest proper prefix that is also its
/// suffix.
fn borders<T: PartialEq>(needle: &[T]) -> Vec<usize> {
    let mut borders: Vec<usize> = Vec::with_capacity(needle.len());
    for (index, item) in needle.iter().enumerate() {
        let mut border = borders.last().copied().unwrap_or(0);
        while border > 0 && needle[border] != *item {
            border = borders[border - 1];
        }
        borders.push(if index > 0 && needle[border] == *item { border + 1 } else { 0 });
    }
    borders
}

/// Returns the byte range of lines, with or without the ending of the last.
pub(super) fn span(lines: &[TextLine<'_>], run: Range<usize>, with_ending: bool) -> Range<usize> {
    let first = lines.get(run.start).map_or(0, |line| line.start);
    let last = run.end.checked_sub(1).and_then(|last| lines.get(last));
    let end = last.map_or(first, |line| if with_ending { line.next } else { line.end() });
    first..end
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_have_their_positions() {
        let found: Vec<_> =
            lines("a\r\n\nbc").iter().map(|line| (line.text, line.start, line.next)).collect();
        assert_eq!(found, [("a", 0, 3), ("", 3, 4), ("bc", 4, 6)]);
    }

    #[test]
    fn the_indent_is_spaces_and_tabs() {
        assert_eq!(split_indent(" \t a b"), (" \t ", "a b"));
        assert_eq!(split_indent("\u{a0}a"), ("", "\u{a0}a"));
    }

    proptest! {
        #[test]
        fn runs_are_where_windows_are_equal(
            haystack in prop::collection::vec(0..2_u8, 0..20),
            needle in prop::collection::vec(0..2_u8, 1..5),
        ) {
            let windows = haystack.windows(needle.len()).enumerate();
            let expected: Vec<usize> = windows.filter(|(_, window)| *window == needle).map(|(at, _)| at).collect();
            prop_assert_eq!(runs(&haystack, &needle), expected);
        }
    }
}
