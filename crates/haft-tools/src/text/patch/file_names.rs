//! File names in the headers of unified diffs: quotes, prefixes, timestamps, `/dev/null`.

/// The two names of a file section, as far as its headers have them.
#[derive(Clone, Debug, Default)]
pub(super) struct DiffFileNames {
    /// The names after `diff --git `.
    pub git: Option<(String, String)>,
    pub old: Option<DiffFileName>,
    pub new: Option<DiffFileName>,
    pub rename_from: Option<String>,
    pub rename_to: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DiffFileName {
    /// `/dev/null`.
    Nothing,
    Path {
        path: String,
        /// True if it has the timestamp 0, with which `diff -N` marks a missing file.
        at_time_zero: bool,
    },
}

/// Parses the name in a `--- ` or `+++ ` line, after the marker.
pub(super) fn name(field: &str) -> Option<DiffFileName> {
    let (path, stamp) = if field.starts_with('"') {
        unquoted(field)?
    } else {
        let (path, stamp) = field.split_once('\t').unwrap_or((field.trim_end(), ""));
        (path.to_owned(), stamp)
    };
    // Depending on the time zone, the timestamp 0 is in 1970 or 1969.
    let stamp = stamp.trim();
    let epoch_day = stamp.starts_with("1970-01-01 ") || stamp.starts_with("1969-12-31 ");
    if path == "/dev/null" {
        return Some(DiffFileName::Nothing);
    }
    (!path.is_empty())
        .then_some(DiffFileName::Path { path, at_time_zero: epoch_day && stamp.contains(":00:00") })
}

/// Parses the path of a `rename from` or similar line: quoted or plain.
pub(super) fn path(field: &str) -> Option<String> {
    if field.starts_with('"') {
        return unquoted(field).map(|(path, _)| path);
    }
    (!field.is_empty()).then(|| field.to_owned())
}

/// Parses the two names after `diff --git `. Unquoted names with spaces are only unambiguous when
/// both name the same file.
pub(super) fn git_names(field: &str) -> Option<(String, String)> {
    if field.starts_with('"') {
        let (old, rest) = unquoted(field)?;
        return Some((old, path(rest.trim_start())?));
    }
    if let Some((old, new)) = field.split_once(" \"") {
        return Some((old.to_owned(), unquoted(&format!("\"{new}"))?.0));
    }
    let middle = field.len() / 2;
    let halves =
        field.split_at_checked(middle).and_then(|(old, new)| Some((old, new.strip_prefix(' ')?)));
    if let Some((old, new)) = halves
        && (old == new
            || without_first_part(old).is_some_and(|rest| Some(rest) == without_first_part(new)))
    {
        return Some((old.to_owned(), new.to_owned()));
    }
    let (old, new) = field.split_once(' ')?;
    (!new.contains(' ')).then(|| (old.to_owned(), new.to_owned()))
}

fn without_first_part(path: &str) -> Option<&str> {
    path.split_once('/').map(|(_, rest)| rest)
}

impl DiffFileNames {
    /// Returns the paths before and after, without prefixes; `None` for a missing side.
    pub(super) fn resolve(&self) -> (Option<String>, Option<String>) {
        if let (Some(from), Some(to)) = (&self.rename_from, &self.rename_to) {
            return (Some(from.clone()), Some(to.clone()));
        }
        match (&self.old, &self.new) {
            (None, None) => {
                let Some((old, new)) = &self.git else { return (None, None) };
                let (old, new) = self.strip(Some(old), Some(new));
                (old, new)
            }
            (old, new) => {
                let old = old.as_ref().and_then(DiffFileName::path);
                self.strip(old, new.as_ref().and_then(DiffFileName::path))
            }
        }
    }

    fn strip(&self, old: Option<&str>, new: Option<&str>) -> (Option<String>, Option<String>) {
        if !self.has_prefixes(old, new) {
            return (old.map(str::to_owned), new.map(str::to_owned));
        }
        let bare = |path: Option<&str>| {
            path.map(|path| without_first_part(path).unwrap_or(path).to_owned())
        };
        (bare(old), bare(new))
    }

    /// Returns true for the prefixes `a/` and `b/`, or those of `diff.mnemonicPrefix`, but not for
    /// directories with such names.
    fn has_prefixes(&self, old: Option<&str>, new: Option<&str>) -> bool {
        if let Some((git_old, git_new)) = &self.git {
            let pair = (git_old.split('/').next(), git_new.split('/').next());
            let both = git_old.contains('/') && git_new.contains('/');
            let known = ["a", "b", "i", "w", "c", "o", "1", "2"];
            let is_known = |part: Option<&str>| part.is_some_and(|part| known.contains(&part));
            return both && pair.0 != pair.1 && is_known(pair.0) && is_known(pair.1);
        }
        let has =
            |path: Option<&str>, prefix: &str| path.is_none_or(|path| path.starts_with(prefix));
        has(old, "a/") && has(new, "b/")
    }
}

impl DiffFileName {
    fn path(&self) -> Option<&str> {
        match self {
            Self::Nothing => None,
            Self::Path { path, .. } => Some(path),
        }
    }

    pub(super) fn is_at_time_zero(&self) -> bool {
        matches!(self, Self::Path { at_time_zero: true, .. })
    }
}

/// Parses a quoted name with C escapes, as git writes names with unusual bytes. Also returns the
/// text after the quotes.
fn unquoted(field: &str) -> Option<(String, &str)> {
    let mut bytes = Vec::new();
    let mut rest = field.strip_prefix('"')?.bytes().enumerate().peekable();
    while let Some((at, byte)) = rest.next() {
        match byte {
            b'"' => {
                let path = String::from_utf8(bytes).ok()?;
                // Skip both quotes.
                return Some((path, field.get(at + 2..)?));
            }
            b'\\' => {
                let (_, escape) = rest.next()?;
                bytes.push(match escape {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'"' | b'\\' => escape,
                    b'0'..=b'3' => octal(escape, rest.next()?.1, rest.next()?.1)?,
                    _ => return None,
                });
            }
            other => bytes.push(other),
        }
    }
    None
}

fn octal(high: u8, middle: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| (b'0'..=b'7').contains(&byte).then(|| byte - b'0');
    Some(digit(high)? * 64 + digit(middle)? * 8 + digit(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(field: Option<&str>) -> Option<DiffFileName> {
        field.map(|field| name(field).expect("a name"))
    }

    #[track_caller]
    fn check(
        git: Option<&str>,
        old: Option<&str>,
        new: Option<&str>,
        expected: (Option<&str>, Option<&str>),
    ) {
        let git = git.map(|field| git_names(field).expect("two names"));
        let names =
            DiffFileNames { git, old: side(old), new: side(new), ..DiffFileNames::default() };
        let (old, new) = names.resolve();
        assert_eq!((old.as_deref(), new.as_deref()), expected);
    }

    #[test]
    fn prefixes_are_removed_when_they_are_prefixes() {
        check(None, Some("a/x"), Some("b/x"), (Some("x"), Some("x")));
        check(None, Some("x"), Some("x"), (Some("x"), Some("x")));
        check(None, Some("a/x"), Some("a/x"), (Some("a/x"), Some("a/x")));
        check(Some("i/x w/x"), Some("i/x"), Some("w/x"), (Some("x"), Some("x")));
        check(Some("b/x b/x"), Some("/dev/null"), Some("b/x"), (None, Some("b/x")));
        check(Some("a/x b/x"), Some("/dev/null"), Some("b/x"), (None, Some("x")));
    }

    #[test]
    fn dev_null_is_not_a_file_and_time_zero_is_recognised() {
        check(None, Some("/dev/null"), Some("b/x"), (None, Some("x")));
        check(None, Some("a/x"), Some("/dev/null"), (Some("x"), None));
        for stamp in ["1970-01-01 00:00:00.000000000 +0000", "1969-12-31 19:00:00.0 -0500"] {
            assert!(
                name(&format!("a/x\t{stamp}")).is_some_and(|name| name.is_at_time_zero()),
                "{stamp}"
            );
        }
        assert!(!name("a/x\t2024-05-05 10:00:00 +0200").is_some_and(|name| name.is_at_time_zero()));
    }

    #[test]
    fn quoted_names_are_read() {
        check(
            None,
            Some(r#""a/t\tb \"q\" \303\244""#),
            Some(r#""b/t\tb \"q\" \303\244""#),
            (Some("t\tb \"q\" ä"), Some("t\tb \"q\" ä")),
        );
        for broken in [r#""a"#, r#""\9""#, r#""\400""#, r#""\377""#, r#""\30"#, r#""\"#] {
            assert_eq!(name(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_git_line_is_split_where_both_halves_agree() {
        check(
            Some("a/with space b/with space"),
            None,
            None,
            (Some("with space"), Some("with space")),
        );
        check(Some(r#"a/x "b/\303\244""#), None, None, (Some("x"), Some("ä")));
        assert_eq!(git_names("a/one two b/three"), None);
    }

    #[test]
    fn a_tab_ends_a_name_with_spaces() {
        check(Some("a/x y b/x y"), Some("a/x y\t"), Some("b/x y\t"), (Some("x y"), Some("x y")));
    }
}
