//! Compiles a pattern with `grep-regex`, and explains errors.

use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};
use haft_core::{ToolError, files::SearchFiles};

/// Maximum size of a compiled pattern. A larger one would take longer to build than to search with.
const MAX_COMPILED_BYTES: usize = 32 << 20;
/// Maximum size of the cache of each searching thread.
const MAX_CACHE_BYTES: usize = 16 << 20;

/// Compiles the pattern.
///
/// # Errors
/// Of kind `input`, on one line.
pub(crate) fn matcher(query: &SearchFiles) -> Result<RegexMatcher, ToolError> {
    // `crlf` makes `$` match before `\r\n`; lines still end at `\n`, otherwise every match could
    // span lines.
    let line_end = if query.is_multiline { None } else { Some(b'\n') };
    RegexMatcherBuilder::new()
        .crlf(true)
        .line_terminator(line_end)
        .multi_line(true)
        .fixed_strings(query.is_literal)
        .case_insensitive(query.ignores_case)
        .size_limit(MAX_COMPILED_BYTES)
        .dfa_size_limit(MAX_CACHE_BYTES)
        .build(&query.pattern)
        .map_err(|error| wrong(&query.pattern, error.kind()))
}

fn wrong(pattern: &str, kind: &ErrorKind) -> ToolError {
    let (whole, pattern) = (pattern, truncated(pattern));
    match kind {
        ErrorKind::NotAllowed(_) => ToolError::input(format!(
            "`{pattern}` spans lines, but each line is searched by itself"
        ))
        .hint("set multiline to true, or search for one of the lines"),
        ErrorKind::Regex(reason) if reason.contains("size limit") => {
            ToolError::input(format!("`{pattern}` is too large a regular expression"))
                .hint("use smaller repetitions")
        }
        ErrorKind::Regex(reason) => ToolError::input(format!(
            "`{pattern}` is not a valid regular expression: {}",
            in_one_line(reason, whole)
        ))
        .hint("set literal to true to search for the text as it is, or write `\\` before the character"),
        other => ToolError::input(format!("`{pattern}` cannot be searched for: {other:?}"))
            .hint("write the pattern differently"),
    }
}

/// The library prints the pattern with a caret under it; models need the position and the reason.
fn in_one_line(reason: &str, pattern: &str) -> String {
    let lines: Vec<&str> = reason.lines().collect();
    let Some(message) = lines.iter().rev().find_map(|line| line.trim().strip_prefix("error: "))
    else {
        return lines.join(" ");
    };
    let is_caret = |line: &&&str| line.contains('^') && line.trim_matches([' ', '^']).is_empty();
    let caret = lines.iter().find(is_caret).and_then(|line| line.find('^'));
    // The pattern is indented by four spaces and wrapped in a group of the library, whose end may
    // be the one that is missing.
    let position = caret.and_then(|column| column.checked_sub(4 + "(?:".len()));
    match position {
        Some(position) if !pattern.contains('\n') => {
            format!("{message} at character {}", (position + 1).min(pattern.chars().count()))
        }
        _ => message.to_owned(),
    }
}

/// Enough of a pattern to recognise it.
fn truncated(pattern: &str) -> String {
    const MAX_CHARS: usize = 200;
    match pattern.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", pattern.get(..end).unwrap_or_default()),
        None => pattern.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use grep_matcher::Matcher;

    use super::*;

    fn query(pattern: &str) -> SearchFiles {
        SearchFiles {
            path: ".".into(),
            pattern: pattern.into(),
            is_literal: false,
            ignores_case: false,
            is_multiline: false,
            context: 0,
            include: None,
            skip: 0,
            limit: 1,
            ignored: false,
            line_chars: 100,
        }
    }

    #[track_caller]
    fn check(query: &SearchFiles, text: &str, expected: bool) {
        let matcher = matcher(query).expect("a pattern");
        assert_eq!(matcher.is_match(text.as_bytes()).expect("no error"), expected, "{query:?}");
    }

    #[track_caller]
    fn check_wrong(pattern: &str, message: &str, hint: &str) {
        let error = matcher(&query(pattern)).expect_err(pattern);
        assert_eq!(error.kind(), haft_core::ErrorKind::Input);
        let text = format!("{error} {}", error.next_step());
        assert!(text.contains(message) && text.contains(hint), "{text}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }

    #[test]
    fn patterns_mean_what_the_query_says() {
        check(&query("a.c$"), "abc\r\n", true);
        check(&query("a.c"), "ABC", false);
        check(&SearchFiles { ignores_case: true, ..query("a.c") }, "ABC", true);
        check(&SearchFiles { is_literal: true, ..query("a.c(") }, "xa.c(", true);
        check(&SearchFiles { is_literal: true, ..query("a.c") }, "abc", false);
        check(&SearchFiles { is_multiline: true, ..query("a$\\s+^b") }, "a\n\n b\nb", false);
        check(&SearchFiles { is_multiline: true, ..query("a$\\s+^b") }, "a\n\nb", true);
        check(&SearchFiles { is_multiline: true, ..query("a.b") }, "a\nb", false);
        check(&SearchFiles { is_multiline: true, ..query("(?s)a.b") }, "a\nb", true);
    }

    #[test]
    fn a_wrong_pattern_is_explained_in_one_line() {
        check_wrong("foo(", "expression: unclosed group", "literal");
        check_wrong("ab)", "unopened group at character 3", "literal");
        check_wrong("a{2,1}", "repetition", "literal");
        check_wrong("[z-a]", "at character 2", "literal");
        check_wrong("a\\nb", "spans lines", "multiline");
        check_wrong("(a{1000}){1000}{1000}", "too large", "smaller");
        check_wrong(&"(".repeat(5000), "…`", "literal");
        let literal = SearchFiles { is_literal: true, ..query("a\nb") };
        assert!(matcher(&literal).expect_err("two lines").to_string().contains("spans lines"));
    }
}
