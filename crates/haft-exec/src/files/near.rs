//! What to say when a path is not there: the names beside it that come nearest.

use std::path::{Path, PathBuf};

use haft_core::{ToolError, files::FileGrant, nearest};
use rustix::fs::{Dir, OFlags};

use crate::files::{
    locate::{LastLink, Place, locate},
    workspace::Workspace,
};

/// Only so many names of a directory are compared: the answer must come at once.
const MOST_NAMES: usize = 10_000;
const MOST_SHOWN: usize = 3;
/// Comparing two names costs their lengths multiplied; some milliseconds are spent on all of them.
const MOST_COMPARING: usize = 4_000_000;

/// The error for a path that leads to nothing. `shown` is relative to the workspace.
pub(crate) fn not_found(workspace: &Workspace, shown: &Path, grant: &FileGrant) -> ToolError {
    if let Some(meant) = meant_from_here(workspace, shown, grant) {
        let (shown, meant) = (shown.display(), meant.display());
        return ToolError::not_found(format!("there is no `{shown}` in the workspace"))
            .hint(format!("paths are relative to the workspace: did you mean `{meant}`?"));
    }
    let mut path = shown;
    // The nearest directory above that is there; the root may be gone as well, and has nothing above it.
    while path != Path::new(".")
        && let Some(above) = path.parent()
    {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        if let Some(mut names) = names_in(workspace, above) {
            // A near name must not betray what is kept secret.
            names.retain(|name| !grant.hides(&below(above, name)));
            return told(shown, above, &name, &names);
        }
        path = above;
    }
    ToolError::not_found(format!("there is no `{}`", shown.display()))
}

/// The path as somebody means it who stands in a folder of the workspace.
fn meant_from_here(workspace: &Workspace, shown: &Path, grant: &FileGrant) -> Option<PathBuf> {
    let meant = workspace.standing.as_ref()?.join(shown);
    let Ok(Place::Inside { root, path }) = locate(&workspace.roots, &meant, LastLink::Keep) else {
        return None;
    };
    workspace.roots[root].open_at(&path, OFlags::PATH).ok()?;
    (!grant.hides(&meant)).then_some(meant)
}

fn below(above: &Path, name: &str) -> PathBuf {
    if above == Path::new(".") { PathBuf::from(name) } else { above.join(name) }
}

fn told(shown: &Path, above: &Path, name: &str, names: &[String]) -> ToolError {
    let missing = below(above, name);
    let message = if missing == shown {
        format!("there is no `{}`", shown.display())
    } else if names.iter().any(|known| known == name) {
        let (shown, missing) = (shown.display(), missing.display());
        return ToolError::not_found(format!("there is no `{shown}`: `{missing}` is no directory"))
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

/// Names that are a few slips away, and those that contain or are contained in the wanted one.
fn near_names(wanted: &str, names: &[String]) -> Vec<String> {
    let lower = wanted.to_lowercase();
    let contains = |name: &&String| {
        let name = name.to_lowercase();
        lower.len() > 2 && (name.contains(&lower) || (name.len() > 2 && lower.contains(&name)))
    };
    // Names of very different lengths are not near.
    let slack = 4 + wanted.len() / 3;
    let mut spent = 0;
    let comparable = names.iter().map(String::as_str).filter(|name| {
        let is_of_such_length = name.len().abs_diff(wanted.len()) <= slack;
        spent += if is_of_such_length { name.len() * wanted.len() } else { 0 };
        is_of_such_length && spent <= MOST_COMPARING
    });
    let mut near: Vec<String> =
        nearest(wanted, comparable).into_iter().map(str::to_owned).collect();
    // Two letters in the wrong order make a short name look like another one.
    let letters = sorted_letters(&lower);
    let is_scrambled = |name: &&String| {
        name.len() == wanted.len() && sorted_letters(&name.to_lowercase()) == letters
    };
    for name in names.iter().filter(|name| contains(name) || is_scrambled(name)) {
        if !near.contains(name) {
            near.push(name.clone());
        }
    }
    near.truncate(MOST_SHOWN);
    near
}

fn sorted_letters(name: &str) -> Vec<char> {
    let mut letters: Vec<char> = name.chars().collect();
    letters.sort_unstable();
    letters
}

fn names_in(workspace: &Workspace, directory: &Path) -> Option<Vec<String>> {
    let Ok(Place::Inside { root, path }) = locate(&workspace.roots, directory, LastLink::Follow)
    else {
        return None;
    };
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { &path };
    let handle = workspace.roots[root].open_at(path, OFlags::RDONLY | OFlags::DIRECTORY).ok()?;
    let mut names: Vec<String> = Dir::new(handle)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str().ok()?.to_owned()))
        .filter(|name| name != "." && name != "..")
        .take(MOST_NAMES)
        .collect();
    names.sort_unstable();
    Some(names)
}
