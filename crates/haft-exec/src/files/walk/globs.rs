//! Globs on paths. `globset` does the matching; a glob is split only to skip directories in which
//! nothing can match.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use globset::{GlobBuilder, GlobSet};
use haft_core::ToolError;

/// The maximum length of a path.
const MAX_PATTERN_BYTES: usize = 4096;

/// Several globs; a path matches when it matches one of them.
pub(crate) struct Globs {
    globs: Vec<PathGlob>,
    /// True when only names matter.
    matches_names_only: bool,
}

struct PathGlob {
    matcher: GlobSet,
    /// True when only the last name of a path matters.
    matches_names_only: bool,
    /// For each of the first directories, the glob of its name.
    leading: Vec<GlobSet>,
    /// True when files further down may match too.
    is_deep: bool,
}

impl Globs {
    /// Compiles one glob.
    ///
    /// # Errors
    /// Of kind `input`, with the reason.
    pub(crate) fn one(pattern: &str) -> Result<Self, ToolError> {
        Ok(Self::of(vec![PathGlob::new(pattern)?]))
    }

    /// Compiles several globs, separated by commas outside braces and brackets.
    ///
    /// # Errors
    /// As for one.
    pub(crate) fn list(patterns: &str) -> Result<Self, ToolError> {
        let parts = split_list(patterns);
        let parts = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
        let globs: Vec<PathGlob> = parts.map(PathGlob::new).collect::<Result<_, _>>()?;
        if globs.is_empty() {
            return Err(ToolError::input(format!("`{patterns}` contains no glob"))
                .hint("give one such as `*.rs` or `src/**/*.{ts,tsx}`, or leave it out"));
        }
        Ok(Self::of(globs))
    }

    fn of(globs: Vec<PathGlob>) -> Self {
        let matches_names_only = globs.iter().all(|glob| glob.matches_names_only);
        Self { globs, matches_names_only }
    }

    /// Returns true when a file with this name could match in some directory.
    pub(crate) fn may_match_name(&self, name: &[u8]) -> bool {
        self.globs
            .iter()
            .any(|glob| !glob.matches_names_only || glob.matcher.is_match(as_path(name)))
    }

    /// Returns true when a file matches whose name may match; the path is relative to the start of
    /// the walk.
    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        self.matches_names_only
            || self.globs.iter().any(|glob| glob.matcher.is_match(as_path(path)))
    }

    /// Returns true when something below a directory may match.
    pub(crate) fn may_match_below(&self, directory: &[u8]) -> bool {
        self.matches_names_only || self.globs.iter().any(|glob| glob.may_match_below(directory))
    }
}

impl PathGlob {
    fn new(pattern: &str) -> Result<Self, ToolError> {
        let mut text = pattern;
        while let Some(rest) = text.strip_prefix("./").or_else(|| text.strip_prefix('/')) {
            text = rest;
        }
        if text.is_empty() {
            return Err(ToolError::input(format!("`{pattern}` is not a valid glob: it is empty"))
                .hint("give one such as `*.rs` or `src/**/*.{ts,tsx}`"));
        }
        if text.len() > MAX_PATTERN_BYTES {
            return Err(ToolError::input(format!("a glob of {} bytes is too long", text.len()))
                .hint(format!(
                    "give one of at most {MAX_PATTERN_BYTES}, or search with several calls"
                )));
        }
        let whole = match text {
            text if text.ends_with('/') => format!("{text}**"),
            text if text.contains('/') => text.to_owned(),
            name => format!("**/{name}"),
        };
        let matcher = compile(&whole).map_err(|reason| wrong(pattern, &reason))?;
        let matches_names_only = whole.trim_start_matches("**/").split('/').count() == 1;
        let (leading, is_deep) = leading(&whole).unwrap_or((Vec::new(), true));
        Ok(Self { matcher, matches_names_only, leading, is_deep })
    }

    fn may_match_below(&self, directory: &[u8]) -> bool {
        let mut leading = self.leading.iter();
        directory.split(|byte| *byte == b'/').all(|name| match leading.next() {
            Some(lead) => lead.is_match(as_path(name)),
            None => self.is_deep,
        })
    }
}

/// Returns the directories above the first `**`, and whether there is one. `None` when a slash is
/// inside braces or brackets.
fn leading(pattern: &str) -> Option<(Vec<GlobSet>, bool)> {
    let parts: Vec<&str> = pattern.split('/').collect();
    let above = parts.split_last()?.1.iter().take_while(|part| **part != "**");
    let leading: Vec<GlobSet> = above.map(|part| compile(part).ok()).collect::<Option<_>>()?;
    let is_deep = parts.contains(&"**");
    parts.iter().all(|part| is_balanced(part)).then_some((leading, is_deep))
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Compiles a set of one glob: unlike a single matcher it does not panic when the pattern exceeds
/// the limits of the regex library.
fn compile(pattern: &str) -> Result<GlobSet, String> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).empty_alternates(true).build();
    let set = glob.and_then(|glob| GlobSet::builder().add(glob).build());
    set.map_err(|error| error.kind().to_string())
}

fn wrong(pattern: &str, reason: &str) -> ToolError {
    ToolError::input(format!("`{pattern}` is not a valid glob: {reason}"))
        .hint("write `\\` before a bracket or brace that is meant literally; `{a,b}` are alternatives, `[ab]` is one of some characters")
}

/// Returns true when braces and brackets are closed, and the last character escapes nothing that
/// follows.
fn is_balanced(part: &str) -> bool {
    let (mut braces, mut in_class, mut is_escaped) = (0_usize, false, false);
    for byte in part.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'{' if !in_class => braces += 1,
            b'}' if !in_class => braces = braces.saturating_sub(1),
            _ => {}
        }
    }
    braces == 0 && !in_class && !is_escaped
}

fn split_list(patterns: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut braces, mut in_class, mut is_escaped) = (0_usize, false, false);
    for character in patterns.chars() {
        let ends = character == ',' && braces == 0 && !in_class && !is_escaped;
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '{' if !in_class => braces += 1,
            '}' if !in_class => braces = braces.saturating_sub(1),
            _ => {}
        }
        match parts.last_mut() {
            Some(part) if !ends => part.push(character),
            _ => parts.push(String::new()),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use haft_core::ErrorKind;
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(pattern: &str, fitting: &[&str], others: &[&str]) {
        let globs = Globs::list(pattern).expect("a glob");
        let fits = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or_default();
            // In the order of the walk: directories first, then the name, then the path.
            let mut directories = path.match_indices('/').map(|(at, _)| &path.as_bytes()[..at]);
            directories.all(|directory| globs.may_match_below(directory))
                && globs.may_match_name(name.as_bytes())
                && globs.matches(path.as_bytes())
        };
        for path in fitting {
            assert!(fits(path), "{pattern} should fit {path}");
        }
        for path in others {
            assert!(!fits(path), "{pattern} should not fit {path}");
        }
    }

    #[test]
    fn a_glob_without_a_slash_is_about_names_at_any_depth() {
        check("*.rs", &["a.rs", "x/y/a.rs", ".rs"], &["a.rsx", "rs", "a.rs/b"]);
        check("main.rs", &["main.rs", "x/main.rs"], &["xmain.rs", "main.rs.bak"]);
        check("*needle*", &["needle", "a/xneedley"], &["needl/e"]);
        check("a*b*c", &["abc", "aXbXc", "abbc"], &["ac", "acb", "ab"]);
        check("aba*aba", &["abaaba", "abaXaba"], &["aba", "ababa"]);
        check("*.{ts,tsx}", &["a.ts", "b/a.tsx"], &["a.tsy", "a.t"]);
        check("[ab]?.c", &["ax.c", "q/by.c"], &["a.c", "cx.c"]);
        check("**", &["a", "b/c"], &[]);
        check("Makefile{,.am}", &["Makefile", "x/Makefile.am"], &["Makefile."]);
    }

    #[test]
    fn a_glob_with_a_slash_is_about_the_whole_path() {
        check("**/x", &["x", "a/x", "a/b/x"], &["x/y", "xx"]);
        check("src/*.rs", &["src/a.rs"], &["a.rs", "src/b/a.rs", "x/src/a.rs"]);
        check("./src/**/*.rs", &["src/a.rs", "src/b/c/a.rs"], &["a.rs", "lib/src/a.rs"]);
        check("/src/*", &["src/a"], &["src/a/b", "a"]);
        check("src/", &["src/a", "src/b/c"], &["src", "a/src/b"]);
        check("a/**", &["a/b", "a/b/c"], &["a", "b/a/c"]);
        check("*/b/**/c/*.rs", &["a/b/c/x.rs", "a/b/d/e/c/x.rs"], &["b/c/x.rs", "a/b/c/d/x.rs"]);
        check("**/test/**", &["test/a", "a/test/b/c"], &["test", "a/testb/c"]);
        check("{a,b/c}/*.x", &["a/1.x", "b/c/1.x"], &["c/1.x", "b/1.x"]);
        check("**/**/a", &["a", "b/a"], &["a/b"]);
        check("a/*/c", &["a/b/c"], &["a/c", "a/b/b/c"]);
    }

    #[test]
    fn a_list_is_split_at_commas_outside_braces() {
        check("*.rs, *.{ts,js},src/[a,]*", &["a.rs", "a.js", "src/,x"], &["a.c", "src/b"]);
    }

    #[test]
    fn invalid_globs_are_refused_with_the_reason() {
        for pattern in ["[", "{a", "a}", "", "/", "./", "x/[z-a]", "\\"] {
            let error = Globs::one(pattern).err().expect(pattern);
            assert_eq!(error.kind(), ErrorKind::Input, "{pattern}");
            assert!(error.to_string().contains(&format!("`{pattern}`")), "{error}");
        }
        assert!(Globs::list(" , ").is_err());
        let nested = format!("{}a{}", "{".repeat(300), "}".repeat(300));
        assert!(Globs::one(&nested).is_err(), "too deep for the regex library");
        assert!(Globs::one(&"a/".repeat(3_000)).is_err(), "too long");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn a_glob_taken_apart_means_what_globset_says(
            pattern in "[ab*./{},]{1,10}|(a|b|\\*|\\*\\*)(/(a|b|\\*b|\\*\\*)){0,4}",
            path in "[ab.]{1,3}(/[ab.]{1,3}){0,4}",
        ) {
            // No walk visits these, and globset has special rules for them.
            if path.split('/').any(|name| matches!(name, "." | "..")) {
                return Ok(());
            }
            let Ok(globs) = Globs::one(&pattern) else { return Ok(()) };
            let mut text = pattern.as_str();
            while let Some(rest) = text.strip_prefix("./").or_else(|| text.strip_prefix('/')) {
                text = rest;
            }
            let mut whole = if text.contains('/') { text.to_owned() } else { format!("**/{text}") };
            if whole.ends_with('/') {
                whole.push_str("**");
            }
            let Ok(matcher) = compile(&whole) else { return Ok(()) };
            let name = path.rsplit('/').next().unwrap_or_default();
            let ours = path.match_indices('/').all(|(at, _)| globs.may_match_below(&path.as_bytes()[..at]))
                && globs.may_match_name(name.as_bytes())
                && globs.matches(path.as_bytes());
            prop_assert_eq!(ours, matcher.is_match(&path), "{} on {}", pattern, path);
        }

        #[test]
        fn no_text_makes_a_glob_panic(pattern in "\\PC{0,20}", path in "\\PC{0,20}") {
            if let Ok(globs) = Globs::list(&pattern) {
                globs.may_match_name(path.as_bytes());
                globs.matches(path.as_bytes());
                globs.may_match_below(path.as_bytes());
            }
        }
    }
}
