//! `delete`: a file, link or directory goes.

use std::path::PathBuf;

use haft_core::{Access, Output, ToolError, WriteFiles, brief};
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
    pub path: PathBuf,
    /// Also a directory that is not empty, with all it holds.
    #[serde(default)]
    pub recursive: bool,
}

/// What was deleted.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Deleted {
    /// The path.
    pub path: String,
    /// How many files, links and directories went.
    pub entries: u64,
}

impl Output for Deleted {
    fn text(&self) -> String {
        match self.entries {
            1 => format!("Deleted {}.", self.path),
            entries => format!("Deleted {} ({entries} entries).", self.path),
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
    access = |input| vec![Access::Write(input.path.clone())]
)]
pub async fn delete(input: Delete, files: WriteFiles) -> Result<Deleted, ToolError> {
    let (path, entries) = brief(|| files.remove(&input.path, input.recursive))?;
    Ok(Deleted { path: path.display().to_string(), entries })
}
