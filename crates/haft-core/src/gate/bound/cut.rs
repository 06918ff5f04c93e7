//! What is shown of a text that is too long: its head, its tail, and between them lines that look like errors, with the lines
//! around them. Lines stay whole unless one alone is too long; what is left out is told by line numbers.

use std::ops::Range;

use super::notable::{Notable, notable_lines};
use crate::gate::Limits;

/// What the longest note takes, with the id of an output and everything.
const NOTE: usize = 330;
/// What the note of a further gap takes.
const GAP: usize = 48;
/// Below this a text is hardly worth cutting: then notes come on top.
const LEAST: usize = 1 << 10;
/// Lines shown before and after one that looks like an error.
const BEFORE: usize = 2;
const AFTER: usize = 4;

/// A text, cut.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    parts: Vec<Part>,
    bytes: usize,
    left_out: usize,
    lines: usize,
}

#[derive(Debug, PartialEq, Eq)]
struct Part {
    text: String,
    /// The lines that are left out after it, from 1; none after the last.
    gap: Option<(usize, usize)>,
}

/// Room for text.
#[derive(Clone, Copy)]
struct Room {
    bytes: usize,
    lines: usize,
}

impl Cut {
    /// The cut text. `kept` says where the whole is.
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
            let note = if number == 0 { self.note(&lines, kept) } else { lines + " left out" };
            shown.push_str(&format!("[{note}]\n"));
        }
        shown
    }

    fn note(&self, lines: &str, kept: &str) -> String {
        let Self { bytes, left_out, lines: all, parts } = self;
        let further = if parts.len() > 2 { "; more is left out below" } else { "" };
        format!(
            "cut: {lines} left out{further}; {left_out} of {bytes} bytes, {all} lines in all{kept}"
        )
    }
}

/// `None` when the text is short enough.
pub(super) fn cut(text: &str, limits: &Limits) -> Option<Cut> {
    let lines = breaks(text) + 1;
    let fits = text.len() <= limits.content_bytes && lines <= limits.content_lines;
    // Of nothing there is nothing to leave out, not even where no line is allowed.
    if fits || text.is_empty() {
        return None;
    }
    let room = Room::within(limits);
    let mut shown = ends(text, room.share(1, 2), room.share(1, 4));
    let errors = choose(text, &shown, room.share(1, 4));
    // Room that errors do not need is for the ends.
    let room = room.without(used(text, &errors));
    shown = ends(text, room.share(2, 3), room.share(1, 3));
    Some(put_together(text, lines, shown, errors))
}

impl Room {
    fn within(limits: &Limits) -> Self {
        let Limits { content_bytes, content_lines, .. } = *limits;
        let bytes =
            if content_bytes < LEAST { content_bytes } else { content_bytes.saturating_sub(NOTE) };
        // One line is the note's, and one is the empty line that a last line break makes.
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

/// How far the head goes, and where the tail begins.
fn ends(text: &str, head: Room, tail: Room) -> Range<usize> {
    let end = head_of(text, head);
    let (_, rest) = text.split_at(end);
    end..end + tail_of(rest, tail)
}

/// The end of the head: after a line if one ends late enough, else after a word, else after a character.
fn head_of(text: &str, room: Room) -> usize {
    let mut breaks = memchr::memchr_iter(b'\n', text.as_bytes());
    let by_lines = breaks.nth(room.lines - 1).map_or(text.len(), |at| at + 1);
    if by_lines <= room.bytes {
        return by_lines;
    }
    let (head, _) = text.split_at(text.floor_char_boundary(room.bytes));
    let line = memchr::memrchr(b'\n', head.as_bytes()).map(|at| at + 1);
    let word = || head.char_indices().rfind(|(_, letter)| letter.is_whitespace());
    line.filter(|end| *end >= head.len() / 2)
        .or_else(|| word().map(|(at, letter)| at + letter.len_utf8()))
        .unwrap_or(head.len())
}

fn tail_of(text: &str, room: Room) -> usize {
    // The last line has no break after it, or nothing but it.
    let last = text.strip_suffix('\n').unwrap_or(text);
    let mut breaks = memchr::memrchr_iter(b'\n', last.as_bytes());
    let by_lines = breaks.nth(room.lines - 1).map_or(0, |at| at + 1);
    if text.len() - by_lines <= room.bytes {
        return by_lines;
    }
    let start = text.ceil_char_boundary(text.len() - room.bytes);
    let (_, tail) = text.split_at(start);
    let line = memchr::memchr(b'\n', tail.as_bytes()).map(|at| start + at + 1);
    let word = || tail.char_indices().find(|(_, letter)| letter.is_whitespace());
    let is_early = |at: &usize| *at < text.len() && *at - start <= tail.len() / 2;
    line.filter(is_early)
        .or_else(|| word().map(|(at, letter)| start + at + letter.len_utf8()))
        .unwrap_or(start)
}

/// Lines of the middle that are worth showing, in groups, in order. The worst first, and of these the first: it is most often
/// the cause of the others.
fn choose(text: &str, middle: &Range<usize>, room: Room) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let found = notable_lines(text, middle.clone());
    for wanted in [Notable::Error, Notable::Warning] {
        for (_, line) in found.iter().filter(|(sort, _)| *sort == wanted) {
            for group in [with_context_lines(text, middle, line), line.clone()] {
                let with = joined(&groups, group);
                if room.holds(used(text, &with)) {
                    groups = with;
                    break;
                }
            }
        }
    }
    groups
}

/// A line with those before and after it, as far as they are in the middle.
fn with_context_lines(text: &str, middle: &Range<usize>, line: &Range<usize>) -> Range<usize> {
    let bytes = text.as_bytes();
    let before = bytes.get(middle.start..line.start).unwrap_or_default();
    let mut breaks = memchr::memrchr_iter(b'\n', before);
    let start = breaks.nth(BEFORE).map_or(middle.start, |at| middle.start + at + 1);
    let after = bytes.get(line.end..middle.end).unwrap_or_default();
    let mut breaks = memchr::memchr_iter(b'\n', after);
    let end = breaks.nth(AFTER - 1).map_or(middle.end, |at| line.end + at + 1);
    start..end
}

/// With one more group; those that touch are one.
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

fn used(text: &str, groups: &[Range<usize>]) -> Room {
    let mut room = Room { bytes: 0, lines: 0 };
    for group in groups {
        let shown = text.get(group.clone()).unwrap_or_default();
        room.bytes += group.len() + GAP;
        room.lines += breaks(shown) + 2;
    }
    room
}

fn put_together(text: &str, lines: usize, middle: Range<usize>, groups: Vec<Range<usize>>) -> Cut {
    // The ends may have grown over some of them.
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
    let (mut line, mut left_out) = (1, 0);
    let ends = shown.iter().skip(1).map(|range| Some(range.start)).chain([None]);
    for (range, next) in shown.iter().zip(ends) {
        let shown = text.get(range.clone()).unwrap_or_default();
        line += breaks(shown);
        let gap = next.map(|next| {
            let gone = text.get(range.end..next).unwrap_or_default();
            left_out += gone.len();
            let first = line;
            line += breaks(gone);
            (first, line - usize::from(gone.ends_with('\n')))
        });
        parts.push(Part { text: shown.to_owned(), gap });
    }
    let lines = lines - usize::from(text.ends_with('\n'));
    Cut { parts, bytes: text.len(), left_out, lines }
}

fn breaks(text: &str) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).count()
}

#[cfg(test)]
mod tests;
