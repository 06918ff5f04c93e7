//! Checks names before they are passed to git: revisions, branches, remotes and paths. Text that git
//! could read as an option or as more than a name is refused.

use std::path::{Component, Path};

use haft_core::ToolError;

use super::display;

/// Maximum length of a name; git makes shorter ones.
const MAX_NAME_BYTES: usize = 1_000;

/// Checks a revision in any form that git understands: `HEAD~2`, `main`, `v1.0..main`, a hash.
///
/// # Errors
/// `input` for an invalid revision.
pub(crate) fn revision(text: &str) -> Result<String, ToolError> {
    let why = if text.trim().is_empty() {
        "is empty"
    } else if text.len() > MAX_NAME_BYTES {
        "is too long"
    } else if text.starts_with('-') {
        "begins with a dash"
    } else if text.contains(char::is_control) {
        "has a control character"
    } else {
        return Ok(text.to_owned());
    };
    Err(ToolError::input(format!("the revision `{}` {why}", shown(text)))
        .hint("give a commit, branch or tag, such as `HEAD~1` or `main`"))
}

/// Checks one commit, which is not a range.
///
/// # Errors
/// `input` for an invalid revision, or a range.
pub(crate) fn commit(text: &str) -> Result<String, ToolError> {
    let text = revision(text)?;
    if text.contains("..") || text.starts_with('^') {
        return Err(ToolError::input(format!("`{}` is a range, not one commit", shown(&text)))
            .hint("give one commit, branch or tag"));
    }
    Ok(text)
}

/// Checks a branch name by the rules of git.
///
/// # Errors
/// `input` for an invalid branch name.
pub(crate) fn branch(text: &str) -> Result<String, ToolError> {
    let is_bad = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    let has_bad = |character: char| character.is_control() || " ~^:?*[\\".contains(character);
    let is_good = text.len() <= MAX_NAME_BYTES
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
    Err(ToolError::input(format!("`{}` is not a valid branch name", shown(text))).hint(
        "use letters, digits, `-`, `_`, `.` and `/`, without a leading dash or dot, and without `refs/`",
    ))
}

/// Branches that others depend on: tools do not push, delete or rename them. `*` matches any end.
const PROTECTED: &[&str] = &["main", "master", "release/*"];

/// Checks that a branch may be pushed, deleted or renamed.
///
/// # Errors
/// `denied` for a protected branch.
pub(crate) fn unprotected(branch: &str, change: &str) -> Result<(), ToolError> {
    // Compare in lower case: on some machines `Main` and `main` are the same file.
    let lower = branch.to_lowercase();
    let covers = |pattern: &&&str| match pattern.strip_suffix('*') {
        Some(beginning) => lower.starts_with(beginning),
        None => lower == **pattern,
    };
    let Some(pattern) = PROTECTED.iter().find(covers) else { return Ok(()) };
    let why = if lower == *pattern { String::new() } else { format!(" (as `{pattern}`)") };
    Err(ToolError::denied(format!(
        "the branch `{}` is protected{why}: it cannot be {change} by tools",
        shown(branch)
    ))
    .hint("use another branch; for this one ask the user"))
}

/// Checks the name of a remote. Addresses are refused: only the user's configuration decides where
/// things are sent.
///
/// # Errors
/// `input` for an invalid name.
pub(crate) fn remote(text: &str) -> Result<String, ToolError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let begins_well = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if begins_well && text.len() <= MAX_NAME_BYTES && text.bytes().all(is_plain) {
        return Ok(text.to_owned());
    }
    Err(ToolError::input(format!("`{}` is not the name of a remote", shown(text)))
        .hint("give the name of a configured remote, such as `origin`, not an address or path"))
}

/// Converts paths relative to the workspace to paths relative to a directory of it.
///
/// # Errors
/// `denied` for paths outside of the workspace, `input` for those that are not below the directory.
pub(crate) fn paths<P: AsRef<Path>>(
    directory: &Path,
    paths: &[P],
) -> Result<Vec<String>, ToolError> {
    paths.iter().map(|path| path_in(directory, path.as_ref())).collect()
}

/// Converts a path relative to the workspace to one relative to a directory of it.
///
/// # Errors
/// `denied` for a path outside of the workspace, `input` for one that is not below the directory.
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

/// Marks a path as literal if git would read it as a pattern. This is for changes, whose hooks must
/// not inherit a setting that makes every path literal.
pub(crate) fn literal(path: String) -> String {
    let is_pattern = path.starts_with(':') || path.contains(['*', '?', '[', '\\']);
    if is_pattern { format!(":(literal){path}") } else { path }
}

/// Checks the directory that git runs in. It must be below the workspace, so that paths are converted
/// correctly.
///
/// # Errors
/// `denied` for a directory outside of the workspace.
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
    let is_valid = parts.iter().all(|part| !part.contains('\0'));
    is_valid.then_some(parts)
}

fn shown(text: &str) -> String {
    display::truncated(&display::one_line(text), 100)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn valid_revisions_pass_and_options_do_not() {
        for good in ["HEAD", "HEAD~2^2", "main..x", ":/fix it", "HEAD@{1 day ago}", "v1^{commit}"] {
            assert_eq!(revision(good).ok().as_deref(), Some(good));
        }
        for bad in ["", " ", "-p", "--output=x", "a\nb", "a\0b", &"x".repeat(1_001)] {
            assert!(revision(bad).is_err(), "{bad:?}");
        }
        assert!(commit("a..b").is_err() && commit("^a").is_err() && commit("a").is_ok());
    }

    #[test]
    fn branch_names_follow_the_rules_of_git() {
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
    fn protected_branches_are_recognised_in_any_case() {
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
    fn a_remote_is_a_name_and_not_an_address() {
        assert!(remote("origin").is_ok() && remote("my-fork_2.x").is_ok());
        for bad in ["", "-x", ".", "../x", "a/b", "https://h/r", "h:r", "ext::sh -c x", "a b"] {
            assert!(remote(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn paths_are_converted_to_the_directory() {
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
    fn only_patterns_are_marked_as_literal() {
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
        fn no_valid_name_is_an_option_or_leaves_the_workspace(text in ".{0,30}") {
            for passed in [revision(&text), commit(&text), branch(&text), remote(&text)] {
                prop_assert!(passed.is_err() || !text.starts_with('-') && !text.contains('\0'));
            }
            if let Ok(path) = path_in(Path::new("."), Path::new(&text)) {
                prop_assert!(!path.starts_with('/') && !path.split('/').any(|part| part == ".."));
            }
        }
    }
}
