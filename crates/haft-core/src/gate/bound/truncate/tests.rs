//! Tests of what truncation keeps, and that it always respects its limits.

use proptest::prelude::*;

use super::*;

fn limits(content_bytes: usize, content_lines: usize) -> Limits {
    Limits { content_bytes, content_lines, ..Limits::default() }
}

fn numbered(lines: usize, special: &[(usize, &str)]) -> String {
    let line = |number: usize| {
        let special = special.iter().find(|(at, _)| *at == number);
        special.map_or_else(|| format!("line {number}\n"), |(_, text)| format!("{text}\n"))
    };
    (1..=lines).map(line).collect()
}

#[test]
fn short_texts_stay_whole() {
    assert!(truncate("a\nb\nc", &limits(5, 3)).is_none());
    assert!(truncate("a\nb\nc", &limits(4, 3)).is_some());
    assert!(truncate("a\nb\nc", &limits(5, 2)).is_some());
}

#[test]
fn head_and_tail_are_whole_lines_and_the_gap_has_numbers() {
    let shown =
        truncate(&numbered(100, &[]), &limits(10_000, 11)).expect("too many lines").shown("");
    let head = "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\n";
    let note = "[truncated: lines 7-97 omitted; 725 of 792 bytes, 100 lines in total]\n";
    assert_eq!(shown, format!("{head}{note}line 98\nline 99\nline 100\n"));
}

#[test]
fn errors_in_the_middle_are_kept_with_the_lines_around_them() {
    let text = numbered(1000, &[(500, "error[E0308]: mismatched types"), (700, "warning: dead")]);
    let shown = truncate(&text, &limits(10_000, 100)).expect("too many lines").shown("; kept");
    let group = "kept]\nline 498\nline 499\nerror[E0308]: mismatched types\nline 501\nline 502\nline 503\nline 504\n[lines 505-697";
    assert!(shown.contains(group), "{shown}");
    assert!(shown.contains("line 699\nwarning: dead\nline 701\n"), "{shown}");
    assert!(shown.contains("more is omitted below; "), "{shown}");
    assert!(shown.contains(" 1000 lines in total; kept]\n"), "{shown}");
}

#[test]
fn errors_go_before_warnings_and_the_first_before_the_others() {
    let word = |n: usize| if n < 30 { "warning" } else { "error" };
    let special: Vec<(usize, String)> =
        (0..60).map(|n| (300 + n * 9, format!("{}: {n}", word(n)))).collect();
    let special: Vec<(usize, &str)> = special.iter().map(|(at, text)| (*at, &**text)).collect();
    let shown = truncate(&numbered(1000, &special), &limits(4_000, 2_000)).expect("long").shown("");
    assert!(shown.contains("error: 30\n") && shown.contains("error: 31\n"), "{shown}");
    assert!(!shown.contains("error: 59\n") && !shown.contains("warning: 5\n"), "{shown}");
}

#[test]
fn a_line_that_is_too_long_is_truncated_between_words() {
    let text = "word ".repeat(10_000);
    let shown = truncate(&text, &limits(4_000, 100)).expect("long").shown("");
    assert!(shown.split_whitespace().filter(|it| it.starts_with("wor")).all(|it| it == "word"));
    assert!(shown.contains("[truncated: line 1 omitted;") && shown.len() <= 4_000, "{shown}");
    let blob = "ä".repeat(10_000);
    assert!(truncate(&blob, &limits(4_001, 100)).expect("long").shown("").len() <= 4_001);
}

#[test]
fn one_error_is_found_in_a_long_log() {
    let mut text =
        "2026-11-16 12:00:00 INFO request served in 12 ms, all is well\n".repeat(1 << 18);
    text.push_str("error: the one that counts\n");
    text.push_str(
        &"2026-11-16 12:00:00 INFO and on it goes for a long while now\n".repeat(1 << 17),
    );
    let shown = truncate(&text, &Limits::default()).expect("long").shown("");
    assert!(shown.contains("error: the one that counts\n"));
    assert!(shown.len() <= Limits::default().content_bytes);
}

/// Everything that is shown without the notes, and the line ranges in the notes.
fn taken_apart(shown: &str) -> (Vec<String>, Vec<(usize, usize)>) {
    let mut parts = vec![String::new()];
    let mut gaps = Vec::new();
    for line in shown.split_inclusive('\n') {
        let words = line.strip_prefix("[truncated: ").or_else(|| line.strip_prefix("[line"));
        let Some(words) = words.filter(|_| line.contains(" omitted")) else {
            parts.last_mut().expect("one").push_str(line);
            continue;
        };
        let numbers = words.trim_start_matches(|c: char| !c.is_ascii_digit());
        let (numbers, _) = numbers.split_once(' ').expect("words after the numbers");
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        gaps.push((first.parse().expect("a number"), last.parse().expect("a number")));
        parts.push(String::new());
    }
    (parts, gaps)
}

fn any_text() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        6 => "[a-zä€😀 ]{0,30}",
        1 => "(error|warning|FAILED|panicked at): [a-z]{0,20}",
        1 => "([a-z]{3,9} ){8,12}",
    ];
    (prop::collection::vec(line, 60..500), any::<bool>())
        .prop_map(|(lines, ends)| lines.join("\n") + if ends { "\n" } else { "" })
}

#[test]
fn nothing_is_omitted_from_an_empty_text() {
    assert!(truncate("", &limits(0, 0)).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The result is never longer than the limit, head and tail are always there, lines are whole
    /// and in order, and every line is either shown or in a numbered gap.
    #[test]
    fn shown_and_omitted_lines_are_the_whole_text(
        text in any_text(), bytes in 4_000usize..9_000, most_lines in 24usize..200,
    ) {
        let Some(cut) = truncate(&text, &limits(bytes, most_lines)) else { return Ok(()) };
        let shown = cut.shown("; the full text is stored as output out_0123456789abcdef0123456789abcdef: read it with output_read, search it with output_search");
        prop_assert!(shown.len() <= bytes, "{} of {bytes}", shown.len());
        prop_assert!(breaks(&shown) < most_lines, "{} of {most_lines}", breaks(&shown));
        let (parts, gaps) = taken_apart(&shown);
        prop_assert_eq!(parts.len(), gaps.len() + 1);
        prop_assert!(!parts[0].is_empty() && text.starts_with(&*parts[0]));
        prop_assert!(!parts.last().expect("one").is_empty() && text.ends_with(&**parts.last().expect("one")));
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let mut next = 0;
        for (part, gap) in parts.iter().zip(gaps.iter().map(Some).chain([None])) {
            for line in part.split_inclusive('\n') {
                prop_assert_eq!(Some(&line), lines.get(next));
                next += 1;
            }
            if let Some((first, last)) = gap {
                prop_assert_eq!(*first, next + 1, "{}", shown);
                next = *last;
            }
        }
        prop_assert_eq!(next, lines.len());
    }

    /// No text and no limit panics, and characters stay whole.
    #[test]
    fn every_text_can_be_truncated(text in "(\\PC|\n| ){0,200}", bytes in 0usize..300, lines in 0usize..20) {
        if let Some(cut) = truncate(&text, &limits(bytes, lines)) {
            let total: usize = cut.parts.iter().map(|part| part.text.len()).sum();
            prop_assert_eq!(total + cut.omitted, text.len());
            prop_assert!(!cut.shown("").is_empty());
        }
    }
}
