//! `make_directory`: creates a directory and its parents.

use std::path::PathBuf;

use haft_core::{Access, Output, ToolError, WriteFiles, block_in_place};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The directory to create.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "path": "docs/images" }))]
pub struct MakeDirectory {
    /// The directory, relative to the workspace. Missing parents are created.
    #[schemars(extend("x-aliases" = ["directory", "dir", "folder"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub path: PathBuf,
}

/// The directory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MadeDirectory {
    /// The directory.
    pub path: String,
    /// False when the directory already existed.
    pub created: bool,
}

impl Output for MadeDirectory {
    fn text(&self) -> String {
        match self.created {
            true => format!("Created the directory {}.", self.path),
            false => format!("The directory {} already exists.", self.path),
        }
    }

    fn title(&self) -> Option<String> {
        Some(format!("Create directory {}", self.path))
    }
}

/// Creates a directory.
#[tool(idempotent, deadline = "30s", access = |input| vec![Access::Write(input.path.clone())])]
pub async fn make_directory(
    input: MakeDirectory,
    files: WriteFiles,
) -> Result<MadeDirectory, ToolError> {
    let (path, created) = block_in_place(|| files.make_directory(&input.path))?;
    Ok(MadeDirectory { path: path.display().to_string(), created })
}
