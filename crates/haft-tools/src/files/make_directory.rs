//! `make_directory`: a directory and those above it.

use std::path::PathBuf;

use haft_core::{Access, Output, ToolError, WriteFiles, block_in_place};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Which directory to make.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({ "path": "docs/images" }))]
pub struct MakeDirectory {
    /// The directory, relative to the workspace; those above it are made as well.
    #[schemars(extend("x-aliases" = ["directory", "dir", "folder"]))]
    #[schemars(with = "haft_core::PathInput")]
    pub path: PathBuf,
}

/// What was made.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MadeDirectory {
    /// The directory.
    pub path: String,
    /// False when it was there already.
    pub created: bool,
}

impl Output for MadeDirectory {
    fn text(&self) -> String {
        match self.created {
            true => format!("Made the directory {}.", self.path),
            false => format!("The directory {} is there already.", self.path),
        }
    }

    fn title(&self) -> Option<String> {
        Some(format!("Make directory {}", self.path))
    }
}

/// Makes a directory.
#[tool(idempotent, deadline = "30s", access = |input| vec![Access::Write(input.path.clone())])]
pub async fn make_directory(
    input: MakeDirectory,
    files: WriteFiles,
) -> Result<MadeDirectory, ToolError> {
    let (path, created) = block_in_place(|| files.make_directory(&input.path))?;
    Ok(MadeDirectory { path: path.display().to_string(), created })
}
