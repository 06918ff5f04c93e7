//! Strings with which a failed replacement would succeed, made from the file's own text.

use super::lenient::{Found, Search};
use super::{Closest, Retry, lines, with_line_feeds};

/// Above this the hint would be longer than what it saves.
const LONGEST: usize = 2_000;

/// A place less alike than this may be another one than was meant.
const ALIKE_ENOUGH: f64 = 0.8;

/// The first place, with its whole lines or a line around it, if that makes it the only one.
pub(super) fn at_first_place(search: &Search<'_>, found: &Found<'_>) -> Option<Retry> {
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
        sound(search, Retry { old_string, new_string })
    })
}

fn line_start(text: &str, position: usize) -> usize {
    text.get(..position).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1)
}

/// Where the line at `position` ends, before its ending.
fn line_end(text: &str, position: usize) -> usize {
    let rest = text.get(position..).unwrap_or_default();
    let Some((line, _)) = rest.split_once('\n') else { return text.len() };
    position + line.strip_suffix('\r').unwrap_or(line).len()
}

/// The text of the closest place, if it is so close that what is to be replaced is plain.
pub(super) fn at_closest(search: &Search<'_>, closest: &Closest) -> Option<Retry> {
    let lines = lines::lines(search.text);
    let mut range =
        lines::span(&lines, closest.first_line - 1..closest.last_line, search.old.ends_with('\n'));
    let there = search.text.get(range.clone())?;
    let (indent, _) = lines::split_indent(there);
    if closest.likeness < ALIKE_ENOUGH || there.len() > LONGEST || !same_ends(search.old, there) {
        return None;
    }
    // An old text that begins in the middle of a line goes with a new one that does.
    if lines::split_indent(search.old).0.is_empty() {
        range.start += indent.len();
    }
    let old_string = with_line_feeds(search.text.get(range)?).into_owned();
    sound(search, Retry { old_string, new_string: search.new.to_owned() })
}

/// Whether both begin and end with the same sign: otherwise the place may hold more of its line than was asked for, and
/// the new text would not bring it back. The same goes for blank lines around the old text, which the place has not.
fn same_ends(old: &str, there: &str) -> bool {
    let old_lines: Vec<&str> = old.strip_suffix('\n').unwrap_or(old).split('\n').collect();
    let (old, there) = (old.trim(), there.trim());
    lines::blank_ends(&old_lines) == (0, 0)
        && old.chars().next() == there.chars().next()
        && old.chars().last() == there.chars().last()
}

/// Only strings that are short, differ and are at one place are worth giving.
fn sound(search: &Search<'_>, retry: Retry) -> Option<Retry> {
    let short = retry.old_string.len() + retry.new_string.len() <= LONGEST;
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
    fn the_first_of_several_places_is_told_apart_by_its_line_or_a_neighbour() {
        check("x = f()\ny = f()\n", "f()", "g()", Some(("x = f()", "x = g()")));
        check("a\nf()\nb\nf()\n", "f()", "g()", Some(("a\nf()", "a\ng()")));
        check("f()\r\na\r\nf()\r\nb\r\n", "f()", "g()", Some(("f()\na", "g()\na")));
        check("a\na\n", "a\n", "b\n", Some(("a\na", "b\na")));
        check("a\na\na\na\n", "a\n", "b\n", None);
    }

    #[test]
    fn a_close_place_is_given_as_it_is() {
        let text = "fn main() {\n    let total = count + 1;\n    print(total);\n}\n";
        let old = "let total = count + 2;\n    print(total);";
        let there = "let total = count + 1;\n    print(total);";
        check(text, old, "done();", Some((there, "done();")));
    }

    #[test]
    fn a_place_that_holds_more_of_its_line_is_not_given() {
        check("    let total = count + 1; // all\n", "let total = count + 2;", "done();", None);
    }
}
