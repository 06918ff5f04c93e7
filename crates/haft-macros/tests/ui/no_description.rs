//! A tool without its text file.

use haft_core::{Reply, ToolError};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Hello {}

#[tool]
async fn missing_text_file(_input: Hello) -> Result<Reply, ToolError> {
    Ok(Reply::text("hello"))
}

#[tool(description = "not_here.txt", static = OTHER)]
async fn hello(_input: Hello) -> Result<Reply, ToolError> {
    Ok(Reply::text("hello"))
}

fn main() {}
