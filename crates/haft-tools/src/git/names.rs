//! What may be handed to git as a name: revisions, branches, remotes and paths. Nothing that could be read as an option
//! or as more than a name leaves this room.

use std::path::{Component, Path};

use haft_core::ToolError;

use super::words;

/// Longer than any name that git makes.
const LONGEST: usize = 1_000;

/// A commit in one of the many ways that git understands: `HEAD~2`, `main`, `v1.0..main`, a hash.
///
/// # Errors
/// Of kind `input` for what is no revision.
pub(crate) fn revision(text: &str) -> Result<String, ToolError> {
    let why = if text.trim().is_empty() {
        "is empty"
    } else if text.len() > LONGEST {
        "is too long"
    } else if text.starts_with('-') {
        "begins with a dash"
    } else if text.contains(char::is_control) {
        "has a control character in it"
    } else {
        return Ok(text.to_owned());
    };
    Err(ToolError::input(format!("the revision `{}` {why}", shown(text)))
        .hint("give a commit, branch or tag, such as `HEAD~1` or `main`"))
}

/// One commit and not a range.
///
/// # Errors
/// Of kind `input` for what is no revision, or a range.
pub(crate) fn commit(text: &str) -> Result<String, ToolError> {
    let text = revision(text)?;
    if text.contains("..") || text.starts_with('^') {
        return Err(ToolError::input(format!("`{}` is a range, not one commit", shown(&text)))
            .hint("give one commit, branch or tag"));
    }
    Ok(text)
}

/// A branch, by git's own rules for names.
///
/// # Errors
/// Of kind `input` for what cannot be the name of a branch.
pub(crate) fn branch(text: &str) -> Result<String, ToolError> {
    let is_bad = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    let has_bad = |character: char| character.is_control() || " ~^:?*[\\".contains(character);
    let is_good = text.len() <= LONGEST
        && !text.starts_with('-')
        && !text.ends_with('.')
        && !text.contains("..")
        && !text.contains("@{")
        && !matches!(text, "@" | "HEAD")
        && !text.starts_with("refs/")
        && !text.contains(has_bad)
        && !text.split('/').any(is_bad);
    if is_good {
        return Ok(text.to_owned());
    }
    Err(ToolError::input(format!("`{}` cannot be the name of a branch", shown(text))).hint(
        "use letters, digits, `-`, `_`, `.` and `/`, without a dash or dot at the beginning, and no `refs/` before it",
    ))
}

/// Branches that others build on: tools do not push, delete or rename them. A star stands for any end.
const PROTECTED: &[&str] = &["main", "master", "release/*"];

/// A branch that may be pushed, deleted or renamed.
///
/// # Errors
/// Of kind `denied` for a protected one.
pub(crate) fn unprotected(branch: &str, deed: &str) -> Result<(), ToolError> {
    // In lower case: on some machines `Main` and `main` are one file.
    let lower = branch.to_lowercase();
    let covers = |pattern: &&&str| match pattern.strip_suffix('*') {
        Some(beginning) => lower.starts_with(beginning),
        None => lower == **pattern,
    };
    let Some(pattern) = PROTECTED.iter().find(covers) else { return Ok(()) };
    let why = if lower == *pattern { String::new() } else { format!(" (as `{pattern}`)") };
    Err(ToolError::denied(format!(
        "the branch `{}` is protected{why}: it is not {deed} by tools",
        shown(branch)
    ))
    .hint("work on a branch of your own; for this one ask a person"))
}

/// A remote by its name. Addresses are refused: where things are sent is the person's configuration.
///
/// # Errors
/// Of kind `input` for what is no name.
pub(crate) fn remote(text: &str) -> Result<String, ToolError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let begins_well = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if begins_well && text.len() <= LONGEST && text.bytes().all(is_plain) {
        return Ok(text.to_owned());
    }
    Err(ToolError::input(format!("`{}` is not the name of a remote", shown(text)))
        .hint("give the name of a configured remote, such as `origin`, not an address or path"))
}

/// Paths of the workspace as git is to be given them in a directory of it.
///
/// # Errors
/// Of kind `denied` for paths outside the workspace, `input` for those that are not below the directory.
pub(crate) fn paths<P: AsRef<Path>>(
    directory: &Path,
    paths: &[P],
) -> Result<Vec<String>, ToolError> {
    paths.iter().map(|path| path_in(directory, path.as_ref())).collect()
}

/// One path of the workspace as git is to be given it in a directory of it.
///
/// # Errors
/// Of kind `denied` for a path outside the workspace, `input` for one that is not below the directory.
pub(crate) fn path_in(directory: &Path, path: &Path) -> Result<String, ToolError> {
    let named = shown(&path.to_string_lossy());
    let (Some(whole), Some(above)) = (folded(path), folded(directory)) else {
        return Err(ToolError::denied(format!("the path `{named}` is not below the workspace"))
            .hint("give paths relative to the workspace, without `..`"));
    };
    match whole.strip_prefix(above.as_slice()) {
        Some([]) => Ok(".".to_owned()),
        Some(parts) => Ok(parts.join("/")),
        None => {
            let directory = shown(&directory.to_string_lossy());
            Err(ToolError::input(format!("the path `{named}` is not below `{directory}`"))
                .hint("paths are relative to the workspace; name one inside `directory`"))
        }
    }
}

/// A path where changes are to be made, for commands whose hooks must not inherit that every path is literal. Only what
/// git would read as a pattern is marked.
pub(crate) fn literal(path: String) -> String {
    let is_pattern = path.starts_with(':') || path.contains(['*', '?', '[', '\\']);
    if is_pattern { format!(":(literal){path}") } else { path }
}

/// The directory that git runs in, which must be below the workspace for the sums with paths to be right.
///
/// # Errors
/// Of kind `denied` for one that is not.
pub(crate) fn directory(path: &Path) -> Result<String, ToolError> {
    path_in(Path::new(""), path)
}

fn folded(path: &Path) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => parts.push(name.to_str()?.to_owned()),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    let is_sound = parts.iter().all(|part| !part.contains('\0'));
    is_sound.then_some(parts)
}

fn shown(text: &str) -> String {
    words::cut(&words::name(text), 100)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn revisions_that_git_understands_pass_and_options_do_not() {
        for good in ["HEAD", "HEAD~2^2", "main..x", ":/fix it", "HEAD@{1 day ago}", "v1^{commit}"] {
            assert_eq!(revision(good).ok().as_deref(), Some(good));
        }
        for bad in ["", " ", "-p", "--output=x", "a\nb", "a\0b", &"x".repeat(1_001)] {
            assert!(revision(bad).is_err(), "{bad:?}");
        }
        assert!(commit("a..b").is_err() && commit("^a").is_err() && commit("a").is_ok());
    }

    #[test]
    fn branches_are_named_as_git_allows() {
        for good in ["main", "feature/x-1", "ä", "a.b", "a@b", "release/2.0", "+a"] {
            assert_eq!(branch(good).ok().as_deref(), Some(good));
        }
        for bad in [
            "",
            "-d",
            "a b",
            "a..b",
            "a~",
            "a:b",
            "a*",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a/.b",
            "a.lock",
            "a.lock/b",
            "a.",
            "@",
            "HEAD",
            "a@{1}",
            "a\\b",
            "a\n",
            "refs/heads/a",
        ] {
            assert!(branch(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn protected_branches_are_known_in_any_case() {
        for branch in ["main", "Main", "master", "release/2.0", "Release/x/y"] {
            let error = unprotected(branch, "pushed").expect_err(branch);
            assert_eq!(error.kind(), haft_core::ErrorKind::Denied);
            assert!(error.message().contains(branch), "{}", error.message());
        }
        for branch in ["mainly", "x/main", "release", "released/x", "feature"] {
            assert!(unprotected(branch, "pushed").is_ok(), "{branch}");
        }
    }

    #[test]
    fn a_remote_is_a_name_and_no_address() {
        assert!(remote("origin").is_ok() && remote("my-fork_2.x").is_ok());
        for bad in ["", "-x", ".", "../x", "a/b", "https://h/r", "h:r", "ext::sh -c x", "a b"] {
            assert!(remote(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn paths_are_told_from_the_directory() {
        let check = |directory: &str, path: &str| path_in(directory.as_ref(), path.as_ref()).ok();
        assert_eq!(check(".", "./a//b").as_deref(), Some("a/b"));
        assert_eq!(check("tree", "tree/-x").as_deref(), Some("-x"));
        assert_eq!(check("tree", "tree").as_deref(), Some("."));
        for (directory, path) in
            [("tree", "a"), (".", "../a"), (".", "/etc/passwd"), (".", "a/../b"), (".", "a\0b")]
        {
            assert_eq!(check(directory, path), None, "{directory} {path}");
        }
    }

    #[test]
    fn only_what_looks_like_a_pattern_is_marked_as_literal() {
        for (given, expected) in [
            ("a b", "a b"),
            ("-x", "-x"),
            ("*.rs", ":(literal)*.rs"),
            (":(glob)**", ":(literal):(glob)**"),
            ("a[1]", ":(literal)a[1]"),
        ] {
            assert_eq!(literal(given.to_owned()), expected);
        }
    }

    proptest! {
        #[test]
        fn nothing_that_passes_is_an_option_or_leaves_the_workspace(text in ".{0,30}") {
            for passed in [revision(&text), commit(&text), branch(&text), remote(&text)] {
                prop_assert!(passed.is_err() || !text.starts_with('-') && !text.contains('\0'));
            }
            if let Ok(path) = path_in(Path::new("."), Path::new(&text)) {
                prop_assert!(!path.starts_with('/') && !path.split('/').any(|part| part == ".."));
            }
        }
    }
}
