//! Errors for a hunk that does not match: the missing line, and the closest place in the file.

use std::collections::HashMap;

use super::{Hunk, HunkLine, PatchError, leniency::LineComparison, search::HunkSearch, shown};
use crate::text::replace::closest;

/// A line at more places than this does not help to find the hunk.
const MAX_PLACES: usize = 200;
/// Maximum number of votes. Both limits keep a hopeless hunk on a large file within milliseconds.
const MAX_VOTES: usize = 20_000;
/// Maximum number of lines of the file shown.
const MAX_SHOWN_LINES: usize = 12;

pub(super) fn not_found(search: &HunkSearch<'_>, hunk: &Hunk, lines: &[HunkLine]) -> PatchError {
    let old: Vec<&HunkLine> = lines.iter().filter(|line| line.is_old()).collect();
    let texts: Vec<&str> = old.iter().map(|line| line.text.as_str()).collect();
    if texts.is_empty() {
        return misplaced(search, hunk, None);
    }
    if let Some(start) = search.anywhere(&texts) {
        return misplaced(search, hunk, Some((start, texts.len())));
    }
    let place = best_place(search, hunk, &texts);
    let (line, found) = first_difference(search, &old, place);
    let difference = match found {
        Some(at) => format!(
            "{} (line {} of the patch) is not line {} of the file",
            shown(&line.text),
            line.patch_line,
            at + 1
        ),
        None => format!(
            "{} (line {} of the patch) is not in the file",
            shown(&line.text),
            line.patch_line
        ),
    };
    PatchError::new(
        format!("{}; {difference}; nothing was changed", head(search, hunk)),
        match place {
            Some(start) => format!(
                "write the context and removed lines exactly as in the file; the closest place is\n{}",
                excerpt(search, start, texts.len())
            ),
            None => format!(
                "read {} and write the hunk's context and removed lines exactly as in it",
                search.path
            ),
        },
    )
}

pub(super) fn header_not_found(search: &HunkSearch<'_>, hunk: &Hunk, header: &str) -> PatchError {
    let similar = most_similar(search, header);
    PatchError::new(
        format!("{}; its `@@` line {} is not a line of the file; nothing was changed", head(search, hunk), shown(header)),
        match similar {
            Some(at) => format!("after `@@` write the whole line; the closest is line {}: {}", at + 1, shown(search.file.text(at))),
            None => "after `@@` write a whole line of the file, or leave it empty and give more context lines".to_owned(),
        },
    )
}

fn head(search: &HunkSearch<'_>, hunk: &Hunk) -> String {
    format!(
        "{}: hunk {} (line {} of the patch) does not match",
        search.path, hunk.number, hunk.patch_line
    )
}

/// Returns the error for lines that are in the file, but not where the patch says.
fn misplaced(search: &HunkSearch<'_>, hunk: &Hunk, place: Option<(usize, usize)>) -> PatchError {
    let (why, hint) = if place.is_some_and(|(start, _)| start < search.position) || place.is_none()
    {
        (
            format!("that is before line {}, where the hunk before it ended", search.position + 1),
            "put the hunks in the order of the file, without overlaps",
        )
    } else if hunk.at_end {
        (
            "these are not the last lines of the file".to_owned(),
            "leave out `*** End of File`, or give the file's last lines",
        )
    } else {
        let header = hunk.headers.first().map(String::as_str).unwrap_or_default();
        (
            format!("that is not below {}", shown(header)),
            "correct the `@@` lines, or leave them out",
        )
    };
    let at = match place {
        Some((start, count)) => format!("its lines are at {}", span(start, count)),
        None => "its `@@` line is in the file".to_owned(),
    };
    PatchError::new(format!("{}; {at}, but {why}; nothing was changed", head(search, hunk)), hint)
}

fn span(start: usize, count: usize) -> String {
    match count {
        0 | 1 => format!("line {}", start + 1),
        _ => format!("lines {}-{}", start + 1, start + count),
    }
}

/// Returns the most likely start of the hunk: each line that is also in the file votes for a start.
fn best_place(search: &HunkSearch<'_>, hunk: &Hunk, old: &[&str]) -> Option<usize> {
    let index = search.index(LineComparison::TypographyAndIndentation);
    let mut votes: HashMap<usize, usize> = HashMap::new();
    let mut n_votes = 0;
    for (offset, line) in old.iter().enumerate() {
        let places = index.lines(line);
        if line.trim().is_empty() || places.len() > MAX_PLACES {
            continue;
        }
        for start in places.iter().filter_map(|place| place.checked_sub(offset)) {
            *votes.entry(start).or_default() += 1;
            n_votes += 1;
        }
        if n_votes > MAX_VOTES {
            break;
        }
    }
    let expected = search.expected(hunk);
    let best = votes
        .into_iter()
        .max_by_key(|(start, count)| (*count, std::cmp::Reverse(start.abs_diff(expected)), *start));
    best.map(|(start, _)| start).or_else(|| {
        let (offset, line) = old.iter().enumerate().find(|(_, line)| !line.trim().is_empty())?;
        most_similar(search, line)?.checked_sub(offset)
    })
}

/// Returns the line of the file that is most similar to this one.
fn most_similar(search: &HunkSearch<'_>, line: &str) -> Option<usize> {
    let lines: Vec<&str> = search.file.lines.iter().map(|line| line.text).collect();
    let places = closest(&lines.join("\n"), line);
    places.first().map(|place| place.first_line - 1)
}

/// Returns the first old line that is not in the file: at the closest place, or else anywhere.
fn first_difference<'h>(
    search: &HunkSearch<'_>,
    old: &[&'h HunkLine],
    place: Option<usize>,
) -> (&'h HunkLine, Option<usize>) {
    let comparison = LineComparison::TypographyAndIndentation;
    let first = *old.first().expect("a search has old lines");
    if let Some(start) = place {
        let differs = |(offset, line): &(usize, &&HunkLine)| {
            let there = search.file.lines.get(start + offset);
            there.is_none_or(|there| comparison.key(there.text) != comparison.key(&line.text))
        };
        let found = old.iter().enumerate().find(differs);
        return found.map_or((first, Some(start)), |(offset, line)| (*line, Some(start + offset)));
    }
    let index = search.index(comparison);
    (old.iter().find(|line| index.lines(&line.text).is_empty()).copied().unwrap_or(first), None)
}

fn excerpt(search: &HunkSearch<'_>, start: usize, count: usize) -> String {
    let lines = search.file.lines.iter().enumerate().skip(start).take(count.min(MAX_SHOWN_LINES));
    let mut shown_lines: Vec<_> =
        lines.map(|(at, line)| format!("{}: {}", at + 1, shown(line.text))).collect();
    if count > MAX_SHOWN_LINES {
        shown_lines.push(format!("… to line {}", (start + count).min(search.file.len())));
    }
    shown_lines.join("\n")
}

#[cfg(test)]
mod tests {
    use crate::text::patch::{PatchAction, apply, parse};

    #[track_caller]
    fn check(body: &str, old: &str, message: &str, hint: &str) {
        let patch = format!("*** Begin Patch\n*** Update File: f\n{body}*** End Patch");
        let files = parse(&patch).expect("it parses");
        let Some(PatchAction::Update { hunks, .. }) = files.first().map(|file| &file.action) else {
            panic!("an update")
        };
        let error = apply("f", old, hunks).expect_err("it does not match");
        assert_eq!(
            error.message,
            format!(
                "f: hunk 1 (line 3 of the patch) does not match; {message}; nothing was changed"
            )
        );
        assert!(error.hint.contains(hint), "{}", error.hint);
    }

    #[test]
    fn the_first_line_that_differs_is_named_at_the_closest_place() {
        check(
            " one\n two\n-three\n",
            "zero\none\ntwo\n3\n",
            "`three` (line 5 of the patch) is not line 4 of the file",
            "the closest place is\n2: `one`\n3: `two`\n4: `3`",
        );
    }

    #[test]
    fn a_similar_line_is_found_when_none_is_equal() {
        check(
            "-let value = compute(one);\n",
            "x\nlet value = compute(two);\n",
            "`let value = compute(one);` (line 3 of the patch) is not line 2 of the file",
            "2: `let value = compute(two);`",
        );
    }

    #[test]
    fn without_a_similar_line_the_hint_is_to_read_the_file() {
        check(
            "-abc\n",
            "x\ny\n",
            "`abc` (line 3 of the patch) is not in the file",
            "read f and write",
        );
        check("-abc\n", "", "`abc` (line 3 of the patch) is not in the file", "read f and write");
    }

    #[test]
    fn a_hunk_longer_than_the_rest_of_the_file_is_reported() {
        check(" a\n-b\n", "a\n", "`b` (line 4 of the patch) is not line 2 of the file", "1: `a`");
    }
}
