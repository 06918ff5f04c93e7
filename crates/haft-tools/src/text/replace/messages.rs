//! Messages about a replacement: the leniency of a match, the reason of a mismatch, and the next
//! step.

use std::fmt::Write;

use haft_core::visible_in_json;
use serde_json::json;

use super::{Closest, Leniency, LineSpan, Mismatch, Retry};

/// Maximum number of places named in a message.
const MAX_NAMED_PLACES: usize = 10;
/// Maximum size of a call suggested in a hint.
const MAX_CALL_BYTES: usize = 2_000;

impl Leniency {
    /// Describes the difference of the match, to complete "matched although …".
    pub(crate) fn description(&self) -> &'static str {
        match self {
            Self::TrailingSpace => "trailing spaces or the blank lines around it differ",
            Self::Indentation => "its indentation differs",
            Self::Escapes => "old_string has backslash escapes",
            Self::Quotes => "quotes, dashes or spaces differ typographically",
        }
    }
}

impl Mismatch {
    /// Returns a message that names the path, and a next step.
    pub(crate) fn message_and_hint(&self, path: &str) -> (String, String) {
        match self {
            Self::Empty => (
                format!("old_string is empty, so there is nothing to replace in {path}"),
                format!(
                    "give text of {path} as old_string; to add lines, give a neighbouring line as old_string and repeat it in new_string"
                ),
            ),
            Self::Same => (
                format!("nothing would change in {path}: it already has new_string at that place"),
                "if the text is correct, continue; otherwise give another new_string".to_owned(),
            ),
            Self::Ambiguous { places, leniency, retry } => {
                (several(path, places, *leniency), one_of_several(path, places, retry.as_ref()))
            }
            Self::Missing { closest, retry } => {
                (missing(path, closest), at_closest(path, closest, retry.as_ref()))
            }
        }
    }
}

fn several(path: &str, places: &[LineSpan], leniency: Option<Leniency>) -> String {
    let although = leniency
        .map(|leniency| format!(" (matched although {})", leniency.description()))
        .unwrap_or_default();
    format!("old_string matches {} places in {path}{although}: {}", places.len(), named(places))
}

fn one_of_several(path: &str, places: &[LineSpan], retry: Option<&Retry>) -> String {
    let general = "add the lines around it to old_string and new_string until it is unique, or set replace_all \
                   to true to change all";
    let call = retry.and_then(|retry| call(path, retry)).zip(places.first());
    match call {
        Some((call, place)) => format!(
            "{general}; to change only {} call: {call}",
            lines(place.first_line, place.last_line)
        ),
        None => general.to_owned(),
    }
}

fn missing(path: &str, closest: &[Closest]) -> String {
    let Some(best) = closest.first() else {
        return format!("old_string is not in {path}, and nothing in the file resembles it");
    };
    let mut message =
        format!("old_string is not in {path}; the closest place is {}:", with_percent(best));
    for (number, line) in (best.first_line..).zip(best.text.lines()) {
        write!(message, "\n{number}: {line}").expect("a string takes all");
    }
    let shown = best.text.lines().count();
    let left_out = (best.last_line + 1 - best.first_line).saturating_sub(shown);
    if left_out > 0 {
        write!(message, "\n… {left_out} more").expect("a string takes all");
    }
    if let [_, others @ ..] = closest
        && !others.is_empty()
    {
        let others: Vec<String> = others.iter().map(with_percent).collect();
        write!(message, "\nalso similar: {}", others.join(", ")).expect("a string takes all");
    }
    message
}

fn at_closest(path: &str, closest: &[Closest], retry: Option<&Retry>) -> String {
    let Some(best) = closest.first() else {
        return format!("read {path} and copy the text to replace from it, without line numbers");
    };
    let place = lines(best.first_line, best.last_line);
    match retry.and_then(|retry| call(path, retry)) {
        Some(call) => format!("if {place} is meant, call with its exact text: {call}"),
        None => format!("read {place} of {path} and give old_string exactly as it is there"),
    }
}

/// Formats the arguments of a call as one line of JSON.
fn call(path: &str, retry: &Retry) -> Option<String> {
    let Retry { old_string, new_string } = retry;
    let call = json!({ "path": path, "old_string": old_string, "new_string": new_string });
    let call = visible_in_json(&call.to_string());
    (call.len() <= MAX_CALL_BYTES).then_some(call)
}

fn named(places: &[LineSpan]) -> String {
    // Several places on one line are named once.
    let mut distinct = places.to_vec();
    distinct.dedup();
    let mut named: Vec<String> = distinct
        .iter()
        .take(MAX_NAMED_PLACES)
        .map(|place| lines(place.first_line, place.last_line))
        .collect();
    let more = distinct.len().saturating_sub(MAX_NAMED_PLACES);
    let last = if more > 0 { format!("{more} more") } else { named.pop().unwrap_or_default() };
    if named.is_empty() { last } else { format!("{} and {last}", named.join(", ")) }
}

fn with_percent(place: &Closest) -> String {
    let percent = (place.similarity * 100.0).floor();
    format!("{} ({percent}% similar)", lines(place.first_line, place.last_line))
}

fn lines(first: usize, last: usize) -> String {
    if first == last { format!("line {first}") } else { format!("lines {first}-{last}") }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::text::replace::replace;

    #[track_caller]
    fn check(text: &str, old: &str, new: &str, message: &str, hint: &str) {
        let words =
            replace(text, old, new, false).expect_err("a mismatch").message_and_hint("a.rs");
        assert_eq!(words, (message.to_owned(), hint.to_owned()));
    }

    #[test]
    fn several_places_are_named_with_a_call_for_the_first() {
        check(
            "a = f();\nb = f();\n",
            "f()",
            "g()",
            "old_string matches 2 places in a.rs: line 1 and line 2",
            "add the lines around it to old_string and new_string until it is unique, or set replace_all to true to change all; \
             to change only line 1 call: {\"path\":\"a.rs\",\"old_string\":\"a = f();\",\"new_string\":\"a = g();\"}",
        );
    }

    #[test]
    fn many_places_are_counted() {
        let mismatch = replace(&"f\n".repeat(30), "f", "g", false).expect_err("ambiguous");
        let (message, _) = mismatch.message_and_hint("a.rs");
        assert!(
            message.starts_with("old_string matches 30 places in a.rs: line 1, line 2, "),
            "{message}"
        );
        assert!(message.ends_with(", line 10 and 20 more"), "{message}");
    }

    #[test]
    fn the_closest_place_is_shown_with_a_call_that_works() {
        let text = "fn main() {\n    let total = count + 1;\n    print(total);\n}\n";
        let mismatch = replace(text, "    let total = count + 2;\n", "    let total = 0;\n", false)
            .expect_err("a slip");
        let (message, hint) = mismatch.message_and_hint("a.rs");
        assert!(
            message.starts_with("old_string is not in a.rs; the closest place is line 2 ("),
            "{message}"
        );
        assert!(message.ends_with(":\n2:     let total = count + 1;"), "{message}");
        let (_, call) = hint.split_once(": ").expect("a call");
        let call: Value = serde_json::from_str(call).expect("json");
        let string = |key: &str| call[key].as_str().expect("a string").to_owned();
        let replaced = replace(text, &string("old_string"), &string("new_string"), false)
            .expect("the call works");
        assert_eq!(replaced.text, text.replace("count + 1", "0"));
    }

    #[test]
    fn without_a_similar_place_the_hint_is_to_read_the_file() {
        check(
            "a\n",
            "something else entirely",
            "x",
            "old_string is not in a.rs, and nothing in the file resembles it",
            "read a.rs and copy the text to replace from it, without line numbers",
        );
    }

    #[test]
    fn every_mismatch_names_the_path() {
        for mismatch in [replace("a", "", "b", false), replace("a", "b", "b", false)] {
            let (message, hint) = mismatch.expect_err("a mismatch").message_and_hint("a.rs");
            assert!(message.contains("a.rs") && !hint.is_empty());
        }
    }
}
