//! Truncation of long texts: shows the head, the tail, and between them the lines that look like
//! errors, with the lines around them. Lines stay whole unless one alone is too long. Omitted parts
//! are given by line numbers.

use std::ops::Range;

use super::notable::{Notable, notable_lines};
use crate::gate::Limits;

/// Length of the longest note, including an output id.
const MAX_NOTE_BYTES: usize = 330;
/// Length of the note of a further gap.
const GAP_NOTE_BYTES: usize = 48;
/// Below this size a text is hardly worth truncating, and the notes are added on top.
const MIN_TRUNCATED_BYTES: usize = 1 << 10;
/// Lines shown before and after a line that looks like an error.
const LINES_BEFORE: usize = 2;
const LINES_AFTER: usize = 4;

/// A truncated text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Truncated {
    parts: Vec<ShownPart>,
    bytes: usize,
    omitted: usize,
    lines: usize,
}

#[derive(Debug, PartialEq, Eq)]
struct ShownPart {
    text: String,
    /// The lines omitted after it, numbered from 1; `None` for the last part.
    gap: Option<(usize, usize)>,
}

/// Space for text.
#[derive(Clone, Copy)]
struct TextSpace {
    bytes: usize,
    lines: usize,
}

impl Truncated {
    /// The truncated text. `kept` says where the full text is stored.
    pub(super) fn shown(&self, kept: &str) -> String {
        let mut shown = String::new();
        for (number, part) in self.parts.iter().enumerate() {
            shown.push_str(&part.text);
            let Some((first, last)) = part.gap else { continue };
            if !shown.is_empty() && !shown.ends_with('\n') {
                shown.push('\n');
            }
            let lines = if first == last {
                format!("line {first}")
            } else {
                format!("lines {first}-{last}")
            };
            let note = if number == 0 { self.note(&lines, kept) } else { lines + " omitted" };
            shown.push_str(&format!("[{note}]\n"));
        }
        shown
    }

    fn note(&self, lines: &str, kept: &str) -> String {
        let Self { bytes, omitted, lines: all, parts } = self;
        let further = if parts.len() > 2 { "; more is omitted below" } else { "" };
        format!(
            "truncated: {lines} omitted{further}; {omitted} of {bytes} bytes, {all} lines in \
             total{kept}"
        )
    }
}

/// Truncates a text; `None` if it is short enough.
pub(super) fn truncate(text: &str, limits: &Limits) -> Option<Truncated> {
    let lines = breaks(text) + 1;
    let fits = text.len() <= limits.content_bytes && lines <= limits.content_lines;
    // There is nothing to omit from an empty text, even if no line is allowed.
    if fits || text.is_empty() {
        return None;
    }
    let space = TextSpace::within(limits);
    let mut shown = ends(text, space.share(1, 2), space.share(1, 4));
    let errors = choose(text, &shown, space.share(1, 4));
    // Space that errors do not need goes to the head and the tail.
    let space = space.without(used(text, &errors));
    shown = ends(text, space.share(2, 3), space.share(1, 3));
    Some(assemble(text, lines, shown, errors))
}

impl TextSpace {
    fn within(limits: &Limits) -> Self {
        let Limits { content_bytes, content_lines, .. } = *limits;
        let bytes = if content_bytes < MIN_TRUNCATED_BYTES {
            content_bytes
        } else {
            content_bytes.saturating_sub(MAX_NOTE_BYTES)
        };
        // One line is for the note, and one is the empty line after a final line break.
        Self { bytes, lines: content_lines.saturating_sub(2).max(2) }
    }

    fn share(self, part: usize, of: usize) -> Self {
        Self { bytes: self.bytes / of * part, lines: (self.lines / of * part).max(1) }
    }

    fn without(self, used: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(used.bytes),
            lines: self.lines.saturating_sub(used.lines),
        }
    }

    fn holds(self, other: Self) -> bool {
        other.bytes <= self.bytes && other.lines <= self.lines
    }
}

/// The range between the head and the tail.
fn ends(text: &str, head: TextSpace, tail: TextSpace) -> Range<usize> {
    let end = head_of(text, head);
    let (_, rest) = text.split_at(end);
    end..end + tail_of(rest, tail)
}

/// The end of the head: after a line if one ends late enough, otherwise after a word, otherwise
/// after a character.
fn head_of(text: &str, space: TextSpace) -> usize {
    let mut breaks = memchr::memchr_iter(b'\n', text.as_bytes());
    let by_lines = breaks.nth(space.lines - 1).map_or(text.len(), |at| at + 1);
    if by_lines <= space.bytes {
        return by_lines;
    }
    let (head, _) = text.split_at(text.floor_char_boundary(space.bytes));
    let line = memchr::memrchr(b'\n', head.as_bytes()).map(|at| at + 1);
    let word = || head.char_indices().rfind(|(_, letter)| letter.is_whitespace());
    line.filter(|end| *end >= head.len() / 2)
        .or_else(|| word().map(|(at, letter)| at + letter.len_utf8()))
        .unwrap_or(head.len())
}

fn tail_of(text: &str, space: TextSpace) -> usize {
    // The last line has no line break after it, or nothing but one.
    let last = text.strip_suffix('\n').unwrap_or(text);
    let mut breaks = memchr::memrchr_iter(b'\n', last.as_bytes());
    let by_lines = breaks.nth(space.lines - 1).map_or(0, |at| at + 1);
    if text.len() - by_lines <= space.bytes {
        return by_lines;
    }
    let start = text.ceil_char_boundary(text.len() - space.bytes);
    let (_, tail) = text.split_at(start);
    let line = memchr::memchr(b'\n', tail.as_bytes()).map(|at| start + at + 1);
    let word = || tail.char_indices().find(|(_, letter)| letter.is_whitespace());
    let is_early = |at: &usize| *at < text.len() && *at - start <= tail.len() / 2;
    line.filter(is_early)
        .or_else(|| word().map(|(at, letter)| start + at + letter.len_utf8()))
        .unwrap_or(start)
}

/// Groups of lines from the middle that are worth showing, in order. Errors go before warnings, and
/// earlier lines before later ones, because the first is most often the cause of the others.
fn choose(text: &str, middle: &Range<usize>, space: TextSpace) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let found = notable_lines(text, middle.clone());
    for wanted in [Notable::Error, Notable::Warning] {
        for (_, line) in found.iter().filter(|(sort, _)| *sort == wanted) {
            for group in [with_context_lines(text, middle, line), line.clone()] {
                let with = joined(&groups, group);
                if space.holds(used(text, &with)) {
                    groups = with;
                    break;
                }
            }
        }
    }
    groups
}

/// The range of a line with the context lines around it that are within the middle.
fn with_context_lines(text: &str, middle: &Range<usize>, line: &Range<usize>) -> Range<usize> {
    let bytes = text.as_bytes();
    let before = bytes.get(middle.start..line.start).unwrap_or_default();
    let mut breaks = memchr::memrchr_iter(b'\n', before);
    let start = breaks.nth(LINES_BEFORE).map_or(middle.start, |at| middle.start + at + 1);
    let after = bytes.get(line.end..middle.end).unwrap_or_default();
    let mut breaks = memchr::memchr_iter(b'\n', after);
    let end = breaks.nth(LINES_AFTER - 1).map_or(middle.end, |at| line.end + at + 1);
    start..end
}

/// Adds a group; groups that touch are merged.
fn joined(groups: &[Range<usize>], mut group: Range<usize>) -> Vec<Range<usize>> {
    let mut all = Vec::with_capacity(groups.len() + 1);
    for known in groups {
        if known.end < group.start || group.end < known.start {
            all.push(known.clone());
        } else {
            group = known.start.min(group.start)..known.end.max(group.end);
        }
    }
    let place = all.partition_point(|known| known.start < group.start);
    all.insert(place, group);
    all
}

fn used(text: &str, groups: &[Range<usize>]) -> TextSpace {
    let mut space = TextSpace { bytes: 0, lines: 0 };
    for group in groups {
        let shown = text.get(group.clone()).unwrap_or_default();
        space.bytes += group.len() + GAP_NOTE_BYTES;
        space.lines += breaks(shown) + 2;
    }
    space
}

fn assemble(
    text: &str,
    lines: usize,
    middle: Range<usize>,
    groups: Vec<Range<usize>>,
) -> Truncated {
    // The head and the tail may have grown over some groups.
    let inside = groups.into_iter().map(|it| it.start.max(middle.start)..it.end.min(middle.end));
    let ranges = std::iter::once(0..middle.start)
        .chain(inside.filter(|group| group.start < group.end))
        .chain(std::iter::once(middle.end..text.len()));
    let mut shown: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match shown.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => shown.push(range),
        }
    }
    let mut parts = Vec::new();
    let (mut line, mut omitted) = (1, 0);
    let ends = shown.iter().skip(1).map(|range| Some(range.start)).chain([None]);
    for (range, next) in shown.iter().zip(ends) {
        let shown = text.get(range.clone()).unwrap_or_default();
        line += breaks(shown);
        let gap = next.map(|next| {
            let gone = text.get(range.end..next).unwrap_or_default();
            omitted += gone.len();
            let first = line;
            line += breaks(gone);
            (first, line - usize::from(gone.ends_with('\n')))
        });
        parts.push(ShownPart { text: shown.to_owned(), gap });
    }
    let lines = lines - usize::from(text.ends_with('\n'));
    Truncated { parts, bytes: text.len(), omitted, lines }
}

fn breaks(text: &str) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).count()
}

#[cfg(test)]
mod tests;
