//! `move`: another path for a file or directory.

use std::path::PathBuf;

use haft_core::{Access, Output, ToolError, WriteFiles, block_in_place};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What to move where.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "from": "src/old.rs", "to": "src/new.rs" }))]
pub struct Move {
    /// What to move: a file, link or directory, relative to the workspace.
    #[schemars(extend("x-aliases" = ["source", "path", "old_path", "src"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub from: PathBuf,
    /// Its whole new path. Missing directories are made.
    #[schemars(extend("x-aliases" = ["destination", "new_path", "dst", "target"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub to: PathBuf,
    /// What to do when there is a file at the new path.
    #[serde(default)]
    pub on_conflict: OnConflict,
}

/// What to do about a file that is in the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnConflict {
    #[default]
    Error,
    Overwrite,
}

/// What was moved.
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
pub async fn move_path(input: Move, files: WriteFiles) -> Result<Moved, ToolError> {
    let Move { from, to, on_conflict } = input;
    let (from, to) =
        block_in_place(|| files.rename(&from, &to, on_conflict == OnConflict::Overwrite))?;
    Ok(Moved { from: from.display().to_string(), to: to.display().to_string() })
}
