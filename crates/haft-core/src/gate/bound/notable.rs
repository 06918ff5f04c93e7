//! Finds the lines of a long output that a reader would look for: errors first, then warnings. One
//! pass over the bytes, because the text may have a hundred megabytes.

use std::{ops::Range, sync::LazyLock};

use aho_corasick::{AhoCorasick, Input};

/// The kind of a notable line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notable {
    Error,
    Warning,
}

/// More than fit between head and tail. The search ends after this many errors.
const MAX_FOUND: usize = 200;
/// Longer lines are data.
const MAX_LINE_BYTES: usize = 8 << 10;

/// Patterns in lower case, in the order of the matcher's pattern ids.
const WORDS: [(&str, Notable); 17] = [
    ("error", Notable::Error),
    ("panic", Notable::Error),
    ("fatal", Notable::Error),
    ("failed", Notable::Error),
    ("failure", Notable::Error),
    ("fail:", Notable::Error),
    ("fail ", Notable::Error),
    ("fail\n", Notable::Error),
    ("exception", Notable::Error),
    ("traceback", Notable::Error),
    ("segmentation fault", Notable::Error),
    ("core dumped", Notable::Error),
    ("undefined reference", Notable::Error),
    ("out of memory", Notable::Error),
    ("permission denied", Notable::Error),
    // The beginning of apt's error lines, and of some other programs'.
    ("\ne: ", Notable::Error),
    ("warning", Notable::Warning),
];

static MATCHER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let words = WORDS.iter().map(|(word, _)| word);
    AhoCorasick::builder().ascii_case_insensitive(true).build(words).ok()
});

/// Returns the notable lines within a range, with their line breaks, in order.
pub(super) fn notable_lines(text: &str, range: Range<usize>) -> Vec<(Notable, Range<usize>)> {
    let mut found = Vec::new();
    let (mut errors, mut warnings) = (0, 0);
    let Some(matcher) = MATCHER.as_ref() else { return found };
    let bytes = text.as_bytes();
    let mut from = range.start;
    while from < range.end {
        let Some(hit) = matcher.find(Input::new(bytes).range(from..range.end)) else { break };
        let (word, sort) = WORDS[hit.pattern().as_usize()];
        // A line break that starts the pattern belongs to the line before.
        let at = hit.start() + usize::from(word.starts_with('\n'));
        if !is_report(bytes, at, word.trim_start_matches('\n')) {
            from = hit.end();
            continue;
        }
        let line = line_around(bytes, at, &range);
        from = line.end;
        let count = if sort == Notable::Error { &mut errors } else { &mut warnings };
        if line.len() <= MAX_LINE_BYTES && *count < MAX_FOUND {
            *count += 1;
            found.push((sort, line));
        }
        if errors == MAX_FOUND {
            break;
        }
    }
    found
}

fn line_around(bytes: &[u8], at: usize, range: &Range<usize>) -> Range<usize> {
    let before = bytes.get(range.start..at).unwrap_or_default();
    let start = memchr::memrchr(b'\n', before).map_or(range.start, |found| range.start + found + 1);
    let after = bytes.get(at..range.end).unwrap_or_default();
    let end = memchr::memchr(b'\n', after).map_or(range.end, |found| at + found + 1);
    start..end
}

/// Returns true if the word reports something, rather than being part of a name (`thiserror`,
/// `src/error.rs`) or a count of zero (`0 errors`).
fn is_report(bytes: &[u8], at: usize, word: &str) -> bool {
    let before = bytes.get(..at).unwrap_or_default();
    let after = bytes.get(at + word.len()..).unwrap_or_default();
    let first = bytes.get(at).copied().unwrap_or_default();
    let begins = match before.last() {
        // `ValueError`, `NullPointerException`: a new word inside a name.
        Some(letter) if letter.is_ascii_alphabetic() => {
            first.is_ascii_uppercase() && letter.is_ascii_lowercase()
        }
        Some(b'/' | b'_' | b'-' | b'.' | b'$') => first.is_ascii_uppercase(),
        _ => true,
    };
    let ends = match after {
        _ if !word.ends_with(char::is_alphabetic) => true,
        [b'.', letter, ..] => !letter.is_ascii_alphanumeric(),
        [b'/' | b'_' | b'-', ..] => false,
        // `errors`, `failures`, `warnings`, `panicked`; not `errorless` or `warningsign`.
        [b's', rest @ ..] => !rest.first().is_some_and(u8::is_ascii_alphanumeric),
        [b'k', b'e', b'd', ..] => true,
        [letter, ..] => !letter.is_ascii_lowercase(),
        [] => true,
    };
    begins && ends && !is_none_of_them(before, after)
}

fn is_none_of_them(before: &[u8], after: &[u8]) -> bool {
    let none_before = [&b" 0 "[..], b"\n0 ", b"(0 ", b",0 ", b"no ", b"No ", b"without "];
    let counted = after.strip_prefix(b"s").unwrap_or(after);
    let none_after = [&b": 0"[..], b"=0", b" = 0", b" 0 "];
    let is_end = |rest: &[u8]| !rest.first().is_some_and(u8::is_ascii_digit);
    before == b"0 "
        || none_before.iter().any(|words| before.ends_with(words))
        || none_after.iter().any(|words| counted.strip_prefix(*words).is_some_and(is_end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<Notable>) {
        let text = format!("before\n{line}\nafter\n");
        let found = notable_lines(&text, 0..text.len());
        let sorts: Vec<Notable> = found.iter().map(|(sort, _)| *sort).collect();
        assert_eq!(sorts, Vec::from_iter(expected), "{line}");
        for (_, range) in found {
            assert_eq!(text.get(range), Some(&*format!("{line}\n")));
        }
    }

    #[test]
    fn reports_of_many_programs_are_known() {
        for line in [
            "error[E0308]: mismatched types",
            "src/main.c:3:1: error: expected ';'",
            "ERROR in ./src/app.ts",
            "thread 'main' (17) panicked at src/main.rs:2:5:",
            "panic: runtime error: index out of range",
            "fatal: not a git repository",
            "test gate::cuts ... FAILED",
            "--- FAIL: TestX (0.00s)",
            "FAIL src/app.test.ts",
            "1 failed, 20 passed",
            "Traceback (most recent call last):",
            "ValueError: invalid literal",
            "java.lang.NullPointerException",
            "Exception in thread \"main\"",
            "E: Unable to locate package",
            "make: *** [all] Error 2",
            "npm ERR! errors: 10",
            "Segmentation fault (core dumped)",
            "bash: ./x: Permission denied",
            "/usr/bin/ld: a.o: undefined reference to `f'",
            "BUILD FAILURE",
            "There were 3 errors.",
        ] {
            check(line, Some(Notable::Error));
        }
        check("warning: unused variable: `x`", Some(Notable::Warning));
        check("2 warnings generated.", Some(Notable::Warning));
    }

    #[test]
    fn names_and_counts_of_nothing_are_passed_over() {
        for line in [
            "   Compiling thiserror v2.0.1",
            "src/error.rs",
            "crates/error/src/lib.rs",
            "0 errors, 0 warnings",
            "test result: ok. 12 passed; 0 failed; 0 ignored",
            "no error was found",
            "errors: 0",
            "error_count=3",
            "the errorless way",
            "# terror",
            "everything is fine",
        ] {
            check(line, None);
        }
    }

    #[test]
    fn lines_of_data_and_more_errors_than_fit_are_left_alone() {
        check(&format!("error {}", "x".repeat(MAX_LINE_BYTES)), None);
        let many = "error: x\n".repeat(MAX_FOUND + 50);
        assert_eq!(notable_lines(&many, 0..many.len()).len(), MAX_FOUND);
        assert!(notable_lines(&many, 9..9).is_empty());
    }
}
