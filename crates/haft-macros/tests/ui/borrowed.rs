//! Borrowed arguments: capabilities and inputs must be owned.

use haft_core::{Progress, Reply, ToolError};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Hello {}

#[tool(description = "hello.txt")]
async fn hello(_input: &Hello, _progress: &mut Progress) -> Result<Reply, ToolError> {
    Ok(Reply::text("hello"))
}

fn main() {}
