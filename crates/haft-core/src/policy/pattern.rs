//! Matching of rule texts: names, hosts and commands with `*`, paths with globs.

use std::path::Path;

use crate::access::host_of;

/// Matches with `*` for any run of characters and every other character for itself. Linear in
/// practice: one backtrack point.
pub(crate) fn wildcard(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            last_star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((star, taken)) = last_star {
            last_star = Some((star, taken + 1));
            p = star + 1;
            t = taken + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Matches a path glob. A pattern that names a directory also matches everything below it.
pub(crate) fn path(pattern: &str, path: &Path) -> bool {
    let path = path.to_string_lossy();
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern).trim_end_matches('/');
    let directory = pattern.strip_suffix("/**").unwrap_or(pattern);
    fast_glob::glob_match(directory, path.as_bytes())
        || fast_glob::glob_match(format!("{directory}/**"), path.as_bytes())
}

/// Matches a host. `*.docs.rs` matches every host below `docs.rs`, not `docs.rs` itself.
pub(crate) fn host(pattern: &str, target: &str) -> bool {
    wildcard(&pattern.to_ascii_lowercase(), &host_of(target))
}

/// Matches a command as text. `git status *` also matches the bare `git status`.
pub(crate) fn command(pattern: &str, command: &str) -> bool {
    let command = command.trim();
    wildcard(pattern, command)
        || pattern.strip_suffix(" *").is_some_and(|bare| wildcard(bare, command))
}

/// Returns true if a shell would do more with this text than run one program with these words. No
/// wildcard allows such a text, only a rule with exactly the same text: `git status *` must not
/// allow `git status; rm -rf ~`.
pub(crate) fn is_more_than_words(command: &str) -> bool {
    command.contains(|c: char| {
        matches!(c, ';' | '&' | '|' | '<' | '>' | '$' | '`' | '(' | ')' | '{' | '}' | '\\')
            || matches!(c, '\n' | '\r' | '!' | '~' | '\0')
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wildcards() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "anything/at all", true),
            ("read", "read", true),
            ("read", "reader", false),
            ("web_*", "web_fetch", true),
            ("*_read", "ticket_read", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("", "a", false),
        ] {
            assert_eq!(wildcard(pattern, text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn paths() {
        for (pattern, text, expected) in [
            ("src/**", "src/a/b.rs", true),
            ("src/**", "src", true),
            ("src", "src/a.rs", true),
            ("src/", "src/a.rs", true),
            ("src", "srcs/a.rs", false),
            ("**/.env", ".env", true),
            ("**/.env", "a/b/.env", true),
            ("*.rs", "a.rs", true),
            ("*.rs", "src/a.rs", false),
            ("/etc/**", "/etc/passwd", true),
            ("etc/**", "/etc/passwd", false),
            ("{src,tests}/**", "tests/x.rs", true),
        ] {
            assert_eq!(path(pattern, Path::new(text)), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn hosts_and_commands() {
        assert!(host("docs.rs", "https://DOCS.rs/x"));
        assert!(host("*.rs", "https://docs.rs/x"));
        assert!(!host("docs.rs", "https://docs.rs.evil.example/"));
        assert!(command("git status *", "git status"));
        assert!(command("git status *", " git status -s "));
        assert!(!command("git status *", "git statusx"));
        assert!(is_more_than_words("git status; rm -rf x"));
        assert!(is_more_than_words("git status\nrm x"));
        assert!(!is_more_than_words("git log --oneline -n 5"));
    }

    proptest! {
        #[test]
        fn a_text_matches_itself_and_any_star_cut_of_it(text in "[a-z]{1,20}", at in 0usize..20, len in 0usize..20) {
            prop_assert!(wildcard(&text, &text));
            let start = at.min(text.len());
            let end = (start + len).min(text.len());
            let (head, rest) = text.split_at(start);
            let (_, tail) = rest.split_at(end - start);
            let pattern = format!("{}*{}", head, tail);
            prop_assert!(wildcard(&pattern, &text));
        }
    }
}
