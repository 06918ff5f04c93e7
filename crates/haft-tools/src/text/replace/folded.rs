//! A text with different spellings of the same characters made equal, and the original position of
//! each piece.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

/// A text after folding. Between two fold points both texts run in parallel.
pub(super) struct FoldedText<'a> {
    pub(super) text: Cow<'a, str>,
    fold_points: Vec<FoldPoint>,
}

/// The end of a piece that is spelled differently in the original.
struct FoldPoint {
    folded_end: usize,
    origin_end: usize,
}

impl<'a> FoldedText<'a> {
    /// Replaces every `\r\n` by `\n`. A single `\r` is an ordinary character.
    pub(super) fn newlines(text: &'a str) -> Self {
        let pairs = memmem::find_iter(text.as_bytes(), b"\r\n").map(|at| (at..at + 2, "\n"));
        Self::new(text, pairs)
    }

    /// Like [`FoldedText::newlines`], and with typographic quotes, dashes and spaces in ASCII.
    /// Three dots become an ellipsis and not the reverse, because one character cannot match by
    /// halves.
    pub(super) fn typography(text: &'a str) -> Self {
        let mut chars = text.char_indices();
        let pieces = std::iter::from_fn(move || {
            loop {
                let (at, char) = chars.next()?;
                let rest = chars.as_str();
                if char == '\r' && rest.starts_with('\n') {
                    chars.next();
                    return Some((at..at + 2, "\n"));
                }
                if char == '.' && rest.starts_with("..") {
                    chars.nth(1);
                    return Some((at..at + 3, "…"));
                }
                if let Some(ascii) = in_ascii(char) {
                    return Some((at..at + char.len_utf8(), ascii));
                }
            }
        });
        Self::new(text, pieces)
    }

    fn new(text: &'a str, pieces: impl Iterator<Item = (Range<usize>, &'static str)>) -> Self {
        let mut folded = String::new();
        let mut fold_points = Vec::new();
        let mut copied = 0;
        for (origin, spelling) in pieces {
            folded.push_str(
                text.get(copied..origin.start).expect("pieces begin and end at characters"),
            );
            folded.push_str(spelling);
            fold_points.push(FoldPoint { folded_end: folded.len(), origin_end: origin.end });
            copied = origin.end;
        }
        if fold_points.is_empty() {
            return Self { text: Cow::Borrowed(text), fold_points };
        }
        folded.push_str(text.get(copied..).expect("pieces end at characters"));
        Self { text: Cow::Owned(folded), fold_points }
    }

    /// Returns the matches of `needle` as ranges of the original. If there is only one match
    /// without overlaps, a further one that overlaps it is also returned, because either could be
    /// meant.
    pub(super) fn find(&self, needle: &str) -> Vec<Range<usize>> {
        let finder = memmem::Finder::new(needle.as_bytes());
        let haystack = self.text.as_bytes();
        let mut starts: Vec<usize> = finder.find_iter(haystack).collect();
        if let [only] = *starts {
            let rest = haystack.get(only + 1..).unwrap_or_default();
            starts.extend(finder.find(rest).map(|at| only + 1 + at));
        }
        starts
            .into_iter()
            .map(|start| self.origin(start)..self.origin(start + needle.len()))
            .collect()
    }

    /// Converts a position between two characters of the folded text to one in the original.
    fn origin(&self, position: usize) -> usize {
        let before = self.fold_points.partition_point(|point| point.folded_end <= position);
        match before.checked_sub(1).and_then(|last| self.fold_points.get(last)) {
            Some(point) => point.origin_end + (position - point.folded_end),
            None => position,
        }
    }
}

/// Returns the ASCII form of a typographic character.
fn in_ascii(char: char) -> Option<&'static str> {
    Some(match char {
        '\u{2018}'..='\u{201b}' | '\u{2032}' => "'",
        '\u{201c}'..='\u{201f}' | '\u{2033}' => "\"",
        '\u{2010}'..='\u{2015}' | '\u{2212}' => "-",
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => " ",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(folded: &FoldedText<'_>, needle: &str, expected: &[(usize, usize)]) {
        let found: Vec<_> =
            folded.find(needle).into_iter().map(|range| (range.start, range.end)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn newlines_match_both_endings() {
        let folded = FoldedText::newlines("a\r\nb\na\r\nb\r\n");
        assert_eq!(folded.text, "a\nb\na\nb\n");
        check(&folded, "a\nb", &[(0, 4), (5, 9)]);
        check(&folded, "\n", &[(1, 3), (4, 5), (6, 8), (9, 11)]);
        check(&folded, "b\n", &[(3, 5), (8, 11)]);
        check(&folded, "\r", &[]);
    }

    #[test]
    fn a_single_carriage_return_is_a_character() {
        let folded = FoldedText::newlines("a\rb\r\r\n");
        check(&folded, "\r", &[(1, 2), (3, 4)]);
        check(&folded, "\r\n", &[(3, 6)]);
    }

    #[test]
    fn typography_is_found_by_its_ascii() {
        let folded = FoldedText::typography("“a”…\u{a0}–\r\nb");
        assert_eq!(folded.text, "\"a\"… -\nb");
        check(&folded, "\"a\"", &[(0, 7)]);
        check(&folded, "… -\n", &[(7, 17)]);
        check(&FoldedText::typography("a....b"), "…", &[(1, 4)]);
    }

    #[test]
    fn a_place_that_overlaps_the_first_is_returned() {
        check(&FoldedText::newlines("aaa"), "aa", &[(0, 2), (1, 3)]);
        check(&FoldedText::newlines("éé é"), "é é", &[(2, 7)]);
    }
}
