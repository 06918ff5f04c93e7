//! Which folder is the workspace: the one that was named, else the nearest one around the person that looks like a
//! project, else where they stand.

use std::path::{Path, PathBuf};

use haft_core::ToolError;

/// What the root of a project is known by.
const MARKS: &[&str] = &[".haft", ".git"];

/// The workspace, absolute and without links.
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
            .hint("name an existing folder with --workspace")
    };
    let real = folder.canonicalize().map_err(|error| fail(&format!("cannot be used: {error}")))?;
    if real.is_dir() { Ok(real) } else { Err(fail("is not a folder")) }
}

fn project_around(directory: &Path) -> Option<&Path> {
    directory.ancestors().find(|folder| MARKS.iter().any(|mark| folder.join(mark).exists()))
}
