//! The error for a path that does not exist, with the most similar names.

use std::path::{Path, PathBuf};

use haft_core::{ToolError, files::FileGrant, nearest};
use rustix::fs::{Dir, OFlags};

use crate::files::{
    locate::{LastLink, PathLocation, locate},
    workspace::Workspace,
};

/// Maximum number of names in a directory that are compared, so that the error comes quickly.
const MAX_NAMES: usize = 10_000;
const MAX_SUGGESTIONS: usize = 3;
/// Comparing two names costs the product of their lengths; this limits all comparisons to a few
/// milliseconds.
const MAX_COMPARISON_COST: usize = 4_000_000;

/// Returns the error for a path that does not exist. `shown` is relative to the workspace.
pub(crate) fn not_found(workspace: &Workspace, shown: &Path, grant: &FileGrant) -> ToolError {
    if let Some(meant) = relative_to_current(workspace, shown, grant) {
        let (shown, meant) = (shown.display(), meant.display());
        return ToolError::not_found(format!("there is no `{shown}` in the workspace"))
            .hint(format!("paths are relative to the workspace: did you mean `{meant}`?"));
    }
    let mut path = shown;
    // Find the nearest existing directory above; the root may be gone too, and has no parent.
    while path != Path::new(".")
        && let Some(above) = path.parent()
    {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        if let Some(mut names) = names_in(workspace, above) {
            // A suggestion must not reveal a secret name.
            names.retain(|name| !grant.hides(&below(above, name)));
            return with_suggestions(shown, above, &name, &names);
        }
        path = above;
    }
    ToolError::not_found(format!("there is no `{}`", shown.display()))
}

/// Interprets the path relative to the current directory of the user.
fn relative_to_current(workspace: &Workspace, shown: &Path, grant: &FileGrant) -> Option<PathBuf> {
    let meant = workspace.current_directory.as_ref()?.join(shown);
    let Ok(PathLocation::Inside { root, path }) = locate(&workspace.roots, &meant, LastLink::Keep)
    else {
        return None;
    };
    workspace.roots[root].open_at(&path, OFlags::PATH).ok()?;
    (!grant.hides(&meant)).then_some(meant)
}

fn below(above: &Path, name: &str) -> PathBuf {
    if above == Path::new(".") { PathBuf::from(name) } else { above.join(name) }
}

fn with_suggestions(shown: &Path, above: &Path, name: &str, names: &[String]) -> ToolError {
    let missing = below(above, name);
    let message = if missing == shown {
        format!("there is no `{}`", shown.display())
    } else if names.iter().any(|known| known == name) {
        let (shown, missing) = (shown.display(), missing.display());
        return ToolError::not_found(format!(
            "there is no `{shown}`: `{missing}` is not a directory"
        ))
        .hint("name the file itself, or a path in a directory");
    } else {
        format!("there is no `{}`: no directory `{}`", shown.display(), missing.display())
    };
    let error = ToolError::not_found(message);
    let near = near_names(name, names);
    if near.is_empty() {
        return error
            .hint("paths are relative to the workspace; `glob` and `list` show what is there");
    }
    let near: Vec<String> =
        near.iter().map(|name| format!("`{}`", below(above, name).display())).collect();
    error.hint(format!("did you mean {}?", near.join(" or ")))
}

/// Returns names with few differences, and names that contain the wanted one or are contained in
/// it.
fn near_names(wanted: &str, names: &[String]) -> Vec<String> {
    let lower = wanted.to_lowercase();
    let contains = |name: &&String| {
        let name = name.to_lowercase();
        lower.len() > 2 && (name.contains(&lower) || (name.len() > 2 && lower.contains(&name)))
    };
    // Names of very different lengths are not similar.
    let slack = 4 + wanted.len() / 3;
    let mut spent = 0;
    let comparable = names.iter().map(String::as_str).filter(|name| {
        let is_of_such_length = name.len().abs_diff(wanted.len()) <= slack;
        spent += if is_of_such_length { name.len() * wanted.len() } else { 0 };
        is_of_such_length && spent <= MAX_COMPARISON_COST
    });
    let mut near: Vec<String> =
        nearest(wanted, comparable).into_iter().map(str::to_owned).collect();
    // Two swapped letters make a short name look very different.
    let letters = sorted_letters(&lower);
    let is_scrambled = |name: &&String| {
        name.len() == wanted.len() && sorted_letters(&name.to_lowercase()) == letters
    };
    for name in names.iter().filter(|name| contains(name) || is_scrambled(name)) {
        if !near.contains(name) {
            near.push(name.clone());
        }
    }
    near.truncate(MAX_SUGGESTIONS);
    near
}

fn sorted_letters(name: &str) -> Vec<char> {
    let mut letters: Vec<char> = name.chars().collect();
    letters.sort_unstable();
    letters
}

fn names_in(workspace: &Workspace, directory: &Path) -> Option<Vec<String>> {
    let Ok(PathLocation::Inside { root, path }) =
        locate(&workspace.roots, directory, LastLink::Follow)
    else {
        return None;
    };
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { &path };
    let handle = workspace.roots[root].open_at(path, OFlags::RDONLY | OFlags::DIRECTORY).ok()?;
    let mut names: Vec<String> = Dir::new(handle)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str().ok()?.to_owned()))
        .filter(|name| name != "." && name != "..")
        .take(MAX_NAMES)
        .collect();
    names.sort_unstable();
    Some(names)
}
