//! `delete`: deletes a file, link or directory.

use std::path::PathBuf;

use haft_core::{Access, Output, ToolError, WriteFiles, block_in_place};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The path to delete.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "path": "target/tmp", "recursive": true }))]
pub struct Delete {
    /// A file, link or directory, relative to the workspace.
    #[schemars(extend("x-aliases" = ["file_path", "filePath", "filename"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub path: PathBuf,
    /// Also delete a directory that is not empty, with everything below it.
    #[serde(default)]
    #[schemars(extend("x-short" = "r"))]
    pub recursive: bool,
    /// Do not keep the content, so that `undo` cannot restore it: for content too large to keep.
    #[serde(default)]
    pub without_undo: bool,
}

/// The deleted path.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Deleted {
    /// The path.
    pub path: String,
    /// Number of deleted files, links and directories.
    pub entries: u64,
    /// False when the content was not kept, so that `undo` cannot restore it.
    pub undoable: bool,
}

impl Output for Deleted {
    fn text(&self) -> String {
        let kept = if self.undoable {
            ""
        } else {
            " The content was not kept, so undo cannot restore it."
        };
        match self.entries {
            1 => format!("Deleted {}.{kept}", self.path),
            entries => format!("Deleted {} ({entries} entries).{kept}", self.path),
        }
    }

    fn title(&self) -> Option<String> {
        Some(format!("Delete {}", self.path))
    }
}

/// Deletes a file or directory.
#[tool(
    effect = destructive,
    keeps_links,
    deadline = "120s",
    access = |input| vec![Access::Write(input.path.clone())],
    profiles(mcp)
)]
pub async fn delete(input: Delete, files: WriteFiles) -> Result<Deleted, ToolError> {
    let files = if input.without_undo { files.without_undo() } else { files };
    let undoable = files.has_journal_writer() && !input.without_undo;
    let (path, entries) = block_in_place(|| files.remove(&input.path, input.recursive))?;
    Ok(Deleted { path: path.display().to_string(), entries, undoable })
}
