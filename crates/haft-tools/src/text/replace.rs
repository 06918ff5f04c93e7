//! Finding a text in a file and putting another in its place: exactly first, then with a leniency that is named, and never
//! by choosing between two places. Reading and writing files is not here.

mod closest;
mod folded;
mod indentation;
mod lenient;
mod lines;
mod places;
mod retry;
mod wording;

#[cfg(test)]
mod properties;

use std::borrow::Cow;

pub(crate) use self::closest::closest;
use self::folded::Folded;
use self::lenient::{Found, Search};

/// A text after a replacement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Replaced {
    pub text: String,
    /// What was replaced, in lines of the original text.
    pub places: Vec<Place>,
    /// In what the text found differed from the text asked for; nothing when it was found exactly.
    pub leniency: Option<Leniency>,
}

/// Lines of the original text, 1-based, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub first_line: usize,
    pub last_line: usize,
}

/// What was overlooked to find a text that is not there exactly. In the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leniency {
    TrailingSpace,
    Indentation,
    Escapes,
    Quotes,
}

/// Why nothing was replaced.
#[derive(Debug, PartialEq)]
pub(crate) enum Mismatch {
    /// There is no text to look for.
    Empty,
    /// The replacement would change nothing.
    Same,
    /// The text is at several places and one was asked for.
    Ambiguous { places: Vec<Place>, leniency: Option<Leniency>, retry: Option<Retry> },
    /// The text is nowhere.
    Missing { closest: Vec<Closest>, retry: Option<Retry> },
}

/// A place that resembles the text that was not found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Closest {
    pub first_line: usize,
    pub last_line: usize,
    /// The file's lines there, cut when they are many or long.
    pub text: String,
    /// From 0 (nothing in common) to 1 (only white space differs).
    pub likeness: f64,
}

/// Strings with which the same replacement would succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    pub old_string: String,
    pub new_string: String,
}

/// Replaces `old` by `new` at its only place, or with `all` at every place. Newlines in `old` and `new` stand for the
/// endings of the file: `\n` or `\r\n`. Everything outside the places is kept byte for byte.
pub(crate) fn replace(text: &str, old: &str, new: &str, all: bool) -> Result<Replaced, Mismatch> {
    let (old, new) = (with_line_feeds(old), with_line_feeds(new));
    if old.is_empty() {
        return Err(Mismatch::Empty);
    }
    if old == new {
        return Err(Mismatch::Same);
    }
    let folded = Folded::newlines(text);
    let search = Search { text, folded: &folded, old: &old, new: &new };
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

fn ambiguous(search: &Search<'_>, found: &Found<'_>) -> Mismatch {
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
