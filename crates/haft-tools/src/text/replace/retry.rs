//! Strings from the file's own text with which a failed replacement would succeed.

use super::lenient::{LenientMatch, TextSearch};
use super::{Closest, Retry, lines, with_line_feeds};

/// Maximum size of the strings; above this the hint would cost more than it saves.
const MAX_RETRY_BYTES: usize = 2_000;

/// Minimum similarity of a place; below this another place may be meant.
const MIN_SIMILARITY: f64 = 0.8;

/// Returns the first match with its whole lines or a line around it, if that makes it unique.
pub(super) fn at_first_place(search: &TextSearch<'_>, found: &LenientMatch<'_>) -> Option<Retry> {
    let text = search.text;
    let place = found.ranges.first()?.clone();
    let ends_line = text.get(place.clone())?.ends_with('\n');
    let start = line_start(text, place.start);
    let end = if ends_line { place.end } else { line_end(text, place.end) };
    let above = line_start(text, start.saturating_sub(1));
    let next = if ends_line {
        end
    } else {
        text.get(end..)?.find('\n').map_or(end, |newline| end + newline + 1)
    };
    let below = line_end(text, next);
    [start..end, above..end, start..below, above..below].into_iter().find_map(|range| {
        let before = with_line_feeds(text.get(range.start..place.start)?);
        let behind = with_line_feeds(text.get(place.end..range.end)?);
        let old_string = with_line_feeds(text.get(range)?).into_owned();
        let new_string = format!("{before}{}{behind}", found.new.at(0));
        checked(search, Retry { old_string, new_string })
    })
}

fn line_start(text: &str, position: usize) -> usize {
    text.get(..position).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1)
}

/// Returns where the line at `position` ends, before its ending.
fn line_end(text: &str, position: usize) -> usize {
    let rest = text.get(position..).unwrap_or_default();
    let Some((line, _)) = rest.split_once('\n') else { return text.len() };
    position + line.strip_suffix('\r').unwrap_or(line).len()
}

/// Returns the text of the closest place, if it is so similar that it is certainly meant.
pub(super) fn at_closest(search: &TextSearch<'_>, closest: &Closest) -> Option<Retry> {
    let lines = lines::lines(search.text);
    let mut range =
        lines::span(&lines, closest.first_line - 1..closest.last_line, search.old.ends_with('\n'));
    let there = search.text.get(range.clone())?;
    let (indent, _) = lines::split_indent(there);
    if closest.similarity < MIN_SIMILARITY
        || there.len() > MAX_RETRY_BYTES
        || !same_ends(search.old, there)
    {
        return None;
    }
    // If the old text begins inside a line, so does the new one.
    if lines::split_indent(search.old).0.is_empty() {
        range.start += indent.len();
    }
    let old_string = with_line_feeds(search.text.get(range)?).into_owned();
    checked(search, Retry { old_string, new_string: search.new.to_owned() })
}

/// Returns true if both texts begin and end with the same character. Otherwise the place may have
/// more of its line than the old text, which the new text would remove. For the same reason the old
/// text must have no blank lines around it.
fn same_ends(old: &str, there: &str) -> bool {
    let old_lines: Vec<&str> = old.strip_suffix('\n').unwrap_or(old).split('\n').collect();
    let (old, there) = (old.trim(), there.trim());
    lines::blank_ends(&old_lines) == (0, 0)
        && old.chars().next() == there.chars().next()
        && old.chars().last() == there.chars().last()
}

/// Returns the retry if its strings are short, differ and match once.
fn checked(search: &TextSearch<'_>, retry: Retry) -> Option<Retry> {
    let short = retry.old_string.len() + retry.new_string.len() <= MAX_RETRY_BYTES;
    let differs = retry.old_string != retry.new_string;
    (short && differs && search.folded.find(&retry.old_string).len() == 1).then_some(retry)
}

#[cfg(test)]
mod tests {
    use crate::text::replace::{Mismatch, Retry, replace};

    #[track_caller]
    fn check(text: &str, old: &str, new: &str, expected: Option<(&str, &str)>) {
        let retry = match replace(text, old, new, false) {
            Err(Mismatch::Ambiguous { retry, .. } | Mismatch::Missing { retry, .. }) => retry,
            other => panic!("no mismatch with a retry: {other:?}"),
        };
        let expected =
            expected.map(|(old, new)| Retry { old_string: old.into(), new_string: new.into() });
        assert_eq!(retry, expected);
    }

    #[test]
    fn the_first_of_several_places_is_extended_by_its_line_or_a_neighbour() {
        check("x = f()\ny = f()\n", "f()", "g()", Some(("x = f()", "x = g()")));
        check("a\nf()\nb\nf()\n", "f()", "g()", Some(("a\nf()", "a\ng()")));
        check("f()\r\na\r\nf()\r\nb\r\n", "f()", "g()", Some(("f()\na", "g()\na")));
        check("a\na\n", "a\n", "b\n", Some(("a\na", "b\na")));
        check("a\na\na\na\n", "a\n", "b\n", None);
    }

    #[test]
    fn a_close_place_is_returned_unchanged() {
        let text = "fn main() {\n    let total = count + 1;\n    print(total);\n}\n";
        let old = "let total = count + 2;\n    print(total);";
        let there = "let total = count + 1;\n    print(total);";
        check(text, old, "done();", Some((there, "done();")));
    }

    #[test]
    fn a_place_with_more_of_its_line_is_not_returned() {
        check("    let total = count + 1; // all\n", "let total = count + 2;", "done();", None);
    }
}
