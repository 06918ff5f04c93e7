//! Collects the matching lines of one file in the form of the result: without line ending, valid
//! UTF-8, limited in length.

use std::io;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use haft_core::files::MatchLine;
use memchr::memchr;

/// The lines of one file so far.
pub(crate) struct LineCollector<'a> {
    pub(crate) matcher: &'a RegexMatcher,
    /// Maximum length of a line in characters.
    pub(crate) line_chars: usize,
    /// After this many matching lines the rest of the file does not matter.
    pub(crate) enough: usize,
    pub(crate) lines: Vec<MatchLine>,
    pub(crate) matches: usize,
    pub(crate) is_binary: bool,
}

impl LineCollector<'_> {
    fn push(&mut self, number: Option<u64>, line: &[u8], is_match: bool) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let find = || self.matcher.find(line).ok().flatten().map_or(0, |found| found.start());
        let (text, is_truncated) =
            excerpt(line, self.line_chars, || if is_match { find() } else { 0 });
        let number = number.unwrap_or_default();
        self.lines.push(MatchLine { number, text, is_match, is_truncated });
        self.matches += usize::from(is_match);
    }
}

impl LineCollector<'_> {
    /// Adds a line of which only a part is known; `matched` is where in it a match ends.
    pub(crate) fn push_excerpt(
        &mut self,
        number: u64,
        text: &[u8],
        matched: Option<usize>,
        is_whole: bool,
    ) {
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        // The beginning of a match is found where it is in the part; where not, its end is shown.
        let find = |end: usize| match self.matcher.find(text) {
            Ok(Some(found)) if found.start() <= end => found.start(),
            _ => end.saturating_sub(1),
        };
        let (text, is_cut) = excerpt(text, self.line_chars, || matched.map_or(0, find));
        let is_match = matched.is_some();
        self.lines.push(MatchLine { number, text, is_match, is_truncated: is_cut || !is_whole });
        self.matches += usize::from(is_match);
    }
}

impl Sink for &mut LineCollector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        // For a file in memory, only the beginning was checked for zero bytes so far.
        if self.matches == 0 && memchr(0, found.buffer()).is_some() {
            self.is_binary = true;
            return Ok(false);
        }
        for (number, line) in (found.line_number().unwrap_or_default()..).zip(found.lines()) {
            self.push(Some(number), line, true);
            if self.matches > self.enough {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.push(found.line_number(), found.bytes(), false);
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.is_binary = true;
        Ok(false)
    }
}

/// Keeps the first matching lines, each with its context.
pub(crate) fn keep_matches(lines: &mut Vec<MatchLine>, max: usize, context: usize) {
    let mut kept = 0;
    let mut last = 0;
    let end = lines.iter().position(|line| {
        if line.is_match {
            kept += 1;
            last = line.number;
            return kept > max;
        }
        // Later lines belong to the next match.
        kept == max && line.number > last.saturating_add(context as u64)
    });
    lines.truncate(if max == 0 { 0 } else { end.unwrap_or(lines.len()) });
}

/// Drops the first matching lines, and the context that only they have.
pub(crate) fn skip_matches(lines: &mut Vec<MatchLine>, skip: usize, context: usize) {
    let mut passed = 0;
    let is_next = |line: &MatchLine| {
        passed += usize::from(line.is_match);
        line.is_match && passed > skip
    };
    let Some(next) = lines.iter().position(is_next) else { return lines.clear() };
    let number = lines.get(next).map_or(0, |line| line.number);
    let is_its_own =
        |line: &MatchLine| !line.is_match && line.number.saturating_add(context as u64) >= number;
    let before = lines.get(..next).unwrap_or_default();
    let first = next - before.iter().rev().take_while(|line| is_its_own(line)).count();
    if skip > 0 {
        lines.drain(..first);
    }
}

/// Shortens a line to at most `max` characters that include the match. Returns true when something
/// was left out.
fn excerpt(line: &[u8], max: usize, place: impl FnOnce() -> usize) -> (String, bool) {
    // A character has at most four bytes, so longer lines need not be counted.
    if line.len() <= max.saturating_mul(4) {
        let text = String::from_utf8_lossy(line);
        if line.len() <= max || text.chars().count() <= max {
            return (text.into_owned(), false);
        }
    }
    let is_inside = |at: usize| line.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    let place = place().min(line.len());
    // Some text before the match helps to understand it.
    let (mut start, mut before) = (place, 0);
    while start > 0 && before < max / 4 && place - start < max {
        start -= 1;
        before += usize::from(!is_inside(start));
    }
    start = start.min(line.len().saturating_sub(max));
    while start < place && is_inside(start) {
        start += 1;
    }
    let end = start.saturating_add(max.saturating_mul(4)).min(line.len());
    let text = String::from_utf8_lossy(line.get(start..end).unwrap_or_default());
    (text.chars().take(max).collect(), true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(line: &str, max: usize, place: usize, expected: &str) {
        let (text, is_truncated) = excerpt(line.as_bytes(), max, || place);
        assert_eq!(text, expected);
        assert_eq!(is_truncated, text != line);
    }

    #[test]
    fn a_long_line_is_truncated_around_its_match() {
        check("short", 8, 0, "short");
        check("äöüäöüäö", 8, 0, "äöüäöüäö");
        check("0123456789abcdef", 8, 0, "01234567");
        check("0123456789abcdef", 8, 7, "56789abc");
        check("0123456789abcdef", 8, 15, "89abcdef");
        check("ääääääääääxyz", 4, 20, "äxyz");
    }

    #[test]
    fn matches_beyond_the_limit_go_with_their_context() {
        let line = |number, is_match| MatchLine {
            number,
            text: String::new(),
            is_match,
            is_truncated: false,
        };
        let all = [1, 2, 3, 4, 9, 10, 11].map(|number| line(number, [2, 4, 10].contains(&number)));
        for (max, expected) in [(0, 0), (1, 3), (2, 4), (3, 7), (9, 7)] {
            let mut lines = all.to_vec();
            keep_matches(&mut lines, max, 1);
            assert_eq!(lines.len(), expected, "{max}");
        }
    }

    #[test]
    fn skipped_matches_go_with_the_context_that_is_theirs_alone() {
        let line = |number, is_match| MatchLine {
            number,
            text: String::new(),
            is_match,
            is_truncated: false,
        };
        let all = [1, 2, 3, 4, 9, 10, 11].map(|number| line(number, [2, 4, 10].contains(&number)));
        for (skip, first) in [(0, Some(1)), (1, Some(3)), (2, Some(9)), (3, None)] {
            let mut lines = all.to_vec();
            skip_matches(&mut lines, skip, 1);
            assert_eq!(lines.first().map(|line| line.number), first, "{skip}");
        }
    }

    proptest! {
        #[test]
        fn a_cut_line_is_short_and_shows_the_place(
            line in proptest::collection::vec(any::<u8>(), 0..200),
            max in 4_usize..40,
            place in 0_usize..200,
        ) {
            let (text, is_truncated) = excerpt(&line, max, || place);
            prop_assert!(text.chars().count() <= max);
            prop_assert!(is_truncated || text == String::from_utf8_lossy(&line));
        }

        #[test]
        fn the_match_is_seen(before in "[a-zä]{0,60}", after in "[a-zä]{0,60}", max in 8_usize..40) {
            let line = format!("{before}X{after}");
            let (text, _) = excerpt(line.as_bytes(), max, || before.len());
            prop_assert!(text.contains('X') && line.contains(&text), "{text} of {line}");
        }
    }
}
