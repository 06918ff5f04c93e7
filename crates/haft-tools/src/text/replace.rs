//! Replaces a text in a file: by an exact match first, then by a lenient match whose leniency is
//! reported. It never chooses between two matches. Reading and writing files is not done here.

mod closest;
mod folded;
mod indentation;
mod lenient;
mod lines;
mod messages;
mod places;
mod retry;

#[cfg(test)]
mod properties;

use std::borrow::Cow;

pub(crate) use self::closest::closest;
use self::folded::FoldedText;
use self::lenient::{LenientMatch, TextSearch};

/// A text after a replacement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Replaced {
    pub text: String,
    /// The replaced lines, numbered as in the original text.
    pub places: Vec<LineSpan>,
    /// How the match differed from the given text; `None` for an exact match.
    pub leniency: Option<Leniency>,
}

/// A range of lines of the original text, counted from 1, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineSpan {
    pub first_line: usize,
    pub last_line: usize,
}

/// A difference ignored by a lenient match. In the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leniency {
    TrailingSpace,
    Indentation,
    Escapes,
    Quotes,
}

/// The reason why nothing was replaced.
#[derive(Debug, PartialEq)]
pub(crate) enum Mismatch {
    /// The text to replace is empty.
    Empty,
    /// The replacement would change nothing.
    Same,
    /// There are several matches and one was requested.
    Ambiguous { places: Vec<LineSpan>, leniency: Option<Leniency>, retry: Option<Retry> },
    /// Nothing matches.
    Missing { closest: Vec<Closest>, retry: Option<Retry> },
}

/// A place that resembles a text without a match.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Closest {
    pub first_line: usize,
    pub last_line: usize,
    /// The lines of the file, truncated when they are many or long.
    pub text: String,
    /// Similarity from 0 (nothing in common) to 1 (only white space differs).
    pub similarity: f64,
}

/// Strings with which the same replacement would succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    pub old_string: String,
    pub new_string: String,
}

/// Replaces the only match of `old` by `new`, or with `all` every match. A newline in `old` and
/// `new` stands for the ending of the file, `\n` or `\r\n`. Other text keeps every byte.
pub(crate) fn replace(text: &str, old: &str, new: &str, all: bool) -> Result<Replaced, Mismatch> {
    let (old, new) = (with_line_feeds(old), with_line_feeds(new));
    if old.is_empty() {
        return Err(Mismatch::Empty);
    }
    if old == new {
        return Err(Mismatch::Same);
    }
    let folded = FoldedText::newlines(text);
    let search = TextSearch { text, folded: &folded, old: &old, new: &new };
    let Some(found) = search.run() else {
        let closest = closest(text, &old);
        let retry = closest.first().and_then(|place| retry::at_closest(&search, place));
        return Err(Mismatch::Missing { closest, retry });
    };
    if !found.certain || (found.ranges.len() > 1 && !all) {
        return Err(ambiguous(&search, &found));
    }
    let (text_after, ranges) = places::spliced(text, &found);
    if text_after == text {
        return Err(Mismatch::Same);
    }
    Ok(Replaced { text: text_after, places: places::of(text, &ranges), leniency: found.leniency })
}

fn ambiguous(search: &TextSearch<'_>, found: &LenientMatch<'_>) -> Mismatch {
    let retry = retry::at_first_place(search, found);
    Mismatch::Ambiguous {
        places: places::of(search.text, &found.ranges),
        leniency: found.leniency,
        retry,
    }
}

fn with_line_feeds(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}
