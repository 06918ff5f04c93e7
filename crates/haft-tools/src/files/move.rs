//! `move`: moves a file, link or directory to another path.

use std::path::PathBuf;

use haft_core::{Access, Output, ToolError, WriteFiles, block_in_place};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The old and the new path.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "from": "src/old.rs", "to": "src/new.rs" }))]
pub struct MoveInput {
    /// The file, link or directory to move, relative to the workspace.
    #[schemars(extend("x-aliases" = ["source", "path", "old_path", "src"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub from: PathBuf,
    /// The whole new path. Missing directories are created.
    #[schemars(extend("x-aliases" = ["destination", "new_path", "dst", "target"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub to: PathBuf,
    /// Behaviour if the new path is an existing file.
    #[serde(default)]
    pub on_conflict: MoveConflict,
}

/// Behaviour if the new path is an existing file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MoveConflict {
    #[default]
    Error,
    Overwrite,
}

/// The moved path.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Moved {
    /// The old path.
    pub from: String,
    /// The new path.
    pub to: String,
}

impl Output for Moved {
    fn text(&self) -> String {
        format!("Moved {} to {}.", self.from, self.to)
    }

    fn title(&self) -> Option<String> {
        Some(format!("Move {} to {}", self.from, self.to))
    }
}

/// Moves a file or directory.
#[tool(
    name = "move",
    description = "move.txt",
    keeps_links,
    deadline = "60s",
    access = |input| vec![Access::Write(input.from.clone()), Access::Write(input.to.clone())],
    profiles(mcp)
)]
pub async fn move_path(input: MoveInput, files: WriteFiles) -> Result<Moved, ToolError> {
    let MoveInput { from, to, on_conflict } = input;
    let (from, to) =
        block_in_place(|| files.rename(&from, &to, on_conflict == MoveConflict::Overwrite))?;
    Ok(Moved { from: from.display().to_string(), to: to.display().to_string() })
}
