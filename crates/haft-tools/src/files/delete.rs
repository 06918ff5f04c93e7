//! `delete`: a file, link or directory goes.

use std::path::PathBuf;

use haft_core::{Access, Output, ToolError, WriteFiles, block_in_place};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What to delete.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "path": "target/tmp", "recursive": true }))]
pub struct Delete {
    /// A file, link or directory, relative to the workspace.
    #[schemars(extend("x-aliases" = ["file_path", "filePath", "filename"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub path: PathBuf,
    /// Also a directory that is not empty, with all it holds.
    #[serde(default)]
    #[schemars(extend("x-short" = "r"))]
    pub recursive: bool,
    /// Do not keep what goes, so that `undo` cannot bring it back: for what is too large to be kept.
    #[serde(default)]
    pub without_undo: bool,
}

/// What was deleted.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Deleted {
    /// The path.
    pub path: String,
    /// How many files, links and directories went.
    pub entries: u64,
    /// False when it was not kept, so that `undo` cannot bring it back.
    pub undoable: bool,
}

impl Output for Deleted {
    fn text(&self) -> String {
        let kept =
            if self.undoable { "" } else { " It is not kept, so undo cannot bring it back." };
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
