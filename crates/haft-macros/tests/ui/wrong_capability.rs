//! Arguments that are not capabilities: each is one error, at its type.

use haft_core::{Progress, Reply, ToolError};
use haft_macros::tool;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Hello {}

#[tool(description = "hello.txt")]
async fn hello(_input: Hello, _n: Option<u32>, _progress: Progress, _names: Vec<String>) -> Result<Reply, ToolError> {
    Ok(Reply::text("hello"))
}

fn main() {}
