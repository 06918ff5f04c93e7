//! Finds the workspace: the folder that was named, else the nearest parent that looks like a
//! project, else the working directory.

use std::path::{Path, PathBuf};

use haft_core::ToolError;

/// Names of entries that marker the root of a project.
const ROOT_MARKERS: &[&str] = &[".haft", ".git"];

/// Returns the workspace as an absolute path without symbolic links.
///
/// # Errors
/// When there is no such folder.
pub(super) fn find(named: Option<&Path>, directory: &Path) -> Result<PathBuf, ToolError> {
    let folder = match named {
        Some(named) => directory.join(named),
        None => project_around(directory).unwrap_or(directory).to_owned(),
    };
    let fail = |problem: &str| {
        ToolError::input(format!("the workspace {} {problem}", folder.display()))
            .hint("choose an existing directory with --workspace")
    };
    let real =
        folder.canonicalize().map_err(|error| fail(&format!("cannot be opened: {error}")))?;
    if real.is_dir() { Ok(real) } else { Err(fail("is not a directory")) }
}

fn project_around(directory: &Path) -> Option<&Path> {
    directory
        .ancestors()
        .find(|folder| ROOT_MARKERS.iter().any(|marker| folder.join(marker).exists()))
}
