//! Globs on paths, taken apart so that most names are judged by comparing bytes and most directories are not entered.
//! What cannot be taken apart is left to `globset`.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use globset::{GlobBuilder, GlobSet};
use haft_core::ToolError;
use memchr::memmem;

/// More alternatives in braces are left to `globset`, which does not go through them one by one.
const MOST_ALTERNATIVES: usize = 16;
/// As long as a path can be.
const LONGEST: usize = 4096;

/// Several globs; a path fits when it fits one of them.
pub(crate) struct Globs {
    globs: Vec<Glob>,
    /// Names are all that counts.
    is_about_names: bool,
}

struct Glob {
    /// For each of the first directories what its name must be like.
    leading: Vec<Name>,
    rest: Rest,
}

enum Rest {
    /// A file right there.
    Here(Name),
    /// A file at any depth below.
    Below(Name),
    /// Something else, about the whole path; the name is asked first.
    Path(Option<Name>, GlobSet),
}

/// What one name must be like.
enum Name {
    /// One of some texts with stars in them.
    Simple(Vec<Pieces>),
    Matcher(GlobSet),
}

/// The text between stars: it begins with the first, ends with the last and holds the others in order.
struct Pieces {
    first: Vec<u8>,
    inner: Vec<memmem::Finder<'static>>,
    /// `None` without a star.
    last: Option<Vec<u8>>,
    shortest: usize,
}

impl Globs {
    /// One glob.
    ///
    /// # Errors
    /// Of kind `input`, with the reason.
    pub(crate) fn one(pattern: &str) -> Result<Self, ToolError> {
        Ok(Self::of(vec![Glob::new(pattern)?]))
    }

    /// Several, separated by commas outside braces and brackets.
    ///
    /// # Errors
    /// As for one.
    pub(crate) fn list(patterns: &str) -> Result<Self, ToolError> {
        let parts = split_list(patterns);
        let parts = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
        let globs: Vec<Glob> = parts.map(Glob::new).collect::<Result<_, _>>()?;
        if globs.is_empty() {
            return Err(ToolError::input(format!("`{patterns}` holds no glob"))
                .hint("give one such as `*.rs` or `src/**/*.{ts,tsx}`, or leave it out"));
        }
        Ok(Self::of(globs))
    }

    fn of(globs: Vec<Glob>) -> Self {
        let is_about_names =
            globs.iter().all(|glob| glob.leading.is_empty() && matches!(glob.rest, Rest::Below(_)));
        Self { globs, is_about_names }
    }

    /// Whether a file of this name could fit, wherever it is.
    pub(crate) fn fit_name(&self, name: &[u8]) -> bool {
        self.globs.iter().any(|glob| glob.rest.fits_name(name))
    }

    /// Whether a file fits whose name could; the path is relative to where the walk began.
    pub(crate) fn fit(&self, path: &[u8]) -> bool {
        self.is_about_names || self.globs.iter().any(|glob| glob.fits(path))
    }

    /// Whether something below a directory could fit.
    pub(crate) fn reach_into(&self, directory: &[u8]) -> bool {
        self.is_about_names || self.globs.iter().any(|glob| glob.reaches_into(directory))
    }
}

impl Glob {
    fn new(pattern: &str) -> Result<Self, ToolError> {
        let mut text = pattern;
        while let Some(rest) = text.strip_prefix("./").or_else(|| text.strip_prefix('/')) {
            text = rest;
        }
        let whole = if text.ends_with('/') { format!("{text}**") } else { text.to_owned() };
        if whole.is_empty() {
            return Err(ToolError::input(format!(
                "`{pattern}` is no glob: there is nothing in it"
            ))
            .hint("give one such as `*.rs` or `src/**/*.{ts,tsx}`"));
        }
        if whole.len() > LONGEST {
            return Err(ToolError::input(format!("a glob of {} bytes is too long", whole.len()))
                .hint(format!("give one of at most {LONGEST}, or search with several calls")));
        }
        if let Some(glob) = Self::taken_apart(&whole) {
            return Ok(glob);
        }
        let matcher = compile(&whole).map_err(|reason| wrong(pattern, &reason))?;
        Ok(Self { leading: Vec::new(), rest: Rest::Path(None, matcher) })
    }

    /// `None` when a slash is inside braces or brackets, or something is wrong.
    fn taken_apart(pattern: &str) -> Option<Self> {
        let parts: Vec<&str> = pattern.split('/').collect();
        if parts.iter().any(|part| !is_balanced(part)) {
            return None;
        }
        let (last, above) = parts.split_last()?;
        if above.is_empty() {
            return Some(Self { leading: Vec::new(), rest: Rest::Below(Name::new(last)?) });
        }
        let leads = above.iter().take_while(|part| **part != "**").count();
        let leading =
            above.iter().take(leads).map(|part| Name::new(part)).collect::<Option<_>>()?;
        let stars = above.iter().skip(leads).all(|part| *part == "**");
        let rest = match (*last, above.len() > leads) {
            ("**", _) if stars => Rest::Below(Name::new("*")?),
            (last, false) => Rest::Here(Name::new(last)?),
            (last, true) if stars => Rest::Below(Name::new(last)?),
            ("**", true) => Rest::Path(None, compile(pattern).ok()?),
            (last, true) => Rest::Path(Some(Name::new(last)?), compile(pattern).ok()?),
        };
        Some(Self { leading, rest })
    }

    fn fits(&self, path: &[u8]) -> bool {
        let mut names = path.split(|byte| *byte == b'/');
        let name = names.next_back().unwrap_or_default();
        let leads = |names: &mut dyn Iterator<Item = &[u8]>| {
            self.leading.iter().all(|lead| names.next().is_some_and(|name| lead.fits(name)))
        };
        match &self.rest {
            Rest::Here(last) => last.fits(name) && leads(&mut names) && names.next().is_none(),
            Rest::Below(last) => last.fits(name) && leads(&mut names),
            Rest::Path(last, matcher) => {
                last.as_ref().is_none_or(|last| last.fits(name))
                    && matcher.is_match(Path::new(OsStr::from_bytes(path)))
            }
        }
    }

    fn reaches_into(&self, directory: &[u8]) -> bool {
        let mut names = directory.split(|byte| *byte == b'/');
        for lead in &self.leading {
            match names.next() {
                Some(name) if lead.fits(name) => {}
                Some(_) => return false,
                None => return true,
            }
        }
        !matches!(self.rest, Rest::Here(_)) || names.next().is_none()
    }
}

impl Rest {
    fn fits_name(&self, name: &[u8]) -> bool {
        match self {
            Self::Here(last) | Self::Below(last) | Self::Path(Some(last), _) => last.fits(name),
            Self::Path(None, _) => true,
        }
    }
}

impl Name {
    fn new(pattern: &str) -> Option<Self> {
        match alternatives(pattern) {
            Some(texts) => Some(Self::Simple(texts.iter().map(|text| Pieces::of(text)).collect())),
            None => Some(Self::Matcher(compile(pattern).ok()?)),
        }
    }

    fn fits(&self, name: &[u8]) -> bool {
        match self {
            Self::Simple(texts) => texts.iter().any(|pieces| pieces.fit(name)),
            Self::Matcher(matcher) => matcher.is_match(Path::new(OsStr::from_bytes(name))),
        }
    }
}

/// The texts that a pattern of stars and one pair of braces stands for.
fn alternatives(pattern: &str) -> Option<Vec<String>> {
    if pattern.contains(['?', '[', ']', '\\']) {
        return None;
    }
    let Some((before, rest)) = pattern.split_once('{') else {
        return (!pattern.contains('}')).then(|| vec![pattern.to_owned()]);
    };
    let (inside, after) = rest.split_once('}')?;
    let is_nested = [inside, after].iter().any(|part| part.contains(['{', '}']));
    let texts = inside.split(',').map(|text| format!("{before}{text}{after}"));
    (!is_nested && inside.split(',').count() <= MOST_ALTERNATIVES).then(|| texts.collect())
}

impl Pieces {
    fn of(text: &str) -> Self {
        let mut parts = text.split('*');
        let first = parts.next().unwrap_or_default().as_bytes().to_vec();
        let last = parts.next_back().map(|part| part.as_bytes().to_vec());
        let inner: Vec<_> = parts
            .filter(|part| !part.is_empty())
            .map(|part| memmem::Finder::new(part).into_owned())
            .collect();
        let shortest = text.len() - text.matches('*').count();
        Self { first, inner, last, shortest }
    }

    fn fit(&self, name: &[u8]) -> bool {
        let Some(last) = &self.last else { return name == self.first };
        if name.len() < self.shortest || !name.ends_with(last) || !name.starts_with(&self.first) {
            return false;
        }
        // Both ends are there and do not overlap: the name is long enough for all pieces together.
        let mut between = &name[self.first.len()..name.len() - last.len()];
        for piece in &self.inner {
            match piece.find(between) {
                Some(at) => between = &between[at + piece.needle().len()..],
                None => return false,
            }
        }
        true
    }
}

/// As a set of one: unlike a single matcher it does not panic when the pattern is too much for the regex library.
fn compile(pattern: &str) -> Result<GlobSet, String> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).empty_alternates(true).build();
    let set = glob.and_then(|glob| GlobSet::builder().add(glob).build());
    set.map_err(|error| error.kind().to_string())
}

fn wrong(pattern: &str, reason: &str) -> ToolError {
    ToolError::input(format!("`{pattern}` is no glob: {reason}"))
        .hint("write `\\` before a bracket or brace that is meant as it is; `{a,b}` are alternatives, `[ab]` is one of some characters")
}

/// Whether braces and brackets close before the end, and nothing is escaped that comes after it.
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
            // As the walk does it: directories first, then the name, then the path.
            let mut directories = path.match_indices('/').map(|(at, _)| &path.as_bytes()[..at]);
            directories.all(|directory| globs.reach_into(directory))
                && globs.fit_name(name.as_bytes())
                && globs.fit(path.as_bytes())
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
    fn what_is_no_glob_is_refused_with_the_reason() {
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
            // No walk meets these, and globset has rules of its own for them.
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
            let ours = path.match_indices('/').all(|(at, _)| globs.reach_into(&path.as_bytes()[..at]))
                && globs.fit_name(name.as_bytes())
                && globs.fit(path.as_bytes());
            prop_assert_eq!(ours, matcher.is_match(&path), "{} on {}", pattern, path);
        }

        #[test]
        fn no_text_makes_a_glob_panic(pattern in "\\PC{0,20}", path in "\\PC{0,20}") {
            if let Ok(globs) = Globs::list(&pattern) {
                globs.fit_name(path.as_bytes());
                globs.fit(path.as_bytes());
                globs.reach_into(path.as_bytes());
            }
        }
    }
}
