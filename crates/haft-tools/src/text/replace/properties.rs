//! Property tests: replacing compared with a naive model, and invariants for every text.

use proptest::prelude::*;

use super::*;

/// Returns the starts of `old` in `text`, including overlaps.
fn occurrences(text: &str, old: &str) -> Vec<usize> {
    text.char_indices()
        .map(|(at, _)| at)
        .filter(|at| text.get(*at..).is_some_and(|rest| rest.starts_with(old)))
        .collect()
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", " ", "\n", "\r\n"]), 0..24)
        .prop_map(|parts| parts.concat())
}

/// Generates a text and a part of it, or a text and one that may not be in it.
fn text_and_old() -> impl Strategy<Value = (String, String)> {
    let part = (text(), any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(
        |(text, from, len)| {
            let chars: Vec<char> = text.chars().collect();
            let from = from.index(chars.len() + 1);
            let len = len.index(chars.len() - from + 1).min(6);
            let part = chars[from..from + len].iter().collect();
            (text, part)
        },
    );
    prop_oneof![part, (text(), "[ab \n]{1,5}")]
}

#[track_caller]
fn check(text: &str, old: &str, new: &str, all: bool, expected: &str) {
    let replaced = replace(text, old, new, all).expect("found");
    assert_eq!((replaced.text.as_str(), replaced.leniency), (expected, None));
}

#[test]
fn new_text_is_literal() {
    check("a b", "a", "$& $$ $1 \\n \\0", false, "$& $$ $1 \\n \\0 b");
    check("a b a", "a", "$&", true, "$& b $&");
}

#[test]
fn an_exact_text_at_several_places_is_never_matched_leniently() {
    // One match is a whole line and the other a part of a line: a lenient search would choose the
    // first.
    let text = "    foo()\nx = foo()\n";
    let mismatch = replace(text, "foo()", "bar()", false).expect_err("two places");
    assert!(
        matches!(mismatch, Mismatch::Ambiguous { leniency: None, ref places, .. } if places.len() == 2)
    );
    check(text, "foo()", "bar()", true, "    bar()\nx = bar()\n");
}

#[test]
fn the_endings_of_the_file_are_kept() {
    check("a\r\nb\r\nc\n", "a\nb", "x\ny\nz", false, "x\r\ny\r\nz\r\nc\n");
    check("a\r\nb\r\nc\n", "c\n", "x\ny\n", false, "a\r\nb\r\nx\ny\n");
    check("a\r\nb\r\nc\n", "c", "x\r\ny", false, "a\r\nb\r\nx\r\ny\n");
    check("a\nb", "a\r\nb", "x", false, "x");
    check("a", "a", "x\ny", false, "x\ny");
}

#[test]
fn a_replacement_without_change_is_refused() {
    assert_eq!(replace("a", "", "b", true), Err(Mismatch::Empty));
    assert_eq!(replace("a\r\nb", "a\r\nb", "a\nb", true), Err(Mismatch::Same));
}

#[test]
fn overlapping_places_are_ambiguous_and_all_replaces_separate_ones() {
    let mismatch = replace("}\n}\n}\n", "}\n}\n", "x", false).expect_err("two places");
    assert!(matches!(mismatch, Mismatch::Ambiguous { .. }), "{mismatch:?}");
    check("aaaaa", "aa", "b", true, "bba");
}

#[test]
fn a_big_file_is_searched_in_linear_time() {
    let line = "let value = compute(alpha, beta); // and some more words\n";
    let text = line.repeat(40_000);
    let missing = replace(&text, "let value = compute(alpha, gamma);\nreturn value;\n", "x", false)
        .expect_err("missing");
    assert!(matches!(missing, Mismatch::Missing { .. }));
    let blanks = "\r\n".repeat(500_000);
    let old = format!("{}x", "\n".repeat(1_000));
    assert!(replace(&blanks, &old, "y", false).is_err());
    let one_line = "(a,b)".repeat(400_000);
    assert!(replace(&one_line, "(a,b);(a,c)", "y", false).is_err());
}

proptest! {
    #[test]
    fn exact_replacing_is_that_of_the_text_with_line_feeds((text, old) in text_and_old(), new in "[ab$&\n]{0,4}", all: bool) {
        let (plain, old_plain) = (text.replace("\r\n", "\n"), old.replace("\r\n", "\n"));
        let found = if old_plain.is_empty() { 0 } else { occurrences(&plain, &old_plain).len() };
        let result = replace(&text, &old, &new, all);
        match result {
            Err(Mismatch::Empty) => prop_assert!(old.is_empty()),
            Err(Mismatch::Same) => prop_assert!(old_plain == new || found == 0),
            Ok(replaced) if replaced.leniency.is_none() => {
                prop_assert!(found == 1 || (all && found > 1));
                prop_assert_eq!(replaced.text.replace("\r\n", "\n"), plain.replace(&old_plain, &new));
            }
            Err(Mismatch::Ambiguous { leniency: None, places, .. }) => {
                prop_assert!(found > 1 && !all && places.len() > 1);
            }
            _ => prop_assert_eq!(found, 0),
        }
    }

    #[test]
    fn bytes_outside_the_place_are_kept((text, old) in text_and_old()) {
        // The marker shows which bytes are new.
        if let Ok(replaced) = replace(&text, &old, "§", false) {
            let (before, after) = replaced.text.split_once('§').expect("the new text");
            // The indentation before it may be new as well.
            let indented = replaced.leniency == Some(Leniency::Indentation);
            let before = if indented { before.trim_end_matches([' ', '\t']) } else { before };
            let place = replaced.places[0];
            prop_assert!(text.starts_with(before) && text.ends_with(after));
            prop_assert!(before.len() + after.len() <= text.len());
            prop_assert_eq!(before.matches('\n').count() + 1, place.first_line);
            let old_part = text.get(before.len()..text.len() - after.len()).expect("what was replaced");
            if replaced.leniency.is_none() {
                prop_assert_eq!(old_part.replace("\r\n", "\n"), old.replace("\r\n", "\n"));
            }
        }
    }

    #[test]
    fn a_retry_makes_the_requested_change_at_the_first_place((text, old) in text_and_old(), new in "[ab]{0,3}") {
        let mismatch = replace(&text, &old, &new, false);
        if let Err(Mismatch::Ambiguous { leniency, retry: Some(retry), .. }) = mismatch {
            let replaced = replace(&text, &retry.old_string, &retry.new_string, false).expect("the retry works");
            prop_assert_eq!(replaced.leniency, None);
            if leniency.is_none() {
                let expected = with_line_feeds(&text).replacen(&*with_line_feeds(&old), &new, 1);
                prop_assert_eq!(with_line_feeds(&replaced.text), expected);
            }
        }
    }

    #[test]
    fn no_text_panics(text in any::<String>(), old in any::<String>(), new in any::<String>(), all: bool) {
        if let Err(mismatch) = replace(&text, &old, &new, all) {
            mismatch.message_and_hint(&text);
        }
    }

    #[test]
    fn no_lines_panic(
        text in "([ \t]{0,3}[ab“…\\\\.é}\r]{0,4}\r?\n){0,8}",
        old in "([ \t]{0,3}[ab\".n\\\\é}\r]{0,4}\r?\n?){0,4}",
        new in "([ \t]{0,3}[ab\"]{0,2}\n?){0,4}",
        all: bool,
    ) {
        if let Err(mismatch) = replace(&text, &old, &new, all) {
            mismatch.message_and_hint("a.rs");
        }
    }
}
