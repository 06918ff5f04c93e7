//! The searches, from the exact one to the most lenient. Each returns all matches; the caller
//! decides whether one of several can be used.

use std::borrow::Cow;
use std::ops::Range;

use super::Leniency;
use super::folded::FoldedText;
use super::indentation::{BlockShift, IndentStyle};
use super::lines::{self, TextLine, blank_ends, is_blank};

/// Maximum number of lines whose indentation is compared: many overlapping candidates would take
/// quadratic time. Beyond it all candidates count as matches, so the edit is refused as ambiguous.
const MAX_COMPARED_LINES: usize = 2_000_000;

/// The text to search and the strings. Newlines of `old` and `new` are `\n`.
pub(super) struct TextSearch<'a> {
    pub(super) text: &'a str,
    pub(super) folded: &'a FoldedText<'a>,
    pub(super) old: &'a str,
    pub(super) new: &'a str,
}

/// Matches and their replacements.
pub(super) struct LenientMatch<'a> {
    pub(super) leniency: Option<Leniency>,
    /// Ranges of bytes, sorted, possibly overlapping.
    pub(super) ranges: Vec<Range<usize>>,
    pub(super) new: Replacement<'a>,
    /// True if every range was compared exactly.
    pub(super) certain: bool,
}

/// The new text of each match, with `\n` as newline.
pub(super) enum Replacement<'a> {
    Same(Cow<'a, str>),
    /// The same lines, indented for each place.
    Indented(Vec<&'a str>, Vec<BlockShift<'a>>),
}

impl Replacement<'_> {
    pub(super) fn at(&self, index: usize) -> Cow<'_, str> {
        match self {
            Self::Same(text) => Cow::Borrowed(text),
            Self::Indented(lines, shifts) => match shifts.get(index) {
                Some(shift) => Cow::Owned(shift.applied(lines)),
                None => Cow::Owned(lines.join("\n")),
            },
        }
    }
}

impl<'a> TextSearch<'a> {
    /// Returns the matches of the first search that has any.
    pub(super) fn run(&self) -> Option<LenientMatch<'a>> {
        let exact = self.found(None, self.folded.find(self.old), Cow::Borrowed(self.new));
        if exact.is_some() || is_blank(self.old) {
            // White space alone would match every blank line.
            return exact;
        }
        let lines = lines::lines(self.text);
        let blocks = blocks(self.old, self.new);
        let trailing = || blocks.iter().find_map(|block| self.trailing_space(&lines, block));
        let indented = || blocks.iter().find_map(|block| self.indentation(&lines, block));
        trailing().or_else(indented).or_else(|| self.escapes()).or_else(|| self.typography())
    }

    fn found(
        &self,
        leniency: Option<Leniency>,
        ranges: Vec<Range<usize>>,
        new: Cow<'a, str>,
    ) -> Option<LenientMatch<'a>> {
        let new = Replacement::Same(new);
        (!ranges.is_empty()).then_some(LenientMatch { leniency, ranges, new, certain: true })
    }

    fn trailing_space(
        &self,
        lines: &[TextLine<'a>],
        block: &Block<'a>,
    ) -> Option<LenientMatch<'a>> {
        let file: Vec<&str> = lines.iter().map(|line| line.text.trim_end()).collect();
        let wanted: Vec<&str> = block.old.iter().map(|line| line.trim_end()).collect();
        let starts = lines::runs(&file, &wanted);
        let ranges = starts.into_iter().map(|start| block.span(lines, start)).collect();
        self.found(Some(Leniency::TrailingSpace), ranges, Cow::Owned(block.new.join("\n")))
    }

    fn indentation(&self, lines: &[TextLine<'a>], block: &Block<'a>) -> Option<LenientMatch<'a>> {
        let file: Vec<&str> = lines.iter().map(|line| line.text.trim()).collect();
        let wanted: Vec<&str> = block.old.iter().map(|line| line.trim()).collect();
        let starts = lines::runs(&file, &wanted);
        let style = if starts.is_empty() { return None } else { IndentStyle::of(lines) };
        let certain = starts.len().saturating_mul(wanted.len()) <= MAX_COMPARED_LINES;
        let (mut ranges, mut shifts) = (Vec::new(), Vec::new());
        for start in starts {
            let there = &lines[start..start + wanted.len()];
            let shift = if certain {
                BlockShift::between(&block.old, there, &block.new, &style)
            } else {
                None
            };
            if shift.is_some() || !certain {
                ranges.push(block.span(lines, start));
                shifts.extend(shift);
            }
        }
        let new = Replacement::Indented(block.new.clone(), shifts);
        let found = LenientMatch { leniency: Some(Leniency::Indentation), ranges, new, certain };
        (!found.ranges.is_empty()).then_some(found)
    }

    fn escapes(&self) -> Option<LenientMatch<'a>> {
        let old = decoded(self.old);
        if old == self.old || is_blank(&old) {
            return None;
        }
        self.found(Some(Leniency::Escapes), self.folded.find(&old), Cow::Owned(decoded(self.new)))
    }

    fn typography(&self) -> Option<LenientMatch<'a>> {
        let old = FoldedText::typography(self.old);
        if is_blank(&old.text) {
            return None;
        }
        let as_it_is = self.text.is_ascii() && !old.text.contains('…');
        let ranges = if as_it_is {
            self.folded.find(&old.text)
        } else {
            FoldedText::typography(self.text).find(&old.text)
        };
        self.found(Some(Leniency::Quotes), ranges, Cow::Borrowed(self.new))
    }
}

/// Old and new text as whole lines.
struct Block<'a> {
    old: Vec<&'a str>,
    /// Empty when the lines are removed with their endings.
    new: Vec<&'a str>,
}

impl Block<'_> {
    fn span(&self, lines: &[TextLine<'_>], start: usize) -> Range<usize> {
        lines::span(lines, start..start + self.old.len(), self.new.is_empty())
    }
}

/// Returns the texts as lines, and again without the blank lines around the old one if it has any.
fn blocks<'a>(old: &'a str, new: &'a str) -> Vec<Block<'a>> {
    let ended = old.strip_suffix('\n');
    let new = match ended {
        Some(_) if new.is_empty() => Vec::new(),
        Some(_) => new.strip_suffix('\n').unwrap_or(new).split('\n').collect(),
        // An old text without a final newline does not include the ending of its last line.
        None => new.split('\n').collect(),
    };
    let whole = Block { old: ended.unwrap_or(old).split('\n').collect(), new };
    let (before, after) = blank_ends(&whole.old);
    if before + after == 0 {
        return vec![whole];
    }
    let old = whole.old[before..whole.old.len() - after].to_vec();
    // The same blank lines around the new text are meant to be kept.
    let (new_before, new_after) = blank_ends(&whole.new);
    let new = whole.new[new_before.min(before)..whole.new.len() - new_after.min(after)].to_vec();
    let bare = Block { old, new };
    vec![whole, bare]
}

/// Replaces backslash escapes by their characters. Unknown ones are unchanged.
fn decoded(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        let meaning = match (char, chars.clone().next()) {
            ('\\', Some('n')) => Some('\n'),
            ('\\', Some('t')) => Some('\t'),
            ('\\', Some('r')) => Some('\r'),
            ('\\', Some(sign @ ('\\' | '"' | '\'' | '`' | '$' | '/'))) => Some(sign),
            _ => None,
        };
        if meaning.is_some() {
            chars.next();
        }
        result.push(meaning.unwrap_or(char));
    }
    super::with_line_feeds(&result).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::replace::{LineSpan, Mismatch, replace};

    #[track_caller]
    fn check(text: &str, old: &str, new: &str, leniency: Leniency, expected: &str) {
        let replaced = replace(text, old, new, false).expect("one place");
        assert_eq!(replaced.text, expected);
        assert_eq!(replaced.leniency, Some(leniency));
    }

    #[track_caller]
    fn check_ambiguous(text: &str, old: &str, lines: &[usize], by: Leniency) {
        match replace(text, old, "new", false) {
            Err(Mismatch::Ambiguous { places, leniency, .. }) => {
                let firsts: Vec<usize> = places.iter().map(|place| place.first_line).collect();
                assert_eq!(firsts, lines);
                assert_eq!(leniency, Some(by));
            }
            other => panic!("not ambiguous: {other:?}"),
        }
    }

    #[test]
    fn spaces_at_the_ends_of_lines_are_ignored() {
        let by = Leniency::TrailingSpace;
        check("a  \n b\t\nc\n", "a\n b\n", "x\n", by, "x\nc\n");
        check("a\nb\n", "a  \nb", "x", by, "x\n");
        check("a \r\nb\r\nc", "a\nb", "x\ny", by, "x\r\ny\r\nc");
    }

    #[test]
    fn whole_lines_are_removed_with_their_endings() {
        check("a \nb \nc\n", "a\nb\n", "", Leniency::TrailingSpace, "c\n");
        check("a \nb \nc\n", "a\nb", "", Leniency::TrailingSpace, "\nc\n");
    }

    #[test]
    fn blank_lines_around_the_old_text_are_ignored() {
        check(
            "x\na\nb\ny\n",
            "\n\na\nb\n\n",
            "\n\nnew\n\n",
            Leniency::TrailingSpace,
            "x\nnew\ny\n",
        );
        check("a\nb\ny\n", "\na\nb\n", "new\n", Leniency::TrailingSpace, "new\ny\n");
    }

    #[test]
    fn the_indentation_of_the_file_is_kept() {
        let by = Leniency::Indentation;
        check(
            "fn f() {\n        if a {\n            b\n        }\n}\n",
            "    if a {\n        b\n    }",
            "    if c {\n        if d {\n            e\n        }\n    }",
            by,
            "fn f() {\n        if c {\n            if d {\n                e\n            }\n        }\n}\n",
        );
        check("  a\n    b\n", "a\n  b\n", "a\n\n  c\n", by, "  a\n\n    c\n");
    }

    #[test]
    fn tabs_stay_tabs() {
        let by = Leniency::Indentation;
        check(
            "\tif a {\n\t\tb\n\t}\n",
            "    if a {\n        b\n    }\n",
            "    c {\n        d {\n            e\n",
            by,
            "\tc {\n\t\td {\n\t\t\te\n",
        );
        check("\ta\n", "    a", "    a {\n        b\n    }", by, "\ta {\n\t\tb\n\t}\n");
        check("f\n    a\n", "\ta\n", "\ta\n\t\tb\n", by, "f\n    a\n        b\n");
    }

    #[test]
    fn another_structure_is_no_match() {
        let missing = replace("a\n  b\n    c\n", "a\n    b\n  c\n", "x", false);
        assert!(matches!(missing, Err(Mismatch::Missing { .. })), "{missing:?}");
    }

    #[test]
    fn two_blocks_of_other_indentation_are_ambiguous() {
        check_ambiguous(
            "  a\n  b\nx\n    a\n    b\n",
            "\ta\n\tb\n",
            &[1, 4],
            Leniency::Indentation,
        );
        check_ambiguous("a \nb\na  \nb\n", "a\nb", &[1, 3], Leniency::TrailingSpace);
    }

    #[test]
    fn escapes_are_decoded_on_both_sides() {
        let by = Leniency::Escapes;
        check("say(\"a\")\n\tb\n", r#"say(\"a\")\n\tb"#, r#"say(\"c\")\n"#, by, "say(\"c\")\n\n");
        check("x = a\r\ny", r"a\ny", r"b\nz", by, "x = b\r\nz");
        check_ambiguous("f(\"a\") f(\"a\")", r#"f(\"a\")"#, &[1, 1], by);
    }

    #[test]
    fn typographic_characters_match_their_ascii_forms() {
        let by = Leniency::Quotes;
        check("it’s “so” – ok…\n", "it's \"so\" - ok...", "it’s not", by, "it’s not\n");
        check("it's fine\n", "it’s", "it is", by, "it is fine\n");
        check("a\u{a0}b", "a b", "c", by, "c");
        check_ambiguous("“a” ‘b’ “a”", "\"a\"", &[1, 1], by);
    }

    #[test]
    fn all_replaces_every_candidate_of_the_first_leniency() {
        let replaced = replace("  a\n  b\nx\n    a\n    b\n", "\ta\n\tb\n", "\tc\n", true)
            .expect("two places");
        assert_eq!(replaced.text, "  c\nx\n    c\n");
        let place = |first_line, last_line| LineSpan { first_line, last_line };
        assert_eq!(replaced.places, [place(1, 2), place(4, 5)]);
    }

    #[test]
    fn white_space_alone_is_found_exactly_or_not_at_all() {
        let missing = replace("a\n\nb\n", "   ", "x", false);
        assert!(matches!(missing, Err(Mismatch::Missing { .. })), "{missing:?}");
    }

    #[test]
    fn a_lenient_match_that_changes_nothing_is_refused() {
        assert_eq!(replace("a\n", "a  ", "a", false), Err(Mismatch::Same));
    }

    #[test]
    fn too_many_candidates_to_compare_are_refused() {
        let text = " x\n".repeat(20_000);
        let old = "\tx\n".repeat(500);
        for all in [false, true] {
            let refused = replace(&text, &old, "y", all);
            assert!(matches!(refused, Err(Mismatch::Ambiguous { .. })), "all: {all}");
        }
    }
}
